"""In sync, lagging, out of sync: when a replica was last caught up, and what its silence comes to.

Kafka classes: Replica.updateFetchStateOrThrow, Replica.resetReplicaState, Partition.getOutOfSyncReplicas.
"""

from __future__ import annotations

from pipelines.replication.compiled.decorators import hot, kernel, seldom
from pipelines.replication.compiled.records import Record
from pipelines.replication.compiled.types import NEVER, NULL
from pipelines.replication.term.bundles import Term, begin_term_row, replica_in
from pipelines.replication.term.constants import lacks_fetches, unsigned
from pipelines.replication.term.held_back import follow_wait, put_held_back
from pipelines.replication.term.kafka_rules import (
    caught_up_at_term_start,
    follower_high_watermark,
    is_within_lag,
    is_within_messages,
    lag_expires,
    last_caught_up,
)
from pipelines.replication.term.layout import (
    BEHIND,
    FETCHED,
    HELD_BACK,
    IN_SYNC,
    LAGGING,
    NO_STATE,
    OUT_OF_SYNC,
    RECOVERED,
    REPLICA_HW,
    SILENT,
    UNASSIGNED,
)
from pipelines.replication.term.replica_slots import in_set, own_slot


@kernel
def note_first_fetches(term: Term, slots: int) -> None:
    """Notes that these replicas fetch for the first time in this term, and tells histories since when."""
    lane, row = term.lane, begin_term_row(term, FETCHED, term.lane.last_ts)
    for slot in range(lane.slots):
        if in_set(slots, slot):
            replica_in(term, slot).first_fetch = lane.last_ts
    row.fetchers = slots


@kernel
def put_sync(term: Term, slot: int, ts: int, state: int) -> Record:
    """Write a row of silver/replica_sync: the replica has this state from now on. Returns the row."""
    lane, replica = term.lane, replica_in(term, slot)
    reason = RECOVERED
    if state != IN_SYNC:
        patience = lane.lag_max if state == OUT_OF_SYNC else lane.lag_max // 2
        if replica.leo < 0:
            reason = NO_STATE
        elif ts - replica.last_fetch > patience:
            reason = SILENT
        else:
            reason = BEHIND
    row = term.sync_rows[unsigned(term.cursor.sync)]
    row.lane = term.number
    row.ts = ts
    row.replica = replica.id
    row.state = state
    row.previous = replica.sync
    row.in_isr = (lane.isr >> slot) & 1
    row.caught_up = replica.caught_up
    row.leo = replica.leo
    row.leader_leo = lane.leader_leo
    row.reason = reason
    row.leader_epoch = lane.leader_epoch
    row.topic_id = lane.topic_id
    row.level = lane.level
    replica.sync = state
    term.cursor.sync += 1
    return row


@hot
def renew_deadline(term: Term) -> None:
    """The first deadline of any replica, or of the HW, is that of the lane."""
    earliest = term.lane.held_back_from
    for slot in range(term.lane.slots):
        earliest = min(earliest, replica_in(term, slot).due)
    term.lane.deadline = earliest


@hot
def next_deadline(term: Term, replica: Record, since: int) -> int:
    """When this replica's state changes next if it does not fetch: behind for more than half the lag, or the lag."""
    lane, by_messages = term.lane, term.settings.lag_max_messages >= 0
    if seldom(replica.sync == OUT_OF_SYNC or (by_messages and not _may_be_stuck(term, replica))):
        return NEVER
    if seldom(replica.caught_up == NULL):
        return since if replica.leo >= 0 and not lacks_fetches(lane) else NEVER
    patience = lane.lag_max // 2 if replica.sync == IN_SYNC and not by_messages else lane.lag_max
    return int(max(lag_expires(replica.caught_up, patience), since))


@hot
def pass_deadlines(term: Term, now: int) -> None:
    """Replicas that did not fetch in time: lagging after half the lag, out of sync after all of it. A HW held back."""
    lane = term.lane
    while seldom(lane.deadline < now):
        due = lane.deadline
        if lane.held_back_from == due:
            put_held_back(term, due, HELD_BACK)
        for slot in range(lane.slots):
            replica = replica_in(term, slot)
            if replica.due == due:
                within = is_within_lag(replica.caught_up, due, lane.lag_max)
                put_sync(term, slot, due, LAGGING if within else OUT_OF_SYNC)
                replica.due = next_deadline(term, replica, due)
        renew_deadline(term)


@hot
def update_sync_state(term: Term, slot: int, now: int) -> None:
    """The state of one replica after a row about it."""
    lane, replica = term.lane, replica_in(term, slot)
    if seldom(replica.id == lane.broker):
        return
    if seldom(term.settings.lag_max_messages >= 0):
        _update_by_messages(term, slot, now)
        return
    if replica.leo == lane.leader_leo:
        replica.due = NEVER
        if seldom(replica.sync != IN_SYNC):
            put_sync(term, slot, now, IN_SYNC)
    elif replica.caught_up != NULL:
        if is_within_lag(replica.caught_up, now, lane.lag_max // 2):
            if seldom(replica.sync != IN_SYNC):
                put_sync(term, slot, now, IN_SYNC)
        elif is_within_lag(replica.caught_up, now, lane.lag_max) and replica.sync == OUT_OF_SYNC:
            put_sync(term, slot, now, LAGGING)
        replica.due = next_deadline(term, replica, now)
    if replica.due < lane.deadline:
        lane.deadline = replica.due
    else:
        renew_deadline(term)


@kernel
def _update_by_messages(term: Term, slot: int, now: int) -> None:
    """Until Kafka 0.8.2 what counts is how many messages a replica is behind, and how long ago it fetched."""
    lane, replica = term.lane, replica_in(term, slot)
    known = lane.leader_leo != NULL and replica.leo >= 0
    behind = known and not is_within_messages(replica.leo, lane.leader_leo, term.settings.lag_max_messages)
    stuck = _may_be_stuck(term, replica) and not is_within_lag(replica.caught_up, now, lane.lag_max)
    state = OUT_OF_SYNC if behind or stuck else IN_SYNC
    if state != replica.sync:
        put_sync(term, slot, now, state)
    replica.due = next_deadline(term, replica, now)
    renew_deadline(term)


@kernel
def _may_be_stuck(term: Term, replica: Record) -> bool:
    """Whether a replica is behind a leader that tells its fetches (Partition.getOutOfSyncReplicas until 0.8.2)."""
    lane = term.lane
    is_behind = lane.leader_leo != NULL and replica.leo < lane.leader_leo
    return bool(is_behind and replica.caught_up != NULL and not lacks_fetches(lane))


@hot
def leader_leo_grew(term: Term, leo: int, now: int) -> None:
    """The leader's log ends at `leo` at least: replicas that stood at its end before are behind from now on."""
    lane, by_messages = term.lane, term.settings.lag_max_messages >= 0
    if leo <= lane.leader_leo or leo < 0:
        return
    silent = lacks_fetches(lane) and lane.frozen == 1 and term.settings.strict_min_isr == 1
    for slot in range(lane.slots):
        replica = replica_in(term, slot)
        if replica.id == lane.broker:
            replica.leo = leo
            continue
        if replica.passed == NULL:
            replica.passed = now
        if seldom(silent):  # nothing shows fetches under min ISR
            continue
        if seldom(lacks_fetches(lane)) and replica.leo >= 0 and replica.leo == lane.leader_leo:
            replica.caught_up = max(replica.caught_up, now)
        if not by_messages and replica.due == NEVER:
            replica.due = next_deadline(term, replica, now)
            lane.deadline = min(lane.deadline, replica.due)
    lane.leader_leo = leo
    lane.unknown_leos &= ~(1 << max(own_slot(term), 0))
    if lane.append_ts == NULL:
        lane.append_ts = now
        lane.append_leo = leo
    if lane.stalled_since == NULL:
        lane.stalled_since = now
        follow_wait(term, now)
    if seldom(by_messages):
        for slot in range(lane.slots):
            update_sync_state(term, slot, now)


@hot
def on_fetched(term: Term, slot: int, leo: int, leader_leo: int, now: int) -> None:
    """A fetch at `leo` while the leader's log ended at `leader_leo` (Replica.updateFetchStateOrThrow)."""
    replica = replica_in(term, slot)
    if leo >= term.lane.leader_leo:
        replica.passed = NULL
    elif leo >= replica.last_fetch_leader_leo and replica.last_fetch > 0:
        replica.passed = max(replica.passed, replica.last_fetch)
    if seldom(term.settings.lag_max_messages >= 0):
        replica.caught_up = now  # Replica.logEndOffsetUpdateTimeMs: any fetch counts
    elif leader_leo != NULL:
        fetched = replica.last_fetch if replica.last_fetch == 0 or not lacks_fetches(term.lane) else now
        replica.caught_up = last_caught_up(  # where fetches are not told, one may have come at any time until now
            replica.caught_up, leo, leader_leo, replica.last_fetch_leader_leo, fetched, now
        )
        replica.last_fetch_leader_leo = max(leader_leo, replica.last_fetch_leader_leo)
    replica.last_fetch = now
    update_sync_state(term, slot, now)


@kernel
def forget_replica(replica: Record) -> None:
    """Nothing is known of this replica any more (ReplicaState.EMPTY)."""
    replica.leo = -1
    replica.reported_leo = -1
    replica.answered = NULL
    replica.last_fetch_leader_leo = 0
    replica.last_fetch = 0
    replica.caught_up = NULL
    replica.due = NEVER
    replica.epoch = NULL
    replica.ineligible_until = NULL


@kernel
def unassign(term: Term, slot: int, now: int) -> None:
    """A replica that is not assigned any more: nothing is known of it, and it lags behind nobody."""
    replica = replica_in(term, slot)
    forget_replica(replica)
    if replica.sync != IN_SYNC:
        put_sync(term, slot, now, IN_SYNC).reason = UNASSIGNED


@kernel
def reset_replicas(term: Term, led_before: bool, assigned: int, now: int) -> None:
    """Reset the leader's record of its followers at a new leader epoch (Replica.resetReplicaState).

    `assigned` 0: not known.
    """
    for slot in range(term.lane.slots):
        if assigned != 0 and not in_set(term.lane.assigned, slot):
            unassign(term, slot, now)
        else:
            _reset_replica(term, slot, led_before, now)
    renew_deadline(term)


@kernel
def _reset_replica(term: Term, slot: int, led_before: bool, now: int) -> None:
    """Reset the record of a follower, which stays only if the leader led in the epoch before, too."""
    lane, replica = term.lane, replica_in(term, slot)
    in_isr, has_fetches = in_set(lane.isr, slot), not lacks_fetches(lane)
    by_messages = term.settings.lag_max_messages >= 0
    if led_before:
        replica.last_fetch_leader_leo = lane.leader_leo
        replica.last_fetch = now if in_isr else 0
    else:
        forget_replica(replica)
    counts_from_now = in_isr or (by_messages and in_set(lane.assigned, slot))
    replica.caught_up = caught_up_at_term_start(counts_from_now, now, NULL) if has_fetches else NULL
    replica.due = NEVER
    if replica.id == lane.broker:
        replica.leo = lane.leader_leo
        return
    if by_messages:
        update_sync_state(term, slot, now)
        return
    at_end = replica.leo == lane.leader_leo
    if in_isr or at_end:
        if replica.sync != IN_SYNC:
            put_sync(term, slot, now, IN_SYNC)
        if not at_end:
            replica.due = next_deadline(term, replica, now)
    elif has_fetches and in_set(lane.assigned, slot) and replica.sync != OUT_OF_SYNC:
        put_sync(term, slot, now, OUT_OF_SYNC)


@kernel
def follow_hw(term: Term, slot: int, now: int) -> None:
    """The follower's HW once it took in the last answer. Leaders print no log start of followers: it is left aside."""
    replica = replica_in(term, slot)
    hw = follower_high_watermark(replica.answered, NULL, replica.leo)
    if replica.answered != NULL and hw != replica.hw:
        sync = replica.sync
        put_sync(term, slot, now, REPLICA_HW).leo = hw
        replica.sync = sync
        replica.hw = hw
    replica.answered = term.lane.hw
