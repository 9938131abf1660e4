"""One replica's log: runs of offsets instead of records, and where each leader epoch begins in it."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from typing import NamedTuple


class Batch(NamedTuple):
    """A producer's batch, for scenarios that look at single records."""

    producer: int = -1
    producer_epoch: int = -1
    first_sequence: int = -1
    values: tuple[str, ...] = ()


class Run(NamedTuple):
    """Records of one leader epoch, `start` to `end` (half-open), written in the term number `term`.

    (offset, term) identifies a record: unlike (offset, epoch) it does so even when a leader that lost its log to a
    power failure continues in the same epoch. Runs of one term without batches are joined; one with a batch is that
    batch.
    """

    start: int
    end: int
    epoch: int
    term: int
    batch: Batch | None = None


class ReplicaLog:
    """Records from `start` to `leo`, as runs; epochs as in the leader-epoch-checkpoint file (LeaderEpochFileCache)."""

    def __init__(self, start: int = 0) -> None:
        self.start = start
        self.leo = start
        self.runs: list[Run] = []
        self.epochs: list[tuple[int, int]] = []
        """(epoch, its start offset), both rising; an epoch may begin before anything is written in it."""

    def begin_epoch(self, epoch: int) -> None:
        """A leader of `epoch` starts here (Partition.makeLeader)."""
        self._assign(epoch, self.leo)

    def append(self, count: int, epoch: int, term: int, batch: Batch | None = None) -> tuple[int, int]:
        """Append `count` records of this leader; returns their first and last offset."""
        first = self.leo
        self.extend([Run(first, first + count, epoch, term, batch)])
        return first, self.leo - 1

    def extend(self, runs: Iterable[Run]) -> None:
        """Records as fetched, which must begin at this log's end."""
        for run in runs:
            if run.start != self.leo:
                raise ValueError(f"a run from {run.start} does not continue a log that ends at {self.leo}")
            self._assign(run.epoch, run.start)
            last = self.runs[-1] if self.runs else None
            if last and last.term == run.term and last.end == run.start and last.batch is None and run.batch is None:
                self.runs[-1] = last._replace(end=run.end)
            else:
                self.runs.append(run)
            self.leo = run.end

    def read(self, offset: int, most: int) -> list[Run]:
        """Up to `most` records from `offset` on; a batch is returned whole or not at all, but at least one."""
        found: list[Run] = []
        at = max(0, bisect_right(self.runs, offset, key=lambda run: run.start) - 1)
        for run in self.runs[at:]:
            if run.end <= offset or most <= 0:
                continue
            start = max(run.start, offset)
            if run.batch is not None:
                if found and run.end - start > most:
                    break
                end = run.end
            else:
                end = min(run.end, start + most)
            found.append(run._replace(start=start, end=end))
            most -= end - start
        return found

    def truncate(self, offset: int) -> None:
        """Cut to end at `offset` (UnifiedLog.truncateTo); epochs that begin at its end are forgotten in any case.

        Else a leader in whose epoch nothing was written would diverge from every later one, for ever.
        """
        self.leo = max(min(offset, self.leo), self.start)
        self.runs = [r._replace(end=min(r.end, self.leo)) for r in self.runs if r.start < self.leo]
        self.epochs = [(e, start) for e, start in self.epochs if start < self.leo]

    def restart(self, offset: int) -> None:
        """Drop everything and continue at `offset` (UnifiedLog.truncateFullyAndStartAt)."""
        self.start = self.leo = offset
        self.runs, self.epochs = [], []

    def advance_start(self, offset: int) -> None:
        """Records below `offset` are deleted (retention)."""
        if offset <= self.start:
            return
        self.start = offset
        self.runs = [r._replace(start=max(r.start, offset)) for r in self.runs if r.end > offset]
        kept = [(e, s) for e, s in self.epochs if s > offset]
        floor = [(e, offset) for e, s in self.epochs if s <= offset][-1:]
        self.epochs = floor + kept
        if offset > self.leo:
            self.leo = offset

    @property
    def last_epoch(self) -> int | None:
        return self.epochs[-1][0] if self.epochs else None

    def end_of(self, epoch: int) -> tuple[int, int] | None:
        """The largest known epoch at or below `epoch` and where it ended; None above every known one.

        Below every known one: `epoch` itself and where the first begins (LeaderEpochFileCache.endOffsetFor).
        """
        if not self.epochs or epoch > self.epochs[-1][0]:
            return None
        if epoch == self.epochs[-1][0]:
            return epoch, self.leo
        higher = next(i for i, (e, _) in enumerate(self.epochs) if e > epoch)
        floor = self.epochs[higher - 1][0] if higher else epoch
        return floor, self.epochs[higher][1]

    def parts_from(self, other: ReplicaLog, below: int) -> int:
        """The first offset below `below` where the two logs have different records, or `below`."""
        at = max(self.start, other.start)
        while at < below:
            mine, theirs = self._run_at(at), other._run_at(at)
            if mine is None or theirs is None or mine.term != theirs.term:
                return at
            if mine.batch != theirs.batch:
                return at
            at = min(mine.end, theirs.end)
        return below

    def _run_at(self, offset: int) -> Run | None:
        at = bisect_right(self.runs, offset, key=lambda run: run.start) - 1
        return self.runs[at] if at >= 0 and offset < self.runs[at].end else None

    def _assign(self, epoch: int, start: int) -> None:
        """A newer epoch; one that began at the same offset is empty and goes (LeaderEpochFileCache.assign)."""
        if self.epochs and self.epochs[-1][0] >= epoch:
            return
        self.epochs = [(e, s) for e, s in self.epochs if s < start] + [(epoch, start)]
