"""The kernel: what the leader's own telemetry says of its high watermark and its followers.

One pass over the rows of each lane, in the order of their numbers; a lane is a broker's leadership of one partition.
Rules and their sources (Apache Kafka classes) are in kafka_rules.
"""

from __future__ import annotations

import numpy as np

from pipelines.replication.compiled.decorators import hot, kernel, part, seldom
from pipelines.replication.compiled.records import Record, copy_record
from pipelines.replication.compiled.types import NEVER, NULL
from pipelines.replication.term.bundles import Event, Run, Stats, Term, hw_row, replica_in
from pipelines.replication.term.constants import (
    AFTER_GAP,
    APPEND,
    BEGAN_MIDFLIGHT,
    CONSUMED,
    DROPPED,
    ELECTION,
    ENDED_FULL,
    FETCH,
    FOLLOWER,
    HW,
    HW_FULL,
    ISR,
    KEEP_FULL,
    LEADER,
    OF_FOLLOWER,
    PROPOSED,
    REJECTED,
    REPLICA_LEO,
    SLOTS_FULL,
    SYNC_FULL,
    TRUNCATE,
    attempt_was_in_vain,
    fetches_of,
    first_not_below,
    kind_of,
    lacks_fetches,
    popcount,
    replica_of,
    stat_of,
)
from pipelines.replication.term.finality import finish_rows, pass_gaps, pause_after_gap
from pipelines.replication.term.high_watermark import try_advance
from pipelines.replication.term.hw_reports import (
    close_reports,
    excuse_open,
    has_own_hw,
    is_own_report,
    on_report,
    pass_cut_off,
    reports_wait,
)
from pipelines.replication.term.isr import on_isr, shrinks_below_assigned, update_under_min_isr
from pipelines.replication.term.kafka_rules import fetch_may_advance
from pipelines.replication.term.layout import IDLE, LEADING, OPEN
from pipelines.replication.term.leadership import begin_midflight, end_term, has_all_in_sync, start_term
from pipelines.replication.term.metadata_lookup import (
    compare_clocks,
    extra_wait,
    has_started_since,
    is_same_incarnation,
    settle_config,
    update_settings,
    version_at,
)
from pipelines.replication.term.replica_slots import (
    give_slot,
    give_slots,
    in_set,
    isr_of,
    mask_of,
    own_slot,
    replicas_of,
)
from pipelines.replication.term.replica_sync import (
    follow_hw,
    leader_leo_grew,
    on_fetched,
    pass_deadlines,
    update_sync_state,
)
from pipelines.replication.term.report_as_evidence import is_contradicted, retract_report


@kernel
def run_terms(run: Run) -> None:
    """Reads the rows of the jobs from `cursor.job` on.

    Returns early, with that at the job that did not fit and `cursor.full` saying why, when an output is full or when a
    lane's replica slots are: then ahead of the row that names one more replica, `cursor.row`, with which to go on.
    """
    cursor = run.cursor[0]
    while cursor.job < len(run.jobs):
        job = run.jobs[cursor.job]
        cursor.full = _full_output(run, job, cursor)
        if cursor.full:
            return
        lane, replicas = run.lanes[job.lane], run.replicas[job.lane]
        term = Term(
            job.lane, lane, replicas, run.settings[0], run.hw_rows, run.sync_rows, run.ended_rows, run.marks, cursor
        )
        _take_up(run, job, term)
        until = _read_rows(run, job, term)
        if cursor.row >= 0:
            cursor.full = SLOTS_FULL
            return
        pass_gaps(term, run.gaps, job.gaps_to, until)
        if lane.state != IDLE:
            pass_deadlines(term, until)
        kept = cursor.kept
        finish_rows(term, run.final_rows, run.kept_rows, until, job.final == 1)
        lane.carried = cursor.kept - kept
        cursor.job += 1


@hot
def _full_output(run: Run, job: Record, cursor: Record) -> int:
    """Which output may have no room for all that a job can write, 0 where each has."""
    rows = job.end - job.start
    hw_rows = 3 * rows + run.lanes[job.lane].carried + 4
    if cursor.final + hw_rows > len(run.final_rows):
        return HW_FULL
    if cursor.kept + hw_rows > len(run.kept_rows):
        return KEEP_FULL
    if cursor.sync + 4 * (rows + 2) * (run.replicas.shape[1] + 1) > len(run.sync_rows):
        return SYNC_FULL
    return ENDED_FULL if cursor.ended + rows + 1 > len(run.ended_rows) else 0


@hot
def _take_up(run: Run, job: Record, term: Term) -> None:
    """Begins a job where the run before ended; nothing but its rules where it goes on ahead of a row."""
    lane, cursor = term.lane, term.cursor
    update_settings(term.settings, run.cluster_rules, lane)
    give_slot(term, lane.broker)
    if cursor.row < 0:
        cursor.row, cursor.gap, cursor.hw = job.start, job.gaps_from, lane.carried
        for k in range(lane.carried):
            copy_record(hw_row(term, k), run.pending[run.pending_starts[term.number] + k])


@part
def _read_rows(run: Run, job: Record, term: Term) -> int:
    """Handles the rows of a job, up to one that has to wait for other sources; returns until when all is known.

    `cursor.row` is the first that names a replica for which there is no slot, -1 where there is none.
    """
    lane, until, start = term.lane, job.low_watermark, term.cursor.row
    term.cursor.row = -1
    for j in range(np.uint64(start), np.uint64(job.end)):
        row = run.rows[j]
        kind = kind_of(row.what)
        slot = _slot_for(run, term, row, kind)
        if seldom(slot < 0):
            term.cursor.row = np.int64(j)
            break
        now = min(row.ts, job.ceiling)
        clock = max(now, lane.last_ts)
        others = _needs_others(run, term, row, kind, slot, now)
        if seldom(others) and _has_to_wait(run, job, term, row, kind, clock):
            until = min(until, clock)
            break
        run.marks[j] |= CONSUMED
        if seldom(row.what & DROPPED != 0):
            continue
        event = Event(row, j, kind, slot, now, clock, stat_of(row.what), others)
        _pass_time(run, job, term, event)
        if seldom(kind < 0):
            pause_after_gap(lane, clock)
        else:
            _handle(run, term, event)
    return int(until)


@hot
def _slot_for(run: Run, term: Term, row: Record, kind: int) -> int:
    """The slot of the replica that a row is about, 0 where it is about none; -1 where the lane has no room for all that
    it names."""
    if kind == FETCH or kind == REPLICA_LEO:
        return give_slot(term, replica_of(row.who))
    if seldom(kind == LEADER or kind == ISR or kind == PROPOSED):
        return 0 if give_slots(term, run.columns, run.assigned, row.more, kind) else -1
    return 0


@hot
def _needs_others(run: Run, term: Term, row: Record, kind: int, slot: int, now: int) -> bool:
    """Whether what a row comes to depends on other sources: on states of brokers, configs, or a restart.

    While a leader has all assigned replicas in its ISR nothing of these does.
    """
    lane = term.lane
    needed = lane.state != LEADING or kind == LEADER
    needed = needed or popcount(lane.isr) < lane.assigned_count
    needed = needed or (kind == ISR and shrinks_below_assigned(lane, run.columns, row.more))
    if seldom(kind == FOLLOWER):
        needed = needed or reports_wait(term)
    if seldom(lane.witness != NULL and (kind == FETCH or kind == REPLICA_LEO)):
        needed = needed or is_contradicted(lane, term.settings, slot, row.leo, now)
    return needed


@hot
def _has_to_wait(run: Run, job: Record, term: Term, row: Record, kind: int, clock: int) -> bool:
    """Whether other sources have not reported up to a row that depends on them."""
    if clock + extra_wait(term.lane, term.settings) <= job.cluster_low_watermark:
        return False
    complete = kind == LEADER and has_all_in_sync(term.lane, run.columns, row.more, run.assigned)
    return not complete or clock > job.active_low_watermark


@hot
def _pass_time(run: Run, job: Record, term: Term, event: Event) -> None:
    """What is over by the time of a row: gaps, reports that wait, deadlines of replicas, settings."""
    lane, kind, clock = term.lane, event.kind, event.clock
    if seldom(event.row.what & AFTER_GAP != 0):
        pause_after_gap(lane, clock)
        excuse_open(term, lane.last_ts)
    if seldom(term.cursor.gap < job.gaps_to):
        held_at = lane.held_at
        pass_gaps(term, run.gaps, job.gaps_to, clock)
        if lane.held_at != held_at:
            excuse_open(term, lane.held_at)
    if seldom(kind == LEADER or kind == FOLLOWER):
        resumed = kind == LEADER and run.columns.leader_epoch[event.row.more] == lane.leader_epoch
        if resumed or not is_same_incarnation(lane, run.timeline, clock):
            close_reports(term)
        else:
            pass_cut_off(term, event)
    elif kind >= 0:
        pass_cut_off(term, event)
    else:
        excuse_open(term, lane.last_ts)
    lane.last_ts = clock
    run.stats.events[event.stat] += fetches_of(event.row.what)
    if kind < 0 or lane.state == IDLE:
        return
    pass_deadlines(term, clock + 1 if kind == FOLLOWER or kind == LEADER else clock)  # no row follows in an ended term
    if seldom(event.needs_others) and kind != LEADER:
        compare_clocks(lane, term.settings, run.timeline, clock)
        settle_config(lane, term.settings, run.timeline, event.now, False, _is_of_leader(kind))
        update_under_min_isr(term, event.now)


@hot
def _is_of_leader(kind: int) -> bool:
    """Whether only a leader's log has such rows."""
    return kind == FETCH or kind == APPEND or kind == HW or kind == REPLICA_LEO


@part
def _handle(run: Run, term: Term, event: Event) -> None:
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
        on_report(term, run.timeline, run.stats, event, row.more, row.leader_leo)
    elif seldom(kind == ISR):
        _on_isr(run, term, event)
    elif seldom(kind == PROPOSED):
        _on_proposed(run, term, event)
    elif seldom(kind == REJECTED):
        term.lane.joining = term.lane.asked = 0


@hot
def _on_leader(run: Run, term: Term, event: Event) -> None:
    """`leader`: a term begins, by the rules of the version that its broker has now."""
    columns, rare = run.columns, event.row.more
    assigned = replicas_of(term, columns, rare)
    if assigned == 0:
        at = first_not_below(run.assigned.rows, rare)
        assigned = mask_of(term, run.assigned.ids, run.assigned.starts[at], run.assigned.starts[at + 1])
    _follow_version(run, term, event)
    start_term(term, run.timeline, run.stats, columns, event, assigned)


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
    lane, kind = term.lane, event.kind
    if seldom(event.row.who >> 32 > lane.leader_epoch >= 0 and lane.state != IDLE) and _is_of_leader(kind):
        end_term(term, event.now)
    if seldom(lane.state == IDLE):
        if kind == ISR or kind == REJECTED:
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
    if seldom(lane.witness != NULL) and is_contradicted(lane, term.settings, own, end, now):
        retract_report(term, event, end)
    leader_leo_grew(term, end, now)
    lane.told_leo = max(lane.told_leo, end)
    lane.held &= ~(1 << own)
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
    false_report = seldom(lane.witness != NULL) and is_contradicted(lane, settings, slot, leo, now)
    if seldom(false_report) and has_started_since(lane, run.timeline, replica.id, lane.witness_ts, now):
        false_report = False  # its log is shorter than it was when the report was true
    if seldom(false_report):
        retract_report(term, event, leo)
    leader_leo_grew(term, max(leader_leo, leo), now)
    lane.told_leo = max(lane.told_leo, max(leader_leo, leo))
    replica.told = leo
    changed = false_report or fetch_may_advance(replica.leo, leo)
    lane.held &= ~(1 << slot)
    if leader_leo != NULL:
        lane.held &= ~(1 << own_slot(term))
    replica.leo = leo
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
    """How many records a fetch was behind the leader's end."""
    if lane.leader_leo != NULL:
        bucket = first_not_below(stats.bounds_records, max(lane.leader_leo - leo, 0))
        stats.lag[event.stat, bucket] += fetches_of(event.row.what)


@hot
def _on_isr(run: Run, term: Term, event: Event) -> None:
    """`isr`: a committed ISR; that of metadata comes with the HW that the leader had."""
    lane, rare = term.lane, event.row.more
    hw = run.columns.hw[rare]
    if hw > lane.hw and lane.hw != NULL and has_own_hw(lane, run.columns, rare):
        on_report(term, run.timeline, run.stats, event, hw, NULL)
    on_isr(term, run.timeline, run.stats, run.columns, event)


@hot
def _on_proposed(run: Run, term: Term, event: Event) -> None:
    """`isr_proposed`: the leader asks the controller for an ISR; who is new in it counts from now on."""
    lane = term.lane
    asked = isr_of(term, run.columns, event.row.more)
    lane.joining = asked & ~lane.isr
    lane.asked = asked
    lane.asked_ts = event.now
    for slot in range(lane.slots):
        if in_set(asked, slot):
            replica_in(term, slot).barred = NULL
