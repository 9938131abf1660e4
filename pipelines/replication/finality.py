"""What waits: HWs after lost telemetry, and rows that a later report may still match."""

from __future__ import annotations

from pipelines.replication.arrays import Records
from pipelines.replication.columns import I64, NULL
from pipelines.replication.compiled import kernel
from pipelines.replication.lanes import ADVANCE, DISAGREE, IDLE, NEVER, ONLY_WITNESS, OPEN, UNREPORTED
from pipelines.replication.machine import LANE, MATCHED, ROW, Settings, copy_row


@kernel
def hold(L: Records, lane: int) -> None:
    """Telemetry is missing: every LEO of the maximal ISR has to be told again."""
    if L[lane, LANE.state] != IDLE:
        L[lane, LANE.held] = L[lane, LANE.isr] | L[lane, LANE.joining]
        L[lane, LANE.append_ts] = NULL


@kernel
def pass_holds(L: Records, lane: int, holds: I64, pending: int, end: int, now: int) -> int:
    """Applies the holds that came up to `now`, each once; returns the first that is still to come."""
    while pending < end and holds[pending] <= now:
        if holds[pending] > L[lane, LANE.held_at]:
            hold(L, lane)
            L[lane, LANE.held_at] = holds[pending]
        pending += 1
    return pending


@kernel
def finish_rows(
    S: Settings, told: int, final: bool, O: Records, first: int, o: int, F: Records, f: int, K: Records, k: int
) -> tuple[int, int]:
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
        if O[at, ROW.agreement] != MATCHED:
            copy_row(O, at, F, f)
            if F[f, ROW.agreement] == OPEN:
                cut_off = final and O[at, ROW.ts] > settled
                F[f, ROW.agreement] = (
                    UNREPORTED if F[f, ROW.kind] == ADVANCE else (ONLY_WITNESS if cut_off else DISAGREE)
                )
            f += 1
        at += 1
    while at < o:
        if O[at, ROW.agreement] != MATCHED:
            copy_row(O, at, K, k)
            k += 1
        at += 1
    return f, k
