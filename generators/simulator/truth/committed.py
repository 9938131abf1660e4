"""The records ever committed to one partition, and what a new leader or a truncation removes of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from generators.simulator.cluster.log import ReplicaLog, Run


class Loss(NamedTuple):
    """Committed records `start` to `end` (half-open) that are gone."""

    start: int
    end: int


def between(runs: Iterable[Run], start: int, end: int) -> list[Run]:
    """The runs' records from `start` to `end`."""
    return [r._replace(start=max(r.start, start), end=min(r.end, end)) for r in runs if r.end > start and r.start < end]


class Committed:
    """The records below the high watermark, identified by (offset, term), since the last loss."""

    def __init__(self) -> None:
        self.log = ReplicaLog()
        self._gone: list[Run] = []
        """Committed once and lost since."""

    @property
    def end(self) -> int:
        """End of the committed records: Hmax since the last loss."""
        return self.log.leo

    def advance(self, leader: ReplicaLog, hw: int) -> None:
        """The leader's HW became `hw`."""
        if leader.start > self.log.leo:
            self.log.restart(leader.start)
        if hw > self.log.leo:
            self.log.extend(between(leader.runs, self.log.leo, hw))

    def lead(self, leader: ReplicaLog) -> Loss | None:
        """A leader begins with this log: committed records that it does not have are lost, and no longer committed."""
        start, end = self.log.parts_from(leader, self.end), self.end
        if start >= end:
            return None
        self._gone += between(self.log.runs, start, end)
        self.log.truncate(start)
        return Loss(start, end)

    def held(self, runs: Iterable[Run]) -> bool:
        """Whether any of these records is committed, or was before it was lost."""
        mine = [*self.log.runs, *self._gone]
        return any(r.term == m.term and r.start < m.end and m.start < r.end for r in runs for m in mine)
