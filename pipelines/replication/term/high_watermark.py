"""The high watermark of a term: min LEO over the replicas that count (Partition.maybeIncrementLeaderHW)."""

from __future__ import annotations

from pipelines.replication.compiled.decorators import hot, kernel, seldom
from pipelines.replication.compiled.records import Record
from pipelines.replication.compiled.types import NULL
from pipelines.replication.metadata.layout import Timeline
from pipelines.replication.term.bundles import Stats, Term, hw_row, replica_in
from pipelines.replication.term.constants import MATCHED, bucket_of
from pipelines.replication.term.held_back import follow_wait
from pipelines.replication.term.kafka_rules import (
    high_watermark,
    is_caught_up,
    maximal_isr,
    may_advance,
    waits_for_replica,
)
from pipelines.replication.term.layout import ADVANCE, IDLE, OPEN, RACE, REPORT, TERM_START
from pipelines.replication.term.metadata_lookup import is_eligible
from pipelines.replication.term.replica_slots import in_set


@hot
def put_hw(term: Term, ts: int, kind: int, reported: int, holding: int, agreement: int) -> Record:
    """Write a row of silver/partition_hw as the lane stands; returns it. One that comes late, by a clock that was
    behind, belongs to the term in which it comes and has no time before that."""
    lane, row = term.lane, hw_row(term, term.cursor.hw)
    row.lane = term.number
    row.ts = max(ts, lane.term_start)
    row.kind = kind
    row.hw = lane.hw
    row.reported = reported
    row.leader_leo = lane.leader_leo
    row.isr = lane.isr
    row.holding = holding
    row.frozen = lane.frozen & term.settings.strict_min_isr
    row.agreement = agreement
    row.leader_epoch = lane.leader_epoch
    row.topic_id = lane.topic_id
    row.level = lane.level
    row.hw_before = NULL
    row.awaited = NULL
    term.cursor.hw += 1
    return row


@hot
def on_hw_rose(term: Term, stats: Stats, now: int, stat: int) -> None:
    """Bookkeeping of a higher HW: how long the append waited, since when the HW stands below the LEO."""
    lane = term.lane
    if lane.append_ts != NULL and lane.hw >= lane.append_leo:
        if stat >= 0:
            stats.append_to_hw[stat, bucket_of(stats.bounds_us, now - lane.append_ts)] += 1
        lane.append_ts = NULL
    lane.stalled_since = NULL if lane.hw >= lane.leader_leo else now
    follow_wait(term, now)


@hot
def last_open(term: Term, kind: int, value: int, ts: int) -> int:
    """The last report (kind REPORT) or computed value (ADVANCE) of this term within the race window that has no pair
    yet; of this value, or of any where it is NULL; else -1."""
    at = term.cursor.hw - 1
    while at >= 0 and hw_row(term, at).ts >= ts - term.settings.race_window and hw_row(term, at).kind != TERM_START:
        row = hw_row(term, at)
        if row.agreement == OPEN and row.kind == kind:
            if value == NULL or (row.reported if kind == REPORT else row.hw) == value:
                return int(at)
        at -= 1
    return -1


@hot
def agree(lane: Record, hw: int) -> None:
    """The broker reports a HW that was computed, or that is the only evidence of it."""
    lane.agreed = max(lane.agreed, hw)
    lane.reported = max(lane.reported, hw)


@kernel
def open_gap(lane: Record, before: int) -> None:
    """A report that begins above every report so far leaves a gap: its thread has overtaken another one."""
    if lane.agreed != NULL and before > lane.agreed:
        lane.gap_low, lane.gap_high = lane.agreed, before


@hot
def holds_hw(term: Term, timeline: Timeline, slot: int, now: int) -> bool:
    """Whether a replica holds the HW: in the maximal ISR, or caught up and eligible to join."""
    lane = term.lane
    if not seldom((maximal_isr(lane.isr, lane.joining) >> slot) & 1 == 0):
        return waits_for_replica(True, False, False)
    replica = replica_in(term, slot)
    if replica.leo < 0 or term.settings.waits_for_joiners == 0:
        return False
    if replica.caught_up == NULL:
        return False
    caught_up = is_caught_up(replica.leo, lane.leader_leo, replica.caught_up, now, lane.lag_max)
    return waits_for_replica(
        False, caught_up, caught_up and is_eligible(lane, replica, term.settings, timeline, now)
    )  # fmt: skip


@hot
def lowest_leo(term: Term, timeline: Timeline, now: int) -> tuple[int, int]:
    """(min LEO over the replicas that count, which of them stand there); -1 where one is unknown."""
    lane = term.lane
    lowest, holding = lane.leader_leo, 0
    for slot in range(lane.slots):
        replica = replica_in(term, slot)
        own = replica.id == lane.broker
        if not own and not holds_hw(term, timeline, slot, now):
            continue
        leo = lane.leader_leo if own else replica.leo
        if seldom(leo < 0):
            return -1, 0
        if leo < lowest:
            lowest, holding = leo, 0
        if leo == lowest:
            holding |= 1 << slot
    return lowest, holding


@hot
def try_advance(term: Term, timeline: Timeline, stats: Stats, now: int, stat: int, agreement: int) -> None:
    """One attempt to raise the HW (Partition.maybeIncrementLeaderHW).

    None is made while the leader's state is not known, or rows are missing that may have lowered a LEO.
    """
    lane = term.lane
    if seldom(lane.state == IDLE or lane.isr_known == 0 or lane.leader_leo == NULL or lane.hw == NULL):
        return
    if seldom(lane.unknown_leos != 0) or not may_advance(lane.frozen == 1, term.settings.strict_min_isr == 1):
        return
    lowest, holding = lowest_leo(term, timeline, now)
    if high_watermark(lane.hw, lane.leader_leo, lowest) == lane.hw:
        return
    lane.hw = lowest
    on_hw_rose(term, stats, now, stat)
    if agreement != OPEN:
        put_hw(term, now, ADVANCE, lowest, holding, agreement)
        return
    report = last_open(term, REPORT, lowest, now)
    if seldom(report >= 0):
        matched = hw_row(term, report)
        matched.agreement = MATCHED
        put_hw(term, now, ADVANCE, lowest, holding, RACE).hw_before = matched.hw_before
        open_gap(lane, matched.hw_before)
        agree(lane, lowest)
        return
    put_hw(term, now, ADVANCE, NULL, holding, agreement)


@hot
def in_maximal_isr(lane: Record, slot: int) -> bool:
    return in_set(maximal_isr(lane.isr, lane.joining), slot)
