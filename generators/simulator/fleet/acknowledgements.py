"""Acknowledged and lost records of a fleet's partitions: counted in rounds, or by logs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from generators.simulator.clients.acknowledged_records import lost
from generators.simulator.clients.load import Load
from generators.simulator.cluster.log import ReplicaLog, Run
from generators.simulator.fleet.compiled import I32, I64

Range = tuple[int, int]
"""Offsets, half-open."""


@dataclass
class Acknowledgements:
    """Acknowledged records of each partition by number.

    In rounds nothing is lost, and all that is written is acknowledged in its time: up to the LEO with acks=1, up to the
    HW with acks=all. Single steps keep every acknowledged run.
    """

    acks: I32
    """0 where nobody waits for answers, or nobody writes."""
    acknowledged: I64
    """Records acknowledged until the partition last changed engines."""
    counted: I64
    """End of the records of rounds that are counted in `acknowledged`."""
    gone: dict[int, list[Range]] = field(default_factory=dict)
    """Acknowledged records that are lost."""
    _held: dict[int, list[Range]] = field(default_factory=dict)
    """Of partitions that were in single steps: ranges of acknowledged records that their leader had when they changed
    engines."""

    @classmethod
    def of(cls, loads: Sequence[Load], load: I32) -> Acknowledgements:
        """`load`: the position of each partition's, -1 for none."""
        acks = np.array([*(one.acks for one in loads), 0], dtype=np.int32)[load]
        return cls(acks, *np.zeros((2, len(load)), dtype=np.int64))

    def answered(self, number: I64, hw: I64, leo: I64) -> I64:
        """End of the acknowledged records of partitions in rounds."""
        acks = self.acks[number]
        return np.where(acks == 0, 0, np.where(acks == -1, hw, leo))

    def _answered(self, number: int, hw: int, leo: int) -> int:
        return int(self.answered(*np.array([[number], [hw], [leo]]))[0])

    def entered_steps(self, number: int, hw: int, leo: int, run: Run | None) -> list[Run]:
        """A partition enters single steps with all its records in one run: returns the parts of it that are
        acknowledged."""
        before, now = int(self.counted[number]), self._answered(number, hw, leo)
        self.acknowledged[number] += max(0, now - before)
        if run is None:
            return []
        known = joined([*self._held.get(number, []), (before, now)])
        held = self._held[number] = joined((max(a, run.start), min(b, run.end)) for a, b in known)
        return [run._replace(start=a, end=b) for a, b in held]

    def left_steps(self, number: int, hw: int, log: ReplicaLog, acknowledged: list[Run]) -> None:
        """It returns to rounds: records acknowledged meanwhile count, and those that its leader does not have are
        lost."""
        count, gone = self.settled(number, log, acknowledged)
        self.acknowledged[number], self.gone[number] = count, gone
        self._held[number] = _without([(r.start, r.end) for r in acknowledged], gone)
        self.counted[number] = self._answered(number, hw, log.leo)

    def so_far(self, number: I64, hw: I64, leo: I64) -> I64:
        """Acknowledged records of partitions in rounds."""
        so_far: I64 = self.acknowledged[number] + np.maximum(0, self.answered(number, hw, leo) - self.counted[number])
        return so_far

    def forget(self, number: int) -> None:
        """It is deleted, with its acknowledgements."""
        self.acknowledged[number] = self.counted[number] = 0
        self.gone.pop(number, None)
        self._held.pop(number, None)

    def settled(self, number: int, log: ReplicaLog, acknowledged: list[Run]) -> tuple[int, list[Range]]:
        """Acknowledged records and lost ranges of a partition in single steps."""
        before = sum(b - a for a, b in self._held.get(number, []))
        count = int(self.acknowledged[number]) + max(0, sum(r.end - r.start for r in acknowledged) - before)
        return count, joined([*self.gone.get(number, []), *lost(acknowledged, log)])


def joined(ranges: Iterable[Range]) -> list[Range]:
    """The ranges in order, without empty ones, adjacent ones joined."""
    found: list[Range] = []
    for start, end in sorted(r for r in ranges if r[0] < r[1]):
        if found and start <= found[-1][1]:
            found[-1] = found[-1][0], max(end, found[-1][1])
        else:
            found.append((start, end))
    return found


def _without(ranges: Iterable[Range], gone: Iterable[Range]) -> list[Range]:
    left = joined(ranges)
    for start, end in gone:
        left = [part for a, b in left for part in ((a, min(b, start)), (max(a, end), b)) if part[0] < part[1]]
    return left
