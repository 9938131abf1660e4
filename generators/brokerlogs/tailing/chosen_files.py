"""Which of a broker's files its HWs, fetches, appends and LEOs are read from: one, however many repeat its lines.

The one whose lines are numbered (%sn), else one that names threads, else one in the stock pattern; before all of that
one that prints HWs, and not only what a shrink of the ISR tells of them. It is decided at the time of each row by what
each file has shown until then, so that nothing depends on the order in which files are read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from generators.brokerlogs.tailing.progress import times

LEADER, FOLLOWER, LOG = "leader", "follower", "log"
"""What prints such lines: kafka.cluster.Partition, the replica fetcher, the log layer; each may have its own file."""
_PRINTS_HWS, _PRINTS_FETCHES = 8, 1
Steps = list[tuple[int, int]]
"""(time in us, grade) of each grade that a file reached, from low to high."""
Mask = npt.NDArray[np.bool_]


class Voice:
    """What the source `name` has shown of such lines, as JSON can hold it in `steps`."""

    def __init__(self, name: str, steps: Mapping[str, Sequence[Sequence[int]]]) -> None:
        self.name = name
        self.steps: dict[str, Steps] = {family: [(ts, grade) for ts, grade in of] for family, of in steps.items()}

    def listen(self, rows: pa.Table, patterns: Steps) -> None:
        """Add what these rows show; `patterns` are the grades of the patterns that the source has had."""
        ts, level = times(rows), rows["level"].to_numpy()
        pattern = _at(patterns, ts)
        for family, mine in _families(rows).items():
            grades = pattern[mine]
            if family == LEADER:
                grades = grades + _PRINTS_HWS * (level[mine] >= 2) + _PRINTS_FETCHES * (level[mine] == 3)
            reached = [(int(ts[mine][grades == grade].min()), int(grade)) for grade in np.unique(grades)]
            self.steps[family] = _rising([*self.steps.get(family, ()), *reached])

    def own(self, rows: pa.Table, others: Sequence[Voice]) -> tuple[pa.Table, list[str]]:
        """The rows of this source but for those that are read from one of the others, and words on that."""
        left = np.zeros(rows.num_rows, bool)
        words: dict[str, None] = {}
        speaking = [other for other in others if other.steps] if self.steps else []
        for family, mine in _families(rows).items() if speaking else ():
            for other in speaking:
                better = mine & self._yields(times(rows), family, other)
                left |= better
                if better.any():
                    words[f"{self.name}: HWs, fetches and appends are read from {other.name}"] = None
        return (rows.filter(pa.array(~left)) if left.any() else rows), [*words]

    def _yields(self, ts: npt.NDArray[np.int64], family: str, other: Voice) -> Mask:
        """Whether at these times the other is the better one; of two alike the smaller name is."""
        steps = other.steps.get(family, [])
        own, its = _at(self.steps.get(family, []), ts), _at(steps, ts)
        speaks: Mask = ts >= (steps[0][0] if steps else np.iinfo(np.int64).max)
        better: Mask = speaks & ((its > own) | ((its == own) & (other.name < self.name)))
        return better


def _families(rows: pa.Table) -> dict[str, Mask]:
    """Rows that one file of a broker tells, by what prints their lines."""
    hw = np.asarray(pc.equal(rows["event_type"], "hw"))
    leads = np.asarray(pc.fill_null(pc.equal(rows["leader_id"], rows["broker_id"]), fill_value=False))
    follows = np.asarray(pc.is_valid(rows["leader_id"])) & ~leads
    of_leader = np.asarray(pc.is_in(rows["event_type"], pa.array(["append", "fetch", "replica_leo"])))
    masks = {LEADER: of_leader | (hw & leads), FOLLOWER: hw & follows, LOG: hw & ~leads & ~follows}
    return {family: mask for family, mask in masks.items() if mask.any()}


def _rising(reached: Sequence[tuple[int, int]]) -> Steps:
    """Those above every one before them, in order of time."""
    steps: Steps = []
    for ts, grade in sorted(reached, key=lambda step: (step[0], -step[1])):
        if not steps or grade > steps[-1][1]:
            steps.append((ts, grade))
    return steps


def _at(steps: Steps, ts: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The grade reached at each time, 0 before the first."""
    grades = np.array([0, *(grade for _, grade in steps)], np.int64)
    return grades[np.searchsorted(np.array([since for since, _ in steps], np.int64), ts, side="right")]
