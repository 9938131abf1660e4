"""In sync, lagging, out of sync: when a replica was last caught up, and what its silence comes to.

Kafka classes: Replica.updateFetchStateOrThrow, Replica.resetReplicaState, Partition.getOutOfSyncReplicas.
"""

from __future__ import annotations

from pipelines.replication.compiled.decorators import hot, kernel, seldom
from pipelines.replication.compiled.records import Records
from pipelines.replication.compiled.types import NULL
from pipelines.replication.term.constants import LANE, SLOT, SYNC, Settings, lean, place_of
from pipelines.replication.term.kafka_rules import (
    caught_up_at_term_start,
    follower_high_watermark,
    is_within,
    is_within_lag,
    lag_expires,
    last_caught_up,
)
from pipelines.replication.term.layout import (
    BEHIND,
    IN_SYNC,
    LAGGING,
    NEVER,
    NO_STATE,
    OUT_OF_SYNC,
    RECOVERED,
    REPLICA_HW,
    SILENT,
    UNASSIGNED,
)
from pipelines.replication.term.replica_slots import slot_of


@kernel
def put_sync(L: Records, R: Records, Y: Records, y: int, lane: int, at: int, slot: int, ts: int, state: int) -> int:
    reason = RECOVERED
    if state != IN_SYNC:
        patience = L[lane, LANE.lag_max] if state == OUT_OF_SYNC else L[lane, LANE.lag_max] // 2
        if R[at, SLOT.leo] < 0:
            reason = NO_STATE
        elif ts - R[at, SLOT.last_fetch] > patience:
            reason = SILENT
        else:
            reason = BEHIND
    Y[y, SYNC.lane] = lane
    Y[y, SYNC.ts] = ts
    Y[y, SYNC.replica] = R[at, SLOT.id]
    Y[y, SYNC.state] = state
    Y[y, SYNC.previous] = R[at, SLOT.sync]
    Y[y, SYNC.in_isr] = (L[lane, LANE.isr] >> slot) & 1
    Y[y, SYNC.caught_up] = R[at, SLOT.caught_up]
    Y[y, SYNC.leo] = R[at, SLOT.leo]
    Y[y, SYNC.leader_leo] = L[lane, LANE.leader_leo]
    Y[y, SYNC.reason] = reason
    Y[y, SYNC.leader_epoch] = L[lane, LANE.leader_epoch]
    Y[y, SYNC.topic_id] = L[lane, LANE.topic_id]
    Y[y, SYNC.level] = L[lane, LANE.level]
    R[at, SLOT.sync] = state
    return y + 1


@hot
def renew_deadline(L: Records, R: Records, width: int, lane: int) -> None:
    earliest = NEVER
    for k in range(L[lane, LANE.slots]):
        earliest = min(earliest, R[place_of(width, lane, k), SLOT.due])
    L[lane, LANE.deadline] = earliest


@hot
def threshold(L: Records, R: Records, lane: int, at: int, since: int, S: Settings) -> int:
    """When this replica's state changes next if nothing is heard: strictly more than half the lag, or the lag."""
    if seldom(R[at, SLOT.sync] == OUT_OF_SYNC or S.max_messages >= 0):
        return NEVER
    if seldom(R[at, SLOT.caught_up] == NULL):
        return since if R[at, SLOT.leo] >= 0 and not lean(L, lane) else NEVER
    patience = L[lane, LANE.lag_max] // 2 if R[at, SLOT.sync] == IN_SYNC else L[lane, LANE.lag_max]
    return int(max(lag_expires(R[at, SLOT.caught_up], patience), since))


@hot
def pass_deadlines(L: Records, R: Records, width: int, lane: int, now: int, S: Settings, Y: Records, y: int) -> int:
    """Replicas that nobody heard of in time: lagging after half the lag, out of sync after all of it."""
    while seldom(L[lane, LANE.deadline] < now):
        due = L[lane, LANE.deadline]
        for k in range(L[lane, LANE.slots]):
            at = place_of(width, lane, k)
            if R[at, SLOT.due] == due:
                late = not is_within_lag(R[at, SLOT.caught_up], due, L[lane, LANE.lag_max])
                y = put_sync(L, R, Y, y, lane, at, k, due, OUT_OF_SYNC if late else LAGGING)
                R[at, SLOT.due] = threshold(L, R, lane, at, due, S)
        renew_deadline(L, R, width, lane)
    return y


@hot
def judge(L: Records, R: Records, width: int, lane: int, slot: int, now: int, S: Settings, Y: Records, y: int) -> int:
    """The state of one replica after something of it was told."""
    at = place_of(width, lane, slot)
    if seldom(R[at, SLOT.id] == L[lane, LANE.broker]):
        return y
    if seldom(S.max_messages >= 0):
        behind = (
            L[lane, LANE.leader_leo] != NULL
            and R[at, SLOT.leo] >= 0
            and not is_within(R[at, SLOT.leo], L[lane, LANE.leader_leo], S.max_messages)
        )
        state = OUT_OF_SYNC if behind else IN_SYNC
        return y if state == R[at, SLOT.sync] else put_sync(L, R, Y, y, lane, at, slot, now, state)
    if R[at, SLOT.leo] == L[lane, LANE.leader_leo]:
        R[at, SLOT.due] = NEVER
        if seldom(R[at, SLOT.sync] != IN_SYNC):
            y = put_sync(L, R, Y, y, lane, at, slot, now, IN_SYNC)
    elif R[at, SLOT.caught_up] != NULL:
        if is_within_lag(R[at, SLOT.caught_up], now, L[lane, LANE.lag_max] // 2):
            if seldom(R[at, SLOT.sync] != IN_SYNC):
                y = put_sync(L, R, Y, y, lane, at, slot, now, IN_SYNC)
        elif is_within_lag(R[at, SLOT.caught_up], now, L[lane, LANE.lag_max]) and R[at, SLOT.sync] == OUT_OF_SYNC:
            y = put_sync(L, R, Y, y, lane, at, slot, now, LAGGING)
        R[at, SLOT.due] = threshold(L, R, lane, at, now, S)
    if R[at, SLOT.due] < L[lane, LANE.deadline]:
        L[lane, LANE.deadline] = R[at, SLOT.due]
    else:
        renew_deadline(L, R, width, lane)
    return y


@hot
def leo_grew(L: Records, R: Records, width: int, lane: int, leo: int, now: int, S: Settings, Y: Records, y: int) -> int:
    """The leader's log grew: replicas that stood at its end are behind from now on."""
    if leo <= L[lane, LANE.leader_leo] or leo < 0:
        return y
    for k in range(L[lane, LANE.slots]):
        at = place_of(width, lane, k)
        if R[at, SLOT.id] == L[lane, LANE.broker]:
            R[at, SLOT.leo] = leo
            continue
        if seldom(lean(L, lane)) and R[at, SLOT.leo] >= 0 and R[at, SLOT.leo] == L[lane, LANE.leader_leo]:
            R[at, SLOT.caught_up] = max(R[at, SLOT.caught_up], now)
        if S.max_messages < 0 and R[at, SLOT.due] == NEVER:
            R[at, SLOT.due] = threshold(L, R, lane, at, now, S)
            L[lane, LANE.deadline] = min(L[lane, LANE.deadline], R[at, SLOT.due])
    L[lane, LANE.leader_leo] = leo
    L[lane, LANE.held] &= ~(1 << max(slot_of(L, R, width, lane, L[lane, LANE.broker]), 0))
    if L[lane, LANE.append_ts] == NULL:
        L[lane, LANE.append_ts] = now
        L[lane, LANE.append_leo] = leo
    if L[lane, LANE.stalled_since] == NULL:
        L[lane, LANE.stalled_since] = now
    if seldom(S.max_messages >= 0):
        for k in range(L[lane, LANE.slots]):
            y = judge(L, R, width, lane, k, now, S, Y, y)
    return y


@hot
def fetched(
    L: Records, R: Records, width: int, lane: int, slot: int, leo: int, leader_leo: int, now: int, S: Settings,
    Y: Records, y: int,
) -> int:  # fmt: skip
    """Last caught up, after a fetch at `leo` with the leader's log ending at `leader_leo` (rule 2.2)."""
    at = place_of(width, lane, slot)
    if leader_leo != NULL:
        R[at, SLOT.caught_up] = last_caught_up(
            R[at, SLOT.caught_up], leo, leader_leo, R[at, SLOT.last_fetch_leader_leo], R[at, SLOT.last_fetch], now
        )
        R[at, SLOT.last_fetch_leader_leo] = max(leader_leo, R[at, SLOT.last_fetch_leader_leo])
    R[at, SLOT.last_fetch] = now
    return judge(L, R, width, lane, slot, now, S, Y, y)


@kernel
def forget(R: Records, at: int) -> None:
    """Nothing is known of this replica any more (ReplicaState.EMPTY)."""
    R[at, SLOT.leo] = -1
    R[at, SLOT.told] = -1
    R[at, SLOT.answered] = NULL
    R[at, SLOT.last_fetch_leader_leo] = 0
    R[at, SLOT.last_fetch] = 0
    R[at, SLOT.caught_up] = NULL
    R[at, SLOT.due] = NEVER
    R[at, SLOT.epoch] = NULL
    R[at, SLOT.barred] = NULL


@kernel
def unassign(L: Records, R: Records, Y: Records, y: int, lane: int, at: int, slot: int, now: int) -> int:
    """A replica that is not assigned any more: nothing is known of it, and it lags behind nobody."""
    forget(R, at)
    if R[at, SLOT.sync] != IN_SYNC:
        y = put_sync(L, R, Y, y, lane, at, slot, now, IN_SYNC)
        Y[y - 1, SYNC.reason] = UNASSIGNED
    return y


@kernel
def reset_replicas(
    L: Records, R: Records, width: int, lane: int, led_before: bool, assigned: int, now: int, S: Settings,
    Y: Records, y: int,
) -> int:  # fmt: skip
    """What a new leader epoch does to the leader's record of its followers (rule 2.3); `assigned` 0: not told."""
    for k in range(L[lane, LANE.slots]):
        at = place_of(width, lane, k)
        if assigned != 0 and not (L[lane, LANE.assigned] >> k) & 1:
            y = unassign(L, R, Y, y, lane, at, k, now)
            continue
        in_isr = (L[lane, LANE.isr] >> k) & 1
        told = not lean(L, lane)
        if led_before:
            R[at, SLOT.last_fetch_leader_leo] = L[lane, LANE.leader_leo]
            R[at, SLOT.last_fetch] = now if in_isr else 0
        else:
            forget(R, at)
        R[at, SLOT.caught_up] = caught_up_at_term_start(in_isr != 0, now, NULL) if told else NULL
        R[at, SLOT.due] = NEVER
        if R[at, SLOT.id] == L[lane, LANE.broker]:
            R[at, SLOT.leo] = L[lane, LANE.leader_leo]
            continue
        if S.max_messages >= 0:
            y = judge(L, R, width, lane, k, now, S, Y, y)
            continue
        equal = R[at, SLOT.leo] == L[lane, LANE.leader_leo]
        if in_isr or equal:
            if R[at, SLOT.sync] != IN_SYNC:
                y = put_sync(L, R, Y, y, lane, at, k, now, IN_SYNC)
            if not equal:
                R[at, SLOT.due] = threshold(L, R, lane, at, now, S)
        elif told and (L[lane, LANE.assigned] >> k) & 1 and R[at, SLOT.sync] != OUT_OF_SYNC:
            y = put_sync(L, R, Y, y, lane, at, k, now, OUT_OF_SYNC)
    renew_deadline(L, R, width, lane)
    return y


@kernel
def follow_hw(L: Records, R: Records, lane: int, at: int, slot: int, now: int, Y: Records, y: int) -> int:
    """The follower's HW once it took in the last answer: min(HW in it, own LEO) (rule 1.5); it may fall."""
    hw = follower_high_watermark(R[at, SLOT.answered], NULL, R[at, SLOT.leo])  # leaders print no log start of it
    if R[at, SLOT.answered] != NULL and hw != R[at, SLOT.hw]:
        sync = R[at, SLOT.sync]
        y = put_sync(L, R, Y, y, lane, at, slot, now, REPLICA_HW)
        R[at, SLOT.sync] = sync
        R[at, SLOT.hw] = hw
        Y[y - 1, SYNC.leo] = hw
    R[at, SLOT.answered] = L[lane, LANE.hw]
    return y
