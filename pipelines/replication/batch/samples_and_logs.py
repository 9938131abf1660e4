"""Where both the log of a leader and samples of it show HWs: the log is finer and leads, the samples check it."""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

from pipelines.replication.batch.run_terms import TermResults
from pipelines.replication.batch.sampled_lanes import SampledLanes
from pipelines.replication.batch.term_lookup import StateTermLookup
from pipelines.replication.compiled.types import MS, NEVER
from pipelines.replication.rules import Rules
from pipelines.replication.samples.observe import Found, HwFact, SyncFact
from pipelines.replication.samples.partition import Check, SampledPartition
from pipelines.replication.state.state import State
from pipelines.replication.term.layout import ADVANCE, DISAGREE, IDLE, REPORT
from schemas.levels import LEAN


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


def yield_to_logs(state: State, logged: LoggedTerms, number: int, found: Found) -> None:
    """Drops the facts of samples that the leader's log shows, too; HWs are kept to be checked against it."""
    one = state.watched.partitions[number]
    by_log = [fact for fact in found.hw if _log_shows(state, logged, number, fact)]
    if by_log:
        found.hw = [fact for fact in found.hw if fact not in by_log]
        one.unchecked += [
            Check(fact.ts, fact.error, fact.leader, fact.epoch, fact.reported)
            for fact in by_log
            if fact.kind == ADVANCE and fact.reported is not None
        ]
    found.sync = [fact for fact in found.sync if not _log_shows(state, logged, number, fact)]


def _log_shows(state: State, logged: LoggedTerms, number: int, fact: HwFact | SyncFact) -> bool:
    """Whether the log of the leader was at a level that shows HWs then, and has reported past this fact."""
    lane = state.lane_of(number, fact.leader)
    term = logged.at(lane, fact.ts)
    if term is None or term.level < LEAN or term.epoch < fact.epoch:
        return False
    home = int(state.lanes["home"][lane])
    source = state.sources.known.get(state.source_names.all[home]) if home >= 0 else None
    return source is not None and source.low_watermark >= fact.ts


def check_against_logs(
    state: State, rules: Rules, results: TermResults, lookup: StateTermLookup, low_watermarks: dict[int, int]
) -> None:
    """Adds a row for each sampled HW that its leader's log had not reached by then.

    The clocks may differ by the grace, so the log's HW counts so much after the sample; inside a term it only rises.
    """
    lanes = SampledLanes(state, results.hw)
    for number, one in state.watched.partitions.items():
        if one.unchecked:
            ready = _take_ready(state, number, one, rules, low_watermarks)
            found = Found(hw=_contradictions(state, number, ready, rules, lookup))
            lanes.add_facts(number, found)
    results.hw.add(lanes.hw_rows())


def _take_ready(
    state: State, number: int, one: SampledPartition, rules: Rules, low_watermarks: dict[int, int]
) -> list[Check]:
    """Removes and returns the checks for which everything has been reported."""
    upto = low_watermarks[state.clusters.number(state.place(number)[0])]
    ready = [check for check in one.unchecked if _due(check, rules) <= upto]
    one.unchecked = [check for check in one.unchecked if check not in ready]
    return ready


def _contradictions(
    state: State, number: int, ready: list[Check], rules: Rules, lookup: StateTermLookup
) -> list[HwFact]:
    one, logged = state.watched.partitions[number], LoggedTerms(state)
    found = []
    for check in ready:
        lane = state.lane_of(number, check.leader)
        term = logged.at(lane, _due(check, rules))
        if term is None or term.epoch != check.epoch:
            continue
        hw = lookup.timeline.as_of(lane, term.start, _due(check, rules))
        hw = term.hw if hw is None else hw
        if hw is not None and hw < check.hw:
            found.append(
                HwFact(
                    check.leader, check.epoch, check.ts, REPORT, DISAGREE, hw, check.hw, None, one.isr or (), (), False,
                    one.topic_id,
                )
            )  # fmt: skip
    return found


def _due(check: Check, rules: Rules) -> int:
    """When the log must have reached a sampled HW, by its own clock."""
    return check.ts + check.error + rules.reorder_grace_ms * MS
