"""Replicas of a lane as slots, and sets of them as bit masks over these."""

from __future__ import annotations

import numpy as np

from pipelines.replication.arrays import Records
from pipelines.replication.columns import I32, I64, Columns
from pipelines.replication.compiled import hot, kernel
from pipelines.replication.lines import PACKED
from pipelines.replication.machine import (
    FETCH,
    ISR,
    LANE,
    LEADER,
    PROPOSED,
    REPLICA_LEO,
    SLOT,
    first_not_below,
    kind_of,
    replica_of,
)


@hot
def slot_of(L: Records, R: Records, width: int, lane: int, replica: int) -> int:
    """The slot of a replica in this lane, -1 where it has none."""
    for k in range(L[lane, LANE.slots]):
        if R[np.uint64(lane * width + k), SLOT.id] == replica:  # without a sign: it need not be asked for
            return k
    return -1


@kernel
def give_slot(L: Records, R: Records, width: int, lane: int, replica: int) -> bool:
    """Makes sure a replica has a slot; False when the lane has no room."""
    if slot_of(L, R, width, lane, replica) >= 0:
        return True
    if L[lane, LANE.slots] == width:
        return False
    R[lane * width + L[lane, LANE.slots], SLOT.id] = replica
    L[lane, LANE.slots] += 1
    return True


@kernel
def give_slots(
    L: Records, R: Records, width: int, lane: int, C: Columns, P: Records, start: int, end: int,
    leader_rows: I64, assigned_from: I64, assigned_ids: I32,
) -> bool:  # fmt: skip
    """Slots for every replica that these rows name; False when the lane has no room."""
    room = give_slot(L, R, width, lane, L[lane, LANE.broker])
    for j in range(start, end):
        kind = kind_of(P[j, PACKED.what])
        if kind == FETCH or kind == REPLICA_LEO:
            room = give_slot(L, R, width, lane, replica_of(P[j, PACKED.who])) and room
        elif kind == LEADER or kind == ISR or kind == PROPOSED:
            i = P[j, PACKED.more]
            for k in range(C.isr_from[i], C.isr_from[i + 1]):
                room = give_slot(L, R, width, lane, C.isr_ids[k]) and room
            for k in range(C.replicas_from[i], C.replicas_from[i + 1]):
                room = give_slot(L, R, width, lane, C.replicas_ids[k]) and room
            if kind == LEADER:
                at_row = first_not_below(leader_rows, i)
                for k in range(assigned_from[at_row], assigned_from[at_row + 1]):
                    room = give_slot(L, R, width, lane, assigned_ids[k]) and room
        if not room:
            return False
    return room


@kernel
def mask_of(L: Records, R: Records, width: int, lane: int, ids: I32, start: int, end: int) -> int:
    mask = 0
    for k in range(start, end):
        slot = slot_of(L, R, width, lane, ids[k])
        if slot >= 0:
            mask |= 1 << slot
    return mask
