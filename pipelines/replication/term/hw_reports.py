"""What the broker says its HW became, compared with what was reconstructed.

A broker prints the HW before and after each rise, so the reports of a term form a chain, in whatever order its threads
print them. A report of a value that was never computed is a race of threads where the chain links it on both sides, and
it lies between the HW computed before and after it.
"""

from __future__ import annotations

from pipelines.replication.compiled.decorators import hot, kernel, seldom
from pipelines.replication.compiled.records import Records
from pipelines.replication.compiled.types import NULL, NULL32
from pipelines.replication.events.columns import BY_METADATA, Columns
from pipelines.replication.events.packed_rows import PACKED
from pipelines.replication.term.constants import (
    BROKER,
    LANE,
    LEFT,
    MOVED_BACK,
    NOT_CUT_OFF,
    ROW,
    SLOT,
    Marks,
    Settings,
    Stats,
    Timeline,
    lean,
)
from pipelines.replication.term.high_watermark import last_open, lowest, note_gap, put_hw, try_advance
from pipelines.replication.term.kafka_rules import maximal_isr
from pipelines.replication.term.layout import (
    ADVANCE,
    DISAGREE,
    EXACT,
    FREEZE,
    IDLE,
    NEVER,
    ONLY_WITNESS,
    OPEN,
    RACE,
    REPORT,
    TERM_START,
    THAW,
    UNREPORTED,
)
from pipelines.replication.term.metadata_lookup import state_of
from pipelines.replication.term.replica_slots import slot_of
from pipelines.replication.term.replica_sync import leo_grew
from pipelines.replication.term.report_as_evidence import believe, chain_refutes, raise_to, rely_on, take_back

LINKED_BEFORE, LINKED_AFTER, COMPUTED, EXCUSED = 1, 2, 4, 8
"""What an open report has beside it: a known HW that it begins at; a report that begins at it; a computed HW of its own
value; missing telemetry."""


@kernel
def on_report(
    L: Records, R: Records, T: Timeline, S: Settings, A: Stats, width: int, lane: int, hw: int, before: int, now: int,
    stat: int, O: Records, o: int, first: int, Y: Records, y: int, M: Marks, P: Records, j: int,
) -> tuple[int, int]:  # fmt: skip
    """The broker says its HW became `hw`, from `before`: compare, or believe it where nothing else tells."""
    if seldom(L[lane, LANE.witness] != NULL) and chain_refutes(L, lane, hw, before):
        o, y = take_back(L, R, S, width, lane, before, now, O, o, first, Y, y, M, j)
    _count_low(L, lane, hw, before, M, P, j)
    if L[lane, LANE.hw] == NULL or L[lane, LANE.isr_known] == 0 or (L[lane, LANE.held] != 0 and hw > L[lane, LANE.hw]):
        if L[lane, LANE.leader_leo] != NULL:
            y = leo_grew(L, R, width, lane, hw, now, S, Y, y)
        o = believe(L, R, S, A, width, lane, hw, now, stat, O, o)
        O[o - 1, ROW.before] = before
        return o, y
    at = last_open(O, o, first, ADVANCE, hw, now, S.race)
    if at < 0 and seldom(hw > L[lane, LANE.hw]):
        unheard = S.strict == 1 and L[lane, LANE.frozen] == 1 and _just_frozen(O, o, first, now, S)
        if unheard:
            L[lane, LANE.frozen] = 0
        low, _ = lowest(L, R, T, S, width, lane, now)
        if low == hw:  # the attempt that moved it shows in nothing else
            o = try_advance(L, R, T, S, A, width, lane, now, stat, O, o, first, OPEN)
            at = last_open(O, o, first, ADVANCE, hw, now, S.race)
        if unheard:
            L[lane, LANE.frozen] = 1
    if at >= 0:
        O[at, ROW.agreement] = EXACT if hw == L[lane, LANE.hw] else RACE
        O[at, ROW.reported], O[at, ROW.before] = hw, before
        if seldom(L[lane, LANE.reports_open] == 1):
            _await_no_more(O, o, at)
        _link(L, O, o, first, lane, before, now, S)
        L[lane, LANE.agreed] = max(L[lane, LANE.agreed], hw)
        return o, y
    mine = 1 << max(slot_of(L, R, width, lane, L[lane, LANE.broker]), 0)
    alone = maximal_isr(L[lane, LANE.isr], L[lane, LANE.joining]) == mine
    awaited = last_open(O, o, first, ADVANCE, NULL, now, S.race) if alone else -1
    passed_over = awaited >= 0 and lean(L, lane) and before != NULL and before < O[awaited, ROW.hw] < hw
    if awaited >= 0 and not passed_over:  # this is the report of that value, and says another
        O[awaited, ROW.agreement] = UNREPORTED
        return _leave(L, O, o, first, lane, hw, before, now, S), y
    told = L[lane, LANE.leader_leo] != NULL and hw <= L[lane, LANE.leader_leo]
    if alone and not told and not (S.strict == 1 and L[lane, LANE.frozen] == 1):
        rely_on(L, lane, hw, now)
        y = leo_grew(L, R, width, lane, hw, now, S, Y, y)
        low, _ = lowest(L, R, T, S, width, lane, now)
        if low == hw:
            o = try_advance(L, R, T, S, A, width, lane, now, stat, O, o, first, ONLY_WITNESS)
            O[o - 1, ROW.before] = before
            _link(L, O, o, first, lane, before, now, S)
            L[lane, LANE.agreed] = max(L[lane, LANE.agreed], hw)
            return o, y
        L[lane, LANE.witness] = NULL
    if lean(L, lane) and hw > L[lane, LANE.hw]:
        y = raise_to(L, R, width, lane, hw, now, S, Y, y)
        rely_on(L, lane, hw, now)
        _link(L, O, o, first, lane, before, now, S)
        o = believe(L, R, S, A, width, lane, hw, now, stat, O, o)
        O[o - 1, ROW.before] = before
        return o, y
    guess = hw > L[lane, LANE.hw] and _held_by_guess(L, R, T, S, width, lane, hw, now)
    o = _leave(L, O, o, first, lane, hw, before, now, S)
    if seldom(guess) and O[o - 1, ROW.agreement] == OPEN:
        O[o - 1, ROW.holding] |= EXCUSED
    return o, y


@kernel
def _held_by_guess(
    L: Records, R: Records, T: Timeline, S: Settings, width: int, lane: int, hw: int, now: int
) -> bool:  # fmt: skip
    """Whether only replicas outside the ISR hold the HW below `hw`, and it is not known that they do: fetches are
    missing that tell if they caught up, or the leader may not have heard yet what the controller told of one."""
    missed = L[lane, LANE.missed] != NULL and now - L[lane, LANE.missed] <= 2 * L[lane, LANE.lag_max]
    unheard = False
    for k in range(L[lane, LANE.slots]):
        at = lane * width + k
        if R[at, SLOT.id] == L[lane, LANE.broker] or R[at, SLOT.leo] >= hw:
            continue
        if (maximal_isr(L[lane, LANE.isr], L[lane, LANE.joining]) >> k) & 1:
            return False
        known = state_of(L, T, lane, R[at, SLOT.id], now)
        unheard = unheard or (known >= 0 and T.brokers[known, BROKER.ts] > now - L[lane, LANE.ahead] - 2 * S.race)
    return bool(hw <= L[lane, LANE.leader_leo] and (missed or unheard))


@kernel
def _just_frozen(O: Records, o: int, first: int, now: int, S: Settings) -> bool:
    """Whether the HW stands still since no more than a race window: this leader may not have heard why, or a thread of
    its own prints what it did before."""
    for at in range(o - 1, first - 1, -1):
        if O[at, ROW.ts] < now - S.race or O[at, ROW.kind] == THAW:
            return False
        if O[at, ROW.kind] == FREEZE:
            return True
    return False


@hot
def _count_low(L: Records, lane: int, hw: int, before: int, M: Marks, P: Records, j: int) -> None:
    """Counts successive reports below an earlier one; one that fills a gap of the chain was only printed late."""
    if seldom(L[lane, LANE.agreed] != NULL and hw < L[lane, LANE.agreed]):
        if not fills_gap(L, lane, hw, before):
            L[lane, LANE.low_reports] += 1
            if L[lane, LANE.low_reports] == 2:
                M[j] |= MOVED_BACK
                P[j, PACKED.leader_leo] = L[lane, LANE.agreed]
    else:
        L[lane, LANE.low_reports] = 0


@hot
def fills_gap(L: Records, lane: int, hw: int, before: int) -> bool:
    """Whether a report lies between two others that nothing has linked yet."""
    gap = before != NULL and L[lane, LANE.gap_low] != NULL
    return bool(gap and L[lane, LANE.gap_low] <= before < hw <= L[lane, LANE.gap_high])


@hot
def _link(L: Records, O: Records, o: int, first: int, lane: int, before: int, now: int, S: Settings) -> None:
    """A report that begins at an open one links it; else it may leave a gap."""
    if seldom(before != NULL and before != L[lane, LANE.agreed]) and not _follows_open(O, o, first, before, now, S):
        note_gap(L, lane, before)


@kernel
def _follows_open(O: Records, o: int, first: int, before: int, now: int, S: Settings) -> bool:
    """Whether a report within the race window that matches nothing yet ends where this one begins: now it is linked."""
    at = last_open(O, o, first, REPORT, before, now, S.race)
    if at >= 0:
        O[at, ROW.holding] |= LINKED_AFTER
    return at >= 0


@kernel
def _leave(L: Records, O: Records, o: int, first: int, lane: int, hw: int, before: int, now: int, S: Settings) -> int:
    """A report that matches nothing so far stays open, with the links that it has by now.

    Where rows are missing nothing contradicts it: they may tell of another ISR, or that the leader started again.
    """
    lower = hw < L[lane, LANE.hw] and L[lane, LANE.agreed] == NULL
    if L[lane, LANE.held] != 0 or L[lane, LANE.isr_doubted] == 1 or lower:
        return put_hw(L, O, o, lane, now, REPORT, hw, 0, ONLY_WITNESS, S)
    since = _taken_by_another(O, o, first, hw, before, now, S)
    if since >= 0:  # this one goes on where that one should have ended: that one is wrong
        o = put_hw(L, O, o, lane, O[since, ROW.ts], REPORT, hw, 0, OPEN, S)
        O[o - 1, ROW.hw] = O[o - 1, ROW.awaited] = O[since, ROW.hw]
        L[lane, LANE.reports_open] = 1
        return o
    links = _links_so_far(L, O, o, first, lane, hw, before, now, S)
    if before != NULL:
        _follows_open(O, o, first, before, now, S)
    if before != NULL and fills_gap(L, lane, hw, before):
        if before == L[lane, LANE.gap_low]:
            links |= LINKED_BEFORE
            L[lane, LANE.gap_low] = hw
        if hw == L[lane, LANE.gap_high]:
            links |= LINKED_AFTER
            L[lane, LANE.gap_high] = before
        if L[lane, LANE.gap_low] >= L[lane, LANE.gap_high]:
            L[lane, LANE.gap_low] = L[lane, LANE.gap_high] = NULL
    if hw > L[lane, LANE.hw] and (L[lane, LANE.cut_off_until] != NEVER or hw > L[lane, LANE.cut_off]):
        L[lane, LANE.cut_off], L[lane, LANE.cut_off_ts], L[lane, LANE.cut_off_until] = hw, now, NEVER
        L[lane, LANE.cut_off_isr] = L[lane, LANE.isr]
    o = put_hw(L, O, o, lane, now, REPORT, hw, links, OPEN, S)
    O[o - 1, ROW.before] = before
    O[o - 1, ROW.awaited] = _awaited(O, first, o - 1, now, S)
    L[lane, LANE.reports_open] = 1
    return o


@kernel
def _taken_by_another(O: Records, o: int, first: int, hw: int, before: int, now: int, S: Settings) -> int:
    """Where the computed HW stands that this report begins at and whose own report is missing, if the HW of this report
    has been matched with one that begins elsewhere; else -1."""
    awaited = last_open(O, o, first, ADVANCE, before, now, S.race) if before != NULL else -1
    for at in range(awaited + 1, o) if awaited >= 0 else range(0):
        matched = O[at, ROW.agreement] == EXACT or O[at, ROW.agreement] == RACE
        if O[at, ROW.hw] == hw and O[at, ROW.kind] == ADVANCE and matched and O[at, ROW.before] != before:
            return awaited
    return -1


@kernel
def _awaited(O: Records, first: int, o: int, now: int, S: Settings) -> int:
    """The last computed HW up to a race window before whose report is missing, NULL where there is none."""
    at = last_open(O, o, first, ADVANCE, NULL, now, S.race)
    return int(O[at, ROW.hw]) if at >= 0 else NULL


@kernel
def _await_no_more(O: Records, o: int, matched: int) -> None:
    """A computed HW has its report: open reports beside it are not that."""
    for at in range(matched + 1, o):
        if O[at, ROW.awaited] == O[matched, ROW.hw]:
            O[at, ROW.awaited] = NULL


@kernel
def _links_so_far(
    L: Records, O: Records, o: int, first: int, lane: int, hw: int, before: int, now: int, S: Settings
) -> int:
    """The links of a report to what lies up to a race window before it."""
    links, at = 0, o - 1
    if before != NULL and (before == L[lane, LANE.hw] or before == L[lane, LANE.agreed]):
        links |= LINKED_BEFORE
    while at >= first and O[at, ROW.ts] >= now - S.race and O[at, ROW.kind] != TERM_START:
        links |= _links(O, at, hw, before)
        at -= 1
    return links


@kernel
def _links(O: Records, at: int, hw: int, before: int) -> int:
    """How one row beside a report is linked with it."""
    links = 0
    if O[at, ROW.kind] == ADVANCE:
        if O[at, ROW.hw] == hw:
            links |= COMPUTED
    if before == NULL or (O[at, ROW.kind] != ADVANCE and O[at, ROW.kind] != REPORT):
        return links
    known = O[at, ROW.hw] if O[at, ROW.kind] == ADVANCE else O[at, ROW.reported]
    if known == before:
        links |= LINKED_BEFORE
    if O[at, ROW.before] == hw:
        links |= LINKED_AFTER
    return links


@kernel
def judge_report(
    L: Records, R: Records, width: int, lane: int, S: Settings, O: Records, o: int, at: int, final: bool
) -> int:
    """The agreement of a report that nothing matched within the race window; LEFT: it waits for a later row.

    It disagrees once a later row of its broker's incarnation is past it, and every member of the ISR was heard of
    since: a broker that was killed right behind it had no time for the rows that would have shown it right, nor had a
    thread that stood still since.
    """
    if O[at, ROW.agreement] == OPEN:
        agreement = _by_links(S, O, o, at)
        if agreement != OPEN:
            return agreement
        O[at, ROW.agreement] = LEFT
    if O[at, ROW.holding] & EXCUSED:
        return ONLY_WITNESS
    past = L[lane, LANE.last_ts] > O[at, ROW.ts] + S.race
    above = O[at, ROW.reported] > O[at, ROW.hw]
    if past and not (above and _silent_member(L, R, width, lane, O[at, ROW.isr], O[at, ROW.ts])):
        return DISAGREE
    return ONLY_WITNESS if final else LEFT


@kernel
def _silent_member(L: Records, R: Records, width: int, lane: int, isr: int, since: int) -> bool:
    """Whether a follower in the ISR has not fetched since, as far as its leader told: what it holds is not known."""
    if lean(L, lane):
        return False
    for k in range(L[lane, LANE.slots]):
        at = lane * width + k
        other = R[at, SLOT.id] != L[lane, LANE.broker]
        if other and (isr >> k) & 1 and R[at, SLOT.last_fetch] < since:
            return True
    return False


@kernel
def _by_links(S: Settings, O: Records, o: int, at: int) -> int:
    """RACE for a link of the chain, EXACT for the HW as it stood; OPEN where neither."""
    hw, before, links, top = O[at, ROW.reported], O[at, ROW.before], O[at, ROW.holding], O[at, ROW.hw]
    awaited, r = O[at, ROW.awaited], at + 1
    while r < o and O[r, ROW.ts] <= O[at, ROW.ts] + S.race and O[r, ROW.kind] != TERM_START:
        links |= _links(O, r, hw, before)
        if O[r, ROW.kind] == ADVANCE:
            top = max(top, O[r, ROW.hw])
            awaited = O[r, ROW.hw] if awaited == NULL and O[r, ROW.agreement] == OPEN else awaited
        r += 1
    if hw == O[at, ROW.hw]:
        if awaited == NULL or O[at, ROW.level] == 0:  # at level 0 no rise is printed
            return EXACT
        O[at, ROW.hw] = awaited  # the report of that value, and it says another
        return OPEN
    linked = links & LINKED_BEFORE and links & LINKED_AFTER
    return RACE if linked and not links & COMPUTED and before < hw <= top else OPEN


@kernel
def excuse_open(O: Records, o: int, first: int, since: int, S: Settings) -> None:
    """Telemetry is missing beside the reports that wait for a match: what they tell may have been in it."""
    at = o - 1
    while at >= first and O[at, ROW.ts] >= since - S.race and O[at, ROW.kind] != TERM_START:
        if O[at, ROW.kind] == REPORT and (O[at, ROW.agreement] == OPEN or O[at, ROW.agreement] == LEFT):
            O[at, ROW.holding] |= EXCUSED
        at -= 1


@kernel
def reports_wait(O: Records, first: int, o: int) -> bool:
    """Whether a report waits for a match, or for a later row."""
    for at in range(first, o):
        if O[at, ROW.kind] == REPORT and (O[at, ROW.agreement] == OPEN or O[at, ROW.agreement] == LEFT):
            return True
    return False


@kernel
def close_reports(
    L: Records, R: Records, width: int, S: Settings, O: Records, first: int, o: int, lane: int
) -> None:  # fmt: skip
    """The broker's incarnation is over, as far as is known: what still waits for a later row of it waits in vain."""
    for at in range(first, o):
        waits = O[at, ROW.agreement] == OPEN or O[at, ROW.agreement] == LEFT
        if O[at, ROW.kind] == REPORT and waits:
            O[at, ROW.agreement] = judge_report(L, R, width, lane, S, O, o, at, True)
            O[at, ROW.holding] = 0


@hot
def pass_cut_off(
    L: Records, R: Records, width: int, lane: int, clock: int, S: Settings, M: Marks, j: int
) -> None:  # fmt: skip
    """A later row is past the report that may have been cut off: it was right, or is known to be wrong from now on."""
    if seldom(
        L[lane, LANE.cut_off_until] == NEVER
        and clock > L[lane, LANE.cut_off_ts] + S.race
        and not _silent_member(L, R, width, lane, L[lane, LANE.cut_off_isr], L[lane, LANE.cut_off_ts])
    ):
        L[lane, LANE.cut_off_until] = clock
        if L[lane, LANE.hw] < L[lane, LANE.cut_off]:
            M[j] |= NOT_CUT_OFF


@hot
def own_report(L: Records, lane: int, replica: int, leader_id: int) -> bool:
    """An `hw` row that tells the leader's HW, not that of this broker as a follower."""
    if replica != L[lane, LANE.broker]:
        return False
    return leader_id == L[lane, LANE.broker] or (leader_id == NULL32 and L[lane, LANE.state] != IDLE)


@kernel
def tells_own_hw(L: Records, lane: int, C: Columns, i: int) -> bool:
    """An `isr` row with the HW that this broker had as the leader when it took the change in.

    At level 0 it is one of few, and tells nothing of LEOs since.
    """
    if L[lane, LANE.level] == 0:
        return False
    leads = C.leader_id[i] == NULL32 or C.leader_id[i] == L[lane, LANE.broker]
    same = C.leader_epoch[i] == L[lane, LANE.leader_epoch] and C.topic_id[i] == L[lane, LANE.topic_id]
    return bool(leads and same and C.isr_from_whom[i] == BY_METADATA)
