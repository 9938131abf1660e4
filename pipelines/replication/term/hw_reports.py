"""The HWs that a broker reports, compared with the computed ones.

A broker prints the HW before and after each rise, so the reports of a term form a chain, in whatever order its threads
print them. A report of a value that was never computed is a race of threads where the chain links it on both sides, and
it lies between the HW computed before and after it: see open_reports and report_agreement.
"""

from __future__ import annotations

from pipelines.replication.compiled.decorators import hot, kernel, seldom
from pipelines.replication.compiled.records import Record
from pipelines.replication.compiled.types import NULL, NULL32
from pipelines.replication.events.columns import BY_METADATA, Columns
from pipelines.replication.metadata.layout import Timeline
from pipelines.replication.term.bundles import Event, Stats, Term, hw_row, last_row, replica_in
from pipelines.replication.term.constants import MOVED_BACK, lacks_fetches
from pipelines.replication.term.high_watermark import agree, in_maximal_isr, last_open, lowest_leo, try_advance
from pipelines.replication.term.kafka_rules import maximal_isr
from pipelines.replication.term.layout import ADVANCE, EXACT, FREEZE, IDLE, ONLY_WITNESS, OPEN, RACE, THAW, UNREPORTED
from pipelines.replication.term.metadata_lookup import state_of
from pipelines.replication.term.open_reports import EXCUSED, await_no_more, fills_gap, leave_open, link, witness
from pipelines.replication.term.replica_slots import own_slot
from pipelines.replication.term.replica_sync import leader_leo_grew
from pipelines.replication.term.report_as_evidence import (
    accept_report,
    chain_refutes,
    raise_leos,
    remember_report,
    retract_report,
)


@kernel
def on_report(
    term: Term, timeline: Timeline, stats: Stats, event: Event, series: int, hw: int, before: int
) -> None:  # fmt: skip
    """The broker says its HW became `hw`, from `before`: compare, or accept it where nothing else is known."""
    lane, now = term.lane, event.now
    if seldom(lane.evidence_hw != NULL) and chain_refutes(lane, hw, before):
        retract_report(term, event, before)
    _count_low(term, event, series, hw, before)
    if lane.hw == NULL or lane.isr_known == 0 or (lane.unknown_leos != 0 and hw > lane.hw):
        if lane.leader_leo != NULL:
            leader_leo_grew(term, hw, now)
        accept_report(term, stats, event, hw, before)
        return
    at = last_open(term, ADVANCE, hw, now)
    if at < 0 and seldom(hw > lane.hw):
        at = _attempt_of(term, timeline, stats, event, hw)
    if at >= 0:
        _match(term, at, hw, before, now)
        return
    _on_unmatched(term, timeline, stats, event, hw, before)


@hot
def _match(term: Term, at: int, hw: int, before: int, now: int) -> None:
    """The report of a computed HW."""
    lane, row = term.lane, hw_row(term, at)
    row.agreement = EXACT if hw == lane.hw else RACE
    row.reported, row.hw_before = hw, before
    if seldom(lane.reports_open == 1):
        await_no_more(term, at)
    link(term, before, now)
    agree(lane, hw)


@kernel
def _attempt_of(term: Term, timeline: Timeline, stats: Stats, event: Event, hw: int) -> int:
    """The row of the HW from an attempt that only this report shows, else -1."""
    lane, now = term.lane, event.now
    unaware = term.settings.strict_min_isr == 1 and lane.frozen == 1 and _just_frozen(term, now)
    if unaware:
        lane.frozen = 0
    at = -1
    lowest, _ = lowest_leo(term, timeline, now)
    if lowest == hw:
        try_advance(term, timeline, stats, now, event.stat, OPEN)
        at = last_open(term, ADVANCE, hw, now)
    if unaware:
        lane.frozen = 1
    return at


@kernel
def _on_unmatched(term: Term, timeline: Timeline, stats: Stats, event: Event, hw: int, before: int) -> None:
    """A report of a value that was not computed: of a leader alone in its ISR, or whose log has no fetches, it says
    what LEOs are; any other stays open."""
    lane, now = term.lane, event.now
    alone = maximal_isr(lane.isr, lane.joining) == 1 << max(own_slot(term), 0)
    awaited = last_open(term, ADVANCE, NULL, now) if alone else -1
    if awaited >= 0:
        row = hw_row(term, awaited)
        passed_over = lacks_fetches(lane) and before != NULL and before < row.hw < hw
        if not passed_over:  # this is the report of that value, and says another
            row.agreement = UNREPORTED
            leave_open(term, hw, before, now)
            return
    known = lane.leader_leo != NULL and hw <= lane.leader_leo
    may_move = not (term.settings.strict_min_isr == 1 and lane.frozen == 1)
    if alone and not known and may_move and _advanced_alone(term, timeline, stats, event, hw, before):
        return
    if lacks_fetches(lane) and hw > lane.hw:
        raise_leos(term, hw, now)
        remember_report(lane, hw, now)
        link(term, before, now)
        accept_report(term, stats, event, hw, before)
        return
    uncertain = hw > lane.hw and _is_held_by_guess(term, timeline, hw, now)
    leave_open(term, hw, before, now)
    row = last_row(term)
    if seldom(uncertain) and row.agreement == OPEN:
        row.holding |= EXCUSED
        witness(term, hw, NULL)


@kernel
def _advanced_alone(term: Term, timeline: Timeline, stats: Stats, event: Event, hw: int, before: int) -> bool:
    """Whether the log of a leader that is alone in its ISR ends at what it reports: then the HW is there."""
    lane, now = term.lane, event.now
    remember_report(lane, hw, now)
    leader_leo_grew(term, hw, now)
    lowest, _ = lowest_leo(term, timeline, now)
    if lowest != hw:
        lane.evidence_hw = NULL
        return False
    try_advance(term, timeline, stats, now, event.stat, ONLY_WITNESS)
    last_row(term).hw_before = before
    link(term, before, now)
    agree(lane, hw)
    return True


@kernel
def _is_held_by_guess(term: Term, timeline: Timeline, hw: int, now: int) -> bool:
    """Whether only replicas outside the ISR hold the HW below `hw`, and it is not known that they do: fetches are
    missing that say if they caught up, or the leader may not know yet what the controller reported of one."""
    lane, unaware = term.lane, False
    missed = lane.missed != NULL and now - lane.missed <= 2 * lane.lag_max
    recent = now - lane.clock_offset - 2 * term.settings.race_window
    for slot in range(lane.slots):
        replica = replica_in(term, slot)
        if replica.id == lane.broker or replica.leo >= hw:
            continue
        if in_maximal_isr(lane, slot):
            return False
        known = state_of(lane, timeline, replica.id, now)
        unaware = unaware or (known >= 0 and timeline.brokers[known].ts > recent)
    return bool(hw <= lane.leader_leo and (missed or unaware))


@kernel
def _just_frozen(term: Term, now: int) -> bool:
    """Whether the HW stands still since no more than a race window: this leader may not know why, or a thread of its
    own prints what it did before."""
    for at in range(term.cursor.hw - 1, -1, -1):
        row = hw_row(term, at)
        if row.ts < now - term.settings.race_window or row.kind == THAW:
            return False
        if row.kind == FREEZE:
            return True
    return False


@hot
def _count_low(term: Term, event: Event, series: int, hw: int, before: int) -> None:
    """Count successive reports below an earlier one of the same run; one that fills a gap of the chain was only
    printed late.

    Behind a seam, or where times fall, the lower one may be the older: its line is told again, or late.
    """
    lane = term.lane
    if seldom(lane.agreed != NULL and hw < lane.agreed):
        later = series == lane.told_by and event.now >= lane.told_ts
        if later and not fills_gap(lane, hw, before):
            lane.low_reports += 1
            if lane.low_reports == 2:
                term.marks[event.position] |= MOVED_BACK
                event.row.leader_leo = lane.agreed
    else:
        lane.low_reports = 0
        lane.told_by, lane.told_ts = series, event.now


@hot
def is_own_report(lane: Record, replica_id: int, leader_id: int) -> bool:
    """An `hw` row of the leader's HW, not of this broker's as a follower."""
    if replica_id != lane.broker:
        return False
    return leader_id == lane.broker or (leader_id == NULL32 and lane.state != IDLE)


@kernel
def has_own_hw(lane: Record, columns: Columns, rare: int) -> bool:
    """An `isr` row with the HW that this broker had as the leader when it took the change in.

    At level 0 it is one of few, and says nothing of LEOs since.
    """
    if lane.level == 0:
        return False
    leads = columns.leader_id[rare] == NULL32 or columns.leader_id[rare] == lane.broker
    same = columns.leader_epoch[rare] == lane.leader_epoch and columns.topic_id[rare] == lane.topic_id
    return bool(leads and same and columns.isr_from_whom[rare] == BY_METADATA)
