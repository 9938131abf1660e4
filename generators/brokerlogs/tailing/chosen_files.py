"""Which of a broker's files its HWs, fetches, appends and LEOs are read from: one, however many repeat its lines.

It is the file whose lines are numbered (%sn), else one with threads, else one in the stock pattern; but first of all
one that prints HWs itself, not only in shrinks of the ISR. It is chosen at the time of each row by what each file has
contained until then, so that the choice does not depend on the order in which files are read. But a row is left out
only if the other file has it, or a line of its moment: printing may be switched off, a copy ends, clocks are set back.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from generators.brokerlogs.scanning.interning import hashes
from generators.brokerlogs.tailing.progress import times
from generators.brokerlogs.tailing.told_lines import are_in
from generators.brokerlogs.tailing.windows import is_named_by_kafka
from pipelines.replication.events.columns import CODE, event_kinds, int32_column, int64_column

LEADER, FOLLOWER, LOG = "leader", "follower", "log"
"""Origins of such lines: kafka.cluster.Partition, the replica fetcher, UnifiedLog; each may have its own file."""
_PRINTS_HWS, _PRINTS_FETCHES = 8, 1
PAUSE_US = 600_000_000
"""The longest pause (us) within a span."""
Steps = list[tuple[int, int]]
"""(time in us, grade) of each grade that a file reached, in ascending order."""
Mask = npt.NDArray[np.bool_]
Numbers = npt.NDArray[np.int64]
REMEMBERED = 100
"""Spans that are kept."""
RECENT, STORED = 1 << 14, 256
"""Rows of which the moments are known at least, and those that a position has: more is known by spans."""
_OFFSETS = ("hw", "leo", "leader_leo")
_HW, _LEO, _LEADER_LEO = range(3)
_COLUMN = np.array([{"append": _LEADER_LEO, "fetch": _LEO, "replica_leo": _LEO}.get(name, _HW) for name in CODE])
"""By event type the offset that is its value."""
_FACTOR = np.int64(0x9E3779B97F4A7C15 - (1 << 64))


class ToldRows:
    """Keys (see _keys) of the rows that a source told last; `state` is what `as_json` returned."""

    def __init__(self, state: Mapping[str, Any]) -> None:
        self._parts = deque([np.frombuffer(b64decode(state.get("keys", "")), np.int64).reshape(2, -1)])
        self.since: int = state.get("since", np.iinfo(np.int64).max)
        """The least time (us) of those that the state had: what was told before is known by spans."""
        self._last = np.full(self._parts[0].shape[1], self.since, np.int64)
        """Times of the last STORED ones."""

    def as_json(self) -> dict[str, Any]:
        """The state as a JSON value; of no rows it is empty."""
        if not len(self._last):
            return {}
        return {"keys": b64encode(self.keys()[:, -STORED:].tobytes()).decode(), "since": int(self._last.min())}

    def keys(self) -> Numbers:
        """All keys that are known."""
        return np.concatenate(self._parts, axis=1)

    def append(self, ts: Numbers, keys: Numbers) -> None:
        """Add rows, and forget those before the last RECENT ones."""
        self._parts.append(keys)
        self._last = np.concatenate([self._last, ts[-STORED:]])[-STORED:]
        while sum(part.shape[1] for part in self._parts) - self._parts[0].shape[1] >= RECENT:
            self._parts.popleft()


class LineGrades:
    """Grades of the lines of a source by origin, and the rows that it told; `state` is what `as_json` returned."""

    def __init__(self, name: str, state: Mapping[str, Any]) -> None:
        self.name = name
        self.earlier: dict[str, int] = dict(state.get("beside", {}))
        """By source the time (us) up to which it was told when this one was given first."""
        self.spans: list[tuple[int, int]] = [(begin, end) for begin, end in state.get("spans", ())]
        """Times (us) between which it told something, with pauses of PAUSE_US at most, in order."""
        self._before, self._ended = list(self.spans), max((end for _, end in self.spans), default=0)
        """Those of earlier calls, and their end."""
        steps = state.get("voice", {})
        self.steps: dict[str, Steps] = {family: [(ts, grade) for ts, grade in of] for family, of in steps.items()}
        self.told = ToldRows(state.get("recent", {}))

    def as_json(self) -> dict[str, Any]:
        """The state as a JSON value."""
        told = self.told.as_json()
        return {"voice": self.steps, "spans": self.spans, "beside": self.earlier, "recent": told}

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

    def _extend(self, ts: Numbers) -> None:
        """Add these times to the spans."""
        pauses = np.flatnonzero(np.diff(ts) > PAUSE_US)
        fresh = zip(ts[[0, *(pauses + 1)]].tolist(), ts[[*pauses, -1]].tolist(), strict=True)
        merged: list[tuple[int, int]] = []
        for begin, end in sorted([*self.spans, *fresh]):
            if merged and begin <= merged[-1][1] + PAUSE_US:
                merged[-1] = merged[-1][0], max(merged[-1][1], end)
            else:
                merged.append((begin, end))
        self.spans = merged[-REMEMBERED:]

    def own_rows(self, rows: pa.Table, others: Sequence[tuple[LineGrades, pa.Table]]) -> tuple[pa.Table, list[str]]:
        """The rows of this source without those that are read from one of the others, and messages on that.

        With each of the others come the rows that it has read, and not told.
        """
        ts, left, keys = times(rows), np.zeros(rows.num_rows, bool), _keys(rows)
        messages: dict[str, None] = {}
        active = [(other, read) for other, read in others if other.steps] if self.steps else []
        for family, of_family in _families(rows).items() if active else ():
            for other, read in active:
                mine = np.flatnonzero(of_family & ~left)
                elsewhere = mine[self._are_elsewhere(ts[mine], keys[:, mine], family, other, read)]
                left[elsewhere] = True
                if len(elsewhere):
                    messages[f"{self.name}: HWs, fetches and appends are read from {other.name}"] = None
        told = ~left & np.asarray(pc.not_equal(rows["event_type"], "progress"))
        self.told.append(ts[told], keys[:, told])
        return (rows.filter(pa.array(~left)) if left.any() else rows), [*messages]

    def _are_elsewhere(self, ts: Numbers, keys: Numbers, family: str, other: LineGrades, read: pa.Table) -> Mask:
        """Return for each row if the other source told it, or has it and is better, or of an equal grade and first.

        Of two alike the first is the one with the smaller name. One under a name that people gave it may be an excerpt,
        and is never first. One with a better grade may have told the offsets of a shrink before.
        """
        own, its = _at(self.steps.get(family, []), ts), _at(other.steps.get(family, []), ts)
        finer, is_first = its > own, is_named_by_kafka(other.name) & (its == own) & (other.name < self.name)
        before = (finer | (ts <= self.earlier.get(other.name, 0))) & other.told_before(ts) & (ts > self._ended)
        there = other.told.keys()
        elsewhere: Mask = before | are_in(keys[1], there[1])
        if (finer | is_first).any():
            ahead = _keys(read)
            elsewhere |= (finer | is_first) & are_in(keys[1], ahead[1])
            elsewhere |= finer & (are_in(keys[0], there[0]) | are_in(keys[0], ahead[0]))
        return elsewhere

    def told_before(self, ts: Numbers) -> Mask:
        """Return for each time if earlier calls told it, and each row of it is not known any more."""
        begins, ends = np.array(self._before or [(0, 0)], np.int64).T
        at = np.searchsorted(begins, ts, side="right") - 1
        told: Mask = (at >= 0) & (ts <= ends[at]) & (ts < self.told.since)
        return told


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


def _keys(rows: pa.Table) -> Numbers:
    """Two numbers for each row, that of its value, and that of its value, kind and time."""
    topics = pc.fill_null(rows["topic"], "").combine_chunks().dictionary_encode()
    names = [name.encode() for name in topics.dictionary.to_pylist()]
    numbers = hashes(np.frombuffer(b"".join(names), np.uint8), np.cumsum([0, *map(len, names)]))
    kinds = event_kinds(rows)
    column = _COLUMN[kinds]
    offset = np.choose(column, [int64_column(rows[name]) for name in _OFFSETS])
    about = np.where(column == _LEO, int32_column(rows["replica_id"]), column)
    value = numbers[topics.indices.to_numpy()]
    for part in (int32_column(rows["partition"]), about, offset):
        value = (value ^ part) * _FACTOR
    return np.array([value, (value ^ times(rows)) * _FACTOR ^ kinds])
