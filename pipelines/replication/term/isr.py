"""The committed ISR of a term, under min ISR or not (Partition.isUnderMinIsr)."""

from __future__ import annotations

from pipelines.replication.compiled.decorators import kernel
from pipelines.replication.compiled.records import Record
from pipelines.replication.compiled.types import NEVER, NULL, NULL32
from pipelines.replication.events.columns import BY_CONTROLLER, BY_METADATA, Columns
from pipelines.replication.metadata.layout import Timeline
from pipelines.replication.term.bundles import Event, Stats, Term, replica_in
from pipelines.replication.term.constants import NOT_PREDICTED, PREDICTED, attempt_was_in_vain, lacks_fetches, popcount
from pipelines.replication.term.held_back import follow_wait
from pipelines.replication.term.high_watermark import put_hw, try_advance
from pipelines.replication.term.kafka_rules import is_under_min_isr
from pipelines.replication.term.layout import FREEZE, IN_SYNC, OPEN, OUT_OF_SYNC, THAW, UNREPORTED
from pipelines.replication.term.metadata_lookup import compare_clocks, recorded_at, settle_config, state_of
from pipelines.replication.term.replica_slots import in_set, isr_of, replicas_of
from pipelines.replication.term.replica_sync import put_sync, renew_deadline, unassign, update_sync_state
from schemas.levels import LEAN


@kernel
def update_under_min_isr(term: Term, now: int) -> None:
    """Whether the committed ISR is under min ISR; where that changes, since 3.7 the HW stands still or no longer."""
    lane, strict = term.lane, term.settings.strict_min_isr == 1
    size, replicas = popcount(lane.isr), max(lane.assigned_count, 1)
    under = 1 if lane.isr_known == 1 and is_under_min_isr(size, lane.min_isr, replicas) else 0
    if strict and not under and lane.isr_known == 1 and lane.assigned_told == 0 and size < lane.min_isr:
        lane.few_assigned = 1
    if under == lane.frozen:
        return
    lane.frozen = under
    follow_wait(term, now)
    if lacks_fetches(lane):
        lane.thawed = now
    if under and strict and lacks_fetches(lane):
        forget_times(term)
    if strict:
        put_hw(term, now, FREEZE if under else THAW, NULL, 0, UNREPORTED)


@kernel
def forget_times(term: Term) -> None:
    """Under min ISR a leader prints no LEOs: where nothing else shows fetches, silence is not the followers'."""
    for slot in range(term.lane.slots):
        replica = replica_in(term, slot)
        if replica.id != term.lane.broker:
            replica.caught_up = NULL
            replica.due = NEVER
    renew_deadline(term)


@kernel
def set_isr(lane: Record, isr: int) -> None:
    """The committed ISR; nothing is in flight any more."""
    lane.isr = isr
    lane.isr_known = 1
    lane.isr_doubted = 0
    lane.joining = 0
    lane.proposed_isr = 0
    lane.unknown_leos &= isr
    lane.assigned |= isr
    lane.assigned_count = popcount(lane.assigned)


@kernel
def shrinks_below_assigned(lane: Record, columns: Columns, rare: int) -> bool:
    """An `isr` row from which on others may report something of min ISR, or of a replica that is out."""
    assigned = max(lane.assigned_count, columns.replicas_from[rare + 1] - columns.replicas_from[rare])
    return bool(columns.isr_from[rare + 1] - columns.isr_from[rare] < assigned)


@kernel
def on_isr(term: Term, timeline: Timeline, stats: Stats, columns: Columns, event: Event) -> None:
    """A committed ISR, from the AlterPartition answer or from metadata, whichever came first."""
    lane, rare, now = term.lane, event.row.more, event.now
    leader_id, partition_epoch = columns.leader_id[rare], columns.partition_epoch[rare]
    by_metadata = columns.isr_from_whom[rare] == BY_METADATA
    if columns.isr_from_whom[rare] == BY_CONTROLLER or (leader_id != NULL32 and leader_id != lane.broker):
        return
    known = partition_epoch != NULL32 and lane.partition_epoch != NULL32
    if known and partition_epoch < lane.partition_epoch:
        return
    isr, assigned = isr_of(term, columns, rare), replicas_of(term, columns, rare)
    if assigned:
        assign(term, assigned, isr, now)
    if known and partition_epoch == lane.partition_epoch:
        lane.isr_doubted = 0
        return
    term.marks[event.position] |= _predicted(term, lane.isr & ~isr)
    if isr == lane.proposed_isr and lane.level == LEAN:
        _take_leaders_word(term, isr, now)
    if partition_epoch != NULL32:
        lane.partition_epoch = partition_epoch
        lane.epoch_learned_at = now
    since = NULL
    if isr != lane.proposed_isr:
        lane.proposed_ts = NULL
        if by_metadata:
            since = recorded_at(lane, term.settings, timeline, now) if partition_epoch != NULL32 else NULL
            since = now - lane.clock_offset if since == NULL else since
    on_removed(term, timeline, lane.isr & ~isr, since, now)
    set_isr(lane, isr)
    if popcount(isr) < lane.assigned_count:
        compare_clocks(lane, term.settings, timeline, now)
    settle_config(lane, term.settings, timeline, now, False, not by_metadata)
    update_under_min_isr(term, now)
    if not attempt_was_in_vain(lane, now):  # else a rise that comes of it is printed
        try_advance(term, timeline, stats, now, event.stat, OPEN)


@kernel
def _take_leaders_word(term: Term, isr: int, now: int) -> None:
    """A leader asks for the removal of those only that its own lag rule finds out of sync, and adds whom it finds in
    sync: under min ISR it prints nothing else of them."""
    for slot in range(term.lane.slots):
        replica, state = replica_in(term, slot), IN_SYNC if in_set(isr, slot) else OUT_OF_SYNC
        if in_set(isr ^ term.lane.isr, slot) and replica.sync != state:
            put_sync(term, slot, now, state)
            replica.due = NEVER
    renew_deadline(term)


@kernel
def on_removed(term: Term, timeline: Timeline, removed: int, since: int, now: int) -> None:
    """Note that a replica left the ISR: its next fetch says whether it is another incarnation than joined.

    A replica that the controller removed, at `since` by its own clock, may not join by anything that it reported until
    then, unless it was removed for a failed log directory, which Partition.isReplicaIsrEligible does not check.
    """
    for slot in range(term.lane.slots):
        if in_set(removed, slot):
            replica = replica_in(term, slot)
            replica.epoch = -1
            known = state_of(term.lane, timeline, replica.id, now if since == NULL else since + term.lane.clock_offset)
            if known < 0 or timeline.brokers[known].failed == 0:
                replica.ineligible_until = max(replica.ineligible_until, since)


@kernel
def assign(term: Term, assigned: int, isr: int, now: int) -> None:
    """Set the assignment: of a new replica nothing is known, and it is out of sync until it catches up."""
    lane, before, by_messages = term.lane, term.lane.assigned, term.settings.lag_max_messages >= 0
    for slot in range(lane.slots):
        replica = replica_in(term, slot)
        if not in_set((assigned ^ before) & ~isr, slot) or replica.id == lane.broker:
            continue
        if in_set(before, slot):
            unassign(term, slot, now)
        elif by_messages:
            replica.caught_up = now
            update_sync_state(term, slot, now)
        elif replica.leo < 0 and not lacks_fetches(lane):
            put_sync(term, slot, now, OUT_OF_SYNC)
    lane.assigned, lane.assigned_told = assigned, 1
    renew_deadline(term)


@kernel
def _predicted(term: Term, removed: int) -> int:
    """Whether the lag rule held for every removed replica before the commit."""
    if removed == 0:
        return 0
    for slot in range(term.lane.slots):
        if in_set(removed, slot) and replica_in(term, slot).sync != OUT_OF_SYNC:
            return NOT_PREDICTED
    return PREDICTED
