"""Reports of other sources as of a time: configs of a topic, states of brokers."""

from __future__ import annotations

from pipelines.replication.compiled.decorators import kernel
from pipelines.replication.compiled.records import Record, RecordArray
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
from pipelines.replication.metadata.layout import RECORD_GRACES, Timeline
from pipelines.replication.rules import LAG_MAX_MESSAGES
from pipelines.replication.term.constants import lacks_fetches
from pipelines.replication.term.kafka_rules import is_isr_eligible


@kernel
def as_of(entries: RecordArray, key: int, ts: int) -> int:
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


@kernel
def key_of(cluster: int, number: int) -> int:
    """The key of a broker id or a topic number; -1 stands for the whole cluster."""
    return (cluster << 32) | (number & 0xFFFFFFFF)


@kernel
def state_of(lane: Record, timeline: Timeline, broker: int, now: int) -> int:
    """The last state of a broker that the controller reported by `now` of this lane's clock, -1 where there is none."""
    return as_of(timeline.brokers, key_of(lane.cluster, broker), now - lane.clock_offset)


@kernel
def is_eligible(lane: Record, replica: Record, settings: Record, timeline: Timeline, now: int) -> bool:
    """Not fenced, not stopping, and fetching as the incarnation that is registered (Partition.isReplicaIsrEligible).

    As far as the controller reported before this instant, in which no leader can know of it yet, and unless it took
    the replica out of the ISR after it had reported so.
    """
    if settings.strict_eligibility == 0:
        return True
    known = state_of(lane, timeline, replica.id, now - 1)
    if known < 0:  # the leader did not ask for its removal: its broker was fenced or stopped, and it asks to let it in
        return bool(replica.ineligible_until == NULL)
    state = timeline.brokers[known]
    if state.serving == 0 or state.ts <= replica.ineligible_until:
        return False
    if state.epoch != NULL and replica.epoch >= 0:
        return is_isr_eligible(True, state.epoch, replica.epoch)
    fetched_since = replica.last_fetch >= state.started + lane.clock_offset
    return bool(state.started == NULL or lacks_fetches(lane) or fetched_since)


@kernel
def extra_wait(lane: Record, settings: Record) -> int:
    """The time beyond this lane's up to which all others must have reported: the controller's clock may be ahead."""
    return settings.race_window - lane.clock_offset if lane.clock_offset < 0 else 0


@kernel
def bounded_by_restart(lane: Record, timeline: Timeline, received: int, offset: int) -> int:
    """The lead of a broker's clock, at most what its last start allows.

    It reported at `received` a record of `offset` before, for which it had to start first.
    """
    own = state_of(lane, timeline, lane.broker, received)
    if own >= 0 and timeline.brokers[own].started > received - offset:
        return int(received - timeline.brokers[own].started)
    return offset


@kernel
def recorded_at(lane: Record, settings: Record, timeline: Timeline, now: int) -> int:
    """When a controller recorded the present partition epoch, as far as that is reported; else NULL.

    What was recorded longer ago than RECORD_GRACES counts for nothing: some batches have it still.
    """
    key, oldest = key_of(lane.partition, lane.partition_epoch), now - RECORD_GRACES * settings.reorder_grace
    at = as_of(timeline.recorded_epochs, key, now + extra_wait(lane, settings))
    while at >= 0 and timeline.recorded_epochs[at].key == key and timeline.recorded_epochs[at].ts > oldest:
        if timeline.recorded_epochs[at].topic_id == lane.topic_id:
            return int(timeline.recorded_epochs[at].ts)
        at -= 1
    return NULL


@kernel
def compare_clocks(lane: Record, settings: Record, timeline: Timeline, now: int) -> None:
    """Update the lead of this broker's clock over the controller's: both reported the present partition epoch."""
    if now - lane.epoch_learned_at > 2 * settings.reorder_grace:
        lane.epoch_learned_at = NULL
    if lane.epoch_learned_at == NULL:
        return
    recorded = recorded_at(lane, settings, timeline, now)
    if recorded != NULL:
        proposed_later = lane.proposed_ts != NULL and lane.proposed_ts - recorded > lane.clock_offset
        offset = bounded_by_restart(lane, timeline, lane.epoch_learned_at, lane.epoch_learned_at - recorded)
        update_clock_offset(lane, settings, offset, proposed_later)
        lane.epoch_learned_at = NULL


@kernel
def update_clock_offset(lane: Record, settings: Record, offset: int, proposed_later: bool) -> None:
    """Update the offset of clocks from one epoch that both reported; a delay up to the race window is no difference.

    A longer delay than before may come from a broker that stood still: it counts only if the broker had proposed that
    change, at a later time by its clock than the controller recorded it.
    """
    more = offset - lane.clock_offset
    late = lane.clock_compared == 1 and more > settings.race_window and not proposed_later
    if abs(offset) <= settings.reorder_grace and not late and not 0 <= more <= settings.race_window:
        lane.clock_offset = offset
    lane.clock_compared = 1


@kernel
def configured(timeline: Timeline, cluster: int, topic: int, topic_id: int, ts: int) -> tuple[int, int, int]:
    """(min ISR, lag max in microseconds, since when) of this topic, NULL32 and NULL where not known.

    What was set for another topic of that name counts for nothing.
    """
    key = key_of(cluster, topic)
    at = as_of(timeline.configs, key, ts)
    while at >= 0 and timeline.configs[at].key == key:
        config = timeline.configs[at]
        if config.topic_id < 0 or topic_id < 0 or config.topic_id == topic_id:
            return config.min_isr, config.lag, config.ts
        at -= 1
    return NULL32, NULL, NULL


@kernel
def settle_config(
    lane: Record, settings: Record, timeline: Timeline, ts: int, lag_too: bool, may_lower: bool
) -> None:  # fmt: skip
    """min ISR: what the leader said as it began or the topic config, whichever is newer, else cluster config, else the
    rule; lag likewise.

    Not `may_lower`: a smaller min ISR does not count yet. A broker applies the changes of topics ahead of those of
    configs, so the attempt that comes with metadata still has the old one (BrokerMetadataPublisher.onMetadataUpdate).
    """
    known = lane.min_isr
    topic_min, topic_lag, since = configured(timeline, lane.cluster, lane.topic, lane.topic_id, ts)
    cluster_min, cluster_lag, _ = configured(timeline, lane.cluster, -1, -1, ts)
    newer = since > lane.term_start - settings.race_window  # it may have come with the metadata that made it the leader
    of_topic = topic_min != NULL32 or lane.reported_min_isr != NULL32
    lane.min_isr_told = 1 if of_topic or settings.min_isr_told == 1 else 0
    if topic_min != NULL32 and (newer or lane.reported_min_isr == NULL32):
        lane.min_isr = topic_min
    elif lane.reported_min_isr != NULL32:
        lane.min_isr = lane.reported_min_isr
    elif cluster_min != NULL32:
        lane.min_isr = cluster_min
    else:
        lane.min_isr = settings.min_isr
    if not may_lower and known != NULL32:
        lane.min_isr = max(known, lane.min_isr)
    if lag_too:
        lane.lag_max = topic_lag if topic_lag != NULL else (cluster_lag if cluster_lag != NULL else settings.lag_max)


@kernel
def version_at(lane: Record, timeline: Timeline, ts: int) -> int:
    """The rules that this broker follows from `ts` on, by the last version it reported, that of its software if any; 0
    where it reported none."""
    key = key_of(lane.cluster, lane.broker)
    at, rules, of_metadata, messages = as_of(timeline.versions, key, ts), 0, 0, 0
    while at >= 0 and timeline.versions[at].key == key and rules == 0:
        value = timeline.versions[at].value
        if timeline.versions[at].reported == OF_SOFTWARE:
            rules = value
        elif timeline.versions[at].reported == OF_METADATA:
            of_metadata = of_metadata if of_metadata else value
        elif messages == 0:
            messages = (value + 1) << MESSAGES
        at -= 1
    return (rules if rules else of_metadata) | messages


@kernel
def update_settings(settings: Record, cluster_rules: RecordArray, lane: Record) -> None:
    """The rules that a lane follows: what its cluster is set to, else the version of its broker, else the rules of
    all."""
    rules, version = cluster_rules[lane.cluster], lane.version
    bits = rules.bits
    if version & KNOWN:
        bits = (bits & rules.fixed) | (version & ~rules.fixed)
    most = rules.lag_max_messages
    if version >> MESSAGES and not rules.fixed & BY_MESSAGES:
        most = (version >> MESSAGES) - 1
    elif most < 0:
        most = LAG_MAX_MESSAGES
    settings.race_window = rules.race_window
    settings.strict_min_isr = 1 if bits & STRICT_MIN_ISR else 0
    settings.lag_max = rules.lag_max
    settings.min_isr = max(rules.min_isr, 1)
    settings.min_isr_told = 1 if rules.min_isr != NULL32 else 0
    settings.lag_max_messages = most if bits & BY_MESSAGES else -1
    settings.hw_resolution = rules.hw_resolution
    settings.replica_hw = rules.replica_hw
    settings.strict_eligibility = 1 if bits & STRICT_ELIGIBILITY else 0
    settings.waits_for_joiners = 1 if bits & WAITS_FOR_JOINERS and not bits & BY_MESSAGES else 0
    settings.reorder_grace = rules.reorder_grace


@kernel
def is_same_incarnation(lane: Record, timeline: Timeline, now: int) -> bool:
    """Whether this broker is known not to have started again since it began to lead: by what the controller reported up
    to then by either clock, and by its own first lines, which have its version."""
    key = key_of(lane.cluster, lane.broker)
    at = as_of(timeline.versions, key, now)
    while at >= 0 and timeline.versions[at].key == key and timeline.versions[at].ts > lane.term_start:
        if timeline.versions[at].reported == OF_SOFTWARE:
            return False
        at -= 1
    at = as_of(timeline.brokers, key, now - min(lane.clock_offset, 0))
    if at < 0 or timeline.brokers[at].started == NULL:
        return False
    return bool(timeline.brokers[at].started + lane.clock_offset <= lane.term_start)


@kernel
def has_started_since(lane: Record, settings: Record, timeline: Timeline, broker: int, since: int, now: int) -> bool:
    """Whether another broker has started again since then, as far as the controller reported: its log may be shorter.

    How far this clock is ahead is measured with the way of the metadata in it, so that it may be less by that.
    """
    at = state_of(lane, timeline, broker, now + min(settings.race_window, max(lane.clock_offset, 0)))
    if at < 0 or timeline.brokers[at].started == NULL:
        return False
    return bool(timeline.brokers[at].started + lane.clock_offset > since)


@kernel
def may_be_same_incarnation(lane: Record, timeline: Timeline, now: int) -> bool:
    """Whether nothing that the controller reported says that the broker was restarted since it began to lead."""
    at = state_of(lane, timeline, lane.broker, now)
    if at < 0 or timeline.brokers[at].serving == 0:
        return True
    state = timeline.brokers[at]
    since = state.started if state.started != NULL else state.ts
    return bool(since + lane.clock_offset <= lane.term_start)
