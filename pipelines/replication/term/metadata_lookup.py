"""What other sources told that holds at a time: configs of a topic, states of brokers."""

from __future__ import annotations

from pipelines.replication.compiled.decorators import kernel
from pipelines.replication.compiled.records import Records
from pipelines.replication.compiled.types import NULL, NULL32
from pipelines.replication.kafka_versions import (
    BY_MESSAGES,
    KNOWN,
    MESSAGES,
    OF_METADATA,
    OF_SOFTWARE,
    STRICT_ELIGIBILITY,
    STRICT_MIN_ISR,
    WAITS_FOR_JOINERS,
)
from pipelines.replication.rules import LAG_MAX_MESSAGES
from pipelines.replication.term.constants import (
    BROKER,
    CONFIG,
    LANE,
    RECORD,
    RULE,
    SLOT,
    TOLD,
    Settings,
    Timeline,
    lean,
)
from pipelines.replication.term.kafka_rules import is_isr_eligible


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

    As far as the controller told before this instant, in which no leader can have heard of it yet, and unless it took
    the replica out of the ISR after it had told so.
    """
    if S.eligibility == 0:
        return True
    known = state_of(L, T, lane, R[at, SLOT.id], now - 1)
    if known < 0:
        return True
    if T.brokers[known, BROKER.serving] == 0 or T.brokers[known, BROKER.ts] <= R[at, SLOT.barred]:
        return False
    if T.brokers[known, BROKER.epoch] != NULL and R[at, SLOT.epoch] >= 0:
        return is_isr_eligible(True, T.brokers[known, BROKER.epoch], R[at, SLOT.epoch])
    started = T.brokers[known, BROKER.started]
    return bool(started == NULL or lean(L, lane) or R[at, SLOT.last_fetch] >= started + L[lane, LANE.ahead])


@kernel
def beyond(L: Records, S: Settings, lane: int) -> int:
    """How much further than this lane everybody must have told: the controller's clock may be ahead of its own."""
    return S.race - L[lane, LANE.ahead] if L[lane, LANE.ahead] < 0 else 0


@kernel
def unless_down(L: Records, T: Timeline, lane: int, heard: int, ahead: int) -> int:
    """How far ahead a broker is that told at `heard` of what was recorded `ahead` of it: it had to start first."""
    own = state_of(L, T, lane, L[lane, LANE.broker], heard)
    if own >= 0 and T.brokers[own, BROKER.started] > heard - ahead:
        return int(heard - T.brokers[own, BROKER.started])
    return ahead


@kernel
def recorded_at(L: Records, T: Timeline, S: Settings, lane: int, now: int) -> int:
    """When a controller recorded the present partition epoch, as far as that is told; else NULL."""
    key = (L[lane, LANE.partition] << 32) | (L[lane, LANE.partition_epoch] & 0xFFFFFFFF)
    at = as_of(T.recorded, key, now + beyond(L, S, lane))
    while at >= 0 and T.recorded[at, RECORD.key] == key:
        if T.recorded[at, RECORD.topic_id] == L[lane, LANE.topic_id]:
            return int(T.recorded[at, RECORD.ts])
        at -= 1
    return NULL


@kernel
def compare_clocks(L: Records, T: Timeline, S: Settings, lane: int, now: int) -> None:
    """How far this broker's clock is ahead of the controller's: both told of the present partition epoch."""
    if L[lane, LANE.learnt] == NULL:
        return
    recorded = recorded_at(L, T, S, lane, now)
    if recorded != NULL:
        asked = L[lane, LANE.asked_ts] != NULL and L[lane, LANE.asked_ts] - recorded > L[lane, LANE.ahead]
        set_clock(L, S, lane, unless_down(L, T, lane, L[lane, LANE.learnt], L[lane, LANE.learnt] - recorded), asked)
    if recorded != NULL or now - L[lane, LANE.learnt] > 2 * S.grace:
        L[lane, LANE.learnt] = NULL


@kernel
def set_clock(L: Records, S: Settings, lane: int, ahead: int, asked: bool) -> None:
    """What one thing that both told says of the clocks. A way there of up to the race window is no difference.

    A longer one than before may be that of a broker that stood still: it says nothing unless the broker had asked
    for that very change, by its clock later than the controller recorded it.
    """
    more = ahead - L[lane, LANE.ahead]
    late = L[lane, LANE.compared] == 1 and more > S.race and not asked
    if abs(ahead) <= S.grace and not late and not 0 <= more <= S.race:
        L[lane, LANE.ahead] = ahead
    L[lane, LANE.compared] = 1


@kernel
def configured(T: Timeline, cluster: int, topic: int, topic_id: int, ts: int) -> tuple[int, int, int]:
    """(min ISR, lag max in microseconds, when) told for this topic, NULL32 and NULL where not told.

    What was told of another topic of that name counts for nothing.
    """
    key = (cluster << 32) | (topic & 0xFFFFFFFF)
    at = as_of(T.configs, key, ts)
    while at >= 0 and T.configs[at, CONFIG.key] == key:
        told_of = T.configs[at, CONFIG.topic_id]
        if told_of < 0 or topic_id < 0 or told_of == topic_id:
            return T.configs[at, CONFIG.min_isr], T.configs[at, CONFIG.lag], T.configs[at, CONFIG.ts]
        at -= 1
    return NULL32, NULL, NULL


@kernel
def settle_config(L: Records, T: Timeline, S: Settings, lane: int, ts: int, lag_too: bool, lower: bool) -> None:
    """min ISR: what the leader told as it began or the topic config, whichever is newer, else cluster config, else the
    rule; lag likewise.

    Not `lower`: a smaller min ISR does not count yet. A broker applies the changes of topics ahead of those of configs,
    so the attempt that comes with metadata still has the old one (BrokerMetadataPublisher.onMetadataUpdate).
    """
    known = L[lane, LANE.min_isr]
    topic_min, topic_lag, when = configured(T, L[lane, LANE.cluster], L[lane, LANE.topic], L[lane, LANE.topic_id], ts)
    cluster_min, cluster_lag, _ = configured(T, L[lane, LANE.cluster], -1, -1, ts)
    newer = when > L[lane, LANE.term_start] - S.race  # it may have come with the metadata that made it the leader
    if topic_min != NULL32 and (newer or L[lane, LANE.told_min_isr] == NULL32):
        L[lane, LANE.min_isr] = topic_min
    elif L[lane, LANE.told_min_isr] != NULL32:
        L[lane, LANE.min_isr] = L[lane, LANE.told_min_isr]
    elif cluster_min != NULL32:
        L[lane, LANE.min_isr] = cluster_min
    else:
        L[lane, LANE.min_isr] = S.min_isr
    if not lower and known != NULL32:
        L[lane, LANE.min_isr] = max(known, L[lane, LANE.min_isr])
    if lag_too:
        L[lane, LANE.lag_max] = topic_lag if topic_lag != NULL else (cluster_lag if cluster_lag != NULL else S.lag_max)


@kernel
def version_at(L: Records, T: Timeline, lane: int, ts: int) -> int:
    """The rules that this broker follows from `ts` on, by the last version it told, that of its software if any; 0
    where it told none."""
    key = (L[lane, LANE.cluster] << 32) | (L[lane, LANE.broker] & 0xFFFFFFFF)
    at, rules, of_metadata, messages = as_of(T.versions, key, ts), 0, 0, 0
    while at >= 0 and T.versions[at, TOLD.key] == key and rules == 0:
        value = T.versions[at, TOLD.value]
        if T.versions[at, TOLD.told] == OF_SOFTWARE:
            rules = value
        elif T.versions[at, TOLD.told] == OF_METADATA:
            of_metadata = of_metadata if of_metadata else value
        elif messages == 0:
            messages = (value + 1) << MESSAGES
        at -= 1
    return (rules if rules else of_metadata) | messages


@kernel
def settings_of(rules: Records, L: Records, lane: int) -> Settings:
    """The rules that a lane follows: what its cluster is set to, else the version of its broker, else the rules of
    all."""
    row, told = L[lane, LANE.cluster], L[lane, LANE.version]
    bits, fixed = rules[row, RULE.bits], rules[row, RULE.fixed]
    if told & KNOWN:
        bits = (bits & fixed) | (told & ~fixed)
    most = rules[row, RULE.max_messages]
    if told >> MESSAGES and not fixed & BY_MESSAGES:
        most = (told >> MESSAGES) - 1
    elif most < 0:
        most = LAG_MAX_MESSAGES
    return Settings(
        rules[row, RULE.race],
        1 if bits & STRICT_MIN_ISR else 0,
        rules[row, RULE.lag_max],
        rules[row, RULE.min_isr],
        most if bits & BY_MESSAGES else -1,
        rules[row, RULE.resolution],
        rules[row, RULE.replica_hw],
        1 if bits & STRICT_ELIGIBILITY else 0,
        1 if bits & WAITS_FOR_JOINERS and not bits & BY_MESSAGES else 0,
        rules[row, RULE.grace],
    )


@kernel
def same_incarnation(L: Records, T: Timeline, lane: int, now: int) -> bool:
    """Whether this broker is known not to have started again since it began to lead: by what the controller told up to
    then by either clock, and by its own first lines, which tell its version."""
    key = (L[lane, LANE.cluster] << 32) | (L[lane, LANE.broker] & 0xFFFFFFFF)
    at = as_of(T.versions, key, now)
    while at >= 0 and T.versions[at, TOLD.key] == key and T.versions[at, TOLD.ts] > L[lane, LANE.term_start]:
        if T.versions[at, TOLD.told] == OF_SOFTWARE:
            return False
        at -= 1
    at = as_of(T.brokers, key, now - min(L[lane, LANE.ahead], 0))
    if at < 0 or T.brokers[at, BROKER.started] == NULL:
        return False
    return bool(T.brokers[at, BROKER.started] + L[lane, LANE.ahead] <= L[lane, LANE.term_start])


@kernel
def started_since(L: Records, T: Timeline, lane: int, broker: int, since: int, now: int) -> bool:
    """Whether another broker has started again since then, as far as the controller told: its log may be shorter."""
    at = state_of(L, T, lane, broker, now)
    if at < 0 or T.brokers[at, BROKER.started] == NULL:
        return False
    return bool(T.brokers[at, BROKER.started] + L[lane, LANE.ahead] > since)


@kernel
def alive(L: Records, T: Timeline, lane: int, now: int) -> bool:
    """The broker was not restarted since it began to lead, as far as the controller told."""
    at = state_of(L, T, lane, L[lane, LANE.broker], now)
    if at < 0 or T.brokers[at, BROKER.serving] == 0:
        return True
    started = T.brokers[at, BROKER.started]
    since = started if started != NULL else T.brokers[at, BROKER.ts]
    return bool(since + L[lane, LANE.ahead] <= L[lane, LANE.term_start])
