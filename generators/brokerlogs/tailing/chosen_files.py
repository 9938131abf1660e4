"""The choice of one file for a broker's HWs, fetches, appends and LEOs, however many files repeat its lines.

A file that prints HWs themselves, not only in shrinks of the ISR, comes first. Then come a file with numbered lines
(%sn), one with threads, and one in the stock pattern. The choice for each row depends on what each file had contained
by the time of that row, and so not on the order in which files are read. A row is left out only if the other file has
it or a line of its time: printing may be switched off, a copy may end, clocks may be set back.
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
"""Rows with keys kept in memory at least, and those stored with a position; of earlier rows only spans are kept."""
_OFFSETS = ("hw", "leo", "leader_leo")
_HW, _LEO, _LEADER_LEO = range(3)
_COLUMN = np.array([{"append": _LEADER_LEO, "fetch": _LEO, "replica_leo": _LEO}.get(name, _HW) for name in CODE])
"""By event type, the column of the offset that is its value."""
_FACTOR = np.int64(0x9E3779B97F4A7C15 - (1 << 64))


class ToldRows:
    """Keys (see _keys) of the rows that a source reported last; `state` is a value that `as_json` returned."""

    def __init__(self, state: Mapping[str, Any]) -> None:
        self._parts = deque([np.frombuffer(b64decode(state.get("keys", "")), np.int64).reshape(2, -1)])
        self.since: int = state.get("since", np.iinfo(np.int64).max)
        """The earliest time (us) of the rows in `state`; of earlier rows only spans are known."""
        self._last = np.full(self._parts[0].shape[1], self.since, np.int64)
        """Times (us) of the last STORED rows."""

    def as_json(self) -> dict[str, Any]:
        """The state as a JSON value; empty without rows."""
        if not len(self._last):
            return {}
        return {"keys": b64encode(self.keys()[:, -STORED:].tobytes()).decode(), "since": int(self._last.min())}

    def keys(self) -> Numbers:
        """Keys of all rows that are kept."""
        return np.concatenate(self._parts, axis=1)

    def append(self, ts: Numbers, keys: Numbers) -> None:
        """Add rows, and forget those before the last RECENT ones."""
        self._parts.append(keys)
        self._last = np.concatenate([self._last, ts[-STORED:]])[-STORED:]
        while sum(part.shape[1] for part in self._parts) - self._parts[0].shape[1] >= RECENT:
            self._parts.popleft()


class LineGrades:
    """Grades of a source's lines by origin, and the rows that it reported; `state` is a value of `as_json`."""

    def __init__(self, name: str, state: Mapping[str, Any]) -> None:
        self.name = name
        self.earlier: dict[str, int] = dict(state.get("beside", {}))
        """By other source, the time (us) up to which it had reported when this source was first given."""
        self.spans: list[tuple[int, int]] = [(begin, end) for begin, end in state.get("spans", ())]
        """Spans (us) in which the source reported rows at most PAUSE_US apart, in order."""
        self._before, self._ended = list(self.spans), max((end for _, end in self.spans), default=0)
        """The spans of earlier calls, and the end of the last one."""
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
        pattern = np.maximum(_at(patterns, ts), 0)
        for family, mine in _families(rows).items():
            grades = pattern[mine]
            if family == LEADER:
                grades = grades + _PRINTS_HWS * (level[mine] >= 2) + _PRINTS_FETCHES * (level[mine] == 3)
            reached = [(int(ts[mine][grades == grade].min()), int(grade)) for grade in np.unique(grades)]
            self.steps[family] = _rising([*self.steps.get(family, ()), *reached])

    def begin_beside(self, others: Sequence[LineGrades]) -> None:
        """Note up to when the other sources have reported, unless this one has reported already."""
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
        """Return this source's rows without those read from another one, and a message for each such source.

        `others`: each other source, with the rows that it has read and not reported yet.
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
        """Return for each row whether it is read from the other source.

        It is if that source reported it, or has read it and has a better grade, or an equal grade and comes first. Of
        equal sources, the one with the smaller name comes first; one under a name that people gave may be an excerpt
        and never does. A source with a better grade may have reported the offsets of a shrink earlier.
        """
        own, its = _at(self.steps.get(family, []), ts), _at(other.steps.get(family, []), ts)
        finer, is_first = its > own, is_named_by_kafka(other.name) & (its == own) & (other.name < self.name)
        earlier = (its == own) & (ts <= self.earlier.get(other.name, 0))
        before = (finer | earlier) & other.told_before(ts) & (ts > self._ended)
        if family == LEADER:  # a log that has HWs of shrinks alone may have one that the other did not print
            before &= own >= _PRINTS_HWS
        there = other.told.keys()
        elsewhere: Mask = before | are_in(keys[1], there[1])
        if (finer | is_first).any():
            ahead = _keys(read)
            elsewhere |= (finer | is_first) & are_in(keys[1], ahead[1])
            elsewhere |= finer & (are_in(keys[0], there[0]) | are_in(keys[0], ahead[0]))
        return elsewhere

    def told_before(self, ts: Numbers) -> Mask:
        """Return for each time whether earlier calls reported it and its single rows are no longer known."""
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
    """The steps in order of time, each of a higher grade than all before it."""
    steps: Steps = []
    for ts, grade in sorted(reached, key=lambda step: (step[0], -step[1])):
        if not steps or grade > steps[-1][1]:
            steps.append((ts, grade))
    return steps


def _at(steps: Steps, ts: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The grade reached at each time, -1 before the first."""
    grades = np.array([-1, *(grade for _, grade in steps)], np.int64)
    return grades[np.searchsorted(np.array([since for since, _ in steps], np.int64), ts, side="right")]


def _keys(rows: pa.Table) -> Numbers:
    """Two hashes for each row: one of its value, one of its value, kind and time."""
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
