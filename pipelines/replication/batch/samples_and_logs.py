"""Where both the log of a leader and samples of it show HWs: the log is finer and leads, the samples check it."""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pipelines.replication.batch.run_terms import TermResults
from pipelines.replication.batch.sampled_facts import SampledFacts
from pipelines.replication.batch.term_lookup import StateTermLookup
from pipelines.replication.compiled.records import Records, records
from pipelines.replication.compiled.types import MS, NEVER, NULL
from pipelines.replication.rules import Rules
from pipelines.replication.samples.layout import SAMPLED
from pipelines.replication.samples.watched import Check
from pipelines.replication.state.state import State
from pipelines.replication.term.layout import ADVANCE, DISAGREE, HW_ROWS, IDLE, REPORT, SYNC_ROWS
from schemas.levels import LEAN, POLLED


class LoggedTerm(NamedTuple):
    """A term of a lane by the leader's log: until when it led, NEVER where it still does, and its last HW."""

    start: int
    end: int
    epoch: int
    level: int
    hw: int | None


class LoggedTerms:
    """The terms that logs tell, as of any time: what a batch has read further makes no difference."""

    def __init__(self, state: State) -> None:
        self._state = state

    @cached_property
    def _over(self) -> dict[int, list[LoggedTerm]]:
        found: dict[int, list[LoggedTerm]] = {}
        for (lane, start), (end, term) in self._state.ended_terms.items():
            found.setdefault(lane, []).append(LoggedTerm(start, end, term.epoch, term.level, term.hmax))
        return found

    def at(self, lane: int, ts: int) -> LoggedTerm | None:
        """The term that a lane was in at a time."""
        if lane < 0:
            return None
        of = {
            name: int(self._state.lanes[name][lane]) for name in ("state", "term_start", "leader_epoch", "level", "hw")
        }
        terms = list(self._over.get(lane, ()))
        if of["state"] != IDLE:
            terms.append(LoggedTerm(of["term_start"], NEVER, of["leader_epoch"], of["level"], of["hw"]))
        return max((term for term in terms if term.start <= ts < term.end), default=None)


def without_logged_hws(state: State, facts: SampledFacts) -> Records:
    """Takes the rows of HW_ROWS that the leader's log does not show; the others' HWs are kept to be checked against
    it."""
    hw, errors = facts.take_hws()
    at = HW_ROWS.at
    by_log = _shown_by_log(state, hw[:, [at.lane, at.ts, at.leader_epoch]])
    checked = by_log & (hw[:, at.kind] == ADVANCE) & (hw[:, at.reported] != NULL)
    for fact, error in zip(hw[checked].tolist(), errors[checked].tolist(), strict=True):
        number, leader = (int(state.lanes[name][fact[at.lane]]) for name in ("partition", "broker"))
        check = Check(fact[at.ts], error, leader, fact[at.leader_epoch], fact[at.reported])
        state.watched.checks.setdefault(number, []).append(check)
    return hw[~by_log]


def without_logged_changes(state: State, facts: SampledFacts) -> Records:
    """The rows of SYNC_ROWS that the leader's log does not show."""
    sync, at = facts.changes(), SYNC_ROWS.at
    return sync[~_shown_by_log(state, sync[:, [at.lane, at.ts, at.leader_epoch]])]


def _shown_by_log(state: State, facts: Records) -> npt.NDArray[np.bool_]:
    """By fact (lane, time, leader epoch) whether the log of the leader was at a level that shows HWs then, and has
    reported past it."""
    logged = LoggedTerms(state)
    of_logs = np.zeros(state.partition_keys.count, dtype=np.bool_)
    of_logs[state.lanes["partition"][(state.lanes["level"] >= LEAN) & ~state.sampled_lanes()]] = True
    shown: npt.NDArray[np.bool_] = of_logs[state.lanes["partition"][facts[:, 0]]]
    shown[shown] = [_log_shows(state, logged, *fact) for fact in facts[shown].tolist()]
    return shown


def _log_shows(state: State, logged: LoggedTerms, lane: int, ts: int, epoch: int) -> bool:
    lane = state.lane_of(int(state.lanes["partition"][lane]), int(state.lanes["broker"][lane]))
    term = logged.at(lane, ts)
    if term is None or term.level < LEAN or term.epoch < epoch:
        return False
    home = int(state.lanes["home"][lane])
    source = state.sources.known.get(state.source_names.all[home]) if home >= 0 else None
    return source is not None and source.low_watermark >= ts


def check_against_logs(
    state: State, rules: Rules, results: TermResults, lookup: StateTermLookup, low_watermarks: dict[int, int]
) -> None:
    """Adds a row for each sampled HW that its leader's log had not reached by then.

    The clocks may differ by the grace, so the log's HW counts so much after the sample; inside a term it only rises.
    """
    logged, found = LoggedTerms(state), []
    for number, checks in list(state.watched.checks.items()):
        upto = low_watermarks[state.clusters.number(state.place(number)[0])]
        ready = [check for check in checks if _due(check, rules) <= upto]
        state.watched.checks[number] = [check for check in checks if check not in ready]
        if not state.watched.checks[number]:
            del state.watched.checks[number]
        for check in ready:
            hw = _logged_hw(state, logged, lookup, state.lane_of(number, check.leader), check, _due(check, rules))
            if hw is not None and hw < check.hw:
                found.append(_contradiction(state, number, check, hw))
    rows = np.concatenate([records(HW_ROWS, 0), *found])
    lanes = rows[:, HW_ROWS.at.lane]
    SampledFacts(state).name(state.sampled.find(state.lanes["partition"][lanes]), lanes)
    results.hw.add(np.ascontiguousarray(rows[np.argsort(rows[:, HW_ROWS.at.lane], kind="stable")]))


def _logged_hw(
    state: State, logged: LoggedTerms, lookup: StateTermLookup, lane: int, check: Check, due: int
) -> int | None:
    """The HW by the leader's log when it must have reached a sampled one; None if nothing says."""
    term = logged.at(lane, due)
    if term is None or term.epoch != check.epoch:
        return None
    hw = lookup.timeline.as_of(lane, term.start, due)
    return term.hw if hw is None else hw


def _contradiction(state: State, number: int, check: Check, hw: int) -> Records:
    """A row of HW_ROWS: the sample reports more than the log had reached."""
    row = records(HW_ROWS, 1)
    of = dict(zip(SAMPLED.names, state.sampled.records.data[state.sampled.find(np.array([number]))[0]], strict=True))
    values = {
        "lane": state.sampled_lane(number, check.leader), "ts": check.ts, "kind": REPORT, "agreement": DISAGREE,
        "hw": hw, "reported": check.hw, "isr": max(of["isr"], 0), "leader_epoch": check.epoch,
        "topic_id": of["topic_id"], "level": POLLED,
    }  # fmt: skip
    for name, value in values.items():
        row[0, getattr(HW_ROWS.at, name)] = value
    return row


def _due(check: Check, rules: Rules) -> int:
    """When the log must have reached a sampled HW, by its own clock."""
    return check.ts + check.error + rules.reorder_grace_ms * MS
