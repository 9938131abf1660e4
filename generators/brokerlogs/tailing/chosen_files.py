"""Which of a broker's files its HWs, fetches, appends and LEOs are read from: one, however many repeat its lines.

It is the file whose lines are numbered (%sn), else one with threads, else one in the stock pattern; but first of all
one that prints HWs itself, not only in shrinks of the ISR. It is chosen at the time of each row by what each file has
contained until then, so that the choice does not depend on the order in which files are read. A file that has told
nothing for ENDS_US does not count any more. What was told before another file was given is not told from that one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from generators.brokerlogs.tailing.progress import times
from generators.brokerlogs.tailing.windows import is_named_by_kafka

LEADER, FOLLOWER, LOG = "leader", "follower", "log"
"""Origins of such lines: kafka.cluster.Partition, the replica fetcher, UnifiedLog; each may have its own file."""
_PRINTS_HWS, _PRINTS_FETCHES = 8, 1
ENDS_US = 600_000_000
"""Time (us) after its last row from which a file is taken for ended: busy ones print at each fetch or append."""
Steps = list[tuple[int, int]]
"""(time in us, grade) of each grade that a file reached, in ascending order."""
Mask = npt.NDArray[np.bool_]
REMEMBERED = 100
"""Spans that are kept."""


class LineGrades:
    """Grades of the lines of source `name` by origin; `steps` is a JSON value.

    `earlier`: by source the time (us) up to which it was told when this one was given first.
    """

    def __init__(
        self,
        name: str,
        steps: Mapping[str, Sequence[Sequence[int]]],
        spans: Sequence[Sequence[int]],
        earlier: Mapping[str, int],
    ) -> None:
        self.name, self.earlier = name, dict(earlier)
        self.spans = [(begin, end) for begin, end in spans]
        """Times (us) between which it told something, with pauses of ENDS_US at most, in order."""
        self.steps: dict[str, Steps] = {family: [(ts, grade) for ts, grade in of] for family, of in steps.items()}

    def observe(self, rows: pa.Table, patterns: Steps) -> None:
        """Add the grades of these rows; `patterns` are (time in us, grade) of the patterns of the source."""
        ts, level = times(rows), rows["level"].to_numpy()
        if len(ts):
            self._extend(np.sort(ts))
        pattern = _at(patterns, ts)
        for family, mine in _families(rows).items():
            grades = pattern[mine]
            if family == LEADER:
                grades = grades + _PRINTS_HWS * (level[mine] >= 2) + _PRINTS_FETCHES * (level[mine] == 3)
            reached = [(int(ts[mine][grades == grade].min()), int(grade)) for grade in np.unique(grades)]
            self.steps[family] = _rising([*self.steps.get(family, ()), *reached])

    def begin_beside(self, others: Sequence[LineGrades]) -> None:
        """Note how much the others have told, unless this one has told something."""
        if not self.spans:
            self.earlier = {other.name: other.spans[-1][1] for other in others if other.spans}

    def _extend(self, ts: npt.NDArray[np.int64]) -> None:
        """Add these times to the spans."""
        pauses = np.flatnonzero(np.diff(ts) > ENDS_US)
        fresh = zip(ts[[0, *(pauses + 1)]].tolist(), ts[[*pauses, -1]].tolist(), strict=True)
        merged: list[tuple[int, int]] = []
        for begin, end in sorted([*self.spans, *fresh]):
            if merged and begin <= merged[-1][1] + ENDS_US:
                merged[-1] = merged[-1][0], max(merged[-1][1], end)
            else:
                merged.append((begin, end))
        self.spans = merged[-REMEMBERED:]

    def _told_around(self, ts: npt.NDArray[np.int64], ends_us: npt.NDArray[np.int64]) -> Mask:
        """Return for each time if it told something before, and something since or at most `ends_us` before."""
        begins, ends = np.array(self.spans or [(0, 0)], np.int64).T
        at = np.searchsorted(begins, ts, side="right") - 1
        told: Mask = (at >= 0) & (ts <= ends[at] + ends_us)
        return told

    def own_rows(self, rows: pa.Table, others: Sequence[LineGrades]) -> tuple[pa.Table, list[str]]:
        """The rows of this source without those that are read from one of the others, and messages on that."""
        left = np.zeros(rows.num_rows, bool)
        messages: dict[str, None] = {}
        active = [other for other in others if other.steps] if self.steps else []
        for family, of_family in _families(rows).items() if active else ():
            for other in active:
                better = of_family & self._is_better_elsewhere(times(rows), family, other)
                left |= better
                if better.any():
                    messages[f"{self.name}: HWs, fetches and appends are read from {other.name}"] = None
        return (rows.filter(pa.array(~left)) if left.any() else rows), [*messages]

    def _is_better_elsewhere(self, ts: npt.NDArray[np.int64], family: str, other: LineGrades) -> Mask:
        """Return for each time if the other source has the better grade, or an equal one and was first.

        First is the one that had told that time when the other one was given, else the one with the smaller name. One
        under a name that people gave it may be an excerpt, and is never first.
        Of two alike the one that has told nothing since says nothing of that time: windows of one log end like that.
        """
        steps = other.steps.get(family, [])
        own, its = _at(self.steps.get(family, []), ts), _at(steps, ts)
        told = other._told_around(ts, np.where(its > own, ENDS_US, 0))
        has_rows: Mask = (ts >= (steps[0][0] if steps else np.iinfo(np.int64).max)) & told
        is_first = (other.name < self.name) & (ts > other.earlier.get(self.name, 0))
        is_first = is_named_by_kafka(other.name) & (is_first | (ts <= self.earlier.get(other.name, 0)))
        better: Mask = has_rows & ((its > own) | ((its == own) & is_first))
        return better


def _families(rows: pa.Table) -> dict[str, Mask]:
    """Rows that are read from one file of a broker only, by origin of their lines."""
    hw = np.asarray(pc.equal(rows["event_type"], "hw"))
    leads = np.asarray(pc.fill_null(pc.equal(rows["leader_id"], rows["broker_id"]), fill_value=False))
    follows = np.asarray(pc.is_valid(rows["leader_id"])) & ~leads
    of_leader = np.asarray(pc.is_in(rows["event_type"], pa.array(["append", "fetch", "replica_leo"])))
    masks = {LEADER: of_leader | (hw & leads), FOLLOWER: hw & follows, LOG: hw & ~leads & ~follows}
    return {family: mask for family, mask in masks.items() if mask.any()}


def _rising(reached: Sequence[tuple[int, int]]) -> Steps:
    """Those above all before them, in order of time."""
    steps: Steps = []
    for ts, grade in sorted(reached, key=lambda step: (step[0], -step[1])):
        if not steps or grade > steps[-1][1]:
            steps.append((ts, grade))
    return steps


def _at(steps: Steps, ts: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The grade reached at each time, 0 before the first."""
    grades = np.array([0, *(grade for _, grade in steps)], np.int64)
    return grades[np.searchsorted(np.array([since for since, _ in steps], np.int64), ts, side="right")]
