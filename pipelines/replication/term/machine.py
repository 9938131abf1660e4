"""The term machine: what the leader's own telemetry says of its high watermark and its followers.

One pass over the rows of each lane, in the order of their numbers. Rules and their sources
(Apache Kafka classes): Partition.maybeIncrementLeaderHW, Replica.updateFetchStateOrThrow,
Replica.resetReplicaState, Partition.getOutOfSyncReplicas, Partition.isUnderMinIsr.
"""

from __future__ import annotations

import numpy as np

from pipelines.replication.compiled.decorators import hot, kernel, seldom
from pipelines.replication.compiled.records import Records
from pipelines.replication.compiled.types import I32, I64, NULL
from pipelines.replication.events.columns import Columns
from pipelines.replication.events.packed_rows import PACKED
from pipelines.replication.term.constants import (
    APPEND,
    BEGAN_MIDFLIGHT,
    CONSUMED,
    ELECTION,
    ENDED_FULL,
    FETCH,
    FOLLOWER,
    HW,
    HW_FULL,
    ISR,
    JOB,
    KEEP_FULL,
    LANE,
    LEADER,
    OF_FOLLOWER,
    PROPOSED,
    REJECTED,
    REPLICA_LEO,
    SLOT,
    SLOTS_FULL,
    SYNC_FULL,
    TRUNCATE,
    Marks,
    Settings,
    Stats,
    Timeline,
    copy_row,
    declared,
    fetches_of,
    first_not_below,
    in_vain,
    kind_of,
    lean,
    place_of,
    popcount,
    replica_of,
    stat_of,
)
from pipelines.replication.term.finality import finish_rows, hold, pass_holds
from pipelines.replication.term.high_watermark import try_advance
from pipelines.replication.term.hw_reports import (
    close_reports,
    excuse_open,
    on_report,
    own_report,
    pass_cut_off,
    reports_wait,
    tells_own_hw,
)
from pipelines.replication.term.isr import on_isr, shrinks_below_assigned, weigh_isr
from pipelines.replication.term.kafka_rules import fetch_may_advance
from pipelines.replication.term.layout import IDLE, LEADING, NEVER, OPEN
from pipelines.replication.term.leadership import begin_midflight, begins_whole, end_term, start_term
from pipelines.replication.term.metadata_lookup import (
    beyond,
    compare_clocks,
    same_incarnation,
    settings_of,
    settle_config,
    started_since,
    version_at,
)
from pipelines.replication.term.replica_slots import give_slot, give_slots, mask_of, slot_of
from pipelines.replication.term.replica_sync import fetched, follow_hw, judge, leo_grew, pass_deadlines
from pipelines.replication.term.report_as_evidence import contradicted, take_back


@hot
def on_leo(
    L: Records, R: Records, T: Timeline, S: Settings, A: Stats, width: int, lane: int, kind: int, slot: int,
    leo: int, leader_leo: int, now: int, stat: int, O: Records, o: int, first: int, Y: Records, y: int, M: Marks,
    P: Records, j: int,
) -> tuple[int, int]:  # fmt: skip
    """A replica's LEO, by its fetch or by the leader's own record of it; `leader_leo` where told with it."""
    at = place_of(width, lane, slot)
    if kind == FETCH and seldom(R[at, SLOT.epoch] == NULL or (L[lane, LANE.isr] >> slot) & 1 == 0):
        R[at, SLOT.epoch] = max(P[j, PACKED.more], -1)  # a member of the ISR cannot be another one than joined it
    false_witness = seldom(L[lane, LANE.witness] != NULL) and contradicted(L, lane, slot, leo, now, S)
    if seldom(false_witness) and started_since(L, T, lane, R[at, SLOT.id], L[lane, LANE.witness_ts], now):
        false_witness = False  # its log is shorter than it was when the report was true
    if seldom(false_witness):
        o, y = take_back(L, R, S, width, lane, leo, now, O, o, first, Y, y, M, j)
    y = leo_grew(L, R, width, lane, max(leader_leo, leo), now, S, Y, y)
    L[lane, LANE.told_leo] = max(L[lane, LANE.told_leo], max(leader_leo, leo))
    R[at, SLOT.told] = leo
    changed = false_witness or fetch_may_advance(R[at, SLOT.leo], leo)
    L[lane, LANE.held] &= ~(1 << slot)
    if leader_leo != NULL:
        L[lane, LANE.held] &= ~(1 << slot_of(L, R, width, lane, L[lane, LANE.broker]))
    R[at, SLOT.leo] = leo
    if kind == FETCH:
        end = leader_leo if leader_leo != NULL else L[lane, LANE.leader_leo]
        y = fetched(L, R, width, lane, slot, leo, end, now, S, Y, y)
        if L[lane, LANE.leader_leo] != NULL:
            bucket = first_not_below(A.bounds_records, max(L[lane, LANE.leader_leo] - leo, 0))
            A.lag[stat, bucket] += fetches_of(P[j, PACKED.what])
    elif seldom(lean(L, lane)) and changed:
        y = fetched(L, R, width, lane, slot, leo, L[lane, LANE.leader_leo], now, S, Y, y)
    elif changed:
        y = judge(L, R, width, lane, slot, now, S, Y, y)
    if changed and not in_vain(L, lane, now):
        o = try_advance(L, R, T, S, A, width, lane, now, stat, O, o, first, OPEN)
    if seldom(S.replica_hw == 1) and kind == FETCH:
        y = follow_hw(L, R, lane, at, slot, now, Y, y)
    return o, y


@kernel
def run_lanes(
    J: Records, holds: Records, P: Records, leader_rows: I64, assigned_from: I64, assigned_ids: I32,
    C: Columns, L: Records, R: Records, width: int, T: Timeline, rules: Records, A: Stats, M: Marks,
    carry: Records, carry_from: I64, O: Records, F: Records, K: Records, Y: Records, E: Records,
    at: I64,
) -> None:  # fmt: skip
    """Runs the lanes of J from at[0] on; `at` = [job, final rows, kept rows, sync rows, ended terms, what was full,
    line of the lane to go on with, its rows so far, holds that it has passed].

    Returns early, with at[0] at the lane that did not fit, when an output is full, or when a lane's slots are: ahead of
    the line that names one more replica, with which to go on. at[6] is -1 where a lane begins.
    """
    if not declared(J, P, L, R, O):
        return
    job, f, k, y, e = at[0], at[1], at[2], at[3], at[4]
    while job < len(J):
        lane = J[job, JOB.lane]
        S = settings_of(rules, L, lane)
        start, end = J[job, JOB.start], J[job, JOB.end]
        rows = 3 * (end - start) + L[lane, LANE.carried] + 4
        if f + rows > len(F):
            at[5] = HW_FULL
            break
        if k + rows > len(K):
            at[5] = KEEP_FULL
            break
        if y + 4 * (end - start + 2) * (width + 1) > len(Y):
            at[5] = SYNC_FULL
            break
        if e + (end - start) + 1 > len(E):
            at[5] = ENDED_FULL
            break
        bound, room, slot = J[job, JOB.told], True, give_slot(L, R, width, lane, L[lane, LANE.broker])
        pending, o = J[job, JOB.holds_from], 0
        if at[6] >= 0:
            start, o, pending = at[6], at[7], at[8]
            at[6] = -1
        else:
            for c in range(carry_from[lane], carry_from[lane] + L[lane, LANE.carried]):
                copy_row(carry, c, O, o)
                o += 1
        for j in range(np.uint64(start), np.uint64(end)):
            what, who = P[j, PACKED.what], P[j, PACKED.who]
            kind, stat, i = kind_of(what), stat_of(what), P[j, PACKED.more]
            if kind == FETCH or kind == REPLICA_LEO:
                slot = give_slot(L, R, width, lane, replica_of(who))
                room = slot >= 0
            elif seldom(kind == LEADER or kind == ISR or kind == PROPOSED):
                room = give_slots(L, R, width, lane, C, i, kind, leader_rows, assigned_from, assigned_ids)
            if seldom(not room):
                at[6], at[7], at[8] = j, o, pending
                break
            now = min(P[j, PACKED.ts], J[job, JOB.ceiling])
            clock = max(now, L[lane, LANE.last_ts])
            waits = L[lane, LANE.state] != LEADING or kind == LEADER
            waits = waits or popcount(L[lane, LANE.isr]) < L[lane, LANE.assigned_count]
            waits = waits or (kind == ISR and shrinks_below_assigned(L, lane, C, i))
            if seldom(kind == FOLLOWER):
                waits = waits or reports_wait(O, 0, o)
            if seldom(L[lane, LANE.witness] != NULL and (kind == FETCH or kind == REPLICA_LEO)):
                waits = waits or contradicted(L, lane, slot, P[j, PACKED.leo], now, S)
            if seldom(waits) and clock + beyond(L, S, lane) > J[job, JOB.everybody]:
                alone = kind == LEADER and begins_whole(L, lane, C, i, leader_rows, assigned_from)
                if not alone or clock > J[job, JOB.heard]:
                    bound = min(bound, clock)
                    break
            M[j] |= CONSUMED
            if seldom(what & 0x100 != 0):
                continue
            if seldom(what & 0x200 != 0):
                hold(L, lane, clock)
                excuse_open(O, o, 0, L[lane, LANE.last_ts], S)
            if seldom(pending < J[job, JOB.holds_to]):
                held_at = L[lane, LANE.held_at]
                pending = pass_holds(L, lane, holds, pending, J[job, JOB.holds_to], clock)
                if L[lane, LANE.held_at] != held_at:
                    excuse_open(O, o, 0, L[lane, LANE.held_at], S)
            if seldom(kind == LEADER or kind == FOLLOWER):
                resumed = kind == LEADER and C.leader_epoch[i] == L[lane, LANE.leader_epoch]
                if resumed or not same_incarnation(L, T, lane, clock):
                    close_reports(L, R, width, S, O, 0, o, lane)
                else:
                    pass_cut_off(L, R, width, lane, clock, S, M, j)
            elif kind >= 0:
                pass_cut_off(L, R, width, lane, clock, S, M, j)
            if seldom(kind < 0):
                excuse_open(O, o, 0, L[lane, LANE.last_ts], S)
            L[lane, LANE.last_ts] = clock
            A.events[stat] += fetches_of(what)
            if seldom(kind < 0):
                hold(L, lane, clock)
                continue
            if L[lane, LANE.state] != IDLE:
                passed = clock + 1 if kind == FOLLOWER or kind == LEADER else clock  # at the end of a term none follows
                y = pass_deadlines(L, R, width, lane, passed, S, Y, y)
                if seldom(waits) and kind != LEADER:
                    compare_clocks(L, T, S, lane, clock)
                    attempts = kind == FETCH or kind == APPEND or kind == HW or kind == REPLICA_LEO
                    settle_config(L, T, S, lane, now, False, attempts)
                    o = weigh_isr(L, R, S, width, lane, O, o, now)
            if seldom(kind == LEADER):
                assigned = mask_of(L, R, width, lane, C.replicas_ids, C.replicas_from[i], C.replicas_from[i + 1])
                if assigned == 0:
                    at_row = first_not_below(leader_rows, i)
                    assigned = mask_of(
                        L, R, width, lane, assigned_ids, assigned_from[at_row], assigned_from[at_row + 1]
                    )
                L[lane, LANE.version] = version_at(L, T, lane, now)
                S = settings_of(rules, L, lane)
                o, y, e = start_term(L, R, C, T, S, A, width, lane, i, now, stat, assigned, O, o, 0, Y, y, E, e)
                continue
            if seldom(kind == FOLLOWER):
                e = end_term(L, R, width, lane, now, E, e)
                L[lane, LANE.deadline] = NEVER
                continue
            if kind == HW and seldom(not own_report(L, lane, replica_of(who), P[j, PACKED.leo])):
                M[j] |= OF_FOLLOWER
                continue
            if seldom(kind == ELECTION or kind == TRUNCATE):
                continue
            if seldom(who >> 32 > L[lane, LANE.leader_epoch] >= 0 and L[lane, LANE.state] != IDLE):
                if kind == FETCH or kind == APPEND or kind == HW or kind == REPLICA_LEO:
                    e = end_term(L, R, width, lane, now, E, e)  # the start of this one was lost
            if seldom(L[lane, LANE.state] == IDLE):
                if kind == ISR or kind == REJECTED:
                    continue
                L[lane, LANE.version] = version_at(L, T, lane, now)
                S = settings_of(rules, L, lane)
                begin_midflight(L, T, S, P, lane, j, now)
                M[j] |= BEGAN_MIDFLIGHT
            if kind == FETCH or kind == REPLICA_LEO or kind == APPEND:
                leader_leo = P[j, PACKED.leader_leo]
                if kind == APPEND or replica_of(who) == L[lane, LANE.broker]:
                    end, mine = max(leader_leo, P[j, PACKED.leo]), slot_of(L, R, width, lane, L[lane, LANE.broker])
                    if seldom(L[lane, LANE.witness] != NULL) and contradicted(L, lane, mine, end, now, S):
                        o, y = take_back(L, R, S, width, lane, end, now, O, o, 0, Y, y, M, j)
                    y = leo_grew(L, R, width, lane, end, now, S, Y, y)
                    L[lane, LANE.told_leo] = max(L[lane, LANE.told_leo], end)
                    L[lane, LANE.held] &= ~(1 << mine)
                    if not in_vain(L, lane, now):
                        o = try_advance(L, R, T, S, A, width, lane, now, stat, O, o, 0, OPEN)
                else:
                    leo = P[j, PACKED.leo]
                    o, y = on_leo(
                        L, R, T, S, A, width, lane, kind, slot, leo, leader_leo, now, stat, O, o, 0, Y, y,
                        M, P, j,
                    )  # fmt: skip
            elif kind == HW:
                o, y = on_report(
                    L, R, T, S, A, width, lane, P[j, PACKED.more], P[j, PACKED.leader_leo], now, stat, O, o, 0, Y, y,
                    M, P, j,
                )  # fmt: skip
            elif seldom(kind == ISR):
                if C.hw[i] > L[lane, LANE.hw] and L[lane, LANE.hw] != NULL and tells_own_hw(L, lane, C, i):
                    o, y = on_report(
                        L, R, T, S, A, width, lane, C.hw[i], NULL, now, stat, O, o, 0, Y, y, M, P, j
                    )  # fmt: skip
                o, y = on_isr(L, R, C, T, S, A, M, width, lane, i, j, stat, now, O, o, 0, Y, y)
            elif seldom(kind == PROPOSED):
                asked = mask_of(L, R, width, lane, C.isr_ids, C.isr_from[i], C.isr_from[i + 1])
                L[lane, LANE.joining] = asked & ~L[lane, LANE.isr]
                L[lane, LANE.asked] = asked
                L[lane, LANE.asked_ts] = now
                for slot in range(L[lane, LANE.slots]):
                    if (asked >> slot) & 1:
                        R[lane * width + slot, SLOT.barred] = NULL
            elif seldom(kind == REJECTED):
                L[lane, LANE.joining] = 0
                L[lane, LANE.asked] = 0
        if not room:
            at[5] = SLOTS_FULL
            break
        pass_holds(L, lane, holds, pending, J[job, JOB.holds_to], bound)
        if L[lane, LANE.state] != IDLE:
            y = pass_deadlines(L, R, width, lane, bound, S, Y, y)
        before = k
        f, k = finish_rows(L, R, width, lane, S, bound, J[job, JOB.final] == 1, O, 0, o, F, f, K, k)
        L[lane, LANE.carried] = k - before
        job += 1
    at[0], at[1], at[2], at[3], at[4] = job, f, k, y, e
