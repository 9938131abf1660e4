"""The term machine: what the leader's own telemetry says of its high watermark and its followers.

One pass over the rows of each lane, in the order of their numbers. Rules and their sources
(Apache Kafka classes): Partition.maybeIncrementLeaderHW, Replica.updateFetchStateOrThrow,
Replica.resetReplicaState, Partition.getOutOfSyncReplicas, Partition.isUnderMinIsr.
"""

from __future__ import annotations

from typing import NamedTuple

from numba import njit

from pipelines.replication.arrays import Records
from pipelines.replication.columns import CODE, I8, I32, I64, NULL, NULL32, Columns
from pipelines.replication.lanes import (
    ADVANCE,
    BEHIND,
    DISAGREE,
    EXACT,
    FREEZE,
    IDLE,
    IN_SYNC,
    LAGGING,
    LEADING,
    MIDFLIGHT,
    NEVER,
    NO_STATE,
    ONLY_WITNESS,
    OPEN,
    OUT_OF_SYNC,
    RACE,
    RECOVERED,
    REPORT,
    SILENT,
    TERM_START,
    THAW,
    UNREPORTED,
)

LEADER, FOLLOWER, APPEND, FETCH, HW = (CODE[n] for n in ("leader", "follower", "append", "fetch", "hw"))
PROPOSED, ISR, REJECTED, REPLICA_LEO = (CODE[n] for n in ("isr_proposed", "isr", "isr_rejected", "replica_leo"))
ELECTION, TRUNCATE = CODE["election"], CODE["truncate"]
MATCHED = 6
"""A report that found its reconstructed value: its row is dropped."""
MS = 1000

EVENTS, PARTITIONS, UNDER_REPLICATED, UNDER_MIN_ISR = 0, 1, 2, 3
SLOTS_FULL, HW_FULL, KEEP_FULL, SYNC_FULL, ENDED_FULL = 1, 2, 3, 4, 5
"""Why run_lanes stopped early."""
COUNTS = ("events", "partitions_change", "under_replicated_change", "under_min_isr_change")


class Settings(NamedTuple):
    """Rules in microseconds; -1 where a rule is off."""

    race: int
    strict: int
    lag_max: int
    min_isr: int
    max_messages: int
    resolution: int


class Timeline(NamedTuple):
    """Broker states and configs of all sources as of a time: rows sorted by (key, ts)."""

    brokers: Records
    configs: Records


BROKER_FIELDS = {"key": ("i8", 0), "ts": ("i8", 0), "serving": ("i1", 0)}
CONFIG_FIELDS = {"key": ("i8", 0), "ts": ("i8", 0), "min_isr": ("i4", NULL32), "lag": ("i8", NULL)}

JOB_FIELDS = {
    "lane": ("i4", 0), "start": ("i8", 0), "end": ("i8", 0), "told": ("i8", 0), "everybody": ("i8", 0),
    "ceiling": ("i8", 0), "holds_from": ("i8", 0), "holds_to": ("i8", 0), "final": ("i1", 0),
}  # fmt: skip
"""A lane to run with its rows order[start:end]; told, everybody and ceiling bound what may be decided;
holds[holds_from:holds_to] are the times at which telemetry of its source went missing."""


class Stats(NamedTuple):
    """Per (broker, minute): counts, append to HW and lag histograms; and where a row counts."""

    row: I32
    counts: I64
    append_to_hw: I64
    lag: I64
    bounds_us: I64
    bounds_records: I64


MARK_FIELDS = {
    "before": ("i8", NULL), "consumed": ("i1", 0), "predicted": ("i1", 0), "moved_back": ("i1", 0),
    "follower": ("i1", 0), "midflight": ("i1", 0),
}  # fmt: skip
"""What the run leaves at each input row: consumed; for isr rows whether the lag rule foretold it (1 yes,
2 no); the second successive low report, and the report `before` it that was higher; an HW that a broker
tells as a follower; the row that showed a broker leading whose start was not told."""


@njit(cache=True, nogil=True)
def popcount(mask: int) -> int:
    count = 0
    while mask:
        mask &= mask - 1
        count += 1
    return count


@njit(cache=True, nogil=True)
def slot_of(L: Records, R: Records, width: int, lane: int, replica: int) -> int:
    """The slot of a replica in this lane, -1 where it has none."""
    for k in range(L[lane].slots):
        if R[lane * width + k].id == replica:
            return k
    return -1


@njit(cache=True, nogil=True)
def give_slot(L: Records, R: Records, width: int, lane: int, replica: int) -> bool:
    """Makes sure a replica has a slot; False when the lane has no room."""
    if slot_of(L, R, width, lane, replica) >= 0:
        return True
    if L[lane].slots == width:
        return False
    R[lane * width + L.slots[lane]].id = replica
    L[lane].slots += 1
    return True


@njit(cache=True, nogil=True)
def give_slots(L: Records, R: Records, width: int, lane: int, C: Columns, order: I64, start: int, end: int) -> bool:
    """Slots for every replica that these rows name; False when the lane has no room."""
    room = give_slot(L, R, width, lane, L[lane].broker)
    for j in range(start, end):
        i = order[j]
        kind = C.kind[i]
        if kind == FETCH or kind == REPLICA_LEO:
            room = give_slot(L, R, width, lane, C.replica[i]) and room
        elif kind == LEADER or kind == ISR or kind == PROPOSED:
            for k in range(C.isr_from[i], C.isr_from[i + 1]):
                room = give_slot(L, R, width, lane, C.isr_ids[k]) and room
            for k in range(C.replicas_from[i], C.replicas_from[i + 1]):
                room = give_slot(L, R, width, lane, C.replicas_ids[k]) and room
        if not room:
            return False
    return room


@njit(cache=True, nogil=True)
def mask_of(L: Records, R: Records, width: int, lane: int, ids: I32, start: int, end: int) -> int:
    mask = 0
    for k in range(start, end):
        slot = slot_of(L, R, width, lane, ids[k])
        if slot >= 0:
            mask |= 1 << slot
    return mask


@njit(cache=True, nogil=True)
def as_of(entries: Records, key: int, ts: int) -> int:
    """Index of the last entry of `key` at or before `ts`, -1 where there is none."""
    low, high = 0, len(entries)
    while low < high:
        middle = (low + high) >> 1
        if entries[middle].key < key or (entries[middle].key == key and entries[middle].ts <= ts):
            low = middle + 1
        else:
            high = middle
    if low > 0 and entries[low - 1].key == key:
        return low - 1
    return -1


@njit(cache=True, nogil=True)
def eligible(T: Timeline, cluster: int, broker: int, ts: int) -> bool:
    """Not fenced, not stopping, registered, as far as the controller told (Partition.isReplicaIsrEligible)."""
    at = as_of(T.brokers, (cluster << 32) | (broker & 0xFFFFFFFF), ts)
    return at < 0 or T.brokers[at].serving == 1


@njit(cache=True, nogil=True)
def configured(T: Timeline, cluster: int, topic: int, ts: int) -> tuple[int, int]:
    """(min ISR, lag max in microseconds) told for this topic, NULL32 and NULL where not told."""
    at = as_of(T.configs, (cluster << 32) | (topic & 0xFFFFFFFF), ts)
    if at < 0:
        return NULL32, NULL
    return T.configs[at].min_isr, T.configs[at].lag


@njit(cache=True, nogil=True)
def settle_config(L: Records, T: Timeline, S: Settings, lane: int, ts: int, lag_too: bool) -> None:
    """min ISR: topic config, else what the leader told, else cluster config, else the rule; lag likewise."""
    topic_min, topic_lag = configured(T, L[lane].cluster, L[lane].topic, ts)
    cluster_min, cluster_lag = configured(T, L[lane].cluster, -1, ts)
    if topic_min != NULL32:
        L[lane].min_isr = topic_min
    elif L[lane].told_min_isr != NULL32:
        L[lane].min_isr = L[lane].told_min_isr
    elif cluster_min != NULL32:
        L[lane].min_isr = cluster_min
    else:
        L[lane].min_isr = S.min_isr
    if lag_too:
        L[lane].lag_max = topic_lag if topic_lag != NULL else (cluster_lag if cluster_lag != NULL else S.lag_max)


@njit(cache=True, nogil=True)
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
    O[o].lane = lane
    O[o].ts = ts
    O[o].kind = kind
    O[o].hw = L[lane].hw
    O[o].reported = reported
    O[o].leader_leo = L[lane].leader_leo
    O[o].isr = L[lane].isr
    O[o].holding = holding
    O[o].frozen = L[lane].frozen & S.strict
    O[o].agreement = agreement
    O[o].leader_epoch = L[lane].leader_epoch
    O[o].topic_id = L[lane].topic_id
    O[o].level = L[lane].level
    return o + 1


@njit(cache=True, nogil=True)
def put_sync(L: Records, R: Records, Y: Records, y: int, lane: int, at: int, slot: int, ts: int, state: int) -> int:
    reason = RECOVERED
    if state != IN_SYNC:
        patience = L[lane].lag_max if state == OUT_OF_SYNC else L[lane].lag_max // 2
        if R[at].leo < 0:
            reason = NO_STATE
        elif ts - R[at].last_fetch > patience:
            reason = SILENT
        else:
            reason = BEHIND
    Y[y].lane = lane
    Y[y].ts = ts
    Y[y].replica = R[at].id
    Y[y].state = state
    Y[y].previous = R[at].sync
    Y[y].in_isr = (L[lane].isr >> slot) & 1
    Y[y].caught_up = R[at].caught_up
    Y[y].leo = R[at].leo
    Y[y].leader_leo = L[lane].leader_leo
    Y[y].reason = reason
    Y[y].leader_epoch = L[lane].leader_epoch
    Y[y].topic_id = L[lane].topic_id
    Y[y].level = L[lane].level
    R[at].sync = state
    return y + 1


@njit(cache=True, nogil=True)
def renew_deadline(L: Records, R: Records, width: int, lane: int) -> None:
    earliest = NEVER
    for k in range(L[lane].slots):
        earliest = min(earliest, R[lane * width + k].due)
    L[lane].deadline = earliest


@njit(cache=True, nogil=True)
def threshold(L: Records, R: Records, lane: int, at: int, since: int) -> int:
    """When this replica's state changes next if nothing is heard: strictly more than half the lag, or the lag."""
    if R[at].caught_up == NULL or R[at].sync == OUT_OF_SYNC:
        return NEVER
    patience = L[lane].lag_max // 2 if R[at].sync == IN_SYNC else L[lane].lag_max
    return max(R[at].caught_up + patience + MS, since)


@njit(cache=True, nogil=True)
def pass_deadlines(L: Records, R: Records, width: int, lane: int, now: int, Y: Records, y: int) -> int:
    """Replicas that nobody heard of in time: lagging after half the lag, out of sync after all of it."""
    while L[lane].deadline < now:
        due = L[lane].deadline
        for k in range(L[lane].slots):
            at = lane * width + k
            if R[at].due == due:
                y = put_sync(L, R, Y, y, lane, at, k, due, LAGGING if R[at].sync == IN_SYNC else OUT_OF_SYNC)
                R[at].due = threshold(L, R, lane, at, due)
        renew_deadline(L, R, width, lane)
    return y


@njit(cache=True, nogil=True)
def judge(L: Records, R: Records, width: int, lane: int, slot: int, now: int, S: Settings, Y: Records, y: int) -> int:
    """The state of one replica after something of it was told."""
    at = lane * width + slot
    if R[at].id == L[lane].broker:
        return y
    if S.max_messages >= 0:
        behind = L[lane].leader_leo != NULL and R[at].leo >= 0 and L[lane].leader_leo - R[at].leo > S.max_messages
        state = OUT_OF_SYNC if behind else IN_SYNC
        return y if state == R[at].sync else put_sync(L, R, Y, y, lane, at, slot, now, state)
    if R[at].leo == L[lane].leader_leo:
        R[at].due = NEVER
        if R[at].sync != IN_SYNC:
            y = put_sync(L, R, Y, y, lane, at, slot, now, IN_SYNC)
    elif R[at].caught_up != NULL:
        waited = now - R[at].caught_up
        if waited <= L[lane].lag_max // 2:
            if R[at].sync != IN_SYNC:
                y = put_sync(L, R, Y, y, lane, at, slot, now, IN_SYNC)
        elif waited <= L[lane].lag_max and R[at].sync == OUT_OF_SYNC:
            y = put_sync(L, R, Y, y, lane, at, slot, now, LAGGING)
        R[at].due = threshold(L, R, lane, at, now if waited > 0 and R[at].due == NEVER else R[at].caught_up)
    if R[at].due < L[lane].deadline:
        L[lane].deadline = R[at].due
    else:
        renew_deadline(L, R, width, lane)
    return y


@njit(cache=True, nogil=True)
def leo_grew(L: Records, R: Records, width: int, lane: int, leo: int, now: int, S: Settings, Y: Records, y: int) -> int:
    """The leader's log grew: replicas that stood at its end are behind from now on."""
    if L[lane].leader_leo != NULL and leo <= L[lane].leader_leo:
        return y
    for k in range(L[lane].slots):
        at = lane * width + k
        if R[at].id == L[lane].broker:
            R[at].leo = leo
            continue
        if L[lane].level == 2 and R[at].leo >= 0 and R[at].leo == L[lane].leader_leo:
            R[at].caught_up = max(R[at].caught_up, now)
        if S.max_messages < 0 and R[at].due == NEVER:
            R[at].due = threshold(L, R, lane, at, now)
            L[lane].deadline = min(L[lane].deadline, R[at].due)
    L[lane].leader_leo = leo
    L[lane].held &= ~(1 << max(slot_of(L, R, width, lane, L[lane].broker), 0))
    if L[lane].append_ts == NULL:
        L[lane].append_ts = now
        L[lane].append_leo = leo
    if L[lane].stalled_since == NULL:
        L[lane].stalled_since = now
    if S.max_messages >= 0:
        for k in range(L[lane].slots):
            y = judge(L, R, width, lane, k, now, S, Y, y)
    return y


@njit(cache=True, nogil=True)
def count_in(bounds: I64, value: int) -> int:
    """The histogram bucket of a value: the first bound that is not below it."""
    low, high = 0, len(bounds)
    while low < high:
        middle = (low + high) >> 1
        if bounds[middle] < value:
            low = middle + 1
        else:
            high = middle
    return low


@njit(cache=True, nogil=True)
def hw_rose(L: Records, lane: int, now: int, row: int, A: Stats) -> None:
    """Bookkeeping of a higher HW: how long the append waited, since when the HW stands below the LEO."""
    if L[lane].append_ts != NULL and L[lane].hw >= L[lane].append_leo:
        if row >= 0:
            A.append_to_hw[A.row[row], count_in(A.bounds_us, now - L.append_ts[lane])] += 1
        L[lane].append_ts = NULL
    L[lane].stalled_since = NULL if L[lane].hw >= L[lane].leader_leo else now


@njit(cache=True, nogil=True)
def match_report(O: Records, o: int, first: int, hw: int, ts: int, race: int) -> int:
    """An open report of this value within the race window, else -1."""
    at = o - 1
    while at >= first and O[at].ts >= ts - race:
        if O[at].agreement == OPEN and O[at].kind == REPORT and O[at].reported == hw:
            return at
        at -= 1
    return -1


@njit(cache=True, nogil=True)
def match_advance(O: Records, o: int, first: int, hw: int, ts: int, race: int) -> int:
    """An unreported value of the reconstruction within the race window, else -1."""
    at = o - 1
    while at >= first and O[at].ts >= ts - race:
        if O[at].agreement == OPEN and O[at].kind == ADVANCE and O[at].hw == hw:
            return at
        at -= 1
    return -1


@njit(cache=True, nogil=True)
def counting(L: Records, R: Records, T: Timeline, width: int, lane: int, slot: int, now: int) -> bool:
    """Whether a replica holds the HW: in the maximal ISR, or caught up and eligible to join (1.1 a, b)."""
    if ((L[lane].isr | L[lane].joining) >> slot) & 1:
        return True
    at = lane * width + slot
    if R[at].leo < 0 or R[at].caught_up == NULL:
        return False
    caught_up = R[at].leo == L[lane].leader_leo or now - R[at].caught_up <= L[lane].lag_max
    return caught_up and eligible(T, L[lane].cluster, R[at].id, now)


@njit(cache=True, nogil=True)
def lowest(L: Records, R: Records, T: Timeline, width: int, lane: int, now: int) -> tuple[int, int]:
    """(min LEO over the replicas that count, which of them stand there); -1 where one is unknown."""
    low, holding = L[lane].leader_leo, 0
    for k in range(L[lane].slots):
        at = lane * width + k
        leo = L[lane].leader_leo if R[at].id == L[lane].broker else R[at].leo
        if R[at].id != L[lane].broker and not counting(L, R, T, width, lane, k, now):
            continue
        if leo < 0:
            return -1, 0
        if leo < low:
            low, holding = leo, 0
        if leo == low:
            holding |= 1 << k
    return low, holding


@njit(cache=True, nogil=True)
def try_advance(
    L: Records, R: Records, T: Timeline, S: Settings, A: Stats, width: int, lane: int, now: int, row: int,
    O: Records, o: int, first: int, agreement: int,
) -> int:  # fmt: skip
    """One attempt to raise the HW (Partition.maybeIncrementLeaderHW): min LEO over those that count."""
    if L[lane].state == IDLE or L[lane].isr_known == 0 or L[lane].leader_leo == NULL or L[lane].hw == NULL:
        return o
    if L[lane].held != 0 or (S.strict == 1 and L[lane].frozen == 1):
        return o
    low, holding = lowest(L, R, T, width, lane, now)
    if low <= L[lane].hw:
        return o
    L[lane].hw = low
    hw_rose(L, lane, now, row, A)
    reported = NULL
    if agreement == OPEN:
        open_report = match_report(O, o, first, low, now, S.race)
        if open_report >= 0:
            O[open_report].agreement = MATCHED
            agreement, reported = RACE, low
            L[lane].agreed = max(L[lane].agreed, low)
    else:
        reported = low
    return put_hw(L, O, o, lane, now, ADVANCE, reported, holding, agreement, S)


@njit(cache=True, nogil=True)
def believe(L: Records, R: Records, S: Settings, A: Stats, width: int, lane: int, hw: int, now: int, row: int,
            O: Records, o: int) -> int:  # fmt: skip
    """A report that is the only evidence: the HW is what it says."""
    L[lane].hw = hw
    L[lane].agreed = max(L[lane].agreed, hw)
    hw_rose(L, lane, now, row, A)
    return put_hw(L, O, o, lane, now, ADVANCE, hw, 0, ONLY_WITNESS, S)


@njit(cache=True, nogil=True)
def raise_to(L: Records, R: Records, width: int, lane: int, hw: int, now: int, S: Settings, Y: Records, y: int) -> int:
    """At level 2 a report tells that every LEO of the maximal ISR is at least it, as if they had fetched."""
    y = leo_grew(L, R, width, lane, hw, now, S, Y, y)
    for k in range(L[lane].slots):
        at = lane * width + k
        if ((L[lane].isr | L[lane].joining) >> k) & 1 and R[at].id != L[lane].broker and R[at].leo < hw:
            R[at].leo = hw
            y = fetched(L, R, width, lane, k, hw, L[lane].leader_leo, now, S, Y, y)
    return y


@njit(cache=True, nogil=True)
def fetched(
    L: Records, R: Records, width: int, lane: int, slot: int, leo: int, leader_leo: int, now: int, S: Settings,
    Y: Records, y: int,
) -> int:  # fmt: skip
    """Last caught up, after a fetch at `leo` with the leader's log ending at `leader_leo` (rule 2.2)."""
    at = lane * width + slot
    if leader_leo != NULL:
        if leo >= leader_leo:
            R[at].caught_up = max(R[at].caught_up, now)
        elif leo >= R[at].last_fetch_leader_leo and R[at].last_fetch > 0:
            R[at].caught_up = max(R[at].caught_up, R[at].last_fetch)
        R[at].last_fetch_leader_leo = max(leader_leo, R[at].last_fetch_leader_leo)
    R[at].last_fetch = now
    return judge(L, R, width, lane, slot, now, S, Y, y)


@njit(cache=True, nogil=True)
def on_report(
    L: Records, R: Records, T: Timeline, S: Settings, A: Stats, width: int, lane: int, hw: int, now: int, row: int,
    O: Records, o: int, first: int, Y: Records, y: int, M: Records,
) -> tuple[int, int]:  # fmt: skip
    """The broker says its HW became `hw`: compare, or believe it where nothing else tells."""
    if hw == L[lane].reported:
        return o, y
    L[lane].reported = hw
    if L[lane].agreed != NULL and hw < L[lane].agreed:
        L[lane].low_reports += 1
        if L[lane].low_reports == 2:
            M[row].moved_back = 1
            M[row].before = L[lane].agreed
    else:
        L[lane].low_reports = 0
    mine = 1 << max(slot_of(L, R, width, lane, L[lane].broker), 0)
    if L[lane].hw == NULL or L[lane].isr_known == 0 or (L[lane].held != 0 and hw > L[lane].hw):
        if L[lane].leader_leo != NULL:
            y = leo_grew(L, R, width, lane, hw, now, S, Y, y)
        return believe(L, R, S, A, width, lane, hw, now, row, O, o), y
    alone = (L[lane].isr | L[lane].joining) == mine and (L[lane].leader_leo == NULL or hw > L[lane].leader_leo)
    if alone and not (S.strict == 1 and L[lane].frozen == 1):
        y = leo_grew(L, R, width, lane, hw, now, S, Y, y)
        low, _ = lowest(L, R, T, width, lane, now)
        if low == hw:
            o = try_advance(L, R, T, S, A, width, lane, now, row, O, o, first, ONLY_WITNESS)
            L[lane].agreed = max(L[lane].agreed, hw)
            return o, y
    at = match_advance(O, o, first, hw, now, S.race)
    if at >= 0:
        O[at].agreement = EXACT if hw == L[lane].hw else RACE
        O[at].reported = hw
        L[lane].agreed = max(L[lane].agreed, hw)
        return o, y
    if L[lane].level == 2 and hw > L[lane].hw:
        y = raise_to(L, R, width, lane, hw, now, S, Y, y)
        L[lane].witness = hw
        L[lane].witness_ts = now
        return believe(L, R, S, A, width, lane, hw, now, row, O, o), y
    if hw == L[lane].hw:
        return put_hw(L, O, o, lane, now, REPORT, hw, 0, EXACT, S), y
    return put_hw(L, O, o, lane, now, REPORT, hw, 0, ONLY_WITNESS if L[lane].held != 0 else OPEN, S), y


@njit(cache=True, nogil=True)
def weigh_isr(L: Records, S: Settings, A: Stats, lane: int, row: int, O: Records, o: int, now: int) -> int:
    """Under min ISR: the committed ISR is smaller than min(min.insync.replicas, replicas) (rule 1.3)."""
    size = popcount(L[lane].isr)
    effective = min(L[lane].min_isr, max(L[lane].assigned_count, 1))
    under = 1 if L[lane].isr_known == 1 and size < effective else 0
    if under == L[lane].frozen:
        return o
    L[lane].frozen = under
    A.counts[A.row[row], UNDER_MIN_ISR] += 1 if under else -1
    if S.strict == 1:
        return put_hw(L, O, o, lane, now, FREEZE if under else THAW, NULL, 0, UNREPORTED, S)
    return o


@njit(cache=True, nogil=True)
def set_isr(L: Records, A: Stats, lane: int, isr: int, row: int) -> None:
    """The committed ISR; nothing is in flight any more."""
    before = popcount(L[lane].isr) < L[lane].assigned_count and L[lane].isr_known == 1
    L[lane].isr = isr
    L[lane].isr_known = 1
    L[lane].joining = 0
    L[lane].held &= isr
    L[lane].assigned |= isr
    L[lane].assigned_count = popcount(L[lane].assigned)
    after = popcount(isr) < L[lane].assigned_count
    A.counts[A.row[row], UNDER_REPLICATED] += int(after) - int(before)


@njit(cache=True, nogil=True)
def end_term(L: Records, R: Records, width: int, lane: int, now: int, E: Records, e: int, A: Stats, row: int) -> int:
    """Keeps what later verdicts ask of a term that is over."""
    if L[lane].state == IDLE:
        return e
    fetchers = 0
    for k in range(L[lane].slots):
        if R[lane * width + k].leo >= 0 and R[lane * width + k].id != L[lane].broker:
            fetchers |= 1 << k
    E[e].lane = lane
    E[e].start = L[lane].term_start
    E[e].end = now
    E[e].hw = L[lane].hw
    E[e].leader_leo = L[lane].leader_leo
    E[e].fetchers = fetchers
    E[e].alone = 1 if L[lane].isr_known == 1 and popcount(L[lane].isr) == 1 and L[lane].frozen == 0 else 0
    E[e].held = 1 if L[lane].held != 0 else 0
    if L[lane].deposed == 0:
        A.counts[A.row[row], PARTITIONS] -= 1
        if L[lane].isr_known == 1 and popcount(L[lane].isr) < L[lane].assigned_count:
            A.counts[A.row[row], UNDER_REPLICATED] -= 1
        A.counts[A.row[row], UNDER_MIN_ISR] -= L[lane].frozen
    L[lane].frozen = 0
    L[lane].isr_known = 0
    L[lane].state = IDLE
    return e + 1


@njit(cache=True, nogil=True)
def reset_replicas(
    L: Records, R: Records, width: int, lane: int, led_before: bool, now: int, Y: Records, y: int
) -> int:
    """What a new leader epoch does to the leader's record of its followers (rule 2.3)."""
    for k in range(L[lane].slots):
        at = lane * width + k
        in_isr = (L[lane].isr >> k) & 1
        told = L[lane].level != 2
        if led_before:
            R[at].last_fetch_leader_leo = L[lane].leader_leo
            R[at].last_fetch = now if in_isr else 0
        else:
            R[at].leo = -1
            R[at].last_fetch_leader_leo = 0
            R[at].last_fetch = 0
            R[at].broker_epoch = NULL
        R[at].caught_up = now if in_isr and told else NULL
        R[at].due = NEVER
        if R[at].id == L[lane].broker:
            R[at].leo = L[lane].leader_leo
            continue
        if in_isr:
            if R[at].sync != IN_SYNC:
                y = put_sync(L, R, Y, y, lane, at, k, now, IN_SYNC)
            R[at].due = threshold(L, R, lane, at, now)
        elif told and (L[lane].assigned >> k) & 1 and R[at].sync != OUT_OF_SYNC:
            y = put_sync(L, R, Y, y, lane, at, k, now, OUT_OF_SYNC)
    renew_deadline(L, R, width, lane)
    return y


@njit(cache=True, nogil=True)
def start_term(
    L: Records, R: Records, C: Columns, T: Timeline, S: Settings, A: Stats, width: int, lane: int, i: int, now: int,
    assigned: int, O: Records, o: int, first: int, Y: Records, y: int, E: Records, e: int,
) -> tuple[int, int, int]:  # fmt: skip
    """A `leader` event: a new term with start offset, HW and ISR as told."""
    led_before = L[lane].state == LEADING and C.leader_epoch[i] > L[lane].leader_epoch and _alive(L, T, lane, now)
    e = end_term(L, R, width, lane, now, E, e, A, i)
    A.counts[A.row[i], PARTITIONS] += 1
    L[lane].state = LEADING
    L[lane].level = C.level[i]
    L[lane].leader_epoch = C.leader_epoch[i]
    L[lane].partition_epoch = C.partition_epoch[i]
    L[lane].topic_id = C.topic_id[i]
    L[lane].deposed = 0
    L[lane].term_start = C.ts[i]
    L[lane].start_offset = C.leo[i]
    L[lane].hw = C.hw[i]
    L[lane].leader_leo = C.leo[i]
    L[lane].reported = C.hw[i]
    L[lane].agreed = C.hw[i]
    L[lane].low_reports = 0
    L[lane].held = 0
    L[lane].witness = NULL
    L[lane].append_ts = NULL
    L[lane].stalled_since = now if C.hw[i] < C.leo[i] else NULL
    L[lane].told_min_isr = C.min_isr[i]
    L[lane].assigned = assigned | (1 << slot_of(L, R, width, lane, L[lane].broker))
    settle_config(L, T, S, lane, now, True)
    if C.lag_max_ms[i] != NULL32:
        L[lane].lag_max = C.lag_max_ms[i] * MS
    set_isr(L, A, lane, mask_of(L, R, width, lane, C.isr_ids, C.isr_from[i], C.isr_from[i + 1]), i)
    y = reset_replicas(L, R, width, lane, led_before, now, Y, y)
    o = put_hw(L, O, o, lane, C.ts[i], TERM_START, NULL, 0, UNREPORTED, S)
    o = weigh_isr(L, S, A, lane, i, O, o, now)
    o = try_advance(L, R, T, S, A, width, lane, now, i, O, o, first, OPEN)
    return o, y, e


@njit(cache=True, nogil=True)
def _alive(L: Records, T: Timeline, lane: int, now: int) -> bool:
    """The broker was not restarted since it began to lead, as far as the controller told."""
    at = as_of(T.brokers, (L[lane].cluster << 32) | (L[lane].broker & 0xFFFFFFFF), now)
    return at < 0 or T.brokers[at].ts <= L[lane].term_start or T.brokers[at].serving == 0


@njit(cache=True, nogil=True)
def begin_midflight(L: Records, T: Timeline, S: Settings, A: Stats, C: Columns, lane: int, i: int, now: int) -> None:
    """A broker seen leading whose `leader` event was not told: term, HW and ISR are unknown until told."""
    A.counts[A.row[i], PARTITIONS] += 1
    L[lane].state = MIDFLIGHT
    L[lane].level = C.level[i]
    L[lane].leader_epoch = C.leader_epoch[i]
    L[lane].partition_epoch = NULL32
    L[lane].term_start = C.ts[i]
    L[lane].start_offset = NULL
    L[lane].hw = NULL
    L[lane].leader_leo = NULL
    L[lane].reported = NULL
    L[lane].agreed = NULL
    L[lane].isr_known = 0
    L[lane].isr = 0
    L[lane].joining = 0
    L[lane].held = 0
    L[lane].told_min_isr = NULL32
    settle_config(L, T, S, lane, now, True)


@njit(cache=True, nogil=True)
def on_isr(
    L: Records, R: Records, C: Columns, T: Timeline, S: Settings, A: Stats, M: Records, width: int, lane: int, i: int,
    now: int, O: Records, o: int, first: int,
) -> int:  # fmt: skip
    """A committed ISR, from the AlterPartition answer or from metadata, whichever came first."""
    if C.isr_quiet[i] == 1 or (C.leader_id[i] != NULL32 and C.leader_id[i] != L[lane].broker):
        return o
    assigned = mask_of(L, R, width, lane, C.replicas_ids, C.replicas_from[i], C.replicas_from[i + 1])
    if assigned:
        L[lane].assigned = assigned
    known = C.partition_epoch[i] != NULL32 and L[lane].partition_epoch != NULL32
    if known and C.partition_epoch[i] <= L[lane].partition_epoch:
        return o
    isr = mask_of(L, R, width, lane, C.isr_ids, C.isr_from[i], C.isr_from[i + 1])
    M[i].predicted = _foretold(L, R, width, lane, L[lane].isr & ~isr)
    if C.partition_epoch[i] != NULL32:
        L[lane].partition_epoch = C.partition_epoch[i]
    set_isr(L, A, lane, isr, i)
    settle_config(L, T, S, lane, now, False)
    o = weigh_isr(L, S, A, lane, i, O, o, now)
    return try_advance(L, R, T, S, A, width, lane, now, i, O, o, first, OPEN)


@njit(cache=True, nogil=True)
def _foretold(L: Records, R: Records, width: int, lane: int, removed: int) -> int:
    """1 where the lag rule held for every removed replica before the commit, 2 where it did not, 0 for none."""
    if removed == 0:
        return 0
    for k in range(L[lane].slots):
        if (removed >> k) & 1 and R[lane * width + k].sync != OUT_OF_SYNC:
            return 2
    return 1


@njit(cache=True, nogil=True)
def on_leo(
    L: Records, R: Records, C: Columns, T: Timeline, S: Settings, A: Stats, width: int, lane: int, i: int, now: int,
    O: Records, o: int, first: int, Y: Records, y: int,
) -> tuple[int, int]:  # fmt: skip
    """A replica's LEO, by its fetch or by the leader's own record of it."""
    slot = slot_of(L, R, width, lane, C.replica[i])
    at = lane * width + slot
    leo = C.leo[i]
    if C.leader_leo[i] != NULL:
        y = leo_grew(L, R, width, lane, C.leader_leo[i], now, S, Y, y)
    if L[lane].leader_leo != NULL and leo > L[lane].leader_leo:
        y = leo_grew(L, R, width, lane, leo, now, S, Y, y)
    changed = leo != R[at].leo
    L[lane].held &= ~(1 << slot)
    if C.kind[i] == REPLICA_LEO and L[lane].witness != NULL and leo < L[lane].witness:
        if ((L[lane].isr | L[lane].joining) >> slot) & 1 and now - L[lane].witness_ts > S.race:
            o = put_hw(L, O, o, lane, now, REPORT, L[lane].witness, 0, DISAGREE, S)
            L[lane].witness = NULL
    R[at].leo = leo
    if C.kind[i] == FETCH:
        if C.broker_epoch[i] != NULL:
            R[at].broker_epoch = C.broker_epoch[i]
        leader_leo = C.leader_leo[i] if C.leader_leo[i] != NULL else L[lane].leader_leo
        y = fetched(L, R, width, lane, slot, leo, leader_leo, now, S, Y, y)
        if L[lane].leader_leo != NULL:
            A.lag[A.row[i], count_in(A.bounds_records, max(L.leader_leo[lane] - leo, 0))] += 1
    elif L[lane].level == 2 and changed:
        y = fetched(L, R, width, lane, slot, leo, L[lane].leader_leo, now, S, Y, y)
    elif changed:
        y = judge(L, R, width, lane, slot, now, S, Y, y)
    if changed:
        o = try_advance(L, R, T, S, A, width, lane, now, i, O, o, first, OPEN)
    return o, y


@njit(cache=True, nogil=True)
def own_report(L: Records, C: Columns, lane: int, i: int) -> bool:
    """An `hw` row that tells the leader's HW, not that of this broker as a follower."""
    if C.replica[i] != L[lane].broker:
        return False
    return C.leader_id[i] == L[lane].broker or (C.leader_id[i] == NULL32 and L[lane].state != IDLE)


@njit(cache=True, nogil=True)
def hold(L: Records, lane: int) -> None:
    """Telemetry is missing: every LEO of the maximal ISR has to be told again."""
    if L[lane].state != IDLE:
        L[lane].held = L[lane].isr | L[lane].joining
        L[lane].append_ts = NULL


@njit(cache=True, nogil=True)
def finish_rows(
    S: Settings, told: int, final: bool, O: Records, first: int, o: int, F: Records, f: int, K: Records, k: int
) -> tuple[int, int]:
    """Splits a lane's rows into final ones (to F) and ones that a later report may still match (to K)."""
    settled = told - S.race
    at = first
    while at < o and (final or O[at].ts <= settled):
        if S.resolution > 0 and O[at].kind == ADVANCE and O[at].agreement != DISAGREE:
            later = at + 1
            while later < o and (O[later].kind != ADVANCE or O[later].agreement == MATCHED):
                later += 1
            window = O[at].ts // S.resolution
            if later < o and O[later].ts // S.resolution == window:
                at += 1
                continue
            if later == o and not final and settled < (window + 1) * S.resolution:
                break
        if O[at].agreement != MATCHED:
            F[f] = O[at]
            if F[f].agreement == OPEN:
                cut_off = final and O[at].ts > settled
                F[f].agreement = UNREPORTED if F[f].kind == ADVANCE else (ONLY_WITNESS if cut_off else DISAGREE)
            f += 1
        at += 1
    while at < o:
        if O[at].agreement != MATCHED:
            K[k] = O[at]
            k += 1
        at += 1
    return f, k


@njit(cache=True, nogil=True)
def run_lanes(
    J: Records, holds: I64, order: I64, assigned_from: I64, assigned_ids: I32, gap_before: I8, dropped: I8,
    C: Columns, L: Records, R: Records, width: int, T: Timeline, S: Settings, A: Stats, M: Records,
    carry: Records, carry_from: I64, O: Records, F: Records, K: Records, Y: Records, E: Records,
    at: I64,
) -> None:  # fmt: skip
    """Runs the lanes of J from at[0] on; `at` = [job, final rows, kept rows, sync rows, ended terms, what was full].

    Returns early, with at[0] at the lane that did not fit, when an output or a lane's slots are full.
    """
    job, f, k, y, e = at[0], at[1], at[2], at[3], at[4]
    while job < len(J):
        lane = J[job].lane
        start, end = J[job].start, J[job].end
        rows = 3 * (end - start) + L[lane].carried + 4
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
        if not give_slots(L, R, width, lane, C, order, start, end):
            at[5] = SLOTS_FULL
            break
        full = False
        for at_id in range(assigned_from[job], assigned_from[job + 1]):
            full = full or not give_slot(L, R, width, lane, assigned_ids[at_id])
        if full:
            at[5] = SLOTS_FULL
            break
        o = 0
        for c in range(carry_from[lane], carry_from[lane] + L[lane].carried):
            O[o] = carry[c]
            o += 1
        next_hold = J[job].holds_from
        bound = J[job].told
        for j in range(start, end):
            i = order[j]
            now = min(C.ts[i], J[job].ceiling)
            clock = max(now, L[lane].last_ts)
            kind = C.kind[i]
            waits = L[lane].state != LEADING or kind == LEADER or popcount(L[lane].isr) < L[lane].assigned_count
            if waits and clock > J[job].everybody:
                bound = min(bound, clock)
                break
            M[i].consumed = 1
            if dropped[i] == 1:
                continue
            if gap_before[i] == 1:
                hold(L, lane)
            while next_hold < J[job].holds_to and holds[next_hold] <= clock:
                hold(L, lane)
                next_hold += 1
            L[lane].last_ts = clock
            A.counts[A.row[i], EVENTS] += 1
            if kind < 0:
                hold(L, lane)
                continue
            if L[lane].state != IDLE:
                y = pass_deadlines(L, R, width, lane, clock, Y, y)
                if waits and kind != LEADER:
                    settle_config(L, T, S, lane, now, False)
                    o = weigh_isr(L, S, A, lane, i, O, o, now)
            if kind == LEADER:
                assigned = mask_of(L, R, width, lane, assigned_ids, assigned_from[job], assigned_from[job + 1])
                o, y, e = start_term(L, R, C, T, S, A, width, lane, i, now, assigned, O, o, 0, Y, y, E, e)
                continue
            if kind == FOLLOWER:
                e = end_term(L, R, width, lane, now, E, e, A, i)
                L[lane].deadline = NEVER
                continue
            if kind == HW and not own_report(L, C, lane, i):
                M[i].follower = 1
                continue
            if kind == ELECTION or kind == TRUNCATE:
                continue
            if L[lane].state == IDLE:
                if kind == ISR or kind == REJECTED:
                    continue
                begin_midflight(L, T, S, A, C, lane, i, now)
                M[i].midflight = 1
            if kind == FETCH or kind == REPLICA_LEO:
                o, y = on_leo(L, R, C, T, S, A, width, lane, i, now, O, o, 0, Y, y)
            elif kind == APPEND:
                y = leo_grew(L, R, width, lane, C.leader_leo[i], now, S, Y, y)
                o = try_advance(L, R, T, S, A, width, lane, now, i, O, o, 0, OPEN)
            elif kind == HW:
                o, y = on_report(L, R, T, S, A, width, lane, C.hw[i], now, i, O, o, 0, Y, y, M)
            elif kind == ISR:
                o = on_isr(L, R, C, T, S, A, M, width, lane, i, now, O, o, 0)
            elif kind == PROPOSED:
                asked = mask_of(L, R, width, lane, C.isr_ids, C.isr_from[i], C.isr_from[i + 1])
                L[lane].joining = asked & ~L[lane].isr
            elif kind == REJECTED:
                L[lane].joining = 0
        if next_hold < J[job].holds_to:
            hold(L, lane)
        if L[lane].state != IDLE:
            y = pass_deadlines(L, R, width, lane, bound, Y, y)
        before = k
        f, k = finish_rows(S, bound, J[job].final == 1, O, 0, o, F, f, K, k)
        L[lane].carried = k - before
        job += 1
    at[0], at[1], at[2], at[3], at[4] = job, f, k, y, e
