"""Reports that are the only evidence of the HW: believed, and taken back when a LEO shows one false."""

from __future__ import annotations

from pipelines.replication.compiled.decorators import kernel
from pipelines.replication.compiled.records import Records
from pipelines.replication.compiled.types import NULL
from pipelines.replication.term.constants import LANE, ROW, SLOT, TAKEN_BACK, Marks, Settings, Stats
from pipelines.replication.term.high_watermark import hw_rose, put_hw
from pipelines.replication.term.kafka_rules import maximal_isr
from pipelines.replication.term.layout import ADVANCE, DISAGREE, ONLY_WITNESS, OPEN, REPORT, TERM_START
from pipelines.replication.term.replica_sync import fetched, judge, leo_grew


@kernel
def believe(L: Records, R: Records, S: Settings, A: Stats, width: int, lane: int, hw: int, now: int, stat: int,
            O: Records, o: int) -> int:  # fmt: skip
    """A report that is the only evidence: the HW is what it says."""
    L[lane, LANE.hw] = hw
    L[lane, LANE.agreed] = max(L[lane, LANE.agreed], hw)
    hw_rose(L, lane, now, stat, A)
    return put_hw(L, O, o, lane, now, ADVANCE, hw, 0, ONLY_WITNESS, S)


@kernel
def chain_refutes(L: Records, lane: int, hw: int, before: int) -> bool:
    """Whether a report shows the one that was believed last false: it begins below it. One that begins at it confirms
    it, and one that fills a gap before it was only printed late."""
    if before == NULL:
        return False
    if before == L[lane, LANE.witness]:
        L[lane, LANE.witness] = NULL
        return False
    late = L[lane, LANE.gap_low] != NULL and L[lane, LANE.gap_low] <= before and hw <= L[lane, LANE.gap_high]
    return bool(before < L[lane, LANE.witness] and before < hw and hw != L[lane, LANE.witness] and not late)


@kernel
def contradicted(L: Records, lane: int, slot: int, leo: int, now: int, S: Settings) -> bool:
    """Whether a LEO lies below a level-2 report that told of every LEO of the maximal ISR, and no race explains it."""
    if L[lane, LANE.witness] == NULL or leo >= L[lane, LANE.witness] or leo < 0:
        return False
    member = (maximal_isr(L[lane, LANE.isr], L[lane, LANE.joining]) >> slot) & 1
    return bool(member and now - L[lane, LANE.witness_ts] > S.race)


@kernel
def take_back(
    L: Records, R: Records, S: Settings, width: int, lane: int, leo: int, now: int, O: Records, o: int, first: int,
    Y: Records, y: int, M: Marks, j: int,
) -> tuple[int, int]:  # fmt: skip
    """The last believed report was false: HW and LEOs are those of before it, and reports in its shade count.

    `leo` is what showed it; the HW is not above it.
    """
    wrong = L[lane, LANE.witness]
    L[lane, LANE.witness] = NULL
    if L[lane, LANE.agreed] == wrong:
        if L[lane, LANE.low_reports] > 1:
            M[j] |= TAKEN_BACK
        L[lane, LANE.agreed] = min(L[lane, LANE.agreed_before], leo)
        L[lane, LANE.low_reports] = 0
    if L[lane, LANE.hw] == wrong:
        L[lane, LANE.hw] = min(L[lane, LANE.hw_before], leo)
        y = lower_to_told(L, R, width, lane, now, S, Y, y)
        y = believe_shaded(L, R, S, width, lane, wrong, now, O, o, first, Y, y)
    return put_hw(L, O, o, lane, now, REPORT, wrong, 0, DISAGREE, S), y


@kernel
def lower_to_told(L: Records, R: Records, width: int, lane: int, now: int, S: Settings, Y: Records, y: int) -> int:
    """LEOs that a false report raised are again what was told of them, or the HW."""
    L[lane, LANE.leader_leo] = max(L[lane, LANE.told_leo], L[lane, LANE.hw])
    L[lane, LANE.stalled_since] = NULL if L[lane, LANE.hw] >= L[lane, LANE.leader_leo] else now
    for k in range(L[lane, LANE.slots]):
        at = lane * width + k
        if R[at, SLOT.id] == L[lane, LANE.broker]:
            R[at, SLOT.leo] = L[lane, LANE.leader_leo]
            continue
        R[at, SLOT.leo] = min(R[at, SLOT.leo], max(R[at, SLOT.told], L[lane, LANE.hw]))
        if R[at, SLOT.last_fetch_leader_leo] > L[lane, LANE.leader_leo]:
            R[at, SLOT.last_fetch_leader_leo] = 0  # not known: it counts as caught up then, late but not early
        y = judge(L, R, width, lane, k, now, S, Y, y)
    return y


@kernel
def believe_shaded(
    L: Records, R: Records, S: Settings, width: int, lane: int, wrong: int, now: int, O: Records, o: int, first: int,
    Y: Records, y: int,
) -> int:  # fmt: skip
    """Reports that lay below the false one and are not final yet tell the HW after all."""
    at = o
    while at > first and O[at - 1, ROW.ts] >= now - S.race and O[at - 1, ROW.kind] != TERM_START:
        at -= 1
    for r in range(at, o):
        told = O[r, ROW.reported]
        shaded = O[r, ROW.kind] == REPORT and O[r, ROW.agreement] == OPEN
        if shaded and L[lane, LANE.hw] < told < wrong:
            y = raise_to(L, R, width, lane, told, now, S, Y, y)
            rely_on(L, lane, told, O[r, ROW.ts])
            O[r, ROW.kind], O[r, ROW.agreement], O[r, ROW.hw] = ADVANCE, ONLY_WITNESS, told
            O[r, ROW.leader_leo] = L[lane, LANE.leader_leo]
            L[lane, LANE.hw] = told
            L[lane, LANE.agreed] = max(L[lane, LANE.agreed], told)
    return y


@kernel
def rely_on(L: Records, lane: int, hw: int, ts: int) -> None:
    """Remembers what a level-2 report is about to change, until a LEO shows it false."""
    L[lane, LANE.witness] = hw
    L[lane, LANE.witness_ts] = ts
    L[lane, LANE.hw_before] = L[lane, LANE.hw]
    L[lane, LANE.agreed_before] = L[lane, LANE.agreed]


@kernel
def raise_to(L: Records, R: Records, width: int, lane: int, hw: int, now: int, S: Settings, Y: Records, y: int) -> int:
    """At level 2 a report tells that every LEO of the maximal ISR is at least it, as if they had fetched."""
    y = leo_grew(L, R, width, lane, hw, now, S, Y, y)
    for k in range(L[lane, LANE.slots]):
        at = lane * width + k
        if (
            (maximal_isr(L[lane, LANE.isr], L[lane, LANE.joining]) >> k) & 1
            and R[at, SLOT.id] != L[lane, LANE.broker]
            and R[at, SLOT.leo] < hw
        ):
            R[at, SLOT.leo] = hw
            y = fetched(L, R, width, lane, k, hw, L[lane, LANE.leader_leo], now, S, Y, y)
    return y
