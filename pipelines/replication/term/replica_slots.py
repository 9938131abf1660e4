"""Replicas of a lane as slots, and sets of them as bit masks over these."""

from __future__ import annotations

from pipelines.replication.compiled.decorators import hot, kernel
from pipelines.replication.compiled.records import Records
from pipelines.replication.compiled.types import I32, I64
from pipelines.replication.events.columns import Columns
from pipelines.replication.term.constants import LANE, LEADER, SLOT, first_not_below, place_of


@hot
def slot_of(L: Records, R: Records, width: int, lane: int, replica: int) -> int:
    """The slot of a replica in this lane, -1 where it has none."""
    for k in range(L[lane, LANE.slots]):
        if R[place_of(width, lane, k), SLOT.id] == replica:
            return k
    return -1


@hot
def give_slot(L: Records, R: Records, width: int, lane: int, replica: int) -> int:
    """The slot of a replica, a new one where it has none yet; -1 when the lane has no room."""
    slot = slot_of(L, R, width, lane, replica)
    if slot < 0 and L[lane, LANE.slots] < width:
        slot = L[lane, LANE.slots]
        R[lane * width + slot, SLOT.id] = replica
        L[lane, LANE.slots] += 1
    return slot


@kernel
def give_slots(
    L: Records, R: Records, width: int, lane: int, C: Columns, i: int, kind: int,
    leader_rows: I64, assigned_from: I64, assigned_ids: I32,
) -> bool:  # fmt: skip
    """Slots for every replica that a rare row names; False when the lane has no room."""
    room = True
    for k in range(C.isr_from[i], C.isr_from[i + 1]):
        room = give_slot(L, R, width, lane, C.isr_ids[k]) >= 0 and room
    for k in range(C.replicas_from[i], C.replicas_from[i + 1]):
        room = give_slot(L, R, width, lane, C.replicas_ids[k]) >= 0 and room
    if kind == LEADER:
        at_row = first_not_below(leader_rows, i)
        for k in range(assigned_from[at_row], assigned_from[at_row + 1]):
            room = give_slot(L, R, width, lane, assigned_ids[k]) >= 0 and room
    return room


@kernel
def mask_of(L: Records, R: Records, width: int, lane: int, ids: I32, start: int, end: int) -> int:
    mask = 0
    for k in range(start, end):
        slot = slot_of(L, R, width, lane, ids[k])
        if slot >= 0:
            mask |= 1 << slot
    return mask
