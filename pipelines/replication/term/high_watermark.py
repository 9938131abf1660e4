"""The high watermark of a term: min LEO over the replicas that count (Partition.maybeIncrementLeaderHW)."""

from __future__ import annotations

from pipelines.replication.compiled.decorators import hot, kernel, seldom
from pipelines.replication.compiled.records import Records
from pipelines.replication.compiled.types import NULL
from pipelines.replication.term.constants import (
    LANE,
    MATCHED,
    ROW,
    SLOT,
    Settings,
    Stats,
    Timeline,
    bucket_of,
    place_of,
)
from pipelines.replication.term.kafka_rules import (
    high_watermark,
    is_caught_up,
    maximal_isr,
    may_advance,
    waits_for_replica,
)
from pipelines.replication.term.layout import ADVANCE, IDLE, OPEN, RACE, REPORT, TERM_START
from pipelines.replication.term.metadata_lookup import eligible


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
    O[o, ROW.before] = O[o, ROW.awaited] = NULL
    return o + 1


@hot
def hw_rose(L: Records, lane: int, now: int, stat: int, A: Stats) -> None:
    """Bookkeeping of a higher HW: how long the append waited, since when the HW stands below the LEO."""
    if L[lane, LANE.append_ts] != NULL and L[lane, LANE.hw] >= L[lane, LANE.append_leo]:
        if stat >= 0:
            A.append_to_hw[stat, bucket_of(A.bounds_us, now - L[lane, LANE.append_ts])] += 1
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


@kernel
def note_gap(L: Records, lane: int, before: int) -> None:
    """A report that begins above every report so far leaves a gap: its thread has overtaken another one."""
    if L[lane, LANE.agreed] != NULL and before > L[lane, LANE.agreed]:
        L[lane, LANE.gap_low], L[lane, LANE.gap_high] = L[lane, LANE.agreed], before


@hot
def counting(L: Records, R: Records, T: Timeline, S: Settings, width: int, lane: int, slot: int, now: int) -> bool:
    """Whether a replica holds the HW: in the maximal ISR, or caught up and eligible to join (1.1 a, b)."""
    if not seldom((maximal_isr(L[lane, LANE.isr], L[lane, LANE.joining]) >> slot) & 1 == 0):
        return waits_for_replica(True, False, False)
    at = place_of(width, lane, slot)
    if R[at, SLOT.leo] < 0 or S.joiners == 0:
        return False
    if R[at, SLOT.caught_up] == NULL:
        return False
    caught_up = is_caught_up(
        R[at, SLOT.leo], L[lane, LANE.leader_leo], R[at, SLOT.caught_up], now, L[lane, LANE.lag_max]
    )
    return waits_for_replica(False, caught_up, caught_up and eligible(L, R, T, S, lane, at, now))


@hot
def lowest(L: Records, R: Records, T: Timeline, S: Settings, width: int, lane: int, now: int) -> tuple[int, int]:
    """(min LEO over the replicas that count, which of them stand there); -1 where one is unknown."""
    low, holding = L[lane, LANE.leader_leo], 0
    for k in range(L[lane, LANE.slots]):
        at = place_of(width, lane, k)
        own = R[at, SLOT.id] == L[lane, LANE.broker]
        if not own and not counting(L, R, T, S, width, lane, k, now):
            continue
        leo = L[lane, LANE.leader_leo] if own else R[at, SLOT.leo]
        if seldom(leo < 0):
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
    if seldom(
        L[lane, LANE.state] == IDLE
        or L[lane, LANE.isr_known] == 0
        or L[lane, LANE.leader_leo] == NULL
        or L[lane, LANE.hw] == NULL
    ):
        return o
    if seldom(L[lane, LANE.held] != 0) or not may_advance(L[lane, LANE.frozen] == 1, S.strict == 1):
        return o
    low, holding = lowest(L, R, T, S, width, lane, now)
    if high_watermark(L[lane, LANE.hw], L[lane, LANE.leader_leo], low) == L[lane, LANE.hw]:
        return o
    L[lane, LANE.hw] = low
    hw_rose(L, lane, now, stat, A)
    reported = NULL
    if agreement == OPEN:
        open_report = last_open(O, o, first, REPORT, low, now, S.race)
        if seldom(open_report >= 0):
            O[open_report, ROW.agreement] = MATCHED
            o = put_hw(L, O, o, lane, now, ADVANCE, low, holding, RACE, S)
            O[o - 1, ROW.before] = O[open_report, ROW.before]
            note_gap(L, lane, O[open_report, ROW.before])
            L[lane, LANE.agreed] = max(L[lane, LANE.agreed], low)
            return o
    else:
        reported = low
    return put_hw(L, O, o, lane, now, ADVANCE, reported, holding, agreement, S)
