"""The HWs of lanes by time. Lanes run ahead of the histories, which ask for a HW as of their own time."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from pipelines.replication.batch.run_terms import TermResults
from pipelines.replication.compiled.decorators import compiled
from pipelines.replication.compiled.records import Arrays
from pipelines.replication.compiled.types import I64, NULL
from pipelines.replication.facts.partition_hw import counted_reports
from pipelines.replication.state.state import State
from pipelines.replication.term.layout import NONE_YET, RECENT


class HwTimeline:
    """Every HW of each lane that a history may still ask for: recent rows, rows of this micro-batch, pending rows."""

    def __init__(self, state: State, results: TermResults, before: dict[str, Any]) -> None:
        self._before = before
        """Lane columns as they were before this micro-batch."""
        none, waiting = np.empty(0, dtype=np.int64), state.pending_rows
        recent = tuple(state.recent_hws[name] for name in RECENT.names)
        pending = *(waiting[n] for n in ("lane", "ts", "hw")), counted_reports(waiting["kind"], waiting["reported"])
        final = tuple(np.concatenate(part) for part in zip((none,) * 4, *results.hw.parts(), strict=True))
        self._sources = (recent, final, pending)
        self._places = [_by_lane(lanes) for lanes, *_ in self._sources]
        self._newest: dict[int, int] = {}
        for (_, ts, *_), places in zip(self._sources, self._places, strict=True):
            _raise_newest(self._newest, ts, places)
        self._lanes: dict[int, tuple[I64, I64, I64]] = {}

    def as_of(self, lane: int, start_ts: int, as_of: int) -> int | None:
        """The HW at `as_of` of the term that began at `start_ts`; None where it is not known."""
        ts, hw, _ = self._rows(lane)
        until_then = hw[(ts >= start_ts) & (ts <= as_of)]
        return _known(int(until_then[-1]) if len(until_then) else self._before_batch("hw", lane, start_ts))

    def reported(self, lane: int, start_ts: int, as_of: int) -> int | None:
        """The largest HW of that term up to `as_of` that its leader reported, within a race window of it."""
        ts, _, reported = self._rows(lane)
        until_then = reported[(ts >= start_ts) & (ts <= as_of)]
        most = max(self._before_batch("reported", lane, start_ts), int(until_then.max(initial=NULL)))
        return None if most <= NONE_YET else most

    def _before_batch(self, name: str, lane: int, start_ts: int) -> int:
        """A lane's value before this micro-batch, NULL if it was in another term, or if recent rows have it."""
        same_term = lane < len(self._before[name]) and self._before["term_start"][lane] == start_ts
        return int(self._before[name][lane]) if same_term and lane not in self._places[0] else NULL

    def rise(self, lane: int, start_ts: int, above: int, after: int, upto: int) -> tuple[int, int] | None:
        """(HW, ts) of the first HW above `above` in the term of this lane that began at `start_ts`, later than `after`
        and before `upto`; None where there is none."""
        ts, hw, _ = self._rows(lane)
        higher = np.flatnonzero((ts > max(after, start_ts - 1)) & (ts < upto) & (hw > above))
        if not len(higher):
            return None
        first = higher[np.lexsort((hw[higher], ts[higher]))[0]]
        return int(hw[first]), int(ts[first])

    def has_new(self, lane: int, after: int) -> bool:
        """Whether a HW of this lane is later than `after`, or final in this micro-batch only."""
        return self._newest.get(lane, -1) > after or lane in self._places[1]

    def _rows(self, lane: int) -> tuple[I64, I64, I64]:
        """(ts, HW, reported) of all rows of a lane. Cached: histories ask for few lanes, and often."""
        if lane not in self._lanes:
            slices = [slice(*places.get(lane, (0, 0))) for places in self._places]
            ts, hw, reported = (
                np.concatenate([rows[k][at] for rows, at in zip(self._sources, slices, strict=True)]) for k in (1, 2, 3)
            )
            self._lanes[lane] = ts, hw, reported
        return self._lanes[lane]


def _by_lane(lanes: I64) -> dict[int, tuple[int, int]]:
    """The beginning and end of each lane's rows, which are adjacent."""
    if not len(lanes):
        return {}
    starts = np.concatenate([[0], np.flatnonzero(np.diff(lanes)) + 1])
    bounds = zip(lanes[starts].tolist(), starts.tolist(), [*starts[1:].tolist(), len(lanes)], strict=True)
    return {lane: (start, end) for lane, start, end in bounds}


def _raise_newest(newest: dict[int, int], ts: I64, places: dict[int, tuple[int, int]]) -> None:
    """Take the newest time of each lane in, whose rows begin and end at `places`."""
    if places:
        last = np.maximum.reduceat(ts, [first for first, _ in places.values()]).tolist()
        newest |= {lane: max(at, newest.get(lane, -1)) for lane, at in zip(places, last, strict=True)}


def _known(value: int) -> int | None:
    return None if value == NULL else value


def trim_timeline(state: State, results: TermResults, before: dict[str, Any], decided: I64) -> None:
    """Keep the rows after `decided` (by partition), and of lanes that have such rows the HW at that time."""
    lane, ts, hw, reported = (np.ascontiguousarray(state.recent_hws[name]) for name in RECENT.names)
    parts = [(lane, ts, hw, reported), *results.hw.parts()]
    most = np.full(state.lanes.count, NULL, dtype=np.int64)
    most[: len(before["hw"])] = before["reported"]
    most[lane] = NULL
    moved, last = state.lanes["pending"] > 0, np.full(state.lanes.count, -1, dtype=np.int64)
    upto, firsts = decided[state.lanes["partition"]], np.cumsum([0, *(len(part[0]) for part in parts)])
    for first, (lane, ts, _, reported) in zip(firsts, parts, strict=False):
        _mark_moved(first, lane, ts, reported, upto, moved, last, most)
    kept = [
        _rows_to_keep(first, lane, ts, upto, moved, last) for first, (lane, ts, *_) in zip(firsts, parts, strict=False)
    ]
    lane, ts, hw, reported = (
        np.concatenate([part[k][rows] for part, rows in zip(parts, kept, strict=True)]) for k in range(4)
    )
    base = np.flatnonzero(moved[: len(before["hw"])] & (last[: len(before["hw"])] < 0))
    base = base[before["term_start"][base] != NULL]
    rows = np.stack([
        np.concatenate([base, lane]),
        np.concatenate([before["term_start"][base], ts]),
        np.concatenate([before["hw"][base], hw]),
        np.concatenate([before["reported"][base], reported]),
    ], axis=1)  # fmt: skip
    state.recent_hws = Arrays(RECENT)
    state.recent_hws.grow(len(rows))
    state.recent_hws.data[: len(rows)] = rows[np.argsort(rows[:, 0], kind="stable")]


@compiled
def _mark_moved(
    first: int, lane: I64, ts: I64, reported: I64, decided: I64, moved: npt.NDArray[np.bool_], last: I64, most: I64
) -> None:
    """Mark lanes that have rows after `decided` (by lane) as `moved`; write the `last` row before that of each, and
    to rows before it the most that was `reported` in their term by then."""
    for row in range(len(lane)):
        if ts[row] > decided[lane[row]]:
            moved[lane[row]] = True
            continue
        last[lane[row]] = first + row
        begins = reported[row] == NONE_YET
        most[lane[row]] = NONE_YET if begins else max(most[lane[row]], reported[row])
        reported[row] = most[lane[row]]


@compiled
def _rows_to_keep(first: int, lane: I64, ts: I64, decided: I64, moved: npt.NDArray[np.bool_], last: I64) -> I64:
    """Rows after `decided`, and the last one before that of each lane that has `moved`."""
    kept, count = np.empty(len(lane), dtype=np.int64), 0
    for row in range(len(lane)):
        if ts[row] > decided[lane[row]] or (moved[lane[row]] and last[lane[row]] == first + row):
            kept[count] = row
            count += 1
    return kept[:count]
