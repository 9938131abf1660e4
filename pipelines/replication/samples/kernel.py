"""Runs the rules for samples over the partitions of a micro-batch, and writes their lanes."""

from __future__ import annotations

from pipelines.replication.compiled.decorators import hot, kernel
from pipelines.replication.compiled.records import Record, RecordArray
from pipelines.replication.compiled.types import I8, I32, I64, MOST_REPLICAS, NULL, NULL32
from pipelines.replication.samples.bundles import (
    Found,
    Present,
    Rounds,
    Rows,
    Store,
    find_member,
    forget_member,
    get_present,
    make_room,
    view,
)
from pipelines.replication.samples.lag import caught_up_by, find_step_above, is_in, may_hold, settle
from pipelines.replication.samples.layout import KEPT_ISRS, KEPT_STEPS, KEPT_TERMS
from pipelines.replication.samples.leadership import take_row
from pipelines.replication.term.layout import IDLE, IN_SYNC, LEADING, OUT_OF_SYNC

_ENTERED, _FULL, _NO_ROOM = 0, 1, 2


@kernel
def read_rows(
    jobs: RecordArray, begin: int, store: Store, rows: Rows, rounds: Rounds, lanes: RecordArray, found: Found
) -> int:
    """Read the rows of each job from `begin` on. Returns the job to go on with, after more room was made for it; what
    it has left is its rows from its own `begin` on, earlier ones if its replicas have no entries left."""
    for j in range(begin, len(jobs)):
        job = jobs[j]
        if job.begun == 0:
            _forget_hws(store, job.record)
        end = _enter_rows(store, job, rows)
        if end < 0 or not _has_room(store, job.record, end - job.begin, found):
            return j
        job.begun = 1
        one = get_present(store, job.record)
        for n in range(job.begin, end):
            take_row(one, rows.rows[n], rows, rounds, lanes, found)
        job.begin = end
        if end < job.end:
            return j
    return len(jobs)


@kernel
def _forget_hws(store: Store, record: int) -> None:
    """Keep only the largest HW of each term, once a partition has rows again."""
    terms, store.records[record].hws = view(store.terms, record), 0
    for t in range(store.records[record].terms):
        terms[t].first_hw, terms[t].first_ts = terms[t].last_hw, terms[t].last_ts


@hot
def _has_room(store: Store, record: int, rows: int, found: Found) -> bool:
    """Whether there is room for all that so many rows may add."""
    of, counts = store.records[record], found.counts
    return (
        make_room(store.steps, record, of.steps, min(of.steps + rows, KEPT_STEPS + 1))
        and make_room(store.terms, record, of.terms, min(of.terms + rows, KEPT_TERMS))
        and make_room(store.isrs, record, of.isrs, min(of.isrs + rows, KEPT_ISRS))
        and make_room(store.hws, record, of.hws, of.hws + rows)
        and counts.hw[0] + 2 * rows <= len(found.hw)
        and counts.sync[0] + 2 * (rows + 1) * (of.members + 1) <= len(found.sync)
        and max(counts.led[0], counts.predicted[0], counts.cut[0]) + rows <= min(len(found.led), len(found.predicted))
    )


@hot
def _enter_rows(store: Store, job: Record, rows: Rows) -> int:
    """Give the replicas that rows name entries; returns the row before which there is none left, -1 without room."""
    for n in range(job.begin, job.end):
        status = _enter_row(store, job.record, rows.rows[n], rows)
        if status == _FULL and n > job.begin:
            return n
        if status == _FULL:
            _free_entries(store, job.record)
            status = _enter_row(store, job.record, rows.rows[n], rows)
        if status == _NO_ROOM:
            return -1
    return int(job.end)


@kernel
def _enter_row(store: Store, record: int, row: Record, lists: Rows) -> int:
    status = max(
        _enter_ids(store, record, lists.isr, row.isr_at, row.isr_count),
        _enter_ids(store, record, lists.assigned, row.assigned_at, row.assigned_count),
    )
    return max(status, _enter(store, record, row.broker))


@hot
def _enter_ids(store: Store, record: int, ids: I32, at: int, count: int) -> int:
    status = _ENTERED
    for n in range(at, at + count):
        status = max(status, _enter(store, record, ids[n]))
    return status


@kernel
def _enter(store: Store, record: int, broker: int) -> int:
    """Give a replica an entry."""
    if broker < 0:
        return _ENTERED
    of = store.records[record]
    entries = view(store.members, record)
    vacant = -1
    for k in range(of.members):
        if entries[k].broker == broker:
            return _ENTERED
        if entries[k].broker == -1:
            vacant = k
    if vacant < 0:
        if of.members == MOST_REPLICAS:
            return _FULL
        if not make_room(store.members, record, of.members, of.members + 1):
            return _NO_ROOM
        entries, vacant = view(store.members, record), of.members
        of.members += 1
    entries[vacant].broker = broker
    forget_member(entries[vacant])
    return _ENTERED


@kernel
def _free_entries(store: Store, record: int) -> None:
    """Free the entries of replicas that are neither assigned nor in an ISR that is still asked for or held."""
    one = get_present(store, record)
    of = one.record[0]
    kept = of.held | (0 if of.isr == NULL else of.isr) | (0 if of.assigned == NULL else of.assigned)
    for n in range(of.isrs):
        kept |= 0 if one.isrs[n].isr == NULL else one.isrs[n].isr
    for k in range(of.members):
        member = one.members[k]
        if not is_in(kept, k) and member.broker != of.leader and (of.assigned != NULL or member.answers != 1):
            member.broker = -1
            forget_member(member)
            for t in range(of.terms):
                one.terms[t].fetchers &= ~(1 << k)


@kernel
def settle_all(
    store: Store, limits: RecordArray, changed: I8, rounds: Rounds, found: Found, lanes: RecordArray,
    replicas: RecordArray,
) -> None:  # fmt: skip
    """Settle every partition by its cluster's `limits`, and write the lanes of what is `changed`."""
    for record in range(len(store.records)):
        one, before = get_present(store, record), found.counts.sync[0]
        limit = limits[one.record[0].cluster]
        settle(one, limit.now, limit.lag_max, rounds, found)
        if one.record[0].lane >= 0 and (changed[record] or found.counts.sync[0] != before):
            _write_lane(one, limit, lanes, replicas)


@kernel
def name_replicas(partitions: I64, of: I64, store: Store, lanes: RecordArray, replicas: RecordArray) -> None:
    """Write which replicas have the slots of lanes, `of[n]` that of the partition with the record partitions[n]."""
    width = len(replicas) // max(len(lanes), 1)
    for n in range(len(partitions)):
        members, entries = store.records[partitions[n]].members, view(store.members, partitions[n])
        lanes[of[n]].slots = members
        for k in range(members):
            replicas[of[n] * width + k].id = entries[k].broker if entries[k].broker >= 0 else NULL32


@hot
def _write_lane(one: Present, limit: Record, lanes: RecordArray, replicas: RecordArray) -> None:
    """Write the present of a partition as its leader's lane: what reads those of logs reads it there."""
    of, width = one.record[0], len(replicas) // max(len(lanes), 1)
    lane = lanes[of.lane]
    lane.state = IDLE if of.gone else LEADING
    lane.home, lane.frozen, lane.leader_epoch, lane.topic_id = of.source, of.frozen, of.epoch, of.topic_id
    lane.term_start, lane.hw, lane.last_ts, lane.stalled_since = of.began, of.hw, of.seen, of.stalled_since
    lane.isr, lane.isr_known = 0 if of.isr == NULL else of.isr, int(of.isr != NULL)
    lane.assigned, lane.assigned_told = 0 if of.assigned == NULL else of.assigned, int(of.assigned != NULL)
    lane.assigned_count = 0
    lane.min_isr, lane.min_isr_told = of.min_isr, of.min_isr_told
    leader = find_member(one, of.leader)
    lane.leader_leo = of.leo if leader >= 0 and one.members[leader].answers == 1 else NULL
    for k in range(of.members):
        member, replica = one.members[k], replicas[of.lane * width + k]
        lane.assigned_count += int(is_in(lane.assigned, k))
        replica.leo = member.leo if member.answers == 1 else -1
        step = find_step_above(one, replica.leo) if replica.leo >= 0 and member.broker != of.leader else -1
        replica.caught_up = NULL if step < 0 else caught_up_by(one, step)
        holds = of.stalled_since != NULL and may_hold(one, k, limit.now, limit.lag_max)
        replica.passed = of.stalled_since if holds else NULL
        replica.sync = OUT_OF_SYNC if member.out_of_sync == 1 else IN_SYNC
