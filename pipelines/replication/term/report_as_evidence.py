"""Reports that are the only evidence of the HW: accepted, and retracted when a LEO shows one false."""

from __future__ import annotations

from pipelines.replication.compiled.decorators import kernel
from pipelines.replication.compiled.records import Record
from pipelines.replication.compiled.types import NEVER, NULL
from pipelines.replication.term.bundles import Event, Stats, Term, hw_row, replica_in
from pipelines.replication.term.constants import RETRACTED
from pipelines.replication.term.held_back import follow_wait
from pipelines.replication.term.high_watermark import agree, in_maximal_isr, on_hw_rose, put_hw
from pipelines.replication.term.layout import ADVANCE, DISAGREE, ONLY_WITNESS, OPEN, REPORT, TERM_START
from pipelines.replication.term.replica_sync import leader_leo_grew, note_first_fetches, on_fetched, update_sync_state


@kernel
def accept_report(term: Term, stats: Stats, event: Event, hw: int, before: int) -> None:
    """A report that is the only evidence: the HW is what it says."""
    lane = term.lane
    lane.hw = hw
    agree(lane, hw)
    on_hw_rose(term, stats, event.now, event.stat)
    put_hw(term, event.now, ADVANCE, hw, 0, ONLY_WITNESS).hw_before = before


@kernel
def chain_refutes(lane: Record, hw: int, before: int) -> bool:
    """Whether a report shows the one that was accepted last false: it begins below it. One that begins at it confirms
    it, and one that fills a gap before it was only printed late."""
    if before == NULL:
        return False
    if before == lane.evidence_hw:
        lane.evidence_hw = NULL
        return False
    late = lane.gap_low != NULL and lane.gap_low <= before and hw <= lane.gap_high
    return bool(before < lane.evidence_hw and before < hw and hw != lane.evidence_hw and not late)


@kernel
def is_contradicted(lane: Record, settings: Record, slot: int, leo: int, now: int) -> bool:
    """Whether a LEO lies below a level-2 report, which stands for every LEO of the maximal ISR, and no race explains
    it."""
    if lane.evidence_hw == NULL or leo >= lane.evidence_hw or leo < 0:
        return False
    return in_maximal_isr(lane, slot) and bool(now - lane.evidence_ts > settings.race_window)


@kernel
def retract_report(term: Term, event: Event, leo: int) -> None:
    """The last accepted report was false: HW and LEOs are those of before it, and reports that it superseded count.

    `leo` is what showed it; the HW is not above it.
    """
    lane, false = term.lane, term.lane.evidence_hw
    lane.evidence_hw = NULL
    if lane.agreed == false:
        if lane.low_reports > 1:
            term.marks[event.position] |= RETRACTED
        lane.agreed = lane.reported = min(lane.agreed_before, leo)
        lane.low_reports = 0
    if lane.hw == false:
        lane.hw = min(lane.hw_before, leo)
        lower_leos(term, event.now)
        accept_superseded_reports(term, false, event.now)
    put_hw(term, event.now, REPORT, false, 0, DISAGREE)


@kernel
def lower_leos(term: Term, now: int) -> None:
    """LEOs that a false report raised are again what rows say of them, or the HW."""
    lane = term.lane
    lane.leader_leo = max(lane.reported_leo, lane.hw)
    lane.stalled_since = NULL if lane.hw >= lane.leader_leo else now
    follow_wait(term, now)
    for slot in range(lane.slots):
        replica = replica_in(term, slot)
        if replica.id == lane.broker:
            replica.leo = lane.leader_leo
            continue
        replica.leo = min(replica.leo, max(replica.reported_leo, lane.hw))
        if replica.last_fetch_leader_leo > lane.leader_leo:
            replica.last_fetch_leader_leo = 0  # not known: it counts as caught up then, late but not early
        update_sync_state(term, slot, now)


@kernel
def accept_superseded_reports(term: Term, false: int, now: int) -> None:
    """Reports that lay below the false one and are not final yet say what the HW was after all."""
    lane, end = term.lane, term.cursor.hw
    at = end
    while at > 0:
        row = hw_row(term, at - 1)
        if row.ts < now - term.settings.race_window or row.kind == TERM_START:
            break
        at -= 1
    for k in range(at, end):
        row = hw_row(term, k)
        reported = row.reported
        superseded = row.kind == REPORT and row.agreement == OPEN
        if superseded and lane.hw < reported < false:
            raise_leos(term, reported, now)
            remember_report(lane, reported, row.ts)
            row.kind, row.agreement, row.hw = ADVANCE, ONLY_WITNESS, reported
            row.leader_leo = lane.leader_leo
            lane.hw = reported
            agree(lane, reported)


@kernel
def remember_report(lane: Record, hw: int, ts: int) -> None:
    """Remember what a level-2 report is about to change, until a LEO shows it false."""
    lane.evidence_hw = hw
    lane.evidence_ts = ts
    lane.hw_before = lane.hw
    lane.agreed_before = lane.agreed


@kernel
def raise_leos(term: Term, hw: int, now: int) -> None:
    """At level 2 a report says that every LEO of the maximal ISR is at least it, as if they had fetched."""
    lane, first = term.lane, 0
    leader_leo_grew(term, hw, now)
    for slot in range(lane.slots):
        replica = replica_in(term, slot)
        if in_maximal_isr(lane, slot) and replica.id != lane.broker and replica.leo < hw:
            replica.leo = hw
            if replica.first_fetch == NEVER:
                first |= 1 << slot
            on_fetched(term, slot, hw, lane.leader_leo, now)
    if first:
        note_first_fetches(term, first)
