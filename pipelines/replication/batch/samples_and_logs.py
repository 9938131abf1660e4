"""HWs that both the log of a leader and samples of it show: the log is finer and leads, the samples check it.

What is sampled in a term that the log tells, too, is held until it is known whether the log's rows go on past it: while
the log is silent nobody knows that, whatever a micro-batch has read further.
"""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import numpy.typing as npt

from pipelines.replication.batch.run_terms import TermResults
from pipelines.replication.batch.sampled_facts import SampledFacts
from pipelines.replication.batch.term_lookup import StateTermLookup
from pipelines.replication.compiled.records import Arrays, RecordLayout, Records, record_layout, records
from pipelines.replication.compiled.types import I64, MS, NEVER, NULL, NULL32
from pipelines.replication.rules import Rules
from pipelines.replication.samples.layout import HELD_HWS
from pipelines.replication.state.state import SAMPLED, State
from pipelines.replication.telemetry.coverage import CLOCK_JUMP_US
from pipelines.replication.telemetry.source import Source
from pipelines.replication.term.layout import ADVANCE, DISAGREE, HW_ROWS, IDLE, REPORT, SYNC_ROWS
from schemas.levels import LEAN

_TERM = record_layout(lane=-1, start=0, end=0, epoch=NULL32, level=0)
"""A term of a lane by the leader's log: until when it led, NEVER where it still does, and its level while all lines of
it were understood."""
_UNKNOWN = -1
"""The HW by a log that says nothing, or is not asked."""


class LoggedTerms:
    """The terms that logs tell, as of any time: what a batch has read further makes no difference."""

    def __init__(self, state: State) -> None:
        over = [(lane, start, end, term.epoch, term.level) for (lane, start), (end, term) in state.ended_terms.items()]
        led = np.flatnonzero((state.lanes["state"] != IDLE) & ~state.sampled_lanes())
        start, epoch = (state.lanes[name][led] for name in ("term_start", "leader_epoch"))
        level = np.maximum(state.lanes["level"][led], state.lanes["level_before"][led])
        running = np.column_stack([led, start, np.full(len(led), NEVER), epoch, level])
        rows = np.concatenate([np.array(over, dtype=np.int64).reshape(-1, len(_TERM.names)), running])
        self._rows = rows[np.lexsort((rows[:, _TERM.at.start], rows[:, _TERM.at.lane]))]

    def at(self, lanes: I64, ts: I64) -> Records:
        """The term that each of these lanes was in at a time, with lane -1 where it was in none."""
        count, at = len(self._rows), _TERM.at
        asked = np.arange(count + len(lanes)) >= count
        begins, of = np.append(self._rows[:, at.start], ts), np.append(self._rows[:, at.lane], lanes)
        order = np.lexsort((asked, begins, of))
        last = np.maximum.accumulate(np.where(asked[order], -1, order))
        place = np.empty(len(order), dtype=np.int64)
        place[order] = last
        found = np.concatenate([self._rows, records(_TERM, 1)])[place[count:]]
        found[(found[:, at.lane] != lanes) | (ts >= found[:, at.end])] = _TERM.defaults
        return found


def hold_logged_hws(state: State, rules: Rules, facts: SampledFacts) -> Records:
    """Take the rows of HW_ROWS out of `facts`: hold those of terms that the leader's log tells; return the others.

    The clocks may differ by the grace, so a log's HW counts so much after the sample; inside a term it only rises.
    """
    (hw, errors), at = facts.take_hws(), HW_ROWS.at
    compares = (hw[:, at.kind] == ADVANCE) & (errors <= CLOCK_JUMP_US)
    due = hw[:, at.ts] + np.where(compares, errors + rules.reorder_grace_ms * MS, 0)
    rows = np.column_stack([hw, due, np.where(compares, NULL, _UNKNOWN)])
    logged = _are_of_logged_terms(state, hw, HW_ROWS)
    _keep_hws(state, np.concatenate([state.held_hws.data[: state.held_hws.count], rows[logged]]))
    return hw[~logged]


def _keep_hws(state: State, rows: Records) -> None:
    """Hold these rows, whose replicas keep their entries."""
    state.held_hws = _arrays(HELD_HWS, rows)
    replicas, at = state.sampled.records["held"], HELD_HWS.at
    replicas[:] = 0
    record = state.sampled.find(state.lanes["partition"][rows[:, at.lane]])
    np.bitwise_or.at(replicas, record, rows[:, at.isr] | rows[:, at.holding])


def release_changes(state: State, facts: SampledFacts, low_watermarks: dict[int, int]) -> Records:
    """The rows of SYNC_ROWS, by now and held before, that the leader's log does not tell."""
    sync, ts = facts.changes(), SYNC_ROWS.at.ts
    logged = _are_of_logged_terms(state, sync, SYNC_ROWS)
    held = np.concatenate([state.held_changes.data[: state.held_changes.count], sync[logged]])
    due = held[:, ts] + CLOCK_JUMP_US <= _read_upto(state, held, low_watermarks)
    state.held_changes = _arrays(SYNC_ROWS, held[~due])
    decided = held[due]
    return np.concatenate([sync[~logged], decided[~_are_told(state, decided, decided[:, ts], decided[:, ts])]])


def release_hws(state: State, results: TermResults, lookup: StateTermLookup, low_watermarks: dict[int, int]) -> None:
    """Add the rows that are held of times past which the log does not go on, and a row for each sampled HW that it had
    not reached by then though it does."""
    rows, at = state.held_hws.data[: state.held_hws.count], HELD_HWS.at
    if not len(rows):
        return
    upto = _read_upto(state, rows, low_watermarks)
    asked = np.flatnonzero((rows[:, at.logged] == NULL) & (rows[:, at.due] <= upto))
    rows[asked, at.logged] = _logged_hws(state, lookup, rows[asked])
    told = rows[:, at.logged] > _UNKNOWN
    reached = told & (rows[:, at.logged] >= rows[:, at.reported])
    due = ~reached & (rows[:, at.due] + CLOCK_JUMP_US <= upto)
    goes_on = np.zeros(len(rows), dtype=np.bool_)
    goes_on[due] = _are_told(state, rows[due], rows[due, at.ts], rows[due, at.due])
    contradicted = rows[due & goes_on & told]
    contradicted[:, at.kind], contradicted[:, at.agreement] = REPORT, DISAGREE
    contradicted[:, at.hw], contradicted[:, at.holding] = contradicted[:, at.logged], 0
    found = np.concatenate([rows[due & ~goes_on], contradicted])[:, : len(HW_ROWS.names)]
    results.hw.add(np.ascontiguousarray(found[np.argsort(found[:, at.lane], kind="stable")]))
    if (reached | due).any():
        _keep_hws(state, rows[~(reached | due)])


def _arrays(layout: RecordLayout, rows: Records) -> Arrays:
    arrays = Arrays(layout, count=len(rows))
    arrays.data[: len(rows)] = rows
    return arrays


def _read_upto(state: State, rows: Records, low_watermarks: dict[int, int]) -> I64:
    """By row, whose first column is its lane, until when all of its cluster is read."""
    by_cluster = np.array([low_watermarks[k] for k in range(len(state.clusters.all))] or [NEVER], dtype=np.int64)
    upto: I64 = by_cluster[state.lanes["cluster"][rows[:, 0]]]
    return upto


def _log_lanes(state: State, rows: Records) -> I64:
    """By row, whose first column is the lane that samples fill, the lane that the leader's log fills, or -1."""
    lanes, which = np.unique(rows[:, 0], return_inverse=True)
    keys = (state.lane_keys.keys[lanes] & ~SAMPLED).tolist()
    return np.array([state.lane_keys.find(key) for key in keys], dtype=np.int64)[which]


def _are_of_logged_terms(state: State, rows: Records, layout: RecordLayout) -> npt.NDArray[np.bool_]:
    """By row whether the leader's log tells of that term, or a later one, at a level that shows HWs, and nothing of it
    was not understood by then."""
    if not len(rows):
        return np.zeros(0, dtype=np.bool_)
    ts = rows[:, layout.at.ts]
    terms = LoggedTerms(state).at(_log_lanes(state, rows), ts)
    levels, epochs = terms[:, _TERM.at.level], terms[:, _TERM.at.epoch]
    logged: npt.NDArray[np.bool_] = (levels >= LEAN) & (epochs >= rows[:, layout.at.leader_epoch])
    lane, start = terms[:, _TERM.at.lane], terms[:, _TERM.at.start]
    clusters, brokers = state.lanes["cluster"][lane], state.lanes["broker"][lane]
    for cluster, broker in {*state.misread_times, *state.last_misreads}:
        times, of = state.misreads(cluster, broker), (clusters == cluster) & (brokers == broker)
        logged[of] &= np.searchsorted(times, start[of], "right") == np.searchsorted(times, ts[of], "right")
    return logged


def _logged_hws(state: State, lookup: StateTermLookup, rows: Records) -> I64:
    """The HW by the leader's log when it must have reached a sampled one; unknown if nothing says."""
    due, at = rows[:, HELD_HWS.at.due], _TERM.at
    terms = LoggedTerms(state).at(_log_lanes(state, rows), due) if len(rows) else records(_TERM, 0)
    hws = np.full(len(rows), _UNKNOWN, dtype=np.int64)
    for k in np.flatnonzero(terms[:, at.epoch] == rows[:, HELD_HWS.at.leader_epoch]).tolist():
        hw = lookup.timeline.as_of(int(terms[k, at.lane]), int(terms[k, at.start]), int(due[k]))
        hws[k] = _UNKNOWN if hw is None else hw
    return hws


def _are_told(state: State, rows: Records, since: I64, until: I64) -> npt.NDArray[np.bool_]:
    """By row whether a log of its leader goes on from `since` to `until` without a missing row: one that told of this
    partition by then, in any incarnation, since one that its reader began anew may tell of it much later."""
    lanes = _log_lanes(state, rows)
    told_by: dict[int, dict[tuple[str, str], int]] = defaultdict(dict)
    incarnations: dict[tuple[str, str], list[Source]] = defaultdict(list)
    series = np.flatnonzero(np.isin(state.series["lane"], lanes[lanes >= 0]))
    of_series = (state.series[name][series].tolist() for name in ("lane", "source", "leads_since"))
    for lane, source, first in zip(*of_series, strict=True):
        name, tells_since = state.source_names.all[source][:2], told_by[lane]
        tells_since[name] = min(first, tells_since.get(name, first))
    for name, known in state.sources.known.items() if len(series) else ():
        incarnations[name[:2]].append(known)
    asked = zip(lanes.tolist(), since.tolist(), until.tolist(), strict=True)
    return np.array([
        any(
            first <= b + CLOCK_JUMP_US and log.tells(a, b, b + CLOCK_JUMP_US)
            for name, first in told_by[lane].items()
            for log in incarnations[name]
        )
        for lane, a, b in asked
    ], dtype=np.bool_)  # fmt: skip
