"""What the broker says its HW became, compared with what was reconstructed."""

from __future__ import annotations

from pipelines.replication.arrays import Records
from pipelines.replication.columns import NULL, NULL32
from pipelines.replication.compiled import hot, kernel
from pipelines.replication.high_watermark import last_open, lowest, put_hw, try_advance
from pipelines.replication.lanes import ADVANCE, DISAGREE, EXACT, IDLE, ONLY_WITNESS, OPEN, RACE, REPORT, UNREPORTED
from pipelines.replication.lines import PACKED
from pipelines.replication.machine import LANE, MOVED_BACK, ROW, Marks, Settings, Stats, Timeline, lean
from pipelines.replication.only_witness import believe, raise_to, rely_on
from pipelines.replication.replica_states import leo_grew
from pipelines.replication.slots import slot_of


@kernel
def on_report(
    L: Records, R: Records, T: Timeline, S: Settings, A: Stats, width: int, lane: int, hw: int, now: int, stat: int,
    O: Records, o: int, first: int, Y: Records, y: int, M: Marks, P: Records, j: int,
) -> tuple[int, int]:  # fmt: skip
    """The broker says its HW became `hw`: compare, or believe it where nothing else tells."""
    if L[lane, LANE.agreed] != NULL and hw < L[lane, LANE.agreed]:
        L[lane, LANE.low_reports] += 1
        if L[lane, LANE.low_reports] == 2:
            M[j] |= MOVED_BACK
            P[j, PACKED.leader_leo] = L[lane, LANE.agreed]
    else:
        L[lane, LANE.low_reports] = 0
    mine = 1 << max(slot_of(L, R, width, lane, L[lane, LANE.broker]), 0)
    if L[lane, LANE.hw] == NULL or L[lane, LANE.isr_known] == 0 or (L[lane, LANE.held] != 0 and hw > L[lane, LANE.hw]):
        if L[lane, LANE.leader_leo] != NULL:
            y = leo_grew(L, R, width, lane, hw, now, S, Y, y)
        return believe(L, R, S, A, width, lane, hw, now, stat, O, o), y
    at = last_open(O, o, first, ADVANCE, hw, now, S.race)
    if at >= 0:
        O[at, ROW.agreement] = EXACT if hw == L[lane, LANE.hw] else RACE
        O[at, ROW.reported] = hw
        L[lane, LANE.agreed] = max(L[lane, LANE.agreed], hw)
        return o, y
    if (L[lane, LANE.isr] | L[lane, LANE.joining]) == mine:
        awaited = last_open(O, o, first, ADVANCE, NULL, now, S.race)
        if awaited >= 0:  # this is the report of that value, and says another
            O[awaited, ROW.agreement] = UNREPORTED
            return put_hw(L, O, o, lane, now, REPORT, hw, 0, DISAGREE, S), y
        told = L[lane, LANE.leader_leo] != NULL and hw <= L[lane, LANE.leader_leo]
        if not told and not (S.strict == 1 and L[lane, LANE.frozen] == 1):
            y = leo_grew(L, R, width, lane, hw, now, S, Y, y)
            low, _ = lowest(L, R, T, S, width, lane, now)
            if low == hw:
                o = try_advance(L, R, T, S, A, width, lane, now, stat, O, o, first, ONLY_WITNESS)
                L[lane, LANE.agreed] = max(L[lane, LANE.agreed], hw)
                return o, y
    if lean(L, lane) and hw > L[lane, LANE.hw]:
        y = raise_to(L, R, width, lane, hw, now, S, Y, y)
        rely_on(L, lane, hw, now)
        return believe(L, R, S, A, width, lane, hw, now, stat, O, o), y
    return put_hw(L, O, o, lane, now, REPORT, hw, 0, ONLY_WITNESS if L[lane, LANE.held] != 0 else OPEN, S), y


@hot
def own_report(L: Records, lane: int, replica: int, leader_id: int) -> bool:
    """An `hw` row that tells the leader's HW, not that of this broker as a follower."""
    if replica != L[lane, LANE.broker]:
        return False
    return leader_id == L[lane, LANE.broker] or (leader_id == NULL32 and L[lane, LANE.state] != IDLE)
