"""The rules of `observe` for samples that change nothing but offsets, compiled: nearly all that a watcher reports.

A partition whose rows say anything else is left as it was, for `observe`.
"""

from __future__ import annotations

from pipelines.replication.compiled.decorators import hot
from pipelines.replication.compiled.records import Records
from pipelines.replication.compiled.types import I64, MS, NULL
from pipelines.replication.samples.layout import HWS, KEPT_STEPS, MEMBERS, SAMPLES, STEADY, STEPS
from pipelines.replication.samples.steady_bundles import Found, Present, Rounds, Samples, last_round
from pipelines.replication.term.layout import (
    ADVANCE,
    BEHIND,
    HW_ROWS,
    IN_SYNC,
    LANES,
    ONLY_WITNESS,
    OUT_OF_SYNC,
    RECOVERED,
    SILENT,
    SYNC_ROWS,
)
from schemas.levels import POLLED

_OF, _MEMBER, _STEP, _ROW = STEADY.at, MEMBERS.at, STEPS.at, SAMPLES.at
_HW, _SYNC, _KEPT, _LANE = HW_ROWS.at, SYNC_ROWS.at, HWS.at, LANES.at


@hot
def _member(one: Present, broker: int) -> int:
    """The entry of a replica, -1 where it has none."""
    for k in range(one.of[_OF.members]):
        if one.members[k, _MEMBER.broker] == broker:
            return k
    return -1


@hot
def step_above(one: Present, leo: int) -> int:
    """The first step of the leader's LEO above this one, -1 where there is none (`SampledPartition.caught_up`)."""
    for k in range(one.of[_OF.steps]):
        if one.steps[k, _STEP.leo] > leo:
            return k
    return -1


@hot
def _add_sync(one: Present, k: int, ts: int, caught_up: int, reason: int, found: Found) -> None:
    at, of = found.counts[1], one.of
    outside = one.members[k, _MEMBER.out_of_sync]
    found.sync[at, _SYNC.lane] = of[_OF.lane]
    found.sync[at, _SYNC.ts] = ts
    found.sync[at, _SYNC.replica] = one.members[k, _MEMBER.broker]
    found.sync[at, _SYNC.state] = OUT_OF_SYNC if outside else IN_SYNC
    found.sync[at, _SYNC.previous] = IN_SYNC if outside else OUT_OF_SYNC
    found.sync[at, _SYNC.in_isr] = one.members[k, _MEMBER.in_isr]
    found.sync[at, _SYNC.caught_up] = caught_up
    found.sync[at, _SYNC.leo] = one.members[k, _MEMBER.leo]
    found.sync[at, _SYNC.leader_leo] = of[_OF.leo]
    found.sync[at, _SYNC.reason] = reason
    found.sync[at, _SYNC.leader_epoch] = of[_OF.epoch]
    found.sync[at, _SYNC.topic_id] = of[_OF.topic_id]
    found.sync[at, _SYNC.level] = POLLED
    found.counts[1] = at + 1


@hot
def settle_steady(one: Present, now: int, lag_max: int, rounds: Rounds, found: Found) -> None:
    """`observe.settle`."""
    of, members = one.of, one.members
    for k in range(of[_OF.members]):
        if not members[k, _MEMBER.follows] or not members[k, _MEMBER.answers] or members[k, _MEMBER.out_of_sync]:
            continue
        step = step_above(one, members[k, _MEMBER.leo])
        if step < 0:
            continue
        caught_up = max(one.steps[step, _STEP.most], of[_OF.began])
        latest = max(caught_up, members[k, _MEMBER.first])
        deadline = latest + lag_max + MS
        since = members[k, _MEMBER.since]
        if max(last_round(rounds, of[_OF.cluster], members[k, _MEMBER.broker], now), since) >= deadline:
            members[k, _MEMBER.out_of_sync] = 1
            _add_sync(one, k, deadline, latest, SILENT if since <= latest else BEHIND, found)


@hot
def _take_leo(one: Present, row: I64, lag_max: int, found: Found) -> bool:
    """`observe._take_leo`; False where this replica was not sampled before."""
    k = _member(one, row[_ROW.broker])
    if k < 0:
        return False
    replica, leo, ts = one.members[k], row[_ROW.leo], row[_ROW.ts]
    if not replica[_MEMBER.answers] or replica[_MEMBER.leo] != leo:
        replica[_MEMBER.since] = ts
    if replica[_MEMBER.first] == -1 or leo < replica[_MEMBER.leo]:
        replica[_MEMBER.first] = ts + row[_ROW.error]
    replica[_MEMBER.leo], replica[_MEMBER.log_epoch], replica[_MEMBER.answers] = leo, row[_ROW.log_epoch], 1
    if row[_ROW.log_epoch] == one.of[_OF.epoch]:
        replica[_MEMBER.fetched] = 1
    if replica[_MEMBER.out_of_sync]:
        step = step_above(one, leo)
        if step < 0 or ts <= one.steps[step, _STEP.least] + lag_max:
            replica[_MEMBER.out_of_sync] = 0
            caught_up = ts if step < 0 else max(one.steps[step, _STEP.most], one.of[_OF.began])
            _add_sync(one, k, ts, caught_up, RECOVERED, found)
    return True


@hot
def _same_members(one: Present, row: I64, samples: Samples) -> bool:
    """Whether a leader's sample has the ISR and assignment that are known, where it has any."""
    of, count, at = one.of, row[_ROW.isr_count], row[_ROW.isr_at]
    if count >= 0:
        if count != of[_OF.isr_count]:
            return False
        for k in range(count):
            if samples.isr[at + k] != one.members[k, _MEMBER.isr]:
                return False
    count, at = row[_ROW.assigned_count], row[_ROW.assigned_at]
    if count > 0:
        if count != of[_OF.assigned_count]:
            return False
        for k in range(count):
            if samples.assigned[at + k] != one.members[k, _MEMBER.assigned]:
                return False
    return True


@hot
def _grow(one: Present, leo: int, after: int, at: int) -> None:
    """`SampledPartition.grow`."""
    of, steps = one.of, one.steps
    count = of[_OF.steps]
    if of[_OF.leo] == NULL or leo < of[_OF.leo]:
        steps[0, _STEP.least], steps[0, _STEP.most], steps[0, _STEP.leo] = -1, at, leo
        count = 1
    elif leo > of[_OF.leo]:
        steps[count, _STEP.least], steps[count, _STEP.most], steps[count, _STEP.leo] = after, at, leo
        count += 1
    of[_OF.leo], of[_OF.steps] = leo, count
    behind, followed = leo, False
    for k in range(of[_OF.members]):
        if one.members[k, _MEMBER.follows] and one.members[k, _MEMBER.answers]:
            its = one.members[k, _MEMBER.leo]
            behind = min(behind, its) if followed else its
            followed = True
    first = step_above(one, behind)
    first = count - 1 if first < 0 else min(first, count - 1)
    if first > 0:
        for k in range(first, count):
            for c in range(3):
                steps[k - first, c] = steps[k, c]
        count -= first
    if count > KEPT_STEPS:
        middle = count // 2
        least = steps[middle, _STEP.least]
        for k in range(middle, count - 1):
            for c in range(3):
                steps[k, c] = steps[k + 1, c]
        steps[middle, _STEP.least] = least
        count -= 1
    of[_OF.steps] = count


@hot
def _take_leader(one: Present, row: I64, lanes: Records, rounds: Rounds, found: Found) -> bool:
    """`observe._take_leader`; False for what is more than a rise, or none, of the offsets."""
    of, k = one.of, _member(one, row[_ROW.broker])
    hw, ts = row[_ROW.hw], row[_ROW.ts]
    if k < 0 or (hw != -1 and of[_OF.hw] != NULL and hw < of[_OF.hw]):
        return False
    leader = one.members[k]
    after = of[_OF.seen]
    if leader[_MEMBER.answers]:
        after = max(after, last_round(rounds, of[_OF.cluster], row[_ROW.broker], ts - 1))
    _grow(one, row[_ROW.leo], after, ts + row[_ROW.error])
    leader[_MEMBER.leo], leader[_MEMBER.since], leader[_MEMBER.answers] = row[_ROW.leo], ts, 1
    leader[_MEMBER.log_epoch] = row[_ROW.log_epoch]
    of[_OF.term_leo], of[_OF.seen], of[_OF.source] = row[_ROW.leo], ts - row[_ROW.error], row[_ROW.source]
    rises = hw != -1 and (of[_OF.hw] == NULL or hw > of[_OF.hw])
    if rises:
        of[_OF.hw] = hw
        _add_advance(one, row, lanes, found)
    if of[_OF.hw] == NULL or of[_OF.hw] >= row[_ROW.leo]:
        of[_OF.stalled_since] = NULL
    elif rises or of[_OF.stalled_since] == NULL:
        of[_OF.stalled_since] = ts
    return True


@hot
def _add_advance(one: Present, row: I64, lanes: Records, found: Found) -> None:
    of, hw, at = one.of, row[_ROW.hw], found.counts[0]
    if of[_OF.last_hw] == NULL or hw > of[_OF.last_hw]:
        kept = found.counts[2]
        found.hws[kept, _KEPT.number], found.hws[kept, _KEPT.hw] = of[_OF.number], hw
        found.hws[kept, _KEPT.ts] = row[_ROW.clock]
        found.counts[2] = kept + 1
        of[_OF.last_hw], of[_OF.last_hw_ts] = hw, row[_ROW.clock]
    holding = 0
    for k in range(of[_OF.members]):
        if one.members[k, _MEMBER.in_isr] and one.members[k, _MEMBER.leo] == hw:
            holding |= 1 << one.members[k, _MEMBER.slot]
    found.hw[at, _HW.lane], found.hw[at, _HW.ts], found.hw[at, _HW.kind] = of[_OF.lane], row[_ROW.ts], ADVANCE
    found.hw[at, _HW.hw], found.hw[at, _HW.reported], found.hw[at, _HW.leader_leo] = hw, hw, of[_OF.leo]
    found.hw[at, _HW.isr], found.hw[at, _HW.holding] = lanes[of[_OF.lane], _LANE.isr], holding
    found.hw[at, _HW.frozen], found.hw[at, _HW.agreement] = of[_OF.frozen], ONLY_WITNESS
    found.hw[at, _HW.leader_epoch], found.hw[at, _HW.topic_id] = of[_OF.epoch], of[_OF.topic_id]
    found.hw[at, _HW.level] = POLLED
    found.counts[0] = at + 1


@hot
def take_sample(
    one: Present, row: I64, lag_max: int, samples: Samples, lanes: Records, rounds: Rounds, found: Found
) -> bool:
    """`observe.apply` of a sample; False for one that changes more than offsets."""
    of = one.of
    if row[_ROW.topic_id] != -1 and row[_ROW.topic_id] != of[_OF.topic_id]:
        return False
    settle_steady(one, row[_ROW.clock] - 1, lag_max, rounds, found)
    if row[_ROW.leader] != row[_ROW.broker] or row[_ROW.epoch] < 0:
        return _take_leo(one, row, lag_max, found)
    same = row[_ROW.leader] == of[_OF.leader] and row[_ROW.epoch] == of[_OF.epoch]
    return same and _same_members(one, row, samples) and _take_leader(one, row, lanes, rounds, found)
