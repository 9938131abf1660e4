"""`hwmark audit`: every partition over all the log directories that were given."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from generators.disks.checkpoints import CLEANER_OFFSETS, Place
from generators.disks.comparison import compare
from generators.disks.directories import LogDirectory, PartitionDirectory
from generators.disks.findings import Finding, Severity
from generators.disks.replica import ReplicaLog, read_replica


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


def directory_findings(directories: Sequence[LogDirectory]) -> list[Finding]:
    """Findings about files of the directories that cannot be read, and about directories that are no replica."""
    found = []
    for directory in directories:
        for problem in directory.problems:
            found.append(Finding("", -1, directory.broker_id, "unreadable", Severity.UNKNOWN, str(problem),
                                 directory_id=directory.directory_id))  # fmt: skip
        for left in (one for one in directory.partitions if one.kind):
            is_or_was = "not yet" if left.kind == "future" else "no longer"
            detail = f"{left.path.name}: {is_or_was} the broker's replica; `hwmark rescue` reads its records"
            found.append(Finding(*left.place, directory.broker_id, f"kind_{left.kind}", Severity.INFO, detail))
    return found


def is_chosen(place: Place, chosen: tuple[str, int | None] | None) -> bool:
    """Whether a partition is of the topic (and has the number) that was chosen, if one was."""
    return chosen is None or (place[0] == chosen[0] and chosen[1] in (None, place[1]))


def partition_audits(
    directories: Sequence[LogDirectory],
    *,
    live: bool = False,
    deep: bool = False,
    chosen: tuple[str, int | None] | None = None,
    on_progress: Callable[[str], None] | None = None,
) -> Iterator[PartitionAudit]:
    """Audit partition by partition, all or those of the topic (and partition) `chosen`; one is in memory at a time."""
    replicas: dict[Place, list[tuple[LogDirectory, PartitionDirectory]]] = {}
    for directory in directories:
        for one in directory.partitions:
            if one.is_replica and is_chosen(one.place, chosen):
                replicas.setdefault(one.place, []).append((directory, one))
    sizes: dict[str, int] = {}
    for topic, partition in (one.place for directory in directories for one in directory.partitions if not one.kind):
        sizes[topic] = max(sizes.get(topic, 0), partition + 1)
    cleaned: dict[Place, int] = {}
    for place, offset in (item for one in directories for item in one.offsets_in(CLEANER_OFFSETS).items()):
        cleaned[place] = max(offset, cleaned.get(place, 0))
    compacted, done = {topic for topic, _ in cleaned}, 0
    for k, place in enumerate(sorted(replicas), 1):
        size = sizes[place[0]] if deep else 0

        def count(read: int, at: str = f"{place[0]}-{place[1]}, {k:,} of {len(replicas):,} partitions") -> None:
            nonlocal done
            done += read
            if on_progress:
                on_progress(f"{at}, {done / 1e6:,.0f} MB")

        logs = [
            read_replica(
                directory,
                one,
                live=live,
                partitions=size,
                on_bytes=count,
                compacted=place[0] in compacted,
                explained_to=cleaned.get(place, 0),
            )
            for directory, one in replicas[place]
        ]
        compare(logs)
        yield PartitionAudit(place, logs, [finding for log in logs for finding in log.findings])
