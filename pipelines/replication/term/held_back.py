"""A HW that has stood below its leader's log end for so long that it is held back."""

from __future__ import annotations

from pipelines.replication.compiled.decorators import hot, seldom
from pipelines.replication.compiled.types import MS, NEVER, NULL
from pipelines.replication.term.bundles import Term
from pipelines.replication.term.constants import unsigned
from pipelines.replication.term.layout import HELD_BACK, IN_SYNC, MOVES_ON
from schemas.partition_health import STALLED_MS


@hot
def put_held_back(term: Term, ts: int, state: int) -> None:
    """Write that the HW is held back from now on (HELD_BACK), or that it is so no longer (MOVES_ON)."""
    row = term.sync_rows[unsigned(term.cursor.sync)]
    row.lane, row.ts, row.replica, row.state, row.previous = term.number, ts, -1, state, IN_SYNC
    term.lane.held_back = 1 if state == HELD_BACK else 0
    term.lane.held_back_from = NEVER
    term.cursor.sync += 1


@hot
def follow_wait(term: Term, now: int) -> None:
    """Begin anew to wait, whenever `stalled_since` or `frozen` changed: under min ISR nobody holds a HW back."""
    lane = term.lane
    if seldom(lane.held_back == 1):
        put_held_back(term, now, MOVES_ON)
    waits = lane.stalled_since != NULL and lane.frozen == 0
    lane.held_back_from = max(lane.stalled_since + STALLED_MS * MS, now) if waits else NEVER
    lane.deadline = min(lane.deadline, lane.held_back_from)
