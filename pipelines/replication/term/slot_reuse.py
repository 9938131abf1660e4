"""Slots are given back: a partition that moves through a cluster for months names more replicas than there are slots.

A leader forgets replicas that are not assigned any more (Partition.updateAssignmentAndIsr), and so do lanes, once they
need the slots. Where no row says who is assigned, these are the replicas that have not been in the ISR. One that was
out of sync gets a last row of silver/replica_sync, with the reason `unassigned`.
"""

from __future__ import annotations

from pipelines.replication.compiled.decorators import kernel
from pipelines.replication.compiled.types import MOST_REPLICAS, NULL, NULL32
from pipelines.replication.events.columns import Columns
from pipelines.replication.term.bundles import Assigned, Term, hw_row, replica_in
from pipelines.replication.term.constants import LEADER, first_not_below, popcount
from pipelines.replication.term.finality import pause_after_gap
from pipelines.replication.term.layout import OPEN, REPORT
from pipelines.replication.term.replica_slots import in_set, isr_of, mask_of, own_slot, replicas_of
from pipelines.replication.term.replica_sync import unassign


@kernel
def listed_in(term: Term, columns: Columns, rare: int) -> int:
    """A mask of the replicas with a slot in the lists of a rare row."""
    return isr_of(term, columns, rare) | replicas_of(term, columns, rare)


@kernel
def named_by(term: Term, columns: Columns, assigned: Assigned, rare: int, kind: int) -> int:
    """The same, with those that were assigned as of a `leader` row."""
    mask = listed_in(term, columns, rare)
    if kind == LEADER:
        at = first_not_below(assigned.rows, rare)
        mask |= mask_of(term, assigned.ids, assigned.starts[at], assigned.starts[at + 1])
    return mask


@kernel
def slots_in_use(term: Term, named: int) -> int:
    """The slots that something refers to: the row that names one more, the ISR, HW rows that are not final."""
    lane = term.lane
    mask = named | (1 << own_slot(term)) | lane.isr | lane.joining | lane.proposed_isr | lane.cut_off_isr
    for k in range(term.cursor.hw):
        row = hw_row(term, k)
        mask |= row.isr
        if row.kind != REPORT or row.agreement < OPEN:  # else `holding` is no set, see HW_ROWS
            mask |= row.holding
    return int(mask)


@kernel
def free_slots(term: Term, listed: int, named: int, now: int) -> None:
    """Free a slot at least, where none is free: those of replicas that are not assigned; else that of the one outside
    the ISR that has been silent for longest; else those of all that the row at `cursor.row` does not name. `listed` are
    the replicas in its lists, `named` also those that the controller assigned.

    The last leaves the ISR unknown. Where even those that the row names and those that the controller assigned are too
    many, the row is `cursor.crowded`: all in its own lists get slots, the others as far as there are any.
    """
    lane, used, own = term.lane, slots_in_use(term, named), 1 << own_slot(term)
    if popcount(used | lane.assigned) < MOST_REPLICAS:
        _forget_all_but(term, used | lane.assigned, now)
    elif popcount(used) < MOST_REPLICAS:
        _forget_all_but(term, ~(1 << _longest_silent(term, used)), now)
    elif popcount(named | own) < MOST_REPLICAS:
        _forget_all_but(term, named | own, now)
        pause_after_gap(lane, now)
    else:
        _forget_all_but(term, listed | own, now)
        pause_after_gap(lane, now)
        term.cursor.crowded = term.cursor.row


@kernel
def _longest_silent(term: Term, used: int) -> int:
    """The slot outside of `used` whose replica was heard of longest ago."""
    found, since = -1, 0
    for slot in range(term.lane.slots):
        replica = replica_in(term, slot)
        heard = max(replica.last_fetch, replica.caught_up)
        if not in_set(used, slot) and (found < 0 or heard < since):
            found, since = slot, heard
    return found


@kernel
def _forget_all_but(term: Term, kept: int, now: int) -> None:
    lane = term.lane
    for slot in range(lane.slots):
        if not in_set(kept, slot):
            unassign(term, slot, now)
            replica = replica_in(term, slot)
            replica.id = NULL32
            replica.hw = NULL
    lane.isr &= kept
    lane.joining &= kept
    lane.proposed_isr &= kept
    lane.cut_off_isr &= kept
    lane.unknown_leos &= kept
    if lane.assigned & ~kept:
        lane.assigned &= kept
        lane.assigned_count = popcount(lane.assigned)
