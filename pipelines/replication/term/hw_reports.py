"""What the broker says its HW became, compared with what was computed.

A broker prints the HW before and after each rise, so the reports of a term form a chain, in whatever order its threads
print them. A report of a value that was never computed is a race of threads where the chain links it on both sides, and
it lies between the HW computed before and after it.
"""

from __future__ import annotations

from pipelines.replication.compiled.decorators import hot, kernel, seldom
from pipelines.replication.compiled.records import Record
from pipelines.replication.compiled.types import NEVER, NULL, NULL32
from pipelines.replication.events.columns import BY_METADATA, Columns
from pipelines.replication.metadata.layout import Timeline
from pipelines.replication.term.bundles import Event, Stats, Term, hw_row, last_row, replica_in
from pipelines.replication.term.constants import LEFT, MOVED_BACK, NOT_CUT_OFF, lacks_fetches
from pipelines.replication.term.high_watermark import (
    in_maximal_isr,
    last_open,
    lowest_leo,
    open_gap,
    put_hw,
    try_advance,
)
from pipelines.replication.term.kafka_rules import maximal_isr
from pipelines.replication.term.layout import (
    ADVANCE,
    DISAGREE,
    EXACT,
    FREEZE,
    IDLE,
    ONLY_WITNESS,
    OPEN,
    RACE,
    REPORT,
    TERM_START,
    THAW,
    UNREPORTED,
)
from pipelines.replication.term.metadata_lookup import state_of
from pipelines.replication.term.replica_slots import in_set, own_slot
from pipelines.replication.term.replica_sync import leader_leo_grew
from pipelines.replication.term.report_as_evidence import (
    accept_report,
    chain_refutes,
    raise_leos,
    remember_report,
    retract_report,
)

LINKED_BEFORE, LINKED_AFTER, COMPUTED, EXCUSED = 1, 2, 4, 8
"""What an open report has beside it: a known HW that it begins at; a report that begins at it; a computed HW of its own
value; missing telemetry."""


@kernel
def on_report(term: Term, timeline: Timeline, stats: Stats, event: Event, hw: int, before: int) -> None:
    """The broker says its HW became `hw`, from `before`: compare, or accept it where nothing else is known."""
    lane, now = term.lane, event.now
    if seldom(lane.witness != NULL) and chain_refutes(lane, hw, before):
        retract_report(term, event, before)
    _count_low(term, event, hw, before)
    if lane.hw == NULL or lane.isr_known == 0 or (lane.held != 0 and hw > lane.hw):
        if lane.leader_leo != NULL:
            leader_leo_grew(term, hw, now)
        accept_report(term, stats, event, hw, before)
        return
    at = last_open(term, ADVANCE, hw, now)
    if at < 0 and seldom(hw > lane.hw):
        at = _attempt_of(term, timeline, stats, event, hw)
    if at >= 0:
        _match(term, at, hw, before, now)
        return
    _on_unmatched(term, timeline, stats, event, hw, before)


@hot
def _match(term: Term, at: int, hw: int, before: int, now: int) -> None:
    """The report of a computed HW."""
    lane, row = term.lane, hw_row(term, at)
    row.agreement = EXACT if hw == lane.hw else RACE
    row.reported, row.before = hw, before
    if seldom(lane.reports_open == 1):
        _await_no_more(term, at)
    _link(term, before, now)
    lane.agreed = max(lane.agreed, hw)


@kernel
def _attempt_of(term: Term, timeline: Timeline, stats: Stats, event: Event, hw: int) -> int:
    """Where the HW stands that an attempt gives which shows in nothing but this report, else -1."""
    lane, now = term.lane, event.now
    unaware = term.settings.strict_min_isr == 1 and lane.frozen == 1 and _just_frozen(term, now)
    if unaware:
        lane.frozen = 0
    at = -1
    lowest, _ = lowest_leo(term, timeline, now)
    if lowest == hw:
        try_advance(term, timeline, stats, now, event.stat, OPEN)
        at = last_open(term, ADVANCE, hw, now)
    if unaware:
        lane.frozen = 1
    return at


@kernel
def _on_unmatched(term: Term, timeline: Timeline, stats: Stats, event: Event, hw: int, before: int) -> None:
    """A report of a value that was not computed: of a leader alone in its ISR, or whose log has no fetches, it says
    what LEOs are; any other stays open."""
    lane, now = term.lane, event.now
    alone = maximal_isr(lane.isr, lane.joining) == 1 << max(own_slot(term), 0)
    awaited = last_open(term, ADVANCE, NULL, now) if alone else -1
    if awaited >= 0:
        row = hw_row(term, awaited)
        passed_over = lacks_fetches(lane) and before != NULL and before < row.hw < hw
        if not passed_over:  # this is the report of that value, and says another
            row.agreement = UNREPORTED
            _leave_open(term, hw, before, now)
            return
    known = lane.leader_leo != NULL and hw <= lane.leader_leo
    may_move = not (term.settings.strict_min_isr == 1 and lane.frozen == 1)
    if alone and not known and may_move and _advanced_alone(term, timeline, stats, event, hw, before):
        return
    if lacks_fetches(lane) and hw > lane.hw:
        raise_leos(term, hw, now)
        remember_report(lane, hw, now)
        _link(term, before, now)
        accept_report(term, stats, event, hw, before)
        return
    uncertain = hw > lane.hw and _is_held_by_guess(term, timeline, hw, now)
    _leave_open(term, hw, before, now)
    row = last_row(term)
    if seldom(uncertain) and row.agreement == OPEN:
        row.holding |= EXCUSED


@kernel
def _advanced_alone(term: Term, timeline: Timeline, stats: Stats, event: Event, hw: int, before: int) -> bool:
    """Whether the log of a leader that is alone in its ISR ends at what it reports: then the HW is there."""
    lane, now = term.lane, event.now
    remember_report(lane, hw, now)
    leader_leo_grew(term, hw, now)
    lowest, _ = lowest_leo(term, timeline, now)
    if lowest != hw:
        lane.witness = NULL
        return False
    try_advance(term, timeline, stats, now, event.stat, ONLY_WITNESS)
    last_row(term).before = before
    _link(term, before, now)
    lane.agreed = max(lane.agreed, hw)
    return True


@kernel
def _is_held_by_guess(term: Term, timeline: Timeline, hw: int, now: int) -> bool:
    """Whether only replicas outside the ISR hold the HW below `hw`, and it is not known that they do: fetches are
    missing that say if they caught up, or the leader may not know yet what the controller reported of one."""
    lane, unaware = term.lane, False
    missed = lane.missed != NULL and now - lane.missed <= 2 * lane.lag_max
    recent = now - lane.ahead - 2 * term.settings.race_window
    for slot in range(lane.slots):
        replica = replica_in(term, slot)
        if replica.id == lane.broker or replica.leo >= hw:
            continue
        if in_maximal_isr(lane, slot):
            return False
        known = state_of(lane, timeline, replica.id, now)
        unaware = unaware or (known >= 0 and timeline.brokers[known].ts > recent)
    return bool(hw <= lane.leader_leo and (missed or unaware))


@kernel
def _just_frozen(term: Term, now: int) -> bool:
    """Whether the HW stands still since no more than a race window: this leader may not know why, or a thread of its
    own prints what it did before."""
    for at in range(term.cursor.hw - 1, -1, -1):
        row = hw_row(term, at)
        if row.ts < now - term.settings.race_window or row.kind == THAW:
            return False
        if row.kind == FREEZE:
            return True
    return False


@hot
def _count_low(term: Term, event: Event, hw: int, before: int) -> None:
    """Counts successive reports below an earlier one; one that fills a gap of the chain was only printed late."""
    lane = term.lane
    if seldom(lane.agreed != NULL and hw < lane.agreed):
        if not fills_gap(lane, hw, before):
            lane.low_reports += 1
            if lane.low_reports == 2:
                term.marks[event.position] |= MOVED_BACK
                event.row.leader_leo = lane.agreed
    else:
        lane.low_reports = 0


@hot
def fills_gap(lane: Record, hw: int, before: int) -> bool:
    """Whether a report lies between two others that nothing has linked yet."""
    gap = before != NULL and lane.gap_low != NULL
    return bool(gap and lane.gap_low <= before < hw <= lane.gap_high)


@hot
def _link(term: Term, before: int, now: int) -> None:
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
def _leave_open(term: Term, hw: int, before: int, now: int) -> None:
    """A report that matches nothing so far stays open, with the links that it has by now.

    Where rows are missing nothing contradicts it: they may be of another ISR, or of the leader's next start.
    """
    lane = term.lane
    lower = hw < lane.hw and lane.agreed == NULL
    if lane.held != 0 or lane.isr_doubted == 1 or lower:
        put_hw(term, now, REPORT, hw, 0, ONLY_WITNESS)
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
        lane.cut_off, lane.cut_off_ts, lane.cut_off_until = hw, now, NEVER
        lane.cut_off_isr = lane.isr
    row = put_hw(term, now, REPORT, hw, links, OPEN)
    row.before = before
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
    """Where the computed HW stands that this report begins at and whose own report is missing, if the HW of this report
    has been matched with one that begins elsewhere; else -1."""
    awaited = last_open(term, ADVANCE, before, now) if before != NULL else -1
    if awaited < 0:
        return -1
    for at in range(awaited + 1, term.cursor.hw):
        row = hw_row(term, at)
        matched = row.agreement == EXACT or row.agreement == RACE
        if row.hw == hw and row.kind == ADVANCE and matched and row.before != before:
            return awaited
    return -1


@kernel
def _awaited(term: Term, now: int) -> int:
    """The last computed HW up to a race window before whose report is missing, NULL where there is none."""
    at = last_open(term, ADVANCE, NULL, now)
    return int(hw_row(term, at).hw) if at >= 0 else NULL


@kernel
def _await_no_more(term: Term, matched: int) -> None:
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
        links |= _links(row, hw, before)
        at -= 1
    return links


@kernel
def _links(row: Record, hw: int, before: int) -> int:
    """How one row beside a report is linked with it."""
    links = 0
    if row.kind == ADVANCE and row.hw == hw:
        links |= COMPUTED
    if before == NULL or (row.kind != ADVANCE and row.kind != REPORT):
        return links
    known = row.hw if row.kind == ADVANCE else row.reported
    if known == before:
        links |= LINKED_BEFORE
    if row.before == hw:
        links |= LINKED_AFTER
    return links


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
    hw, before, links, top = report.reported, report.before, report.holding, report.hw
    awaited, end = report.awaited, report.ts + term.settings.race_window
    for k in range(at + 1, term.cursor.hw):
        row = hw_row(term, k)
        if row.ts > end or row.kind == TERM_START:
            break
        links |= _links(row, hw, before)
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


@hot
def is_own_report(lane: Record, replica_id: int, leader_id: int) -> bool:
    """An `hw` row of the leader's HW, not of this broker's as a follower."""
    if replica_id != lane.broker:
        return False
    return leader_id == lane.broker or (leader_id == NULL32 and lane.state != IDLE)


@kernel
def has_own_hw(lane: Record, columns: Columns, rare: int) -> bool:
    """An `isr` row with the HW that this broker had as the leader when it took the change in.

    At level 0 it is one of few, and says nothing of LEOs since.
    """
    if lane.level == 0:
        return False
    leads = columns.leader_id[rare] == NULL32 or columns.leader_id[rare] == lane.broker
    same = columns.leader_epoch[rare] == lane.leader_epoch and columns.topic_id[rare] == lane.topic_id
    return bool(leads and same and columns.isr_from_whom[rare] == BY_METADATA)
