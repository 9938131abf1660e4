"""Reports that match nothing so far, and how the chain of reports links them with what lies beside them."""

from __future__ import annotations

from pipelines.replication.compiled.decorators import hot, kernel, seldom
from pipelines.replication.compiled.records import Record
from pipelines.replication.compiled.types import NEVER, NULL
from pipelines.replication.term.bundles import Term, begin_term_row, hw_row
from pipelines.replication.term.constants import unsigned
from pipelines.replication.term.high_watermark import last_open, open_gap, put_hw
from pipelines.replication.term.layout import ADVANCE, EXACT, ONLY_WITNESS, OPEN, RACE, REPORT, REPORTED, TERM_START

LINKED_BEFORE, LINKED_AFTER, COMPUTED, EXCUSED = 1, 2, 4, 8
"""What an open report has beside it: a known HW that it begins at; a report that begins at it; a computed HW of its own
value; missing telemetry."""


@hot
def fills_gap(lane: Record, hw: int, before: int) -> bool:
    """Whether a report lies between two others that nothing has linked yet."""
    gap = before != NULL and lane.gap_low != NULL
    return bool(gap and lane.gap_low <= before < hw <= lane.gap_high)


@hot
def link(term: Term, before: int, now: int) -> None:
    """A report that begins at an open one links it; else it may leave a gap."""
    if seldom(before != NULL and before != term.lane.agreed) and not _follows_open(term, before, now):
        open_gap(term.lane, before)


@kernel
def _follows_open(term: Term, before: int, now: int) -> bool:
    """Whether a report within the race window that matches nothing yet ends where this one begins: now it is linked."""
    at = last_open(term, REPORT, before, now)
    if at >= 0:
        hw_row(term, at).holding |= LINKED_AFTER
    return at >= 0


@kernel
def put_reports(term: Term, what: int, end: int) -> Record:
    """Write a row of TERMS with what this term's leader has reported; returns it."""
    lane, row = term.lane, begin_term_row(term, what, end)
    row.cut_off = lane.cut_off
    row.cut_off_ts = lane.cut_off_ts
    row.cut_off_until = lane.cut_off_until
    row.witnessed = lane.witnessed
    row.witnessed_ts = lane.witnessed_ts
    row.witnessed_from = lane.witnessed_from
    return row


@kernel
def _keep_reports(term: Term) -> None:
    """Keep what was reported before the present row, which reports more."""
    if term.cursor.ended > 0:
        last = term.ended_rows[unsigned(term.cursor.ended - 1)]
        of_term = last.lane == term.number and last.start == term.lane.term_start
        if last.what == REPORTED and of_term and last.end == term.lane.last_ts:
            return
    put_reports(term, REPORTED, term.lane.last_ts)


@kernel
def witness(term: Term, hw: int, since: int) -> None:
    """A report above what was computed counts: a leader's own HW is the truth, what is computed is ours. One of a chain
    does unless that begins with what is computed yet, at `since`; NULL: it is none of a chain."""
    lane = term.lane
    if hw > lane.witnessed:
        _keep_reports(term)
        lane.witnessed, lane.witnessed_ts, lane.witnessed_from = hw, lane.last_ts, since


@kernel
def _link_unmatched(term: Term, hw: int, before: int) -> None:
    """Two reports above what was computed, of which one begins at the other, are no single wrong line."""
    lane = term.lane
    if before != NULL and before == lane.last_unmatched:
        witness(term, hw, lane.chain_from)
    else:
        lane.chain_from = hw
    lane.last_unmatched = hw


@kernel
def leave_open(term: Term, hw: int, before: int, now: int) -> None:
    """A report that matches nothing so far stays open, with the links that it has by now.

    Where rows are missing nothing contradicts it: they may be of another ISR, or of the leader's next start.
    """
    lane = term.lane
    lower = hw < lane.hw and lane.agreed == NULL
    if hw > lane.hw:
        _link_unmatched(term, hw, before)
    if lane.unknown_leos != 0 or lane.isr_doubted == 1 or lower:
        put_hw(term, now, REPORT, hw, 0, ONLY_WITNESS)
        if hw > lane.hw:
            witness(term, hw, NULL)
        return
    since = _taken_by_another(term, hw, before, now)
    if since >= 0:  # this one goes on where that one should have ended: that one is wrong
        other = hw_row(term, since)
        row = put_hw(term, other.ts, REPORT, hw, 0, OPEN)
        row.hw = row.awaited = other.hw
        lane.reports_open = 1
        return
    links = _links_so_far(term, hw, before, now)
    if before != NULL:
        _follows_open(term, before, now)
    if before != NULL and fills_gap(lane, hw, before):
        links |= _narrow_gap(lane, hw, before)
    if hw > lane.hw and (lane.cut_off_until != NEVER or hw > lane.cut_off):
        _keep_reports(term)
        lane.cut_off, lane.cut_off_ts, lane.cut_off_until = hw, now, NEVER
        lane.cut_off_isr = lane.isr
    row = put_hw(term, now, REPORT, hw, links, OPEN)
    row.hw_before = before
    row.awaited = _awaited(term, now)
    lane.reports_open = 1


@kernel
def _narrow_gap(lane: Record, hw: int, before: int) -> int:
    """A report takes its part of the gap that it fills; returns the links that it has by that."""
    links = 0
    if before == lane.gap_low:
        links |= LINKED_BEFORE
        lane.gap_low = hw
    if hw == lane.gap_high:
        links |= LINKED_AFTER
        lane.gap_high = before
    if lane.gap_low >= lane.gap_high:
        lane.gap_low = lane.gap_high = NULL
    return links


@kernel
def _taken_by_another(term: Term, hw: int, before: int, now: int) -> int:
    """The row of the computed HW at which this report begins; -1 if there is none.

    Its own report is missing, and the HW of this report was matched with one that begins elsewhere.
    """
    awaited = last_open(term, ADVANCE, before, now) if before != NULL else -1
    if awaited < 0:
        return -1
    for at in range(awaited + 1, term.cursor.hw):
        row = hw_row(term, at)
        matched = row.agreement == EXACT or row.agreement == RACE
        if row.hw == hw and row.kind == ADVANCE and matched and row.hw_before != before:
            return awaited
    return -1


@kernel
def _awaited(term: Term, now: int) -> int:
    """The last computed HW up to a race window before whose report is missing, NULL where there is none."""
    at = last_open(term, ADVANCE, NULL, now)
    return int(hw_row(term, at).hw) if at >= 0 else NULL


@kernel
def await_no_more(term: Term, matched: int) -> None:
    """A computed HW has its report: open reports beside it are not that."""
    hw = hw_row(term, matched).hw
    for at in range(matched + 1, term.cursor.hw):
        if hw_row(term, at).awaited == hw:
            hw_row(term, at).awaited = NULL


@kernel
def _links_so_far(term: Term, hw: int, before: int, now: int) -> int:
    """The links of a report to what lies up to a race window before it."""
    links, at = 0, term.cursor.hw - 1
    if before != NULL and (before == term.lane.hw or before == term.lane.agreed):
        links |= LINKED_BEFORE
    while at >= 0:
        row = hw_row(term, at)
        if row.ts < now - term.settings.race_window or row.kind == TERM_START:
            break
        links |= links_between(row, hw, before)
        at -= 1
    return links


@kernel
def links_between(row: Record, hw: int, before: int) -> int:
    """The link between a report and a row beside it."""
    links = 0
    if row.kind == ADVANCE and row.hw == hw:
        links |= COMPUTED
    if before == NULL or (row.kind != ADVANCE and row.kind != REPORT):
        return links
    known = row.hw if row.kind == ADVANCE else row.reported
    if known == before:
        links |= LINKED_BEFORE
    if row.hw_before == hw:
        links |= LINKED_AFTER
    return links
