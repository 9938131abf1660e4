"""A partition's log on disk: segments by base offset, retention, recovery after a crash."""

from __future__ import annotations

from bisect import bisect_right
from typing import NamedTuple

from generators.simulator.cluster.log import ReplicaLog
from generators.simulator.storage.segment import Lookup, Segment

SEGMENT_BYTES = 1 << 30
"""segment.bytes by default."""
INDEX_INTERVAL_BYTES = 4_096
"""index.interval.bytes by default."""


class Recovery(NamedTuple):
    """The work of a start: files read again (with rebuilt indexes), and discarded data (LogLoader)."""

    clean: bool
    read: tuple[str, ...] = ()
    cut_at: int | None = None
    """The new log end, if an invalid batch was found there."""


class SegmentedLog:
    """Segments that together hold the offsets from `start` to `end`, the last one being written (UnifiedLog).

    `recovery_point`: everything below it is on disk. `checkpointed` is the one a start can read in
    recovery-point-offset-checkpoint; `clean_shutdown` stands for the file .kafka_cleanshutdown.
    """

    def __init__(
        self, start: int = 0, segment_bytes: int = SEGMENT_BYTES, index_interval: int = INDEX_INTERVAL_BYTES
    ) -> None:
        self.start = start
        self.segment_bytes = segment_bytes
        self.index_interval = index_interval
        self.segments = [Segment(start, index_interval)]
        self.recovery_point = self.checkpointed = start
        self.clean_shutdown = False

    @classmethod
    def of(cls, log: ReplicaLog, record_bytes: int, segment_bytes: int, index_interval: int) -> SegmentedLog:
        """A replica's log laid out in files: each run one batch of records of `record_bytes` each."""
        laid_out = cls(log.start, segment_bytes, index_interval)
        for run in log.runs:
            laid_out.append(run.end - run.start, (run.end - run.start) * record_bytes)
        return laid_out

    @property
    def end(self) -> int:
        return self.segments[-1].end

    @property
    def size(self) -> int:
        return sum(segment.size for segment in self.segments)

    def append(self, count: int, size: int) -> int:
        """Append a batch of `count` records in `size` bytes; returns its first offset."""
        if size > self.segment_bytes:
            raise ValueError(f"a batch of {size} bytes does not fit into a segment of {self.segment_bytes}: split it")
        if self.segments[-1].size + size > self.segment_bytes:
            self.roll()
        first = self.end
        self.segments[-1].append(count, size)
        return first

    def roll(self) -> None:
        """A new segment from the log's end on; the one before is flushed (UnifiedLog.roll)."""
        self.segments.append(Segment(self.end, self.index_interval))
        self.flush(self.segments[-1].base)

    def lookup(self, offset: int) -> Lookup:
        """The place of a record: the segment with the largest base offset at or below it, its index, then a scan."""
        if not self.start <= offset < self.end:
            raise ValueError(f"offset {offset} is out of range: this log holds {self.start} to {self.end - 1}")
        return self.segments[self._holding(offset)].find(offset)

    def _holding(self, offset: int) -> int:
        return bisect_right(self.segments, offset, key=lambda segment: segment.base) - 1

    # retention

    def retain(self, hw: int, most_bytes: int) -> tuple[str, ...]:
        """Delete whole segments from the oldest on while `most_bytes` are left.

        Segments with an offset at or above the HW stay (UnifiedLog.deletableSegments); the log start rises to the first
        segment left.
        """
        removed: list[str] = []
        while (oldest := self.segments[0]).batches and oldest.end <= hw and self.size - oldest.size >= most_bytes:
            if len(self.segments) == 1:
                self.roll()
            removed.append(self.segments.pop(0).log_file)
        self.start = max(self.start, self.segments[0].base)
        return tuple(removed)

    # what is on disk

    def flush(self, below: int | None = None) -> None:
        """Mark everything below `below` (default: the end) as on disk: the recovery point."""
        self.recovery_point = max(self.recovery_point, self.end if below is None else below)

    def checkpoint(self) -> None:
        """Write recovery-point-offset-checkpoint, as every log.flush.offset.checkpoint.interval.ms."""
        self.checkpointed = self.recovery_point

    def stop(self) -> None:
        """A clean shutdown: all is on disk, and a file marks it as clean."""
        self.flush()
        self.checkpoint()
        self.clean_shutdown = True

    def crash(self, torn_from: int | None = None) -> None:
        """The process dies; if the machine does, batches from `torn_from` on are torn and unflushed indexes gone."""
        self.clean_shutdown = False
        if torn_from is None:
            return
        if torn_from < self.recovery_point:
            raise ValueError(f"offset {torn_from} cannot be torn: all below {self.recovery_point} is on disk")
        for segment in self.segments[self._holding(self.recovery_point) :]:
            segment.index = []
            segment.batches = [b._replace(valid=b.valid and b.last < torn_from) for b in segment.batches]

    def open(self) -> Recovery:
        """A start: after a clean shutdown nothing is read, else all from the segment of the recovery point on."""
        if self.clean_shutdown:
            self.clean_shutdown = False
            self.recovery_point = self.end
            return Recovery(clean=True)
        read: list[str] = []
        cut_at = None
        for at in range(self._holding(self.checkpointed), len(self.segments)):
            read.append(self.segments[at].log_file)
            if self.segments[at].recover():
                del self.segments[at + 1 :]
                cut_at = self.end
                break
        self.recovery_point = min(self.checkpointed, self.end)
        return Recovery(False, tuple(read), cut_at)
