"""What waits: HWs after lost telemetry, and rows that a later report may still match."""

from __future__ import annotations

from pipelines.replication.compiled.decorators import kernel, seldom
from pipelines.replication.compiled.records import Records
from pipelines.replication.compiled.types import NULL
from pipelines.replication.term.constants import HELD, LANE, LEFT, MATCHED, ROW, Settings, copy_row
from pipelines.replication.term.hw_reports import judge_report
from pipelines.replication.term.layout import ADVANCE, DISAGREE, IDLE, NEVER, OPEN, REPORT, UNREPORTED


@kernel
def hold(L: Records, lane: int, now: int) -> None:
    """Telemetry is missing: every LEO of the maximal ISR has to be told again, and the ISR may be another one.

    Nor does a later row refute a report of before: what is missing may be the start of a term, or of another topic of
    the same name.
    """
    L[lane, LANE.missed] = now
    L[lane, LANE.witness] = L[lane, LANE.agreed] = NULL
    L[lane, LANE.low_reports] = 0
    if L[lane, LANE.state] != IDLE:
        L[lane, LANE.held] = L[lane, LANE.isr] | L[lane, LANE.joining]
        L[lane, LANE.append_ts] = NULL
        L[lane, LANE.isr_doubted] = 1


@kernel
def pass_holds(L: Records, lane: int, holds: Records, pending: int, end: int, now: int) -> int:
    """Applies the holds that came up to `now`, each once; returns the first that is still to come."""
    while pending < end and holds[pending, HELD.ts] <= now:
        if holds[pending, HELD.ts] > L[lane, LANE.held_at]:
            hold(L, lane, now)
            L[lane, LANE.held_at] = holds[pending, HELD.ts]
            if holds[pending, HELD.unread]:
                L[lane, LANE.level] = 0  # nobody knows what this source still tells
        pending += 1
    return pending


@kernel
def finish_rows(
    L: Records, R: Records, width: int, lane: int, S: Settings, told: int, final: bool, O: Records, first: int, o: int,
    F: Records, f: int, K: Records, k: int,
) -> tuple[int, int]:  # fmt: skip
    """Splits a lane's rows into final ones (to F) and ones that a later report may still match (to K)."""
    settled, at, since = told - S.race, first, NEVER
    while at < o and (final or O[at, ROW.ts] <= settled):
        if S.resolution > 0 and O[at, ROW.kind] == ADVANCE and O[at, ROW.agreement] != DISAGREE:
            later = at + 1
            while later < o and (O[later, ROW.kind] != ADVANCE or O[later, ROW.agreement] == MATCHED):
                later += 1
            if not since <= O[at, ROW.ts] < since + S.resolution:
                since = O[at, ROW.ts] // S.resolution * S.resolution
            if later < o and since <= O[later, ROW.ts] < since + S.resolution:
                at += 1
                continue
            if later == o and not final and settled < since + S.resolution:
                break
        if seldom(O[at, ROW.kind] == REPORT and O[at, ROW.agreement] >= OPEN and O[at, ROW.agreement] != MATCHED):
            O[at, ROW.agreement] = judge_report(L, R, width, lane, S, O, o, at, final)
            if O[at, ROW.agreement] == LEFT:
                copy_row(O, at, K, k)
                k += 1
                at += 1
                continue
            O[at, ROW.holding] = 0
        if O[at, ROW.agreement] != MATCHED:
            copy_row(O, at, F, f)
            if F[f, ROW.agreement] == OPEN:
                F[f, ROW.agreement] = UNREPORTED
            f += 1
        at += 1
    while at < o:
        if O[at, ROW.agreement] != MATCHED:
            copy_row(O, at, K, k)
            k += 1
        at += 1
    return f, k
