"""The committed ISR of a term, under min ISR or not (Partition.isUnderMinIsr)."""

from __future__ import annotations

from pipelines.replication.compiled.decorators import kernel
from pipelines.replication.compiled.records import Records
from pipelines.replication.compiled.types import NULL, NULL32
from pipelines.replication.events.columns import BY_CONTROLLER, BY_METADATA, Columns
from pipelines.replication.term.constants import (
    BROKER,
    FORETOLD,
    LANE,
    NOT_FORETOLD,
    SLOT,
    Marks,
    Settings,
    Stats,
    Timeline,
    in_vain,
    lean,
    popcount,
)
from pipelines.replication.term.high_watermark import put_hw, try_advance
from pipelines.replication.term.kafka_rules import is_under_min_isr
from pipelines.replication.term.layout import FREEZE, NEVER, OPEN, OUT_OF_SYNC, THAW, UNREPORTED
from pipelines.replication.term.metadata_lookup import compare_clocks, recorded_at, settle_config, state_of
from pipelines.replication.term.replica_slots import mask_of
from pipelines.replication.term.replica_sync import put_sync, renew_deadline, unassign


@kernel
def weigh_isr(L: Records, R: Records, S: Settings, width: int, lane: int, O: Records, o: int, now: int) -> int:
    """Under min ISR: the committed ISR is smaller than min(min.insync.replicas, replicas) (rule 1.3)."""
    size = popcount(L[lane, LANE.isr])
    replicas = max(L[lane, LANE.assigned_count], 1)
    under = 1 if L[lane, LANE.isr_known] == 1 and is_under_min_isr(size, L[lane, LANE.min_isr], replicas) else 0
    if under == L[lane, LANE.frozen]:
        return o
    L[lane, LANE.frozen] = under
    if lean(L, lane):
        L[lane, LANE.thawed] = now
    if under and S.strict == 1 and lean(L, lane):
        forget_times(L, R, width, lane)
    if S.strict == 1:
        return put_hw(L, O, o, lane, now, FREEZE if under else THAW, NULL, 0, UNREPORTED, S)
    return o


@kernel
def forget_times(L: Records, R: Records, width: int, lane: int) -> None:
    """Under min ISR a leader prints no LEOs: where they alone tell of followers, silence is not the followers'."""
    for k in range(L[lane, LANE.slots]):
        at = lane * width + k
        if R[at, SLOT.id] != L[lane, LANE.broker]:
            R[at, SLOT.caught_up] = NULL
            R[at, SLOT.due] = NEVER
    renew_deadline(L, R, width, lane)


@kernel
def set_isr(L: Records, lane: int, isr: int) -> None:
    """The committed ISR; nothing is in flight any more."""
    L[lane, LANE.isr] = isr
    L[lane, LANE.isr_known] = 1
    L[lane, LANE.isr_doubted] = 0
    L[lane, LANE.joining] = 0
    L[lane, LANE.asked] = 0
    L[lane, LANE.held] &= isr
    L[lane, LANE.assigned] |= isr
    L[lane, LANE.assigned_count] = popcount(L[lane, LANE.assigned])


@kernel
def shrinks_below_assigned(L: Records, lane: int, C: Columns, i: int) -> bool:
    """An `isr` row from which on others may tell something of min ISR, or of a replica that is out."""
    assigned = max(L[lane, LANE.assigned_count], C.replicas_from[i + 1] - C.replicas_from[i])
    return bool(C.isr_from[i + 1] - C.isr_from[i] < assigned)


@kernel
def on_isr(
    L: Records, R: Records, C: Columns, T: Timeline, S: Settings, A: Stats, M: Marks, width: int, lane: int, i: int,
    j: int, stat: int, now: int, O: Records, o: int, first: int, Y: Records, y: int,
) -> tuple[int, int]:  # fmt: skip
    """A committed ISR, from the AlterPartition answer or from metadata, whichever came first."""
    if C.isr_from_whom[i] == BY_CONTROLLER or (C.leader_id[i] != NULL32 and C.leader_id[i] != L[lane, LANE.broker]):
        return o, y
    known = C.partition_epoch[i] != NULL32 and L[lane, LANE.partition_epoch] != NULL32
    if known and C.partition_epoch[i] < L[lane, LANE.partition_epoch]:
        return o, y
    isr = mask_of(L, R, width, lane, C.isr_ids, C.isr_from[i], C.isr_from[i + 1])
    assigned = mask_of(L, R, width, lane, C.replicas_ids, C.replicas_from[i], C.replicas_from[i + 1])
    if assigned:
        y = assign(L, R, S, width, lane, assigned, isr, now, Y, y)
    if known and C.partition_epoch[i] == L[lane, LANE.partition_epoch]:
        L[lane, LANE.isr_doubted] = 0
        return o, y
    M[j] |= _foretold(L, R, width, lane, L[lane, LANE.isr] & ~isr)
    if C.partition_epoch[i] != NULL32:
        L[lane, LANE.partition_epoch] = C.partition_epoch[i]
        L[lane, LANE.learnt] = now
    since = NULL
    if isr != L[lane, LANE.asked]:
        L[lane, LANE.asked_ts] = NULL
        if C.isr_from_whom[i] == BY_METADATA:
            since = recorded_at(L, T, S, lane, now) if C.partition_epoch[i] != NULL32 else NULL
            since = now - L[lane, LANE.ahead] if since == NULL else since
    put_out(L, R, T, width, lane, L[lane, LANE.isr] & ~isr, since, now)
    set_isr(L, lane, isr)
    if popcount(isr) < L[lane, LANE.assigned_count]:
        compare_clocks(L, T, S, lane, now)
    settle_config(L, T, S, lane, now, False, C.isr_from_whom[i] != BY_METADATA)
    o = weigh_isr(L, R, S, width, lane, O, o, now)
    if in_vain(L, lane, now):  # a rise that comes of it is printed
        return o, y
    return try_advance(L, R, T, S, A, width, lane, now, stat, O, o, first, OPEN), y


@kernel
def put_out(
    L: Records, R: Records, T: Timeline, width: int, lane: int, out: int, since: int, now: int
) -> None:  # fmt: skip
    """Who left the ISR may be another incarnation than joined it, as its next fetch says.

    Whom the controller put out, at `since` by its own clock, may not join by anything that it told until then; unless
    for a failed log directory, of which Partition.isReplicaIsrEligible asks nothing.
    """
    for k in range(L[lane, LANE.slots]):
        if (out >> k) & 1:
            at = lane * width + k
            R[at, SLOT.epoch] = -1
            known = state_of(L, T, lane, R[at, SLOT.id], now if since == NULL else since + L[lane, LANE.ahead])
            if known < 0 or T.brokers[known, BROKER.failed] == 0:
                R[at, SLOT.barred] = max(R[at, SLOT.barred], since)


@kernel
def assign(
    L: Records, R: Records, S: Settings, width: int, lane: int, assigned: int, isr: int, now: int, Y: Records, y: int
) -> int:
    """Who is assigned from now on: of a new replica nothing is known, and it is out of sync until it caught up."""
    before = L[lane, LANE.assigned]
    for k in range(L[lane, LANE.slots]):
        at = lane * width + k
        if not (((assigned ^ before) & ~isr) >> k) & 1 or R[at, SLOT.id] == L[lane, LANE.broker]:
            continue
        if (before >> k) & 1:
            y = unassign(L, R, Y, y, lane, at, k, now)
        elif R[at, SLOT.leo] < 0 and not lean(L, lane) and S.max_messages < 0:
            y = put_sync(L, R, Y, y, lane, at, k, now, OUT_OF_SYNC)
    L[lane, LANE.assigned] = assigned
    renew_deadline(L, R, width, lane)
    return y


@kernel
def _foretold(L: Records, R: Records, width: int, lane: int, removed: int) -> int:
    """Whether the lag rule held for every removed replica before the commit."""
    if removed == 0:
        return 0
    for k in range(L[lane, LANE.slots]):
        if (removed >> k) & 1 and R[lane * width + k, SLOT.sync] != OUT_OF_SYNC:
            return NOT_FORETOLD
    return FORETOLD
