"""The kernel: what the leader's own telemetry says of its high watermark and its followers.

One pass over the rows of each lane, in the order of their numbers; a lane is a broker's leadership of one partition.
What each event does is in handlers; rules and their sources (Apache Kafka classes) are in kafka_rules.
"""

from __future__ import annotations

import numpy as np

from pipelines.replication.compiled.decorators import hot, kernel, part, seldom
from pipelines.replication.compiled.records import Record, copy_record
from pipelines.replication.compiled.types import MOST_REPLICAS, NEVER, NULL
from pipelines.replication.term.bundles import Event, Run, Term, hw_row
from pipelines.replication.term.constants import (
    AFTER_GAP,
    CONSUMED,
    DROPPED,
    ENDED_FULL,
    FETCH,
    FOLLOWER,
    HW_FULL,
    ISR,
    KEEP_FULL,
    LEADER,
    PROPOSED,
    REPLICA_LEO,
    SLOTS_FULL,
    SYNC_FULL,
    fetches_of,
    kind_of,
    popcount,
    replica_of,
    stat_of,
)
from pipelines.replication.term.finality import finish_rows, pass_gaps, pause_after_gap
from pipelines.replication.term.handlers import handle, is_of_leader
from pipelines.replication.term.isr import shrinks_below_assigned, update_under_min_isr
from pipelines.replication.term.layout import IDLE, LEADING
from pipelines.replication.term.leadership import has_all_in_sync
from pipelines.replication.term.metadata_lookup import (
    compare_clocks,
    extra_wait,
    is_same_incarnation,
    settle_config,
    update_settings,
)
from pipelines.replication.term.replica_slots import give_slot, give_slots
from pipelines.replication.term.replica_sync import pass_deadlines
from pipelines.replication.term.report_agreement import close_reports, excuse_open, pass_cut_off, reports_wait
from pipelines.replication.term.report_as_evidence import is_contradicted
from pipelines.replication.term.slot_reuse import free_slots, listed_in, named_by, slots_in_use


@kernel
def run_terms(run: Run) -> None:
    """Read the rows of the jobs from `cursor.job` on.

    Returns early, with that at the job that did not fit and `cursor.full` saying why, when an output is full or when a
    lane's replica slots are: then ahead of the row that names one more replica, `cursor.row`, with which to go on. Of a
    lane with MOST_REPLICAS all is then as if the micro-batch had ended there, and slots are freed before it goes on.
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
        if seldom(cursor.row >= 0):
            cursor.full = SLOTS_FULL
            if run.replicas.shape[1] < MOST_REPLICAS:
                return
        pass_gaps(term, run.gaps, job.gaps_to, until)
        if lane.state != IDLE:
            pass_deadlines(term, until)
        kept = cursor.kept
        finish_rows(term, run.final_rows, run.kept_rows, until, job.final == 1 and cursor.row < 0)
        lane.pending = cursor.kept - kept
        if seldom(cursor.row >= 0):
            _take_back(run, term)
            return
        cursor.job += 1


@hot
def _full_output(run: Run, job: Record, cursor: Record) -> int:
    """The output that may lack room for all that a job can write, 0 if none does."""
    rows = job.end - job.start
    hw_rows = 3 * rows + run.lanes[job.lane].pending + 4
    if cursor.final + hw_rows > len(run.final_rows):
        return HW_FULL
    if cursor.kept + hw_rows > len(run.kept_rows):
        return KEEP_FULL
    if cursor.sync + 4 * (rows + 2) * (run.replicas.shape[1] + 1) > len(run.sync_rows):
        return SYNC_FULL
    return ENDED_FULL if cursor.ended + 2 * (rows + 1) > len(run.ended_rows) else 0


@hot
def _take_up(run: Run, job: Record, term: Term) -> None:
    """Begin a job where the run before ended; nothing but its rules where it goes on ahead of a row."""
    lane, cursor = term.lane, term.cursor
    update_settings(term.settings, run.cluster_rules, lane)
    give_slot(term, lane.broker)
    if cursor.row < 0:
        cursor.row, cursor.gap, cursor.hw = job.start, job.gaps_from, lane.pending
        for k in range(lane.pending):
            copy_record(hw_row(term, k), run.pending[run.pending_starts[term.number] + k])
    elif lane.slots == MOST_REPLICAS:
        row = run.rows[cursor.row]
        listed, named = _named_in(run, term)
        free_slots(term, listed, named, max(min(row.ts, job.ceiling), lane.last_ts))


@kernel
def _take_back(run: Run, term: Term) -> None:
    """The rows that wait, which a job goes on with; they become final where they take up all slots."""
    lane, cursor = term.lane, term.cursor
    cursor.kept -= lane.pending
    for k in range(lane.pending):
        copy_record(hw_row(term, k), run.kept_rows[cursor.kept + k])
    cursor.hw = lane.pending
    _, named = _named_in(run, term)
    if popcount(slots_in_use(term, named)) == MOST_REPLICAS:
        finish_rows(term, run.final_rows, run.kept_rows, lane.last_ts, True)
        cursor.hw = lane.pending = 0


@hot
def _named_in(run: Run, term: Term) -> tuple[int, int]:
    """Masks of the replicas with a slot that the row at `cursor.row` names: in its lists, and in all."""
    row = run.rows[term.cursor.row]
    kind = kind_of(row.what)
    if kind == FETCH or kind == REPLICA_LEO:
        return 0, 0
    return listed_in(term, run.columns, row.more), named_by(term, run.columns, run.assigned, row.more, kind)


@part
def _read_rows(run: Run, job: Record, term: Term) -> int:
    """Handles the rows of a job, up to one that has to wait for other sources; returns until when all is known.

    `cursor.row` is the first that names a replica for which there is no slot, -1 where there is none.
    """
    lane, until, start = term.lane, job.low_watermark, term.cursor.row
    term.cursor.row = -1
    for j in range(np.uint64(start), np.uint64(job.end)):
        row = run.rows[j]
        if seldom(row.what & DROPPED != 0):  # whatever others tell, it counts for nothing
            run.marks[j] |= CONSUMED
            continue
        kind = kind_of(row.what)
        slot = _slot_for(run, term, row, kind, np.int64(j))
        now = min(row.ts, job.ceiling)
        clock = max(now, lane.last_ts)
        if seldom(slot < 0):
            term.cursor.row = np.int64(j)
            until = min(until, clock)
            break
        others = _needs_others(run, term, row, kind, slot, now)
        if seldom(others or job.beside_others == 1) and _has_to_wait(run, job, term, row, kind, clock):
            until = min(until, clock)
            break
        run.marks[j] |= CONSUMED
        event = Event(row, j, kind, slot, now, clock, stat_of(row.what), others)
        _pass_time(run, job, term, event)
        if seldom(kind < 0):
            pause_after_gap(lane, clock)
        else:
            handle(run, term, event)
    return int(until)


@hot
def _slot_for(run: Run, term: Term, row: Record, kind: int, position: np.int64) -> int:
    """The slot of the replica that a row is about, 0 where it is about none; -1 where the lane has no room for all that
    it names, and can be given more."""
    if kind == FETCH or kind == REPLICA_LEO:
        return give_slot(term, replica_of(row.who))
    if seldom(kind == LEADER or kind == ISR or kind == PROPOSED):
        room = give_slots(term, run.columns, run.assigned, row.more, kind)
        return 0 if room or position == term.cursor.crowded else -1
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
    if seldom(lane.evidence_hw != NULL and (kind == FETCH or kind == REPLICA_LEO)):
        needed = needed or is_contradicted(lane, term.settings, slot, row.leo, now)
    return needed


@hot
def _has_to_wait(run: Run, job: Record, term: Term, row: Record, kind: int, clock: int) -> bool:
    """Whether other sources have not reported up to a row that depends on them."""
    if clock + extra_wait(term.lane, term.settings) <= job.cluster_low_watermark:
        return False
    complete = (
        job.beside_others == 0 and kind == LEADER and has_all_in_sync(term.lane, run.columns, row.more, run.assigned)
    )
    return not complete or clock > job.active_low_watermark


@hot
def _pass_time(run: Run, job: Record, term: Term, event: Event) -> None:
    """Settle everything due by the time of a row: gaps, waiting reports, deadlines of replicas, settings."""
    lane, kind, clock = term.lane, event.kind, event.clock
    if seldom(event.row.what & AFTER_GAP != 0):
        pause_after_gap(lane, clock)
        excuse_open(term, lane.last_ts)
    if seldom(term.cursor.gap < job.gaps_to):
        paused_at = lane.paused_at
        pass_gaps(term, run.gaps, job.gaps_to, clock)
        if lane.paused_at != paused_at:
            excuse_open(term, lane.paused_at)
    if seldom(kind == LEADER or kind == FOLLOWER):
        resumed = kind == LEADER and run.columns.leader_epoch[event.row.more] == lane.leader_epoch
        if resumed or not is_same_incarnation(lane, run.timeline, clock):
            close_reports(term)
            lane.held_back_from = NEVER  # it held nothing back while it was down
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
        settle_config(lane, term.settings, run.timeline, event.now, False, is_of_leader(kind))
        update_under_min_isr(term, event.now)
