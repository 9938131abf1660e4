"""What each row of a watcher changes, and the facts that follow: rows of silver/partition_hw and silver/replica_sync.

Between two samples anything may have happened, so every fact is a bound. A HW that was sampled is reached by then; a
follower is out of sync only when the latest instant at which it can have been caught up is longer ago than the lag.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from pipelines.replication.compiled.types import MS
from pipelines.replication.samples.partition import NOT_KNOWN, Replica, Row, SampledPartition
from pipelines.replication.term.layout import (
    ADVANCE,
    BEHIND,
    DISAGREE,
    FREEZE,
    ONLY_WITNESS,
    RECOVERED,
    REPORT,
    SILENT,
    THAW,
    UNASSIGNED,
)


class HwFact(NamedTuple):
    """A row of silver/partition_hw; the codes are those of `term.layout`."""

    leader: int
    epoch: int
    ts: int
    kind: int
    agreement: int
    hw: int | None
    reported: int | None
    leo: int | None
    isr: tuple[int, ...]
    holding: tuple[int, ...]
    frozen: bool
    topic_id: str | None
    error: int = 0


class SyncFact(NamedTuple):
    """A row of silver/replica_sync."""

    leader: int
    epoch: int
    ts: int
    replica: int
    out_of_sync: bool
    in_isr: bool | None
    caught_up: int | None
    leo: int
    leader_leo: int | None
    reason: int
    topic_id: str | None


@dataclass(frozen=True)
class Settings:
    """What holds when a row is applied; times in microseconds. `last_round`: the last instant by a time up to which
    every answer of a broker is known."""

    lag_max: int
    min_isr: int
    last_round: Callable[[int, int], int]
    answered_always: Callable[[int, int, int], bool]
    """Whether a broker answered in every round after one time and by another."""


@dataclass
class Found:
    """The facts of one partition. `predicted`: by the number of a row that shrinks the ISR whether the lag rule had
    said so of all that it removes. `led`: brokers that were seen leading."""

    hw: list[HwFact] = field(default_factory=list)
    sync: list[SyncFact] = field(default_factory=list)
    predicted: dict[int, bool] = field(default_factory=dict)
    led: set[int] = field(default_factory=set)


def apply(one: SampledPartition, row: Row, settings: Settings, found: Found) -> None:
    """Applies one row; rows come in canonical order."""
    settle(one, row.clock - 1, settings, found)  # at one time a round may be known whose rows are still to come
    one.gone = row.gone
    if row.event_type == "lost":
        one.replica(row.broker).answers = False
        return
    if row.event_type == "sample" and not row.by_leader:
        _take_leo(one, row, settings, found)
        return
    if not _take_metadata(one, row, settings, found):
        _add_hw(one, row)
    elif row.event_type == "sample":
        _take_leader(one, row, settings, found)


def settle(one: SampledPartition, now: int, settings: Settings, found: Found) -> None:
    """The followers that are out of sync by `now` (Partition.getOutOfSyncReplicas, ReplicaState.isCaughtUp).

    Claimed once the follower has answered after the deadline with the LEO that it had: then it was not caught up
    meanwhile. One that does not answer may have been.
    """
    if not one.has_lag:
        return
    for broker, replica in one.followers:
        caught_up = one.caught_up(replica.leo)
        if caught_up is None or replica.out_of_sync:
            continue
        latest = max(caught_up[1], replica.first)
        deadline = latest + settings.lag_max + MS
        if max(settings.last_round(broker, now), replica.since) >= deadline:
            replica.out_of_sync = True
            reason = SILENT if replica.since <= latest else BEHIND
            found.sync.append(_sync(one, broker, replica, deadline, latest, reason))


def _take_leo(one: SampledPartition, row: Row, settings: Settings, found: Found) -> None:
    """The sample of a replica that does not lead."""
    replica = one.replica(row.broker)
    if not replica.answers or replica.leo != row.leo:
        replica.since = row.ts
    if replica.first == NOT_KNOWN or row.leo < replica.leo:  # until its log was cut it may have been caught up
        replica.first = row.ts + row.error
    replica.leo, replica.log_epoch, replica.answers = row.leo, row.log_epoch, True
    if one.terms and row.log_epoch == one.epoch and row.broker not in one.terms[-1].fetchers:
        one.terms[-1].fetchers.append(row.broker)
    caught_up = one.caught_up(row.leo)
    if replica.out_of_sync and (caught_up is None or row.ts <= caught_up[0] + settings.lag_max):
        replica.out_of_sync = False
        found.sync.append(_sync(one, row.broker, replica, row.ts, caught_up[1] if caught_up else row.ts, RECOVERED))


def _take_metadata(one: SampledPartition, row: Row, settings: Settings, found: Found) -> bool:
    """Takes over leader, ISR and assignment; False where they are of an older leader epoch."""
    leader = row.broker if row.event_type == "leader" else row.leader
    if row.epoch < one.epoch:
        return False
    before = one.isr
    one.take_isr(row)
    if (leader, row.epoch) != (one.leader, one.epoch):
        _end_lags(one, row.ts, found)
        one.begin(row._replace(leader=leader))
    elif row.event_type == "isr" and before is not None and row.isr is not None and set(before) - set(row.isr):
        removed = set(before) - set(row.isr)
        found.predicted[row.number] = all(one.replica(r).out_of_sync for r in removed)
    if leader >= 0:
        found.led.add(leader)
    if row.replicas:
        _assign(one, row.replicas, row, found)
    _take_min_isr(one, row, settings, found)
    return True


def _end_lags(one: SampledPartition, ts: int, found: Found) -> None:
    """A new leader begins to measure anew."""
    for broker, replica in sorted(one.sampled.items()):
        if replica.out_of_sync:
            replica.out_of_sync = False
            found.sync.append(_sync(one, broker, replica, ts, None, RECOVERED))


def _assign(one: SampledPartition, replicas: tuple[int, ...], row: Row, found: Found) -> None:
    """A replica that is not assigned any more lags behind nobody; where it is assigned again, it is measured anew."""
    before, one.replicas = one.replicas, replicas
    for broker, replica in sorted(one.sampled.items()):
        if replica.out_of_sync and broker not in replicas:
            replica.out_of_sync = False
            found.sync.append(_sync(one, broker, replica, row.ts, None, UNASSIGNED))
        elif before is not None and broker in replicas and broker not in before:
            replica.first = row.ts + row.error
    one.sampled = {b: replica for b, replica in one.sampled.items() if b in replicas or replica.answers}


def _take_min_isr(one: SampledPartition, row: Row, settings: Settings, found: Found) -> None:
    """Whether the ISR is under min ISR: there the HW may not move."""
    one.min_isr = settings.min_isr
    if one.isr is None or one.leader < 0:
        return
    required = min(settings.min_isr, len(one.replicas)) if one.replicas else settings.min_isr
    frozen = len(one.isr) < required
    if frozen != one.frozen:
        one.frozen = frozen
        found.hw.append(_hw(one, row.ts, FREEZE if frozen else THAW, None, ONLY_WITNESS))


def _take_leader(one: SampledPartition, row: Row, settings: Settings, found: Found) -> None:
    """The sample of the present leader. A HW that it does not know yet (OFFSET_NOT_AVAILABLE) says nothing."""
    replica = one.replica(row.broker)
    after = max(one.seen, settings.last_round(row.broker, row.ts - 1))
    before = one.seen
    one.grow(row.leo, after if replica.answers else before, row.ts + row.error)
    replica.leo, replica.since, replica.log_epoch, replica.answers = row.leo, row.ts, row.log_epoch, True
    one.terms[-1].leo = row.leo
    one.seen, one.source = row.ts - row.error, row.source
    rises = row.hw != NOT_KNOWN and (one.hw is None or row.hw > one.hw)
    if rises:
        one.hw = row.hw
        _add_hw(one, row)
        found.hw.append(_hw(one, row.ts, ADVANCE, row.hw, ONLY_WITNESS)._replace(error=row.error))
    elif row.hw != NOT_KNOWN and one.hw is not None and row.hw < one.hw:
        if not settings.answered_always(row.broker, before, row.ts):
            one.hw = row.hw  # a leader that may have started again inside its epoch, with the HW of its checkpoint
        else:
            found.hw.append(_hw(one, row.ts, REPORT, row.hw, DISAGREE))
    stands = one.hw is not None and one.hw < row.leo
    one.stalled_since = None if not stands else row.ts if rises or one.stalled_since is None else one.stalled_since


def _add_hw(one: SampledPartition, row: Row) -> None:
    """A HW of the term in which it was sampled, which may be over."""
    term = one.term(row.broker, row.epoch, one.topic_id)
    if term is not None and row.hw != NOT_KNOWN and row.hw > max((hw for _, hw in term.hws), default=NOT_KNOWN):
        term.hws.append((row.clock, row.hw))


def _hw(one: SampledPartition, ts: int, kind: int, reported: int | None, agreement: int) -> HwFact:
    return HwFact(
        one.leader, one.epoch, ts, kind, agreement, one.hw, reported, one.leo, one.isr or (), one.holders(), one.frozen,
        one.topic_id,
    )  # fmt: skip


def _sync(
    one: SampledPartition, broker: int, replica: Replica, ts: int, caught_up: int | None, reason: int
) -> SyncFact:
    return SyncFact(
        one.leader, one.epoch, ts, broker, replica.out_of_sync, one.in_isr(broker, ts), caught_up, replica.leo,
        one.leo, reason, one.topic_id,
    )  # fmt: skip
