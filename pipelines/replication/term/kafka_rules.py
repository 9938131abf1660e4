"""Kafka's replication rules, one scalar function each, as the kernel applies them to a leader's telemetry.

Offsets are the next one to be written, -1 where the leader has no fetch of a replica in this term (ReplicaState.EMPTY).
Times are microseconds of the leader's clock; Kafka counts whole milliseconds. NULL is a time that is not known: it is
smaller than every other. Sets of replicas are bit masks over replica slots.

Numbers of rules are those of docs/kafka-rules.md. The simulator has its own functions for these rules and shares none
with this module: tests/unit/rules/test_rules_agree.py holds the two against each other.
"""

from __future__ import annotations

from pipelines.replication.compiled.decorators import hot
from pipelines.replication.compiled.types import MS


@hot
def maximal_isr(committed: int, joining: int) -> int:
    """The replicas that acks=all and the HW wait for: the committed ISR and those that are about to join it.

    Rule 3.3. PendingExpandIsr.maximalIsr, since 2.7 (KIP-497, KAFKA-8836). The controller may commit an expansion
    before the leader learns of it: from the moment it is asked for, nothing may be committed without them. A replica
    that is about to leave stays a member until its removal is committed (PendingShrinkIsr).
    """
    return committed | joining


@hot
def waits_for_replica(in_maximal_isr: bool, caught_up: bool, eligible: bool) -> bool:
    """Whether the HW waits for the LEO of a replica.

    Rule 1.1. Partition.maybeIncrementLeaderHW: members of the maximal ISR, and since 0.10.2 (KAFKA-4485) whoever is
    caught up and may join. Without the latter the HW of a leader that is alone in its ISR runs ahead of the joiner
    for ever, and the joiner never reaches it. A replica that may not join (fenced, stopping, another incarnation) is
    not waited for, but it still is as long as it is in the ISR.
    """
    return in_maximal_isr or (caught_up and eligible)


@hot
def high_watermark(current: int, leader_leo: int, lowest: int) -> int:
    """The leader's HW after an attempt: the lowest LEO that it waits for, never below what it was.

    Rule 1.4. Partition.maybeIncrementLeaderHW and UnifiedLog.maybeIncrementHighWatermark. A LEO of -1 holds it where
    it is: a new leader knows of no follower what it has (KIP-207, KAFKA-2334, is about what clients see meanwhile).
    """
    return max(current, min(leader_leo, lowest))


@hot
def fetch_may_advance(leo_before: int, leo: int) -> bool:
    """Whether a follower's fetch is an attempt to raise the HW: only if it changed the LEO that the leader has of it.

    Rule 1.2. Partition.updateFollowerFetchState. There is no timer: when a wait for a caught-up replica lapses the HW
    stays until an append, a fetch that changes a LEO, new metadata or the answer to an AlterPartition request.
    """
    return leo != leo_before


@hot
def follower_high_watermark(answered: int, log_start: int, leo: int) -> int:
    """A follower's HW after it appended what a fetch brought: the leader's, within its own log; it may fall.

    Rule 1.5. ReplicaFetcherThread.processPartitionData and UnifiedLog.maybeUpdateHighWatermark. It is that of the
    answer before, so a follower learns of a new HW one fetch later; a fetch that is parked is answered with the HW of
    its completion (KAFKA-9952, since 2.6: a new HW alone completes none).
    """
    return max(log_start, min(answered, leo))


@hot
def effective_min_isr(min_isr: int, replicas: int) -> int:
    """`min.insync.replicas`, but no more than there are replicas.

    Rule 1.3. Partition.effectiveMinIsr; the HW depends on it since 3.7 (KAFKA-15583). A topic with fewer replicas
    than the default of its cluster demands could commit nothing otherwise.
    """
    return min(min_isr, replicas)


@hot
def is_under_min_isr(committed_isr: int, min_isr: int, replicas: int) -> bool:
    """Whether the committed ISR has fewer members than the effective min ISR.

    Rule 1.3. Partition.isUnderMinIsr. Of the committed ISR, not of the maximal one: a replica whose joining is not
    committed may be refused yet.
    """
    return committed_isr < effective_min_isr(min_isr, replicas)


@hot
def may_advance(under_min_isr: bool, strict: bool) -> bool:
    """Whether the HW may move at all.

    Rule 1.3. Partition.maybeIncrementLeaderHW, `strict` since 3.7 (KAFKA-15583, for KIP-966), whatever the ELR
    feature is set to: what is committed under min ISR may be lost with the one broker that has it. Until 3.6 it moved
    with ISR = {leader}.
    """
    return not strict or not under_min_isr


@hot
def last_caught_up(before: int, fetched: int, leader_leo: int, last_leader_leo: int, last_fetch: int, now: int) -> int:
    """When a follower last had all that its leader had.

    Rule 2.2. Replica.updateFetchStateOrThrow, since 0.9 (KAFKA-1546). Now, if it fetches at the leader's LEO; at its
    previous fetch (`last_fetch`, 0 where there was none), if it now has what the leader had then (`last_leader_leo`):
    a follower that never quite reaches a busy leader's end stays in sync so.
    """
    if fetched >= leader_leo:
        return max(before, now)
    if fetched >= last_leader_leo and last_fetch > 0:
        return max(before, last_fetch)
    return before


@hot
def caught_up_at_term_start(in_isr: bool, now: int, never: int) -> int:
    """A follower's last caught-up time as a new leader epoch begins: a member of the ISR counts as caught up.

    Rule 2.3. Replica.resetReplicaState from Partition.makeLeader, only where the leader epoch grows. Others count as
    behind since long (`never`; 0 in Kafka, whose clock shows the time since 1970), though they may have all records.
    """
    return now if in_isr else never


@hot
def is_within_lag(caught_up: int, now: int, lag_max: int) -> bool:
    """Whether a replica was caught up no longer than `lag_max` ago.

    Rule 3.1. The half of ReplicaState.isCaughtUp that is about time, `replica.lag.time.max.ms` since 0.9
    (KAFKA-1546): more than it, not as much, is too long.
    """
    return now - caught_up <= lag_max


@hot
def is_caught_up(leo: int, leader_leo: int, caught_up: int, now: int, lag_max: int) -> bool:
    """In sync: at the leader's LEO, or there no longer than `lag_max` ago.

    Rule 3.1. ReplicaState.isCaughtUp, asked by Partition.getOutOfSyncReplicas. To be at the end counts for any length
    of silence: a leader without appends drops no idle follower.
    """
    return leo == leader_leo or is_within_lag(caught_up, now, lag_max)


@hot
def lag_expires(caught_up: int, lag_max: int) -> int:
    """The first whole millisecond at which a replica that is behind has been so for more than `lag_max`.

    Rule 3.1. Partition.getOutOfSyncReplicas compares milliseconds with `>`. Kafka asks every half of
    replica.lag.time.max.ms (ReplicaManager's isr-expiration task), so an eviction comes between 1 and 1.5 times that
    later.
    """
    return caught_up + lag_max + MS


@hot
def is_within_messages(leo: int, leader_leo: int, lag_max_messages: int) -> bool:
    """In sync by messages: no more than `replica.lag.max.messages` behind.

    Partition.getOutOfSyncReplicas until 0.8.2. KAFKA-1546 removed it in 0.9: a single large batch put healthy followers
    out of the ISR.
    """
    return leader_leo - leo <= lag_max_messages


@hot
def is_isr_eligible(serving: bool, registered_epoch: int, fetched_epoch: int) -> bool:
    """Whether metadata lets a follower join: neither fenced nor stopping, and the incarnation that is registered.

    Rule 3.2. Partition.isReplicaIsrEligible: fenced and stopping since 3.3 (KIP-841, KAFKA-13916), the broker epoch
    since 3.5 (KIP-903, KAFKA-14617): a broker that lost its log in an unclean shutdown is another replica than the
    one that was in sync.
    """
    return serving and registered_epoch == fetched_epoch
