"""The term machine: what the leader's own telemetry says of its high watermark and its followers.

One pass over the rows of each lane, in the order of their numbers. Rules and their sources
(Apache Kafka classes): Partition.maybeIncrementLeaderHW, Replica.updateFetchStateOrThrow,
Replica.resetReplicaState, Partition.getOutOfSyncReplicas, Partition.isUnderMinIsr.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pipelines.replication.arrays import Records, shape
from pipelines.replication.columns import BY_CONTROLLER, BY_METADATA, CODE, I32, I64, NULL, NULL32, Columns
from pipelines.replication.compiled import hot, kernel
from pipelines.replication.lanes import (
    ADVANCE,
    APART,
    BEHIND,
    DISAGREE,
    EXACT,
    FREEZE,
    HW_ROWS,
    IDLE,
    IN_SYNC,
    LAGGING,
    LANES,
    LEADING,
    MIDFLIGHT,
    NEVER,
    NO_STATE,
    ONLY_WITNESS,
    OPEN,
    OUT_OF_SYNC,
    RACE,
    RECORDED,
    RECOVERED,
    REPLICA_HW,
    REPLICAS,
    REPORT,
    SILENT,
    SYNC_ROWS,
    TERM_START,
    TERMS,
    THAW,
    UNREPORTED,
)
from pipelines.replication.lines import PACKED

LEADER, FOLLOWER, APPEND, FETCH, HW = (CODE[n] for n in ("leader", "follower", "append", "fetch", "hw"))
PROPOSED, ISR, REJECTED, REPLICA_LEO = (CODE[n] for n in ("isr_proposed", "isr", "isr_rejected", "replica_leo"))
ELECTION, TRUNCATE = CODE["election"], CODE["truncate"]
MATCHED = 6
"""A report that found its reconstructed value: its row is dropped."""
MS = 1000

SLOTS_FULL, HW_FULL, KEEP_FULL, SYNC_FULL, ENDED_FULL = 1, 2, 3, 4, 5
"""Why run_lanes stopped early."""


class Settings(NamedTuple):
    """Rules in microseconds; -1 where a rule is off."""

    race: int
    strict: int
    lag_max: int
    min_isr: int
    max_messages: int
    resolution: int
    replica_hw: int
    eligibility: int
    grace: int


class Timeline(NamedTuple):
    """Broker states, configs, what controllers recorded of partitions and brokers whose clocks are apart from theirs,
    as of a time: rows sorted by (key, ts)."""

    brokers: Records
    configs: Records
    recorded: Records
    apart: Records


BROKERS = shape(key=0, ts=0, serving=0, epoch=NULL, started=NULL)
"""A state of a broker: its incarnation, and when that registered, where told."""
CONFIGS = shape(key=0, ts=0, min_isr=NULL32, lag=NULL)

JOBS = shape(lane=0, start=0, end=0, told=0, everybody=0, heard=0, ceiling=0, holds_from=0, holds_to=0, final=0)
"""A lane to run with its rows order[start:end]; told, everybody, heard and ceiling bound what may be decided;
holds[holds_from:holds_to] are the times at which telemetry of its source went missing."""


Marks = npt.NDArray[np.int8]


class Stats(NamedTuple):
    """Per (broker, minute): events, append to HW and lag histograms."""

    events: I64
    append_to_hw: I64
    lag: I64
    bounds_us: I64
    bounds_records: I64


CONSUMED, FORETOLD, NOT_FORETOLD, MOVED_BACK, OF_FOLLOWER, BEGAN_MIDFLIGHT, TAKEN_BACK = 1, 2, 4, 8, 16, 32, 64
"""Marks that the run leaves at each position: read; an ISR commit that the lag rule foretold, or did not; the
second successive low report (its line then holds, as `leader_leo`, the report that it lies below); an HW that a
broker tells as a follower; the first row of a broker seen leading whose start was not told; a LEO that shows the
report false against which others were low."""

LANE, SLOT, ROW, SYNC, TERM = LANES.at, REPLICAS.at, HW_ROWS.at, SYNC_ROWS.at, TERMS.at
BROKER, CONFIG, RECORD, JOB = BROKERS.at, CONFIGS.at, RECORDED.at, JOBS.at


@kernel
def copy_row(source: Records, at: int, target: Records, to: int) -> None:
    for column in range(source.shape[1]):
        target[to, column] = source[at, column]


@hot
def kind_of(what: int) -> int:
    kind = what & 0xFF
    return kind if kind < 128 else -1


@hot
def replica_of(who: int) -> int:
    return (who << 32) >> 32


@kernel
def popcount(mask: int) -> int:
    count = 0
    while mask:
        mask &= mask - 1
        count += 1
    return count


@hot
def slot_of(L: Records, R: Records, width: int, lane: int, replica: int) -> int:
    """The slot of a replica in this lane, -1 where it has none."""
    for k in range(L[lane, LANE.slots]):
        if R[lane * width + k, SLOT.id] == replica:
            return k
    return -1


@kernel
def give_slot(L: Records, R: Records, width: int, lane: int, replica: int) -> bool:
    """Makes sure a replica has a slot; False when the lane has no room."""
    if slot_of(L, R, width, lane, replica) >= 0:
        return True
    if L[lane, LANE.slots] == width:
        return False
    R[lane * width + L[lane, LANE.slots], SLOT.id] = replica
    L[lane, LANE.slots] += 1
    return True


@hot
def first_not_below(ordered: I64, value: int) -> int:
    """Where a value stands among ordered ones: the row itself, or the histogram bucket it falls into."""
    low, high = 0, len(ordered)
    while low < high:
        middle = (low + high) >> 1
        if ordered[middle] < value:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def give_slots(
    L: Records, R: Records, width: int, lane: int, C: Columns, P: Records, start: int, end: int,
    leader_rows: I64, assigned_from: I64, assigned_ids: I32,
) -> bool:  # fmt: skip
    """Slots for every replica that these rows name; False when the lane has no room."""
    room = give_slot(L, R, width, lane, L[lane, LANE.broker])
    for j in range(start, end):
        kind = kind_of(P[j, PACKED.what])
        if kind == FETCH or kind == REPLICA_LEO:
            room = give_slot(L, R, width, lane, replica_of(P[j, PACKED.who])) and room
        elif kind == LEADER or kind == ISR or kind == PROPOSED:
            i = P[j, PACKED.row]
            for k in range(C.isr_from[i], C.isr_from[i + 1]):
                room = give_slot(L, R, width, lane, C.isr_ids[k]) and room
            for k in range(C.replicas_from[i], C.replicas_from[i + 1]):
                room = give_slot(L, R, width, lane, C.replicas_ids[k]) and room
            if kind == LEADER:
                at_row = first_not_below(leader_rows, i)
                for k in range(assigned_from[at_row], assigned_from[at_row + 1]):
                    room = give_slot(L, R, width, lane, assigned_ids[k]) and room
        if not room:
            return False
    return room


@kernel
def mask_of(L: Records, R: Records, width: int, lane: int, ids: I32, start: int, end: int) -> int:
    mask = 0
    for k in range(start, end):
        slot = slot_of(L, R, width, lane, ids[k])
        if slot >= 0:
            mask |= 1 << slot
    return mask


@kernel
def as_of(entries: Records, key: int, ts: int) -> int:
    """Index of the last entry of `key` at or before `ts`, -1 where there is none."""
    low, high = 0, len(entries)
    while low < high:
        middle = (low + high) >> 1
        if entries[middle, 0] < key or (entries[middle, 0] == key and entries[middle, 1] <= ts):
            low = middle + 1
        else:
            high = middle
    if low > 0 and entries[low - 1, 0] == key:
        return low - 1
    return -1


@kernel
def state_of(L: Records, T: Timeline, lane: int, broker: int, now: int) -> int:
    """The last state of a broker that the controller told by `now` of this lane's clock, -1 where there is none."""
    return as_of(T.brokers, (L[lane, LANE.cluster] << 32) | (broker & 0xFFFFFFFF), now - L[lane, LANE.ahead])


@kernel
def eligible(L: Records, R: Records, T: Timeline, S: Settings, lane: int, at: int, now: int) -> bool:
    """Not fenced, not stopping, and heard of as the incarnation that is registered (Partition.isReplicaIsrEligible).

    As far as the controller told, and unless it took the replica out of the ISR after it had told so.
    """
    if S.eligibility == 0:
        return True
    known = state_of(L, T, lane, R[at, SLOT.id], now)
    if known < 0:
        return True
    told_at = T.brokers[known, BROKER.ts] + L[lane, LANE.ahead]
    if T.brokers[known, BROKER.serving] == 0 or told_at <= R[at, SLOT.barred]:
        return False
    if T.brokers[known, BROKER.epoch] != NULL and R[at, SLOT.epoch] >= 0:
        return bool(T.brokers[known, BROKER.epoch] == R[at, SLOT.epoch])
    started = T.brokers[known, BROKER.started]
    return bool(started == NULL or lean(L, lane) or R[at, SLOT.last_fetch] >= started + L[lane, LANE.ahead])


@kernel
def beyond(L: Records, S: Settings, lane: int) -> int:
    """How much further than this lane everybody must have told: the controller's clock may be ahead of its own."""
    return S.race - L[lane, LANE.ahead] if L[lane, LANE.ahead] < 0 else 0


@kernel
def compare_clocks(L: Records, T: Timeline, S: Settings, lane: int, now: int) -> None:
    """How far this broker's clock is ahead of the controller's: both told of the present partition epoch.

    A way there of up to the race window is no difference of clocks; the smallest told counts.
    """
    if L[lane, LANE.learnt] == NULL:
        return
    key = (L[lane, LANE.partition] << 32) | (L[lane, LANE.partition_epoch] & 0xFFFFFFFF)
    at = as_of(T.recorded, key, now + beyond(L, S, lane))
    while at >= 0 and T.recorded[at, RECORD.key] == key:
        if T.recorded[at, RECORD.topic_id] == L[lane, LANE.topic_id]:
            ahead = L[lane, LANE.learnt] - T.recorded[at, RECORD.ts]
            L[lane, LANE.learnt] = NULL
            if abs(ahead) <= S.grace and not 0 <= ahead - L[lane, LANE.ahead] <= S.race:
                L[lane, LANE.ahead] = ahead
            return
        at -= 1
    if now - L[lane, LANE.learnt] > 2 * S.grace:
        L[lane, LANE.learnt] = NULL


@kernel
def configured(T: Timeline, cluster: int, topic: int, ts: int) -> tuple[int, int]:
    """(min ISR, lag max in microseconds) told for this topic, NULL32 and NULL where not told."""
    at = as_of(T.configs, (cluster << 32) | (topic & 0xFFFFFFFF), ts)
    if at < 0:
        return NULL32, NULL
    return T.configs[at, CONFIG.min_isr], T.configs[at, CONFIG.lag]


@kernel
def settle_config(L: Records, T: Timeline, S: Settings, lane: int, ts: int, lag_too: bool) -> None:
    """min ISR: topic config, else what the leader told, else cluster config, else the rule; lag likewise."""
    topic_min, topic_lag = configured(T, L[lane, LANE.cluster], L[lane, LANE.topic], ts)
    cluster_min, cluster_lag = configured(T, L[lane, LANE.cluster], -1, ts)
    if topic_min != NULL32:
        L[lane, LANE.min_isr] = topic_min
    elif L[lane, LANE.told_min_isr] != NULL32:
        L[lane, LANE.min_isr] = L[lane, LANE.told_min_isr]
    elif cluster_min != NULL32:
        L[lane, LANE.min_isr] = cluster_min
    else:
        L[lane, LANE.min_isr] = S.min_isr
    if lag_too:
        L[lane, LANE.lag_max] = topic_lag if topic_lag != NULL else (cluster_lag if cluster_lag != NULL else S.lag_max)


@hot
def put_hw(
    L: Records,
    O: Records,
    o: int,
    lane: int,
    ts: int,
    kind: int,
    reported: int,
    holding: int,
    agreement: int,
    S: Settings,
) -> int:
    O[o, ROW.lane] = lane
    O[o, ROW.ts] = ts
    O[o, ROW.kind] = kind
    O[o, ROW.hw] = L[lane, LANE.hw]
    O[o, ROW.reported] = reported
    O[o, ROW.leader_leo] = L[lane, LANE.leader_leo]
    O[o, ROW.isr] = L[lane, LANE.isr]
    O[o, ROW.holding] = holding
    O[o, ROW.frozen] = L[lane, LANE.frozen] & S.strict
    O[o, ROW.agreement] = agreement
    O[o, ROW.leader_epoch] = L[lane, LANE.leader_epoch]
    O[o, ROW.topic_id] = L[lane, LANE.topic_id]
    O[o, ROW.level] = L[lane, LANE.level]
    return o + 1


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
def lean(L: Records, lane: int) -> bool:
    """Levels 2 and 0 tell no fetches: silence says nothing, and a report is the only witness of LEOs."""
    return bool(L[lane, LANE.level] % 2 == 0)


@hot
def renew_deadline(L: Records, R: Records, width: int, lane: int) -> None:
    earliest = NEVER
    for k in range(L[lane, LANE.slots]):
        earliest = min(earliest, R[lane * width + k, SLOT.due])
    L[lane, LANE.deadline] = earliest


@hot
def threshold(L: Records, R: Records, lane: int, at: int, since: int, S: Settings) -> int:
    """When this replica's state changes next if nothing is heard: strictly more than half the lag, or the lag."""
    if R[at, SLOT.caught_up] == NULL or R[at, SLOT.sync] == OUT_OF_SYNC or S.max_messages >= 0:
        return NEVER
    patience = L[lane, LANE.lag_max] // 2 if R[at, SLOT.sync] == IN_SYNC else L[lane, LANE.lag_max]
    return int(max(R[at, SLOT.caught_up] + patience + MS, since))


@hot
def pass_deadlines(L: Records, R: Records, width: int, lane: int, now: int, S: Settings, Y: Records, y: int) -> int:
    """Replicas that nobody heard of in time: lagging after half the lag, out of sync after all of it."""
    while L[lane, LANE.deadline] < now:
        due = L[lane, LANE.deadline]
        for k in range(L[lane, LANE.slots]):
            at = lane * width + k
            if R[at, SLOT.due] == due:
                late = due - R[at, SLOT.caught_up] > L[lane, LANE.lag_max]
                y = put_sync(L, R, Y, y, lane, at, k, due, OUT_OF_SYNC if late else LAGGING)
                R[at, SLOT.due] = threshold(L, R, lane, at, due, S)
        renew_deadline(L, R, width, lane)
    return y


@hot
def judge(L: Records, R: Records, width: int, lane: int, slot: int, now: int, S: Settings, Y: Records, y: int) -> int:
    """The state of one replica after something of it was told."""
    at = lane * width + slot
    if R[at, SLOT.id] == L[lane, LANE.broker]:
        return y
    if S.max_messages >= 0:
        behind = (
            L[lane, LANE.leader_leo] != NULL
            and R[at, SLOT.leo] >= 0
            and L[lane, LANE.leader_leo] - R[at, SLOT.leo] > S.max_messages
        )
        state = OUT_OF_SYNC if behind else IN_SYNC
        return y if state == R[at, SLOT.sync] else put_sync(L, R, Y, y, lane, at, slot, now, state)
    if R[at, SLOT.leo] == L[lane, LANE.leader_leo]:
        R[at, SLOT.due] = NEVER
        if R[at, SLOT.sync] != IN_SYNC:
            y = put_sync(L, R, Y, y, lane, at, slot, now, IN_SYNC)
    elif R[at, SLOT.caught_up] != NULL:
        waited = now - R[at, SLOT.caught_up]
        if waited <= L[lane, LANE.lag_max] // 2:
            if R[at, SLOT.sync] != IN_SYNC:
                y = put_sync(L, R, Y, y, lane, at, slot, now, IN_SYNC)
        elif waited <= L[lane, LANE.lag_max] and R[at, SLOT.sync] == OUT_OF_SYNC:
            y = put_sync(L, R, Y, y, lane, at, slot, now, LAGGING)
        since = now if waited > 0 and R[at, SLOT.due] == NEVER else R[at, SLOT.caught_up]
        R[at, SLOT.due] = threshold(L, R, lane, at, since, S)
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
        at = lane * width + k
        if R[at, SLOT.id] == L[lane, LANE.broker]:
            R[at, SLOT.leo] = leo
            continue
        if lean(L, lane) and R[at, SLOT.leo] >= 0 and R[at, SLOT.leo] == L[lane, LANE.leader_leo]:
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
    if S.max_messages >= 0:
        for k in range(L[lane, LANE.slots]):
            y = judge(L, R, width, lane, k, now, S, Y, y)
    return y


@hot
def hw_rose(L: Records, lane: int, now: int, stat: int, A: Stats) -> None:
    """Bookkeeping of a higher HW: how long the append waited, since when the HW stands below the LEO."""
    if L[lane, LANE.append_ts] != NULL and L[lane, LANE.hw] >= L[lane, LANE.append_leo]:
        if stat >= 0:
            A.append_to_hw[stat, first_not_below(A.bounds_us, now - L[lane, LANE.append_ts])] += 1
        L[lane, LANE.append_ts] = NULL
    L[lane, LANE.stalled_since] = NULL if L[lane, LANE.hw] >= L[lane, LANE.leader_leo] else now


@hot
def last_open(O: Records, o: int, first: int, kind: int, value: int, ts: int, race: int) -> int:
    """The last report (kind REPORT) or reconstructed value (ADVANCE) of this term within the race window
    that has no pair yet; of this value, or of any where it is NULL; else -1."""
    column = ROW.reported if kind == REPORT else ROW.hw
    at = o - 1
    while at >= first and O[at, ROW.ts] >= ts - race and O[at, ROW.kind] != TERM_START:
        if O[at, ROW.agreement] == OPEN and O[at, ROW.kind] == kind and (value == NULL or O[at, column] == value):
            return at
        at -= 1
    return -1


@hot
def counting(L: Records, R: Records, T: Timeline, S: Settings, width: int, lane: int, slot: int, now: int) -> bool:
    """Whether a replica holds the HW: in the maximal ISR, or caught up and eligible to join (1.1 a, b)."""
    if ((L[lane, LANE.isr] | L[lane, LANE.joining]) >> slot) & 1:
        return True
    at = lane * width + slot
    if R[at, SLOT.leo] < 0 or R[at, SLOT.caught_up] == NULL:
        return False
    caught_up = R[at, SLOT.leo] == L[lane, LANE.leader_leo] or now - R[at, SLOT.caught_up] <= L[lane, LANE.lag_max]
    return bool(caught_up and eligible(L, R, T, S, lane, at, now))


@hot
def lowest(L: Records, R: Records, T: Timeline, S: Settings, width: int, lane: int, now: int) -> tuple[int, int]:
    """(min LEO over the replicas that count, which of them stand there); -1 where one is unknown."""
    low, holding = L[lane, LANE.leader_leo], 0
    for k in range(L[lane, LANE.slots]):
        at = lane * width + k
        leo = L[lane, LANE.leader_leo] if R[at, SLOT.id] == L[lane, LANE.broker] else R[at, SLOT.leo]
        if R[at, SLOT.id] != L[lane, LANE.broker] and not counting(L, R, T, S, width, lane, k, now):
            continue
        if leo < 0:
            return -1, 0
        if leo < low:
            low, holding = leo, 0
        if leo == low:
            holding |= 1 << k
    return low, holding


@hot
def try_advance(
    L: Records, R: Records, T: Timeline, S: Settings, A: Stats, width: int, lane: int, now: int, stat: int,
    O: Records, o: int, first: int, agreement: int,
) -> int:  # fmt: skip
    """One attempt to raise the HW (Partition.maybeIncrementLeaderHW): min LEO over those that count."""
    if (
        L[lane, LANE.state] == IDLE
        or L[lane, LANE.isr_known] == 0
        or L[lane, LANE.leader_leo] == NULL
        or L[lane, LANE.hw] == NULL
    ):
        return o
    if L[lane, LANE.held] != 0 or (S.strict == 1 and L[lane, LANE.frozen] == 1):
        return o
    low, holding = lowest(L, R, T, S, width, lane, now)
    if low <= L[lane, LANE.hw]:
        return o
    L[lane, LANE.hw] = low
    hw_rose(L, lane, now, stat, A)
    reported = NULL
    if agreement == OPEN:
        open_report = last_open(O, o, first, REPORT, low, now, S.race)
        if open_report >= 0:
            O[open_report, ROW.agreement] = MATCHED
            agreement, reported = RACE, low
            L[lane, LANE.agreed] = max(L[lane, LANE.agreed], low)
    else:
        reported = low
    return put_hw(L, O, o, lane, now, ADVANCE, reported, holding, agreement, S)


@kernel
def believe(L: Records, R: Records, S: Settings, A: Stats, width: int, lane: int, hw: int, now: int, stat: int,
            O: Records, o: int) -> int:  # fmt: skip
    """A report that is the only evidence: the HW is what it says."""
    L[lane, LANE.hw] = hw
    L[lane, LANE.agreed] = max(L[lane, LANE.agreed], hw)
    hw_rose(L, lane, now, stat, A)
    return put_hw(L, O, o, lane, now, ADVANCE, hw, 0, ONLY_WITNESS, S)


@kernel
def contradicted(L: Records, lane: int, slot: int, leo: int, now: int, S: Settings) -> bool:
    """Whether a LEO lies below a level-2 report that told of every LEO of the maximal ISR, and no race explains it."""
    if L[lane, LANE.witness] == NULL or leo >= L[lane, LANE.witness] or leo < 0:
        return False
    member = ((L[lane, LANE.isr] | L[lane, LANE.joining]) >> slot) & 1
    return bool(member and now - L[lane, LANE.witness_ts] > S.race)


@kernel
def take_back(
    L: Records, R: Records, S: Settings, width: int, lane: int, leo: int, now: int, O: Records, o: int, first: int,
    Y: Records, y: int, M: Marks, j: int,
) -> tuple[int, int]:  # fmt: skip
    """The last believed report was false: HW and LEOs are those of before it, and reports in its shade count.

    `leo` is what showed it; the HW is not above it.
    """
    wrong = L[lane, LANE.witness]
    L[lane, LANE.witness] = NULL
    if L[lane, LANE.agreed] == wrong:
        if L[lane, LANE.low_reports] > 1:
            M[j] |= TAKEN_BACK
        L[lane, LANE.agreed] = min(L[lane, LANE.agreed_before], leo)
        L[lane, LANE.low_reports] = 0
    if L[lane, LANE.hw] == wrong:
        L[lane, LANE.hw] = min(L[lane, LANE.hw_before], leo)
        y = lower_to_told(L, R, width, lane, now, S, Y, y)
        y = believe_shaded(L, R, S, width, lane, wrong, now, O, o, first, Y, y)
    return put_hw(L, O, o, lane, now, REPORT, wrong, 0, DISAGREE, S), y


@kernel
def lower_to_told(L: Records, R: Records, width: int, lane: int, now: int, S: Settings, Y: Records, y: int) -> int:
    """LEOs that a false report raised are again what was told of them, or the HW."""
    L[lane, LANE.leader_leo] = max(L[lane, LANE.told_leo], L[lane, LANE.hw])
    L[lane, LANE.stalled_since] = NULL if L[lane, LANE.hw] >= L[lane, LANE.leader_leo] else now
    for k in range(L[lane, LANE.slots]):
        at = lane * width + k
        if R[at, SLOT.id] == L[lane, LANE.broker]:
            R[at, SLOT.leo] = L[lane, LANE.leader_leo]
            continue
        R[at, SLOT.leo] = min(R[at, SLOT.leo], max(R[at, SLOT.told], L[lane, LANE.hw]))
        if R[at, SLOT.last_fetch_leader_leo] > L[lane, LANE.leader_leo]:
            R[at, SLOT.last_fetch_leader_leo] = 0  # not known: it counts as caught up then, late but not early
        y = judge(L, R, width, lane, k, now, S, Y, y)
    return y


@kernel
def believe_shaded(
    L: Records, R: Records, S: Settings, width: int, lane: int, wrong: int, now: int, O: Records, o: int, first: int,
    Y: Records, y: int,
) -> int:  # fmt: skip
    """Reports that lay below the false one and are not final yet tell the HW after all."""
    at = o
    while at > first and O[at - 1, ROW.ts] >= now - S.race and O[at - 1, ROW.kind] != TERM_START:
        at -= 1
    for r in range(at, o):
        told = O[r, ROW.reported]
        shaded = O[r, ROW.kind] == REPORT and O[r, ROW.agreement] == OPEN
        if shaded and L[lane, LANE.hw] < told < wrong:
            y = raise_to(L, R, width, lane, told, now, S, Y, y)
            rely_on(L, lane, told, O[r, ROW.ts])
            O[r, ROW.kind], O[r, ROW.agreement], O[r, ROW.hw] = ADVANCE, ONLY_WITNESS, told
            O[r, ROW.leader_leo] = L[lane, LANE.leader_leo]
            L[lane, LANE.hw] = told
            L[lane, LANE.agreed] = max(L[lane, LANE.agreed], told)
    return y


@kernel
def rely_on(L: Records, lane: int, hw: int, ts: int) -> None:
    """Remembers what a level-2 report is about to change, until a LEO shows it false."""
    L[lane, LANE.witness] = hw
    L[lane, LANE.witness_ts] = ts
    L[lane, LANE.hw_before] = L[lane, LANE.hw]
    L[lane, LANE.agreed_before] = L[lane, LANE.agreed]


@kernel
def raise_to(L: Records, R: Records, width: int, lane: int, hw: int, now: int, S: Settings, Y: Records, y: int) -> int:
    """At level 2 a report tells that every LEO of the maximal ISR is at least it, as if they had fetched."""
    y = leo_grew(L, R, width, lane, hw, now, S, Y, y)
    for k in range(L[lane, LANE.slots]):
        at = lane * width + k
        if (
            ((L[lane, LANE.isr] | L[lane, LANE.joining]) >> k) & 1
            and R[at, SLOT.id] != L[lane, LANE.broker]
            and R[at, SLOT.leo] < hw
        ):
            R[at, SLOT.leo] = hw
            y = fetched(L, R, width, lane, k, hw, L[lane, LANE.leader_leo], now, S, Y, y)
    return y


@hot
def fetched(
    L: Records, R: Records, width: int, lane: int, slot: int, leo: int, leader_leo: int, now: int, S: Settings,
    Y: Records, y: int,
) -> int:  # fmt: skip
    """Last caught up, after a fetch at `leo` with the leader's log ending at `leader_leo` (rule 2.2)."""
    at = lane * width + slot
    if leader_leo != NULL:
        if leo >= leader_leo:
            R[at, SLOT.caught_up] = max(R[at, SLOT.caught_up], now)
        elif leo >= R[at, SLOT.last_fetch_leader_leo] and R[at, SLOT.last_fetch] > 0:
            R[at, SLOT.caught_up] = max(R[at, SLOT.caught_up], R[at, SLOT.last_fetch])
        R[at, SLOT.last_fetch_leader_leo] = max(leader_leo, R[at, SLOT.last_fetch_leader_leo])
    R[at, SLOT.last_fetch] = now
    return judge(L, R, width, lane, slot, now, S, Y, y)


@kernel
def on_report(
    L: Records, R: Records, T: Timeline, S: Settings, A: Stats, width: int, lane: int, hw: int, now: int, stat: int,
    O: Records, o: int, first: int, Y: Records, y: int, M: Marks, P: Records, j: int,
) -> tuple[int, int]:  # fmt: skip
    """The broker says its HW became `hw`: compare, or believe it where nothing else tells."""
    if L[lane, LANE.agreed] != NULL and hw < L[lane, LANE.agreed]:
        L[lane, LANE.low_reports] += 1
        if L[lane, LANE.low_reports] == 2:
            M[j] |= MOVED_BACK
            P[j, PACKED.leader_leo] = L[lane, LANE.agreed]
    else:
        L[lane, LANE.low_reports] = 0
    mine = 1 << max(slot_of(L, R, width, lane, L[lane, LANE.broker]), 0)
    if L[lane, LANE.hw] == NULL or L[lane, LANE.isr_known] == 0 or (L[lane, LANE.held] != 0 and hw > L[lane, LANE.hw]):
        if L[lane, LANE.leader_leo] != NULL:
            y = leo_grew(L, R, width, lane, hw, now, S, Y, y)
        return believe(L, R, S, A, width, lane, hw, now, stat, O, o), y
    at = last_open(O, o, first, ADVANCE, hw, now, S.race)
    if at >= 0:
        O[at, ROW.agreement] = EXACT if hw == L[lane, LANE.hw] else RACE
        O[at, ROW.reported] = hw
        L[lane, LANE.agreed] = max(L[lane, LANE.agreed], hw)
        return o, y
    if (L[lane, LANE.isr] | L[lane, LANE.joining]) == mine:
        awaited = last_open(O, o, first, ADVANCE, NULL, now, S.race)
        if awaited >= 0:  # this is the report of that value, and says another
            O[awaited, ROW.agreement] = UNREPORTED
            return put_hw(L, O, o, lane, now, REPORT, hw, 0, DISAGREE, S), y
        told = L[lane, LANE.leader_leo] != NULL and hw <= L[lane, LANE.leader_leo]
        if not told and not (S.strict == 1 and L[lane, LANE.frozen] == 1):
            y = leo_grew(L, R, width, lane, hw, now, S, Y, y)
            low, _ = lowest(L, R, T, S, width, lane, now)
            if low == hw:
                o = try_advance(L, R, T, S, A, width, lane, now, stat, O, o, first, ONLY_WITNESS)
                L[lane, LANE.agreed] = max(L[lane, LANE.agreed], hw)
                return o, y
    if lean(L, lane) and hw > L[lane, LANE.hw]:
        y = raise_to(L, R, width, lane, hw, now, S, Y, y)
        rely_on(L, lane, hw, now)
        return believe(L, R, S, A, width, lane, hw, now, stat, O, o), y
    return put_hw(L, O, o, lane, now, REPORT, hw, 0, ONLY_WITNESS if L[lane, LANE.held] != 0 else OPEN, S), y


@kernel
def weigh_isr(L: Records, S: Settings, lane: int, O: Records, o: int, now: int) -> int:
    """Under min ISR: the committed ISR is smaller than min(min.insync.replicas, replicas) (rule 1.3)."""
    size = popcount(L[lane, LANE.isr])
    effective = min(L[lane, LANE.min_isr], max(L[lane, LANE.assigned_count], 1))
    under = 1 if L[lane, LANE.isr_known] == 1 and size < effective else 0
    if under == L[lane, LANE.frozen]:
        return o
    L[lane, LANE.frozen] = under
    if S.strict == 1:
        return put_hw(L, O, o, lane, now, FREEZE if under else THAW, NULL, 0, UNREPORTED, S)
    return o


@kernel
def set_isr(L: Records, lane: int, isr: int) -> None:
    """The committed ISR; nothing is in flight any more."""
    L[lane, LANE.isr] = isr
    L[lane, LANE.isr_known] = 1
    L[lane, LANE.joining] = 0
    L[lane, LANE.asked] = 0
    L[lane, LANE.held] &= isr
    L[lane, LANE.assigned] |= isr
    L[lane, LANE.assigned_count] = popcount(L[lane, LANE.assigned])


@kernel
def end_term(L: Records, R: Records, width: int, lane: int, now: int, E: Records, e: int) -> int:
    """Keeps what later verdicts ask of a term that is over."""
    if L[lane, LANE.state] == IDLE:
        return e
    fetchers = 0
    for k in range(L[lane, LANE.slots]):
        if R[lane * width + k, SLOT.leo] >= 0 and R[lane * width + k, SLOT.id] != L[lane, LANE.broker]:
            fetchers |= 1 << k
    E[e, TERM.lane] = lane
    E[e, TERM.start] = L[lane, LANE.term_start]
    E[e, TERM.end] = now
    E[e, TERM.hw] = L[lane, LANE.hw]
    E[e, TERM.leader_leo] = L[lane, LANE.leader_leo]
    E[e, TERM.fetchers] = fetchers
    L[lane, LANE.frozen] = 0
    L[lane, LANE.isr_known] = 0
    L[lane, LANE.state] = IDLE
    return e + 1


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
def reset_replicas(
    L: Records, R: Records, width: int, lane: int, led_before: bool, now: int, S: Settings, Y: Records, y: int
) -> int:
    """What a new leader epoch does to the leader's record of its followers (rule 2.3)."""
    for k in range(L[lane, LANE.slots]):
        at = lane * width + k
        in_isr = (L[lane, LANE.isr] >> k) & 1
        told = not lean(L, lane)
        if led_before:
            R[at, SLOT.last_fetch_leader_leo] = L[lane, LANE.leader_leo]
            R[at, SLOT.last_fetch] = now if in_isr else 0
        else:
            forget(R, at)
        R[at, SLOT.caught_up] = now if in_isr and told else NULL
        R[at, SLOT.due] = NEVER
        if R[at, SLOT.id] == L[lane, LANE.broker]:
            R[at, SLOT.leo] = L[lane, LANE.leader_leo]
            continue
        if in_isr:
            if R[at, SLOT.sync] != IN_SYNC:
                y = put_sync(L, R, Y, y, lane, at, k, now, IN_SYNC)
            R[at, SLOT.due] = threshold(L, R, lane, at, now, S)
        elif told and (L[lane, LANE.assigned] >> k) & 1 and R[at, SLOT.sync] != OUT_OF_SYNC:
            y = put_sync(L, R, Y, y, lane, at, k, now, OUT_OF_SYNC)
    renew_deadline(L, R, width, lane)
    return y


@kernel
def start_term(
    L: Records, R: Records, C: Columns, T: Timeline, S: Settings, A: Stats, width: int, lane: int, i: int, now: int,
    stat: int, assigned: int, O: Records, o: int, first: int, Y: Records, y: int, E: Records, e: int,
) -> tuple[int, int, int]:  # fmt: skip
    """A `leader` event: a new term with start offset, HW and ISR as told."""
    led_before = (
        L[lane, LANE.state] == LEADING and C.leader_epoch[i] > L[lane, LANE.leader_epoch] and _alive(L, T, lane, now)
    )
    e = end_term(L, R, width, lane, now, E, e)
    L[lane, LANE.state] = LEADING
    L[lane, LANE.level] = C.level[i]
    L[lane, LANE.leader_epoch] = C.leader_epoch[i]
    L[lane, LANE.partition_epoch] = C.partition_epoch[i]
    L[lane, LANE.topic_id] = C.topic_id[i]
    L[lane, LANE.learnt] = now if C.partition_epoch[i] != NULL32 else NULL
    apart = as_of(T.apart, (L[lane, LANE.partition] << 32) | (L[lane, LANE.broker] & 0xFFFFFFFF), now)
    if apart >= 0:
        L[lane, LANE.ahead] = T.apart[apart, APART.at.ahead]
    L[lane, LANE.deposed] = 0
    L[lane, LANE.term_start] = C.ts[i]
    L[lane, LANE.start_offset] = C.leo[i]
    L[lane, LANE.hw] = C.hw[i]
    L[lane, LANE.leader_leo] = C.leo[i]
    L[lane, LANE.told_leo] = C.leo[i]
    L[lane, LANE.agreed] = C.hw[i]
    L[lane, LANE.low_reports] = 0
    L[lane, LANE.held] = 0
    L[lane, LANE.witness] = NULL
    L[lane, LANE.append_ts] = NULL
    L[lane, LANE.stalled_since] = now if C.hw[i] < C.leo[i] else NULL
    L[lane, LANE.told_min_isr] = C.min_isr[i]
    L[lane, LANE.assigned] = assigned | (1 << slot_of(L, R, width, lane, L[lane, LANE.broker]))
    settle_config(L, T, S, lane, now, True)
    if C.lag_max_ms[i] != NULL32:
        L[lane, LANE.lag_max] = C.lag_max_ms[i] * MS
    set_isr(L, lane, mask_of(L, R, width, lane, C.isr_ids, C.isr_from[i], C.isr_from[i + 1]))
    y = reset_replicas(L, R, width, lane, led_before, now, S, Y, y)
    o = put_hw(L, O, o, lane, C.ts[i], TERM_START, NULL, 0, UNREPORTED, S)
    o = weigh_isr(L, S, lane, O, o, now)
    o = try_advance(L, R, T, S, A, width, lane, now, stat, O, o, first, OPEN)
    return o, y, e


@kernel
def begins_whole(L: Records, lane: int, C: Columns, i: int, leader_rows: I64, assigned_from: I64) -> bool:
    """A first term with every assigned replica in the ISR: nothing that a source not heard of yet could tell bears
    on it."""
    at_row = first_not_below(leader_rows, i)
    assigned = assigned_from[at_row + 1] - assigned_from[at_row]
    isr = C.isr_from[i + 1] - C.isr_from[i]
    return bool(L[lane, LANE.state] == IDLE and 0 < assigned <= isr)


@kernel
def shrinks_below_assigned(L: Records, lane: int, C: Columns, i: int) -> bool:
    """An `isr` row from which on others may tell something of min ISR, or of a replica that is out."""
    assigned = max(L[lane, LANE.assigned_count], C.replicas_from[i + 1] - C.replicas_from[i])
    return bool(C.isr_from[i + 1] - C.isr_from[i] < assigned)


@kernel
def _alive(L: Records, T: Timeline, lane: int, now: int) -> bool:
    """The broker was not restarted since it began to lead, as far as the controller told."""
    at = state_of(L, T, lane, L[lane, LANE.broker], now)
    if at < 0 or T.brokers[at, BROKER.serving] == 0:
        return True
    started = T.brokers[at, BROKER.started]
    since = started if started != NULL else T.brokers[at, BROKER.ts]
    return bool(since + L[lane, LANE.ahead] <= L[lane, LANE.term_start])


@kernel
def begin_midflight(L: Records, T: Timeline, S: Settings, C: Columns, lane: int, i: int, now: int) -> None:
    """A broker seen leading whose `leader` event was not told: term, HW and ISR are unknown until told."""
    L[lane, LANE.state] = MIDFLIGHT
    L[lane, LANE.level] = C.level[i]
    L[lane, LANE.leader_epoch] = C.leader_epoch[i]
    L[lane, LANE.partition_epoch] = NULL32
    L[lane, LANE.term_start] = C.ts[i]
    L[lane, LANE.start_offset] = NULL
    L[lane, LANE.hw] = NULL
    L[lane, LANE.leader_leo] = NULL
    L[lane, LANE.told_leo] = NULL
    L[lane, LANE.agreed] = NULL
    L[lane, LANE.low_reports] = 0
    L[lane, LANE.witness] = NULL
    L[lane, LANE.isr_known] = 0
    L[lane, LANE.isr] = 0
    L[lane, LANE.joining] = 0
    L[lane, LANE.asked] = 0
    L[lane, LANE.learnt] = NULL
    L[lane, LANE.held] = 0
    L[lane, LANE.told_min_isr] = NULL32
    settle_config(L, T, S, lane, now, True)


@kernel
def on_isr(
    L: Records, R: Records, C: Columns, T: Timeline, S: Settings, A: Stats, M: Marks, width: int, lane: int, i: int,
    j: int, stat: int, now: int, O: Records, o: int, first: int, Y: Records, y: int,
) -> tuple[int, int]:  # fmt: skip
    """A committed ISR, from the AlterPartition answer or from metadata, whichever came first."""
    if C.isr_from_whom[i] == BY_CONTROLLER or (C.leader_id[i] != NULL32 and C.leader_id[i] != L[lane, LANE.broker]):
        return o, y
    known = C.partition_epoch[i] != NULL32 and L[lane, LANE.partition_epoch] != NULL32
    if known and C.partition_epoch[i] < L[lane, LANE.partition_epoch]:
        return o, y
    isr = mask_of(L, R, width, lane, C.isr_ids, C.isr_from[i], C.isr_from[i + 1])
    assigned = mask_of(L, R, width, lane, C.replicas_ids, C.replicas_from[i], C.replicas_from[i + 1])
    if assigned:
        y = assign(L, R, S, width, lane, assigned, isr, now, Y, y)
    if known and C.partition_epoch[i] == L[lane, LANE.partition_epoch]:
        return o, y
    M[j] |= _foretold(L, R, width, lane, L[lane, LANE.isr] & ~isr)
    if C.partition_epoch[i] != NULL32:
        L[lane, LANE.partition_epoch] = C.partition_epoch[i]
        L[lane, LANE.learnt] = now
    if C.isr_from_whom[i] == BY_METADATA and isr != L[lane, LANE.asked]:
        for k in range(L[lane, LANE.slots]):
            if ((L[lane, LANE.isr] & ~isr) >> k) & 1:
                R[lane * width + k, SLOT.barred] = now
    set_isr(L, lane, isr)
    if popcount(isr) < L[lane, LANE.assigned_count]:
        compare_clocks(L, T, S, lane, now)
    settle_config(L, T, S, lane, now, False)
    o = weigh_isr(L, S, lane, O, o, now)
    return try_advance(L, R, T, S, A, width, lane, now, stat, O, o, first, OPEN), y


@kernel
def assign(
    L: Records, R: Records, S: Settings, width: int, lane: int, assigned: int, isr: int, now: int, Y: Records, y: int
) -> int:
    """Who is assigned from now on: of a new replica nothing is known, and it is out of sync until it caught up."""
    before = L[lane, LANE.assigned]
    for k in range(L[lane, LANE.slots]):
        at = lane * width + k
        if not (((assigned ^ before) & ~isr) >> k) & 1 or R[at, SLOT.id] == L[lane, LANE.broker]:
            continue
        if (before >> k) & 1:
            forget(R, at)
            R[at, SLOT.sync] = IN_SYNC
        elif R[at, SLOT.leo] < 0 and not lean(L, lane) and S.max_messages < 0:
            y = put_sync(L, R, Y, y, lane, at, k, now, OUT_OF_SYNC)
    L[lane, LANE.assigned] = assigned
    renew_deadline(L, R, width, lane)
    return y


@kernel
def _foretold(L: Records, R: Records, width: int, lane: int, removed: int) -> int:
    """Whether the lag rule held for every removed replica before the commit."""
    if removed == 0:
        return 0
    for k in range(L[lane, LANE.slots]):
        if (removed >> k) & 1 and R[lane * width + k, SLOT.sync] != OUT_OF_SYNC:
            return NOT_FORETOLD
    return FORETOLD


@hot
def on_leo(
    L: Records, R: Records, T: Timeline, S: Settings, A: Stats, width: int, lane: int, kind: int, replica: int,
    leo: int, leader_leo: int, now: int, stat: int, O: Records, o: int, first: int, Y: Records, y: int, M: Marks,
    j: int, C: Columns, i: int,
) -> tuple[int, int]:  # fmt: skip
    """A replica's LEO, by its fetch or by the leader's own record of it; `leader_leo` where told with it."""
    slot = slot_of(L, R, width, lane, replica)
    at = lane * width + slot
    if kind == FETCH and (R[at, SLOT.epoch] == NULL or not (L[lane, LANE.isr] >> slot) & 1):
        R[at, SLOT.epoch] = max(C.broker_epoch[i], -1)  # a member of the ISR cannot be another one than joined it
    false_witness = contradicted(L, lane, slot, leo, now, S)
    if false_witness:
        o, y = take_back(L, R, S, width, lane, leo, now, O, o, first, Y, y, M, j)
    y = leo_grew(L, R, width, lane, max(leader_leo, leo), now, S, Y, y)
    L[lane, LANE.told_leo] = max(L[lane, LANE.told_leo], max(leader_leo, leo))
    R[at, SLOT.told] = leo
    changed = false_witness or leo != R[at, SLOT.leo]
    L[lane, LANE.held] &= ~(1 << slot)
    if leader_leo != NULL:
        L[lane, LANE.held] &= ~(1 << slot_of(L, R, width, lane, L[lane, LANE.broker]))
    R[at, SLOT.leo] = leo
    if kind == FETCH:
        end = leader_leo if leader_leo != NULL else L[lane, LANE.leader_leo]
        y = fetched(L, R, width, lane, slot, leo, end, now, S, Y, y)
        if L[lane, LANE.leader_leo] != NULL:
            A.lag[stat, first_not_below(A.bounds_records, max(L[lane, LANE.leader_leo] - leo, 0))] += 1
    elif lean(L, lane) and changed:
        y = fetched(L, R, width, lane, slot, leo, L[lane, LANE.leader_leo], now, S, Y, y)
    elif changed:
        y = judge(L, R, width, lane, slot, now, S, Y, y)
    if changed:
        o = try_advance(L, R, T, S, A, width, lane, now, stat, O, o, first, OPEN)
    if S.replica_hw == 1 and kind == FETCH:
        y = follow_hw(L, R, lane, at, slot, now, Y, y)
    return o, y


@kernel
def follow_hw(L: Records, R: Records, lane: int, at: int, slot: int, now: int, Y: Records, y: int) -> int:
    """The follower's HW once it took in the last answer: min(HW in it, own LEO) (rule 1.5); it may fall."""
    hw = min(R[at, SLOT.answered], R[at, SLOT.leo])
    if R[at, SLOT.answered] != NULL and hw != R[at, SLOT.hw]:
        sync = R[at, SLOT.sync]
        y = put_sync(L, R, Y, y, lane, at, slot, now, REPLICA_HW)
        R[at, SLOT.sync] = sync
        R[at, SLOT.hw] = hw
        Y[y - 1, SYNC.leo] = hw
    R[at, SLOT.answered] = L[lane, LANE.hw]
    return y


@hot
def own_report(L: Records, lane: int, replica: int, leader_id: int) -> bool:
    """An `hw` row that tells the leader's HW, not that of this broker as a follower."""
    if replica != L[lane, LANE.broker]:
        return False
    return leader_id == L[lane, LANE.broker] or (leader_id == NULL32 and L[lane, LANE.state] != IDLE)


@kernel
def hold(L: Records, lane: int) -> None:
    """Telemetry is missing: every LEO of the maximal ISR has to be told again."""
    if L[lane, LANE.state] != IDLE:
        L[lane, LANE.held] = L[lane, LANE.isr] | L[lane, LANE.joining]
        L[lane, LANE.append_ts] = NULL


@kernel
def pass_holds(L: Records, lane: int, holds: I64, pending: int, end: int, now: int) -> int:
    """Applies the holds that came up to `now`, each once; returns the first that is still to come."""
    while pending < end and holds[pending] <= now:
        if holds[pending] > L[lane, LANE.held_at]:
            hold(L, lane)
            L[lane, LANE.held_at] = holds[pending]
        pending += 1
    return pending


@kernel
def finish_rows(
    S: Settings, told: int, final: bool, O: Records, first: int, o: int, F: Records, f: int, K: Records, k: int
) -> tuple[int, int]:
    """Splits a lane's rows into final ones (to F) and ones that a later report may still match (to K)."""
    settled = told - S.race
    at = first
    while at < o and (final or O[at, ROW.ts] <= settled):
        if S.resolution > 0 and O[at, ROW.kind] == ADVANCE and O[at, ROW.agreement] != DISAGREE:
            later = at + 1
            while later < o and (O[later, ROW.kind] != ADVANCE or O[later, ROW.agreement] == MATCHED):
                later += 1
            window = O[at, ROW.ts] // S.resolution
            if later < o and O[later, ROW.ts] // S.resolution == window:
                at += 1
                continue
            if later == o and not final and settled < (window + 1) * S.resolution:
                break
        if O[at, ROW.agreement] != MATCHED:
            copy_row(O, at, F, f)
            if F[f, ROW.agreement] == OPEN:
                cut_off = final and O[at, ROW.ts] > settled
                F[f, ROW.agreement] = (
                    UNREPORTED if F[f, ROW.kind] == ADVANCE else (ONLY_WITNESS if cut_off else DISAGREE)
                )
            f += 1
        at += 1
    while at < o:
        if O[at, ROW.agreement] != MATCHED:
            copy_row(O, at, K, k)
            k += 1
        at += 1
    return f, k


@kernel
def run_lanes(
    J: Records, holds: I64, P: Records, leader_rows: I64, assigned_from: I64, assigned_ids: I32,
    C: Columns, L: Records, R: Records, width: int, T: Timeline, S: Settings, A: Stats, M: Marks,
    carry: Records, carry_from: I64, O: Records, F: Records, K: Records, Y: Records, E: Records,
    at: I64,
) -> None:  # fmt: skip
    """Runs the lanes of J from at[0] on; `at` = [job, final rows, kept rows, sync rows, ended terms, what was full].

    Returns early, with at[0] at the lane that did not fit, when an output or a lane's slots are full.
    """
    job, f, k, y, e = at[0], at[1], at[2], at[3], at[4]
    while job < len(J):
        lane = J[job, JOB.lane]
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
        if not give_slots(L, R, width, lane, C, P, start, end, leader_rows, assigned_from, assigned_ids):
            at[5] = SLOTS_FULL
            break
        o = 0
        for c in range(carry_from[lane], carry_from[lane] + L[lane, LANE.carried]):
            copy_row(carry, c, O, o)
            o += 1
        pending = J[job, JOB.holds_from]
        bound = J[job, JOB.told]
        for j in range(start, end):
            what, who = P[j, PACKED.what], P[j, PACKED.who]
            kind, stat, i = kind_of(what), what >> 16, P[j, PACKED.row]
            now = min(P[j, PACKED.ts], J[job, JOB.ceiling])
            clock = max(now, L[lane, LANE.last_ts])
            waits = L[lane, LANE.state] != LEADING or kind == LEADER
            waits = waits or popcount(L[lane, LANE.isr]) < L[lane, LANE.assigned_count]
            waits = waits or (kind == ISR and shrinks_below_assigned(L, lane, C, i))
            if waits and clock + beyond(L, S, lane) > J[job, JOB.everybody]:
                alone = kind == LEADER and begins_whole(L, lane, C, i, leader_rows, assigned_from)
                if not alone or clock > J[job, JOB.heard]:
                    bound = min(bound, clock)
                    break
            M[j] |= CONSUMED
            if what & 0x100:
                continue
            if what & 0x200:
                hold(L, lane)
            pending = pass_holds(L, lane, holds, pending, J[job, JOB.holds_to], clock)
            L[lane, LANE.last_ts] = clock
            A.events[stat] += 1
            if kind < 0:
                hold(L, lane)
                continue
            if L[lane, LANE.state] != IDLE:
                y = pass_deadlines(L, R, width, lane, clock, S, Y, y)
                if waits and kind != LEADER:
                    compare_clocks(L, T, S, lane, clock)
                    settle_config(L, T, S, lane, now, False)
                    o = weigh_isr(L, S, lane, O, o, now)
            if kind == LEADER:
                at_row = first_not_below(leader_rows, i)
                assigned = mask_of(L, R, width, lane, assigned_ids, assigned_from[at_row], assigned_from[at_row + 1])
                o, y, e = start_term(L, R, C, T, S, A, width, lane, i, now, stat, assigned, O, o, 0, Y, y, E, e)
                continue
            if kind == FOLLOWER:
                e = end_term(L, R, width, lane, now, E, e)
                L[lane, LANE.deadline] = NEVER
                continue
            if kind == HW and not own_report(L, lane, replica_of(who), who >> 32):
                M[j] |= OF_FOLLOWER
                continue
            if kind == ELECTION or kind == TRUNCATE:
                continue
            if L[lane, LANE.state] == IDLE:
                if kind == ISR or kind == REJECTED:
                    continue
                begin_midflight(L, T, S, C, lane, i, now)
                M[j] |= BEGAN_MIDFLIGHT
            if kind == FETCH or kind == REPLICA_LEO or kind == APPEND:
                leader_leo = P[j, PACKED.leader_leo]
                if kind == APPEND or replica_of(who) == L[lane, LANE.broker]:
                    end, mine = max(leader_leo, P[j, PACKED.leo]), slot_of(L, R, width, lane, L[lane, LANE.broker])
                    if contradicted(L, lane, mine, end, now, S):
                        o, y = take_back(L, R, S, width, lane, end, now, O, o, 0, Y, y, M, j)
                    y = leo_grew(L, R, width, lane, end, now, S, Y, y)
                    L[lane, LANE.told_leo] = max(L[lane, LANE.told_leo], end)
                    L[lane, LANE.held] &= ~(1 << mine)
                    o = try_advance(L, R, T, S, A, width, lane, now, stat, O, o, 0, OPEN)
                else:
                    leo = P[j, PACKED.leo]
                    o, y = on_leo(
                        L, R, T, S, A, width, lane, kind, replica_of(who), leo, leader_leo, now, stat, O, o, 0, Y, y,
                        M, j, C, i,
                    )  # fmt: skip
            elif kind == HW:
                o, y = on_report(L, R, T, S, A, width, lane, P[j, PACKED.hw], now, stat, O, o, 0, Y, y, M, P, j)
            elif kind == ISR:
                o, y = on_isr(L, R, C, T, S, A, M, width, lane, i, j, stat, now, O, o, 0, Y, y)
            elif kind == PROPOSED:
                asked = mask_of(L, R, width, lane, C.isr_ids, C.isr_from[i], C.isr_from[i + 1])
                L[lane, LANE.joining] = asked & ~L[lane, LANE.isr]
                L[lane, LANE.asked] = asked
                for slot in range(L[lane, LANE.slots]):
                    if (asked >> slot) & 1:
                        R[lane * width + slot, SLOT.barred] = NULL
            elif kind == REJECTED:
                L[lane, LANE.joining] = 0
                L[lane, LANE.asked] = 0
        pass_holds(L, lane, holds, pending, J[job, JOB.holds_to], bound)
        if L[lane, LANE.state] != IDLE:
            y = pass_deadlines(L, R, width, lane, bound, S, Y, y)
        before = k
        f, k = finish_rows(S, bound, J[job, JOB.final] == 1, O, 0, o, F, f, K, k)
        L[lane, LANE.carried] = k - before
        job += 1
    at[0], at[1], at[2], at[3], at[4] = job, f, k, y, e
