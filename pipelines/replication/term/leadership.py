"""The beginning and end of a broker's terms (Partition.makeLeader)."""

from __future__ import annotations

from pipelines.replication.compiled.decorators import kernel
from pipelines.replication.compiled.records import Record
from pipelines.replication.compiled.types import MS, NEVER, NULL, NULL32
from pipelines.replication.events.columns import Columns
from pipelines.replication.metadata.layout import Timeline
from pipelines.replication.term.bundles import Assigned, Event, Stats, Term, replica_in
from pipelines.replication.term.constants import first_not_below, level_of
from pipelines.replication.term.held_back import follow_wait
from pipelines.replication.term.high_watermark import put_hw, try_advance
from pipelines.replication.term.isr import set_isr, update_under_min_isr
from pipelines.replication.term.layout import IDLE, LEADING, MIDFLIGHT, OPEN, OVER, TERM_START, UNREPORTED
from pipelines.replication.term.metadata_lookup import (
    as_of,
    bounded_by_restart,
    key_of,
    may_be_same_incarnation,
    settle_config,
    update_clock_offset,
)
from pipelines.replication.term.open_reports import put_reports
from pipelines.replication.term.replica_slots import isr_of, own_slot
from pipelines.replication.term.replica_sync import reset_replicas


@kernel
def end_term(term: Term, now: int) -> None:
    """Keep what later verdicts ask of a term that is over."""
    lane = term.lane
    if lane.state == IDLE:
        return
    fetchers = 0
    for slot in range(lane.slots):
        replica = replica_in(term, slot)
        if replica.first_fetch != NEVER and replica.id != lane.broker:
            fetchers |= 1 << slot
    row = put_reports(term, OVER, now)
    row.hw = lane.hw
    row.leader_leo = lane.leader_leo
    row.fetchers = fetchers
    row.reported = lane.reported
    row.min_isr_told = min_isr_known_up_to(lane)
    row.epoch = lane.leader_epoch
    row.level = max(lane.level, lane.level_before)
    lane.frozen = 0
    lane.isr_known = 0
    lane.state = IDLE
    lane.stalled_since = NULL
    follow_wait(term, now)


@kernel
def min_isr_known_up_to(lane: Record) -> int:
    """0 where nobody told min ISR; 1 where it is known, as are all replicas, else 1 + how many of these are: a min
    ISR above that, set in the term, leaves open whether the HW rose."""
    if lane.min_isr_told == 0 or lane.few_assigned:
        return 0
    return 1 if lane.assigned_told else 1 + lane.assigned_count


@kernel
def _begin(lane: Record, hw: int, leo: int) -> None:
    """Set the first values of a term, whose reports are a chain of their own."""
    lane.hw = lane.agreed = hw
    lane.start_offset = lane.leader_leo = lane.reported_leo = leo
    lane.proposed_ts = NULL
    lane.low_reports = 0
    lane.unknown_leos = 0
    lane.evidence_hw = NULL
    lane.reports_open = 0
    lane.thawed = NULL
    lane.gap_low = lane.gap_high = NULL
    lane.cut_off = lane.cut_off_ts = lane.cut_off_until = NULL
    lane.reported = lane.witnessed = lane.witnessed_ts = lane.witnessed_from = NULL
    lane.last_unmatched = lane.chain_from = NULL
    lane.level_before = lane.few_assigned = 0


@kernel
def start_term(
    term: Term, timeline: Timeline, stats: Stats, columns: Columns, event: Event, series: int, assigned: int
) -> None:  # fmt: skip
    """A `leader` event: a new term with the start offset, HW and ISR that it says."""
    lane, rare, now = term.lane, event.row.more, event.now
    follows = lane.state == LEADING and columns.leader_epoch[rare] > lane.leader_epoch
    led_before = follows and may_be_same_incarnation(lane, timeline, now)
    end_term(term, now)
    lane.state = LEADING
    lane.level = columns.level[rare]
    lane.leader_epoch = columns.leader_epoch[rare]
    lane.partition_epoch = columns.partition_epoch[rare]
    lane.topic_id = columns.topic_id[rare]
    lane.epoch_learned_at = now if columns.partition_epoch[rare] != NULL32 else NULL
    _take_over_clock_offset(lane, term.settings, timeline, now)
    lane.deposed = 0
    lane.term_start = columns.ts[rare]
    _begin(lane, columns.hw[rare], columns.leo[rare])
    lane.told_by, lane.told_ts = series, now
    lane.append_ts = NULL
    lane.stalled_since = now if columns.hw[rare] < columns.leo[rare] else NULL
    lane.reported_min_isr = columns.min_isr[rare]
    lane.assigned, lane.assigned_told = assigned | (1 << own_slot(term)), 1 if assigned else 0
    settle_config(lane, term.settings, timeline, now, True, True)
    if columns.lag_max_ms[rare] != NULL32:
        lane.lag_max = columns.lag_max_ms[rare] * MS
    set_isr(lane, isr_of(term, columns, rare))
    reset_replicas(term, led_before, assigned, now)
    for slot in range(lane.slots):
        replica = replica_in(term, slot)
        replica.first_fetch = NEVER
        replica.passed = NULL if replica.leo == lane.leader_leo else now
    put_hw(term, columns.ts[rare], TERM_START, NULL, 0, UNREPORTED)
    update_under_min_isr(term, now)
    follow_wait(term, now)
    try_advance(term, timeline, stats, now, event.stat, OPEN)


@kernel
def _take_over_clock_offset(lane: Record, settings: Record, timeline: Timeline, now: int) -> None:
    """The offset of this broker's clock that was found outside of its terms, up to the race window none.

    That it is 0 is kept only of a broker that had another one: else it says no more than that none is known.
    """
    known = as_of(timeline.clock_offsets, key_of(lane.partition, lane.broker), now)
    if known >= 0 and (timeline.clock_offsets[known].clock_offset != 0 or lane.clock_offset != 0):
        offset = timeline.clock_offsets[known]
        ahead = bounded_by_restart(lane, timeline, offset.ts, offset.clock_offset)
        update_clock_offset(lane, settings, 0 if 0 <= ahead <= settings.race_window else ahead, False)


@kernel
def has_all_in_sync(lane: Record, columns: Columns, rare: int, assigned: Assigned) -> bool:
    """A first term with every assigned replica in the ISR: nothing that a source without any row so far could
    report bears on it."""
    at = first_not_below(assigned.rows, rare)
    replicas = assigned.starts[at + 1] - assigned.starts[at]
    isr = columns.isr_from[rare + 1] - columns.isr_from[rare]
    return bool(lane.state == IDLE and 0 < replicas <= isr)


@kernel
def begin_midflight(lane: Record, settings: Record, timeline: Timeline, row: Record, now: int) -> None:
    """A broker seen leading whose `leader` event is missing: HW and ISR are unknown until rows say them."""
    lane.state = MIDFLIGHT
    lane.level = level_of(row.what)
    lane.leader_epoch = row.who >> 32
    lane.partition_epoch = NULL32
    lane.term_start = row.ts
    _begin(lane, NULL, NULL)
    lane.isr_known = 0
    lane.isr = 0
    lane.joining = 0
    lane.proposed_isr = 0
    lane.epoch_learned_at = NULL
    lane.reported_min_isr = NULL32
    settle_config(lane, settings, timeline, now, True, True)
