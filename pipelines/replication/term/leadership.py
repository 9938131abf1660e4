"""How the terms of a broker begin and end (Partition.makeLeader)."""

from __future__ import annotations

from pipelines.replication.compiled.decorators import kernel
from pipelines.replication.compiled.records import Records
from pipelines.replication.compiled.types import I64, MS, NULL, NULL32
from pipelines.replication.events.columns import Columns
from pipelines.replication.events.packed_rows import PACKED
from pipelines.replication.term.constants import LANE, SLOT, TERM, Settings, Stats, Timeline, first_not_below, level_of
from pipelines.replication.term.high_watermark import put_hw, try_advance
from pipelines.replication.term.isr import set_isr, weigh_isr
from pipelines.replication.term.layout import APART, IDLE, LEADING, MIDFLIGHT, OPEN, TERM_START, UNREPORTED
from pipelines.replication.term.metadata_lookup import alive, as_of, set_clock, settle_config, unless_down
from pipelines.replication.term.replica_slots import mask_of, slot_of
from pipelines.replication.term.replica_sync import reset_replicas


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
    E[e, TERM.cut_off] = L[lane, LANE.cut_off]
    E[e, TERM.cut_off_ts] = L[lane, LANE.cut_off_ts]
    E[e, TERM.cut_off_until] = L[lane, LANE.cut_off_until]
    L[lane, LANE.frozen] = 0
    L[lane, LANE.isr_known] = 0
    L[lane, LANE.state] = IDLE
    return e + 1


@kernel
def forget_reports(L: Records, lane: int) -> None:
    """A new term: its reports are a chain of their own."""
    L[lane, LANE.reports_open] = 0
    L[lane, LANE.thawed] = NULL
    L[lane, LANE.gap_low] = L[lane, LANE.gap_high] = NULL
    L[lane, LANE.cut_off] = L[lane, LANE.cut_off_ts] = L[lane, LANE.cut_off_until] = NULL


@kernel
def start_term(
    L: Records, R: Records, C: Columns, T: Timeline, S: Settings, A: Stats, width: int, lane: int, i: int, now: int,
    stat: int, assigned: int, O: Records, o: int, first: int, Y: Records, y: int, E: Records, e: int,
) -> tuple[int, int, int]:  # fmt: skip
    """A `leader` event: a new term with start offset, HW and ISR as told."""
    led_before = (
        L[lane, LANE.state] == LEADING and C.leader_epoch[i] > L[lane, LANE.leader_epoch] and alive(L, T, lane, now)
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
        ahead = unless_down(L, T, lane, T.apart[apart, APART.at.ts], T.apart[apart, APART.at.ahead])
        set_clock(L, S, lane, 0 if 0 <= ahead <= S.race else ahead, False)
    L[lane, LANE.asked_ts] = NULL
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
    forget_reports(L, lane)
    L[lane, LANE.append_ts] = NULL
    L[lane, LANE.stalled_since] = now if C.hw[i] < C.leo[i] else NULL
    L[lane, LANE.told_min_isr] = C.min_isr[i]
    L[lane, LANE.assigned] = assigned | (1 << slot_of(L, R, width, lane, L[lane, LANE.broker]))
    settle_config(L, T, S, lane, now, True, True)
    if C.lag_max_ms[i] != NULL32:
        L[lane, LANE.lag_max] = C.lag_max_ms[i] * MS
    set_isr(L, lane, mask_of(L, R, width, lane, C.isr_ids, C.isr_from[i], C.isr_from[i + 1]))
    y = reset_replicas(L, R, width, lane, led_before, assigned, now, S, Y, y)
    o = put_hw(L, O, o, lane, C.ts[i], TERM_START, NULL, 0, UNREPORTED, S)
    o = weigh_isr(L, R, S, width, lane, O, o, now)
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
def begin_midflight(L: Records, T: Timeline, S: Settings, P: Records, lane: int, j: int, now: int) -> None:
    """A broker seen leading whose `leader` event was not told: term, HW and ISR are unknown until told."""
    L[lane, LANE.state] = MIDFLIGHT
    L[lane, LANE.level] = level_of(P[j, PACKED.what])
    L[lane, LANE.leader_epoch] = P[j, PACKED.who] >> 32
    L[lane, LANE.partition_epoch] = NULL32
    L[lane, LANE.term_start] = P[j, PACKED.ts]
    L[lane, LANE.start_offset] = NULL
    L[lane, LANE.hw] = NULL
    L[lane, LANE.leader_leo] = NULL
    L[lane, LANE.told_leo] = NULL
    L[lane, LANE.agreed] = NULL
    L[lane, LANE.low_reports] = 0
    L[lane, LANE.witness] = NULL
    forget_reports(L, lane)
    L[lane, LANE.isr_known] = 0
    L[lane, LANE.isr] = 0
    L[lane, LANE.joining] = 0
    L[lane, LANE.asked] = 0
    L[lane, LANE.asked_ts] = NULL
    L[lane, LANE.learnt] = NULL
    L[lane, LANE.held] = 0
    L[lane, LANE.told_min_isr] = NULL32
    settle_config(L, T, S, lane, now, True, True)
