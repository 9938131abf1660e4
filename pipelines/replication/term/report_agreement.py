"""Decisions on open reports: they match after all, wait for a later row, or disagree."""

from __future__ import annotations

from pipelines.replication.compiled.decorators import hot, kernel, seldom
from pipelines.replication.compiled.records import Record
from pipelines.replication.compiled.types import NEVER, NULL
from pipelines.replication.term.bundles import Event, Term, hw_row, replica_in
from pipelines.replication.term.constants import LEFT, NOT_CUT_OFF, lacks_fetches
from pipelines.replication.term.layout import ADVANCE, DISAGREE, EXACT, ONLY_WITNESS, OPEN, RACE, REPORT, TERM_START
from pipelines.replication.term.open_reports import COMPUTED, EXCUSED, LINKED_AFTER, LINKED_BEFORE, links_between
from pipelines.replication.term.replica_slots import in_set


@kernel
def decide_report(term: Term, at: int, final: bool) -> int:
    """The agreement of a report that nothing matched within the race window; LEFT: it waits for a later row.

    It disagrees once a later row of its broker's incarnation is past it, and every member of the ISR has fetched
    since: a broker that was killed right behind it had no time for the rows that would have shown it right, nor had a
    thread that stood still since.
    """
    row = hw_row(term, at)
    if row.agreement == OPEN:
        agreement = _by_links(term, at)
        if agreement != OPEN:
            return agreement
        row.agreement = LEFT
    if row.holding & EXCUSED:
        return ONLY_WITNESS
    past = term.lane.last_ts > row.ts + term.settings.race_window
    above = row.reported > row.hw
    if past and not (above and _has_silent_member(term, row.isr, row.ts)):
        return DISAGREE
    return ONLY_WITNESS if final else LEFT


@kernel
def _has_silent_member(term: Term, isr: int, since: int) -> bool:
    """Whether a follower in the ISR has not fetched since, by its leader's log: what it has is not known."""
    if lacks_fetches(term.lane):
        return False
    for slot in range(term.lane.slots):
        replica = replica_in(term, slot)
        if replica.id != term.lane.broker and in_set(isr, slot) and replica.last_fetch < since:
            return True
    return False


@kernel
def _by_links(term: Term, at: int) -> int:
    """RACE for a link of the chain, EXACT for the HW as it stood; OPEN where neither."""
    report = hw_row(term, at)
    hw, before, links, top = report.reported, report.hw_before, report.holding, report.hw
    awaited, end = report.awaited, report.ts + term.settings.race_window
    for k in range(at + 1, term.cursor.hw):
        row = hw_row(term, k)
        if row.ts > end or row.kind == TERM_START:
            break
        links |= links_between(row, hw, before)
        if row.kind == ADVANCE:
            top = max(top, row.hw)
            awaited = row.hw if awaited == NULL and row.agreement == OPEN else awaited
    if hw == report.hw:
        if awaited == NULL or report.level == 0:  # at level 0 no rise is printed
            return EXACT
        report.hw = awaited  # the report of that value, and it says another
        return OPEN
    linked = links & LINKED_BEFORE and links & LINKED_AFTER
    return RACE if linked and not links & COMPUTED and before < hw <= top else OPEN


@hot
def waits(row: Record) -> bool:
    """Whether a row is a report that waits for a match, or for a later row."""
    return bool(row.kind == REPORT and (row.agreement == OPEN or row.agreement == LEFT))


@kernel
def excuse_open(term: Term, since: int) -> None:
    """Telemetry is missing beside the reports that wait for a match: what they belong to may have been in it."""
    for at in range(term.cursor.hw - 1, -1, -1):
        row = hw_row(term, at)
        if row.ts < since - term.settings.race_window or row.kind == TERM_START:
            return
        if waits(row):
            row.holding |= EXCUSED


@kernel
def reports_wait(term: Term) -> bool:
    """Whether a report waits for a match, or for a later row."""
    for at in range(term.cursor.hw):  # noqa: SIM110 - numba has no generators here
        if waits(hw_row(term, at)):
            return True
    return False


@kernel
def close_reports(term: Term) -> None:
    """The broker's incarnation is over, as far as is known: what still waits for a later row of it waits in vain."""
    for at in range(term.cursor.hw):
        row = hw_row(term, at)
        if waits(row):
            row.agreement = decide_report(term, at, True)
            row.holding = 0


@hot
def pass_cut_off(term: Term, event: Event) -> None:
    """A later row is past the report that may have been cut off: it was right, or is known to be wrong from now on."""
    lane = term.lane
    if seldom(
        lane.cut_off_until == NEVER
        and event.clock > lane.cut_off_ts + term.settings.race_window
        and not _has_silent_member(term, lane.cut_off_isr, lane.cut_off_ts)
    ):
        lane.cut_off_until = event.clock
        if lane.hw < lane.cut_off:
            term.marks[event.position] |= NOT_CUT_OFF
