"""`hwmark audit`: every partition over all the log directories that were given."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial

from generators.disks.checkpoints import CLEANER_OFFSETS, HIGH_WATERMARKS, Place
from generators.disks.comparison import compare
from generators.disks.directories import LogDirectory, PartitionDirectory
from generators.disks.findings import Finding, Severity
from generators.disks.replica import ReplicaLog, read_replica
from generators.disks.segments import WINDOW

AT_ONCE = 4
"""Large replicas of two partitions that are read in parallel: nearly all of it is compiled code, a core for each."""


@dataclass
class PartitionAudit:
    """One partition: its replicas, and all that was found."""

    place: Place
    logs: list[ReplicaLog]
    findings: list[Finding]

    def without_batches(self) -> PartitionAudit:
        """This audit without what only the comparison needs: a million batches take 25 MB."""
        for log in self.logs:
            log.keys = log.keys[:0].copy()
        return self


@dataclass
class Totals:
    """Sums over all partitions: what was read, and findings by severity."""

    partitions: int = 0
    replicas: int = 0
    bytes: int = 0
    batches: int = 0
    findings: dict[Severity, int] = field(default_factory=lambda: dict.fromkeys(Severity, 0))

    def count(self, audit: PartitionAudit) -> None:
        """Add one partition."""
        self.partitions, self.replicas = self.partitions + 1, self.replicas + len(audit.logs)
        self.bytes += sum(log.bytes for log in audit.logs)
        self.batches += sum(log.batches for log in audit.logs)
        self.count_findings(audit.findings)

    def count_findings(self, findings: Sequence[Finding]) -> None:
        """Add findings by severity."""
        for finding in findings:
            self.findings[finding.severity] += 1

    def data(self) -> dict[str, int]:
        """The numbers by name."""
        return {"partitions": self.partitions, "replicas": self.replicas, "bytes": self.bytes, "batches": self.batches,
                **{severity.value: count for severity, count in self.findings.items()}}  # fmt: skip

    def words(self, brokers: int, seconds: float) -> str:
        """All in one line."""
        read = (
            f"{self.partitions:,} partitions of {brokers} brokers, {self.replicas:,} replicas, {self.batches:,} batches"
        )
        graves = ", ".join(f"{count:,} {severity.value}" for severity, count in self.findings.items())
        return f"{read}, {self.bytes / 1e6:,.1f} MB in {seconds:.1f} s: {graves}"


def directory_findings(
    directories: Sequence[LogDirectory], chosen: tuple[str, int | None] | None = None
) -> list[Finding]:
    """Findings about files of the directories that cannot be read, about directories that are no replica, and about
    replicas without a directory."""
    found = []
    for directory in directories:
        for problem in directory.problems:
            found.append(Finding("", -1, directory.broker_id, "unreadable", Severity.UNKNOWN, str(problem),
                                 directory_id=directory.directory_id))  # fmt: skip
        found += _missing(directory, [one for one in directories if one.name == directory.name], chosen)
        for left in (one for one in directory.partitions if one.kind and is_chosen(one.place, chosen)):
            is_or_was = "not yet" if left.kind == "future" else "no longer"
            detail = f"{left.path.name}: {is_or_was} the broker's replica; `hwmark rescue` reads its records"
            found.append(Finding(*left.place, directory.broker_id, f"kind_{left.kind}", Severity.INFO, detail))
    return found


def _missing(
    directory: LogDirectory, of_broker: Sequence[LogDirectory], chosen: tuple[str, int | None] | None
) -> Iterator[Finding]:
    """A finding for each topic with replicas in the checkpoint that have no directory: a start makes them empty.

    A broker without any replica left does not write the checkpoint again (ReplicaManager.checkpointHighWatermarks).
    """
    known = directory.offsets_in(HIGH_WATERMARKS)
    present = {one.place for each in of_broker for one in each.partitions}
    away: dict[str, list[Place]] = {}
    for place in known if any(one.is_replica for one in directory.partitions) else ():
        if place not in present and is_chosen(place, chosen):
            away.setdefault(place[0], []).append(place)
    for places in away.values():
        place, more = min(places), f", and {len(places) - 1:,} more partitions" if len(places) > 1 else ""
        detail = (
            f"{place[0]}-{place[1]} with high watermark {known[place]}{more}: in {HIGH_WATERMARKS}, and no directory"
        )
        yield Finding(*place, directory.broker_id, "missing", Severity.UNKNOWN, f"{detail} given has it any more",
                      directory_id=directory.directory_id)  # fmt: skip


def is_chosen(place: Place, chosen: tuple[str, int | None] | None) -> bool:
    """Whether a partition is of the topic (and has the number) that was chosen, if one was."""
    return chosen is None or (place[0] == chosen[0] and chosen[1] in (None, place[1]))


def _number_of_partitions(present: Set[int]) -> int:
    """The number of a topic's partitions if none up to the last one is missing; 1 if it is not known."""
    return len(present) if len(present) == max(present) + 1 else 1


def _is_large(folder: str) -> bool:
    """Whether a segment is larger than a window; reading smaller ones on a thread takes a third more time."""
    try:
        with os.scandir(folder) as entries:
            return any(one.name.endswith(".log") and one.stat().st_size > WINDOW for one in entries)
    except OSError:
        return False


def partition_audits(
    directories: Sequence[LogDirectory],
    *,
    live: bool = False,
    deep: bool = False,
    chosen: tuple[str, int | None] | None = None,
    on_progress: Callable[[str], None] | None = None,
) -> Iterator[PartitionAudit]:
    """Audit partition by partition, all or those of the topic (and partition) `chosen`; two are in memory at a time."""
    replicas: dict[Place, list[tuple[LogDirectory, PartitionDirectory]]] = {}
    for directory in directories:
        for one in directory.partitions:
            if one.is_replica and is_chosen(one.place, chosen):
                replicas.setdefault(one.place, []).append((directory, one))
    present: dict[str, set[int]] = {}
    for topic, partition in (one.place for directory in directories for one in directory.partitions if not one.kind):
        present.setdefault(topic, set()).add(partition)
    compacted = {topic for one in directories for topic, _ in one.offsets_in(CLEANER_OFFSETS)}
    done, lock, stopped = 0, threading.Lock(), threading.Event()

    def count(at: str, size: int) -> None:
        nonlocal done
        if stopped.is_set():
            raise KeyboardInterrupt
        with lock:
            done += size
        if on_progress:
            on_progress(f"{at}, {done / 1e6:,.0f} MB")

    def read(at: str, directory: LogDirectory, one: PartitionDirectory) -> ReplicaLog:
        once = partial(
            read_replica,
            directory,
            one,
            live=live,
            partitions=_number_of_partitions(present[one.place[0]]) if deep else 0,
            on_bytes=partial(count, at),
            compacted=one.place[0] in compacted,
            explained_to=max(
                each.offset_of_replica(CLEANER_OFFSETS, other) or 0 for each, other in replicas[one.place]
            ),
        )
        log = once()
        # a running broker may cut or write between two of its files that are read
        return once() if live and any(found.severity is Severity.CRITICAL for found in log.findings) else log

    def begin(at: str, directory: LogDirectory, one: PartitionDirectory) -> Callable[[], ReplicaLog]:
        reading = partial(read, at, directory, one)
        return readers.submit(reading).result if _is_large(one.folder) else reading

    def conclude(place: Place, reading: Sequence[Callable[[], ReplicaLog]]) -> PartitionAudit:
        logs = [one() for one in reading]
        compare(logs)
        return PartitionAudit(place, logs, [finding for log in logs for finding in log.findings])

    with ThreadPoolExecutor(AT_ONCE) as readers:
        before: list[tuple[Place, list[Callable[[], ReplicaLog]]]] = []
        try:
            for k, place in enumerate(sorted(replicas), 1):
                at = f"{place[0]}-{place[1]}, {k:,} of {len(replicas):,} partitions"
                before.append((place, [begin(at, *one) for one in replicas[place]]))
                if k > 1:
                    yield conclude(*before.pop(0))
            yield from (conclude(*one) for one in before)
        finally:
            stopped.set()
