"""Where both the log of a leader and samples of it show HWs: the log is finer and leads, the samples check it."""

from __future__ import annotations

from pipelines.replication.batch.run_terms import TermResults
from pipelines.replication.batch.sampled_lanes import SampledLanes
from pipelines.replication.batch.term_lookup import StateTermLookup
from pipelines.replication.compiled.types import MS
from pipelines.replication.rules import Rules
from pipelines.replication.samples.observe import Found, HwFact, SyncFact
from pipelines.replication.samples.partition import Check, SampledPartition
from pipelines.replication.state.state import State
from pipelines.replication.term.layout import ADVANCE, DISAGREE, IDLE, REPORT
from schemas.levels import LEAN


def yield_to_logs(state: State, number: int, found: Found) -> None:
    """Drops the facts of samples that the leader's log shows, too; HWs are kept to be checked against it."""
    one = state.watched.partitions[number]
    by_log = [fact for fact in found.hw if _log_shows(state, number, fact)]
    if by_log:
        found.hw = [fact for fact in found.hw if fact not in by_log]
        one.unchecked += [
            Check(fact.ts, fact.error, fact.leader, fact.epoch, fact.reported)
            for fact in by_log
            if fact.kind == ADVANCE and fact.reported is not None
        ]
    found.sync = [fact for fact in found.sync if not _log_shows(state, number, fact)]


def _log_shows(state: State, number: int, fact: HwFact | SyncFact) -> bool:
    """Whether the log of the leader is at a level that shows HWs, and has reported past this fact."""
    lane = state.lane_of(number, fact.leader)
    if lane < 0 or state.lanes["level"][lane] < LEAN or state.lanes["leader_epoch"][lane] < fact.epoch:
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
    one = state.watched.partitions[number]
    found = []
    for check in ready:
        lane = state.lane_of(number, check.leader)
        started = int(state.lanes["term_start"][lane])
        if state.lanes["state"][lane] == IDLE or state.lanes["leader_epoch"][lane] != check.epoch:
            continue
        hw = lookup.timeline.as_of(lane, started, _due(check, rules))
        hw = int(state.lanes["hw"][lane]) if hw is None else hw
        if hw < check.hw:
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
