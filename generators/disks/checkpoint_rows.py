"""Rows of bronze out of a broker's checkpoint files: `sample` for a replica's offsets, `truncate` for a cut."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from generators.brokerlogs.events.event_builder import EventBuilder, TopicIds
from generators.brokerlogs.events.event_rows import EVENTS
from generators.brokerlogs.events.source_state import PartitionStates
from generators.disks.checkpoints import HIGH_WATERMARKS, Offsets, Place
from generators.disks.directories import LogDirectory, PartitionDirectory
from generators.disks.files import Unreadable
from generators.disks.segments import log_end, segments
from schemas.event_types import cut_detail, epochs_detail
from schemas.levels import POLLED

INTERVAL_S = 5.0
"""`replica.high.watermark.checkpoint.interval.ms` by default."""
STOPPED_S = 3 * INTERVAL_S
"""Seconds without a rewrite after which a checkpoint's broker counts as down, or its directory as failed."""
LATE_S = 2.0
"""Seconds by which a checkpoint may be late. A log that is written to after that belongs to a running broker with
another checkpoint interval, and the time of its end is not known."""

Entries = tuple[tuple[int, int], ...]
"""Leader epochs, and the offset at or below which each began."""


class ReplicaFiles(NamedTuple):
    """Offsets and epochs in the files of one replica; None if not known.

    `leo` is known for a stopped broker only: that of a running one has changed by the time it is read.
    """

    topic_id: str | None
    hw: int | None
    leo: int | None
    entries: Entries

    @property
    def epoch(self) -> int | None:
        """The last epoch in which it led, or got a batch; its high watermark is of that epoch or of an earlier one.

        An entry at the end of the log counts, too: the leader of that epoch may have committed what it found (5.4).
        """
        return self.entries[-1][0] if self.entries else None


@dataclass
class BrokerCheckpoints:
    """Replicas of one broker as they were last told, so that only what is new becomes rows."""

    broker_id: int
    replicas: dict[Place, ReplicaFiles] = field(default_factory=dict)
    told: dict[str, tuple[float, bool | None]] = field(default_factory=dict)
    """By directory: time (epoch seconds) of the checkpoint that was told last, and whether its broker was stopped then;
    None if files of it could not be read, so that the checkpoint is read again."""
    problems: list[str] = field(default_factory=list)
    others: Sequence[LogDirectory] = ()
    """Directories of other brokers that were read at the same time."""
    _unchanged: dict[Path, tuple[tuple[float, float], str | None, Entries]] = field(default_factory=dict)
    """Times of a partition's files by its directory, its topic id and its epochs."""

    def rows(self, directories: Sequence[LogDirectory], cluster: str, source: str, now: float) -> pa.Table:
        """Rows of replicas with changed offsets or epochs, in the order of their times."""
        self.problems = []
        builder = EventBuilder(1024, PartitionStates(True), TopicIds())
        errors: list[float] = []
        for directory in sorted(directories, key=lambda one: one.offsets_written):
            self._append_rows(directory, builder, errors, now)
        rows = builder.table(cluster, source) if builder.count else EVENTS.empty_table()
        return rows.append_column("ts_error_ms", pa.array(errors, pa.float64()))

    @property
    def until_ms(self) -> int:
        """The time of the newest reported checkpoint, so that a directory that failed long ago delays nothing."""
        return int(max((written for written, _ in self.told.values()), default=0) * 1000)

    def _append_rows(self, directory: LogDirectory, builder: EventBuilder, errors: list[float], now: float) -> None:
        checkpoint = directory.offsets.get(HIGH_WATERMARKS, Offsets({}, 0.0))
        name = directory.directory_id or str(directory.path)
        stopped = directory.clean or now - checkpoint.written > STOPPED_S
        before, _ = last = self.told.get(name, (0.0, False))
        if not checkpoint.written and any(one.is_replica for one in directory.partitions):
            self.problems.append(f"{directory.name}: no high watermark without {HIGH_WATERMARKS} in {directory.path}")
        if not checkpoint.written or checkpoint.written < before or last == (checkpoint.written, stopped):
            return
        since_s = checkpoint.written - before if 0 < before < checkpoint.written else INTERVAL_S
        ts, unread = int(checkpoint.written * 1000), list[str]()
        for place, files in self._read(directory, checkpoint, unread, stopped=stopped):
            known = self.replicas.get(place)
            if files == known or (files.hw is None and files.leo is None):
                continue
            self.replicas[place] = files
            same = {
                "place": builder.partitions.place_of(f"{place[0]}-{place[1]}"),
                "topic_id": files.topic_id,
                "replica_id": self.broker_id,
            }
            for detail, cut in _cuts(known, files):
                builder.append("truncate", ts, self.broker_id, POLLED, leo=cut, leader_epoch=files.epoch,
                               detail=detail, **same)  # fmt: skip
                errors.append(since_s * 1000)
            builder.append("sample", ts, self.broker_id, POLLED, leo=files.leo, hw=files.hw, leader_epoch=files.epoch,
                           detail=epochs_detail(files.entries), **same)  # fmt: skip
            errors.append(since_s * 1000)
        self.problems += unread
        self.told[name] = checkpoint.written, None if unread else stopped

    def _read(
        self, directory: LogDirectory, checkpoint: Offsets, unread: list[str], *, stopped: bool
    ) -> Iterator[tuple[Place, ReplicaFiles]]:
        for partition in directory.partitions:
            if not partition.is_replica:
                continue
            try:
                yield partition.place, self._replica(directory, partition, checkpoint, stopped=stopped)
            except (Unreadable, OSError) as error:
                unread.append(f"{directory.name}: {error}")

    def _replica(
        self, directory: LogDirectory, partition: PartitionDirectory, checkpoint: Offsets, *, stopped: bool
    ) -> ReplicaFiles:
        hw, leo = directory.high_watermark(partition), None
        stamp = partition.made, partition.epochs_written
        unchanged = self._unchanged.get(partition.path)
        if unchanged is None or unchanged[0] != stamp:
            unchanged = stamp, partition.topic_id, tuple(partition.leader_epochs())
            self._unchanged[partition.path] = unchanged
        if partition.epochs_written > checkpoint.written:
            hw = None  # of the epochs before or after: the next checkpoint tells
        if unchanged[1] is None:
            hw = None  # entries are keyed by name: without an id it may be that of a deleted topic
        if stopped and (directory.clean or _log_written(partition.path) <= checkpoint.written + INTERVAL_S + LATE_S):
            leo = log_end(partition.path)
            if hw is not None and leo is not None and hw > leo:
                words = f"its checkpoint has a high watermark of {hw}, its log ends at {leo}: damaged, or cut"
                self.problems.append(f"{directory.name}: {partition.path.name}: {words}")
                hw = self._confirmed(partition.place, ReplicaFiles(unchanged[1], hw, leo, unchanged[2]))
                leo = leo if hw is None else None  # it ended above its high watermark then
        return ReplicaFiles(unchanged[1], hw, leo, unchanged[2])

    def _confirmed(self, place: Place, files: ReplicaFiles) -> int | None:
        """A high watermark above the log's end, limited to another broker's in the same epoch; None without one.

        Two checkpoints are not damaged in the same way: the log was cut, as by a power failure that hit all replicas.
        """
        hw, most = files.hw or 0, 0
        for directory in self.others:
            replica = directory.replica(place)
            if replica is None or replica.topic_id != files.topic_id:
                continue
            if tuple(replica.leader_epochs()[-1:]) == files.entries[-1:]:
                most = max(most, directory.high_watermark(replica) or 0)
        return min(hw, most) if most > (files.leo or 0) else None


def _log_written(folder: Path) -> float:
    """When the newest segment of a partition was written (epoch seconds). Raises OSError, Unreadable."""
    newest = segments(folder)[-1:]
    return newest[0].path.stat().st_mtime if newest else 0.0


def _cuts(known: ReplicaFiles | None, files: ReplicaFiles) -> Iterator[tuple[str, int]]:
    """The detail of a `truncate` row and the offset that a log was cut to at least: if an epoch begins below the high
    watermark that this replica had in an earlier one, its log lacks what was there (5.3)."""
    if known is None or known.hw is None or known.epoch is None or known.topic_id != files.topic_id:
        return
    later = [entry for entry in files.entries if entry[0] > known.epoch and entry not in known.entries]
    if later and later[0][1] < known.hw:
        yield cut_detail(known.hw, known.epoch, later[0][1]), later[0][1]
