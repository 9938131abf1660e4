"""The handlers of events, one for each event type of a term."""

from __future__ import annotations

from pipelines.replication.compiled.decorators import hot, part, seldom
from pipelines.replication.compiled.records import Record
from pipelines.replication.compiled.types import NEVER, NULL
from pipelines.replication.term.bundles import Event, Run, Stats, Term, replica_in
from pipelines.replication.term.constants import (
    APPEND,
    BEGAN_MIDFLIGHT,
    ELECTION,
    FETCH,
    FOLLOWER,
    HW,
    ISR,
    LEADER,
    OF_FOLLOWER,
    PROPOSED,
    REJECTED,
    REPLICA_LEO,
    TRUNCATE,
    attempt_was_in_vain,
    fetches_of,
    first_not_below,
    lacks_fetches,
    replica_of,
)
from pipelines.replication.term.high_watermark import try_advance
from pipelines.replication.term.hw_reports import has_own_hw, is_own_report, on_report
from pipelines.replication.term.isr import on_isr
from pipelines.replication.term.kafka_rules import fetch_may_advance
from pipelines.replication.term.layout import IDLE, OPEN
from pipelines.replication.term.leadership import begin_midflight, end_term, start_term
from pipelines.replication.term.metadata_lookup import has_started_since, update_settings, version_at
from pipelines.replication.term.replica_slots import in_set, isr_of, mask_of, own_slot, replicas_of
from pipelines.replication.term.replica_sync import (
    follow_hw,
    leader_leo_grew,
    note_first_fetches,
    on_fetched,
    update_sync_state,
)
from pipelines.replication.term.report_as_evidence import is_contradicted, retract_report


@hot
def is_of_leader(kind: int) -> bool:
    """Whether only a leader's log has such rows."""
    return kind == FETCH or kind == APPEND or kind == HW or kind == REPLICA_LEO


@part
def handle(run: Run, term: Term, event: Event) -> None:
    """One handler per event type."""
    kind, row = event.kind, event.row
    if seldom(kind == LEADER):
        _on_leader(run, term, event)
    elif seldom(kind == FOLLOWER):
        _on_follower(term, event)
    elif kind == HW and seldom(not is_own_report(term.lane, replica_of(row.who), row.leo)):
        term.marks[event.position] |= OF_FOLLOWER
    elif seldom(kind == ELECTION or kind == TRUNCATE) or not _leads(run, term, event):
        return
    elif kind == APPEND or ((kind == FETCH or kind == REPLICA_LEO) and replica_of(row.who) == term.lane.broker):
        _on_append(run, term, event)
    elif kind == FETCH or kind == REPLICA_LEO:
        _on_replica_leo(run, term, event)
    elif kind == HW:
        on_report(term, run.timeline, run.stats, event, run.series[row.row], row.more, row.leader_leo)
    elif seldom(kind == ISR):
        _on_isr(run, term, event)
    elif seldom(kind == PROPOSED):
        _on_proposed(run, term, event)
    elif seldom(kind == REJECTED):
        term.lane.joining = term.lane.proposed_isr = 0


@hot
def _on_leader(run: Run, term: Term, event: Event) -> None:
    """`leader`: a term begins, by the rules of the version that its broker has now."""
    columns, rare = run.columns, event.row.more
    assigned = replicas_of(term, columns, rare)
    if assigned == 0:
        at = first_not_below(run.assigned.rows, rare)
        assigned = mask_of(term, run.assigned.ids, run.assigned.starts[at], run.assigned.starts[at + 1])
    _follow_version(run, term, event)
    start_term(term, run.timeline, run.stats, columns, event, run.series[event.row.row], assigned)


@hot
def _follow_version(run: Run, term: Term, event: Event) -> None:
    """A term keeps the rules of the version with which it begins."""
    term.lane.version = version_at(term.lane, run.timeline, event.now)
    update_settings(term.settings, run.cluster_rules, term.lane)


@hot
def _on_follower(term: Term, event: Event) -> None:
    """`follower`: the broker leads no more."""
    end_term(term, event.now)
    term.lane.deadline = NEVER


@hot
def _leads(run: Run, term: Term, event: Event) -> bool:
    """Whether the broker leads at this row: one that only a leader has may be the first of a term whose `leader` event
    is missing."""
    lane, kind, epoch = term.lane, event.kind, event.row.who >> 32
    if seldom(epoch != lane.leader_epoch and epoch >= 0 and lane.state != IDLE) and is_of_leader(kind):
        if epoch < lane.leader_epoch:  # another log of this broker told of a later term before
            return False
        if lane.leader_epoch >= 0:
            end_term(term, event.now)
    if seldom(lane.state == IDLE):
        if not is_of_leader(kind) and kind != PROPOSED:
            return False
        _follow_version(run, term, event)
        begin_midflight(lane, term.settings, run.timeline, event.row, event.now)
        term.marks[event.position] |= BEGAN_MIDFLIGHT
    return True


@hot
def _on_append(run: Run, term: Term, event: Event) -> None:
    """`append`, and the leader's own LEO: its log ends there."""
    lane, now = term.lane, event.now
    end, own = max(event.row.leader_leo, event.row.leo), own_slot(term)
    if seldom(lane.evidence_hw != NULL) and is_contradicted(lane, term.settings, own, end, now):
        retract_report(term, event, end)
    leader_leo_grew(term, end, now)
    lane.reported_leo = max(lane.reported_leo, end)
    lane.unknown_leos &= ~(1 << own)
    if not attempt_was_in_vain(lane, now):
        try_advance(term, run.timeline, run.stats, now, event.stat, OPEN)


@hot
def _on_replica_leo(run: Run, term: Term, event: Event) -> None:
    """`fetch` and `replica_leo`: a replica's LEO, by its fetch or by the leader's own record of it."""
    lane, settings, slot, now = term.lane, term.settings, event.slot, event.now
    leo, leader_leo, replica = event.row.leo, event.row.leader_leo, replica_in(term, slot)
    is_fetch = event.kind == FETCH
    if is_fetch and seldom(replica.epoch == NULL or not in_set(lane.isr, slot)):
        replica.epoch = max(event.row.more, -1)  # a member of the ISR cannot be another one than joined it
    false_report = seldom(lane.evidence_hw != NULL) and is_contradicted(lane, settings, slot, leo, now)
    if seldom(false_report) and (
        leo < replica.reported_leo or has_started_since(lane, settings, run.timeline, replica.id, lane.evidence_ts, now)
    ):
        false_report, lane.evidence_hw = False, NULL  # its log is shorter than it was when the report was true
    if seldom(false_report):
        retract_report(term, event, leo)
    leader_leo_grew(term, max(leader_leo, leo), now)
    lane.reported_leo = max(lane.reported_leo, max(leader_leo, leo))
    replica.reported_leo = leo
    changed = false_report or fetch_may_advance(replica.leo, leo)
    lane.unknown_leos &= ~(1 << slot)
    if leader_leo != NULL:
        lane.unknown_leos &= ~(1 << own_slot(term))
    replica.leo = leo
    if seldom(replica.first_fetch == NEVER) and leo >= 0:  # -1: it has not fetched yet
        note_first_fetches(term, 1 << slot)
    if is_fetch:
        on_fetched(term, slot, leo, leader_leo if leader_leo != NULL else lane.leader_leo, now)
        _count_lag(run.stats, lane, event, leo)
    elif seldom(lacks_fetches(lane)) and changed:
        on_fetched(term, slot, leo, lane.leader_leo, now)
    elif changed:
        update_sync_state(term, slot, now)
    if changed and not attempt_was_in_vain(lane, now):
        try_advance(term, run.timeline, run.stats, now, event.stat, OPEN)
    if seldom(settings.replica_hw == 1) and is_fetch:
        follow_hw(term, slot, now)


@hot
def _count_lag(stats: Stats, lane: Record, event: Event, leo: int) -> None:
    """Count the records by which a fetch was behind the leader's log end."""
    if lane.leader_leo != NULL:
        bucket = first_not_below(stats.bounds_records, max(lane.leader_leo - leo, 0))
        stats.lag[event.stat, bucket] += fetches_of(event.row.what)


@hot
def _on_isr(run: Run, term: Term, event: Event) -> None:
    """`isr`: a committed ISR; that of metadata comes with the HW that the leader had."""
    lane, rare = term.lane, event.row.more
    hw = run.columns.hw[rare]
    if hw > lane.hw and lane.hw != NULL and has_own_hw(lane, run.columns, rare):
        on_report(term, run.timeline, run.stats, event, run.series[event.row.row], hw, NULL)
    on_isr(term, run.timeline, run.stats, run.columns, event)


@hot
def _on_proposed(run: Run, term: Term, event: Event) -> None:
    """`isr_proposed`: the leader asks the controller for an ISR; who is new in it counts from now on."""
    lane = term.lane
    proposed = isr_of(term, run.columns, event.row.more)
    lane.joining = proposed & ~lane.isr
    lane.proposed_isr = proposed
    lane.proposed_ts = event.now
    for slot in range(lane.slots):
        if in_set(proposed, slot):
            replica_in(term, slot).ineligible_until = NULL
