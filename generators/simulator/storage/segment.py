"""One segment of a partition's log: batches of records in a file, and a sparse index over it."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from itertools import takewhile
from operator import attrgetter
from typing import NamedTuple


class RecordBatch(NamedTuple):
    """One batch in the file: first and last offset, position and size in bytes.

    One that is not `valid` was torn by a crash (its checksum fails).
    """

    first: int
    last: int
    position: int
    size: int
    valid: bool = True


class IndexEntry(NamedTuple):
    """Records above `offset` are found from `position` on, and `offset` itself ends the batch that begins there."""

    offset: int
    position: int


class Lookup(NamedTuple):
    """The path of a lookup: the file, the index entry at which the search began, and the batches read."""

    file: str
    entry: IndexEntry
    scanned: tuple[int, ...]
    """First offsets of the batches read, the last of which has the offset."""
    position: int


class Segment:
    """The files `<base offset>.log` and `<base offset>.index` (LogSegment); offsets from `base` on."""

    def __init__(self, base: int, index_interval: int) -> None:
        self.base = base
        self.batches: list[RecordBatch] = []
        self.index: list[IndexEntry] = []
        self._index_interval = index_interval

    @property
    def log_file(self) -> str:
        return f"{self.base:020d}.log"

    @property
    def size(self) -> int:
        """Bytes of the log file."""
        return self.batches[-1].position + self.batches[-1].size if self.batches else 0

    @property
    def end(self) -> int:
        """The next offset to be written into it."""
        return self.batches[-1].last + 1 if self.batches else self.base

    def append(self, count: int, size: int) -> None:
        """A batch of `count` records; every `index_interval` bytes one is entered into the index."""
        batch = RecordBatch(self.end, self.end + count - 1, self.size, size)
        self._enter(batch)
        self.batches.append(batch)

    def find(self, offset: int) -> Lookup:
        """The batch that holds `offset`: the last index entry at or below it, then a scan (LogSegment.read)."""
        at = bisect_right(self.index, offset, key=lambda entry: entry.offset)
        entry = self.index[at - 1] if at else IndexEntry(self.base, 0)
        first = bisect_left(self.batches, entry.position, key=lambda batch: batch.position)
        last = bisect_left(self.batches, offset, key=lambda batch: batch.last)
        scanned = tuple(batch.first for batch in self.batches[first : last + 1])
        return Lookup(self.log_file, entry, scanned, self.batches[last].position)

    def recover(self) -> bool:
        """Read up to the first invalid batch, truncate there and rebuild the index; returns whether it had to
        truncate."""
        found, self.batches, self.index = self.batches, [], []
        for batch in takewhile(attrgetter("valid"), found):
            self._enter(batch)
            self.batches.append(batch)
        return len(self.batches) < len(found)

    def _enter(self, batch: RecordBatch) -> None:
        indexed = self.index[-1].position if self.index else 0
        if batch.position - indexed > self._index_interval:
            self.index.append(IndexEntry(batch.last, batch.position))
