"""Replicas of a lane as slots, and sets of them as bit masks over these."""

from __future__ import annotations

from pipelines.replication.compiled.decorators import hot, kernel, seldom
from pipelines.replication.compiled.types import I32, NULL32
from pipelines.replication.events.columns import Columns
from pipelines.replication.term.bundles import Assigned, Term, replica_in
from pipelines.replication.term.constants import LEADER, first_not_below


@hot
def slot_of(term: Term, replica_id: int) -> int:
    """The slot of a replica in this lane, -1 where it has none."""
    for slot in range(term.lane.slots):
        if replica_in(term, slot).id == replica_id:
            return slot
    return -1


@hot
def own_slot(term: Term) -> int:
    """The slot of the leader itself."""
    return slot_of(term, term.lane.broker)


@hot
def give_slot(term: Term, replica_id: int) -> int:
    """The slot of a replica, a new one where it has none yet; -1 when the lane has no room."""
    slot = slot_of(term, replica_id)
    return _new_slot(term, replica_id) if seldom(slot < 0) else slot


@kernel
def _new_slot(term: Term, replica_id: int) -> int:
    slot, lane = slot_of(term, NULL32), term.lane
    if slot < 0 and lane.slots < len(term.replicas):
        slot = lane.slots
        lane.slots += 1
    if slot >= 0:
        replica_in(term, slot).id = replica_id
    return slot


@kernel
def give_slots(term: Term, columns: Columns, assigned: Assigned, rare: int, kind: int) -> bool:
    """Slots for every replica that a rare row names; False when the lane has no room."""
    room = True
    for k in range(columns.isr_from[rare], columns.isr_from[rare + 1]):
        room = give_slot(term, columns.isr_ids[k]) >= 0 and room
    for k in range(columns.replicas_from[rare], columns.replicas_from[rare + 1]):
        room = give_slot(term, columns.replicas_ids[k]) >= 0 and room
    if kind == LEADER:
        at = first_not_below(assigned.rows, rare)
        for k in range(assigned.starts[at], assigned.starts[at + 1]):
            room = give_slot(term, assigned.ids[k]) >= 0 and room
    return room


@kernel
def mask_of(term: Term, ids: I32, start: int, end: int) -> int:
    """The replicas ids[start:end] as a set of slots."""
    mask = 0
    for k in range(start, end):
        slot = slot_of(term, ids[k])
        if slot >= 0:
            mask |= 1 << slot
    return mask


@kernel
def isr_of(term: Term, columns: Columns, rare: int) -> int:
    """The ISR of a rare row."""
    return mask_of(term, columns.isr_ids, columns.isr_from[rare], columns.isr_from[rare + 1])


@kernel
def replicas_of(term: Term, columns: Columns, rare: int) -> int:
    """The assigned replicas of a rare row, 0 where it names none."""
    return mask_of(term, columns.replicas_ids, columns.replicas_from[rare], columns.replicas_from[rare + 1])


@hot
def in_set(mask: int, slot: int) -> bool:
    return (mask >> slot) & 1 != 0
