"""Kafka's replication rules, each a function of numbers: used by single steps and by compiled rounds alike.

Offsets are the next one to be written; times are whole milliseconds on the leader's clock. Only what numba compiles is
used here, so that `compiled(high_watermark)` is the very rule that the step by step engine calls.
"""

from __future__ import annotations

UNKNOWN = -1
"""The LEO of a replica that has not fetched in this term (ReplicaState.EMPTY)."""


def counts(in_maximal_isr: bool, caught_up: bool, eligible: bool) -> bool:
    """Whether the HW waits for a replica, in the maximal ISR or about to join it (Partition.maybeIncrementLeaderHW)."""
    return in_maximal_isr or (caught_up and eligible)


def high_watermark(current: int, leader_leo: int, shortest: int) -> int:
    """The leader's HW: it only rises, to the LEO of the shortest replica that counts (its own when none does)."""
    return max(current, min(leader_leo, shortest))


def follower_high_watermark(leader_hw: int, log_start: int, leo: int) -> int:
    """A follower's HW: the leader's HW in its answer, within its own log; it may fall
    (UnifiedLog.maybeUpdateHighWatermark)."""
    return max(log_start, min(leader_hw, leo))


def effective_min_isr(min_isr: int, replicas: int) -> int:
    """`min.insync.replicas`, no more than there are replicas (Partition.effectiveMinIsr)."""
    return min(min_isr, replicas)


def may_advance(committed_isr: int, min_isr: int, replicas: int, strict: bool) -> bool:
    """Whether the HW may move at all: since Kafka 3.7 not while the committed ISR is too small (KAFKA-15583)."""
    return not strict or committed_isr >= effective_min_isr(min_isr, replicas)


def last_caught_up(before: int, fetched: int, leader_leo: int, last_leader_leo: int, last_fetch: int, now: int) -> int:
    """When a follower last had all that its leader had (Replica.updateFetchStateOrThrow).

    Now, if it fetches at the leader's LEO; else at its previous fetch, if it now has what the leader had then
    (`last_leader_leo`): so one that never quite reaches a busy leader's end stays in sync.
    """
    if fetched >= leader_leo:
        return max(before, now)
    if fetched >= last_leader_leo:
        return max(before, last_fetch)
    return before


def is_caught_up(leo: int, leader_leo: int, caught_up: int, now: int, lag_max: int) -> bool:
    """In sync by time: at the leader's LEO, or there no longer than `lag_max` ago (ReplicaState.isCaughtUp)."""
    return leo == leader_leo or now - caught_up <= lag_max


def is_in_sync_by_messages(leo: int, leader_leo: int, lag_max_messages: int, silent_ms: int, lag_max: int) -> bool:
    """The rule until Kafka 0.8 (Partition.getOutOfSyncReplicas): at the leader's LEO; or no more than
    `replica.lag.max.messages` behind it, and the last fetch no longer ago than `lag_max`."""
    within = leo < 0 or leader_leo - leo <= lag_max_messages
    return within and (leo >= leader_leo or silent_ms <= lag_max)


def may_join(leo: int, high_watermark: int, epoch_start: int) -> bool:
    """Whether a follower's LEO lets it into the ISR: at the HW and at the start of this epoch (KAFKA-7128)."""
    return leo >= high_watermark and leo >= epoch_start


def diverges(found_epoch: int, found_end: int, last_fetched_epoch: int, fetched: int) -> bool:
    """Whether a follower's log left the leader's before `fetched` (Partition.readRecords).

    `found_epoch`, `found_end`: the leader's largest epoch at or below the follower's last one, and where it ended.
    """
    return found_epoch < last_fetched_epoch or found_end < fetched
