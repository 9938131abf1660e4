"""gold/partition_health: the present state of every partition, from its leader's lane and its history."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.replication.compiled.decorators import compiled
from pipelines.replication.compiled.records import Records
from pipelines.replication.compiled.types import I64, NEVER, NULL, NULL32
from pipelines.replication.facts.answers import answered_leos, last_rounds, sampled_until, unanswered, untold
from pipelines.replication.facts.columns import bigints, ints, members, times, word_column
from pipelines.replication.facts.failure_risk import RISKS, risks
from pipelines.replication.state.state import State
from pipelines.replication.term.layout import IDLE, LANES, OUT_OF_SYNC, REPLICAS
from schemas import partition_health
from schemas.levels import POLLED
from schemas.partition_health import BEHIND_MS

LANE, SLOT = LANES.at, REPLICAS.at

Members = tuple[list[int] | None, list[int] | None, list[int] | None, list[int]]
"""The ISR, the assigned replicas, those of them outside the ISR, and an empty list."""


def health(state: State, low_watermarks: Any) -> pa.Table:
    """One row per partition; `low_watermarks` are those of the sources by number, in microseconds."""
    count = state.partition_keys.count
    if not count:
        return partition_health.ARROW.empty_table()
    registered, keys = state.partitions, state.partition_keys.keys
    last = _last_lanes(state, low_watermarks)
    lane = _led(state, last)
    led, known, place = lane >= 0, last >= 0, np.maximum(last, 0)
    lanes = state.lanes if state.lanes.count else None
    topic = (keys >> 32).astype(np.int64)

    def of_lane(name: str, default: int, where: Any = led) -> Any:
        return np.where(where, lanes[name][place], default) if lanes is not None else np.full(count, default)

    isr, assigned = of_lane("isr", 0), of_lane("assigned", 0)
    hw, leo = of_lane("hw", NULL, known), of_lane("leader_leo", NULL, known)
    stalled, home = of_lane("stalled_since", NULL), of_lane("home", -1)
    now = np.where(home < 0, NULL, low_watermarks[home]) if len(low_watermarks) else np.full(count, NULL)
    now = np.minimum(now, sampled_until(state, lane))
    isr_size, assigned_size = np.bitwise_count(isr.astype(np.int64)), np.bitwise_count(assigned.astype(np.int64))
    topic_ids = np.where(registered["topic_id"] >= 0, registered["topic_id"], of_lane("topic_id", -1))
    leader = np.where(registered["leader_id"] != NULL32, registered["leader_id"], of_lane("broker", NULL32))
    offline = leader == -1
    out_of_sync, slowest, lag, behind = _replica_masks(state, lane, now)
    with_isr = led & (of_lane("isr_known", 0) == 1)
    by_history = _members_by_history(state, np.flatnonzero(~with_isr))
    told = of_lane("assigned_told", 0) == 1
    by_history |= _members_as_named(state, np.flatnonzero(with_isr & ~told), isr, assigned, place)
    told[[k for k, (_, replicas, *_) in by_history.items() if replicas is not None]] = True
    unled = {partition: found for partition, found in by_history.items() if not led[partition]}
    under_min_isr = np.where(with_isr, of_lane("frozen", 0) == 1, offline)
    min_isr = of_lane("min_isr", NULL32)
    isr_sizes, assigned_sizes = _sizes(isr_size, assigned_size, by_history)
    waits = (leo > hw) & ((of_lane("level", NULL32) != POLLED) | (now > stalled))
    made = {
        "cluster": _named(topic, [str(t[0]) for t in state.topics.all]),
        "topic": _named(topic, [str(t[1]) for t in state.topics.all]),
        "topic_id": _named(topic_ids, [str(t[0]) for t in state.topic_ids.all]),
        "partition": pa.array((keys & 0xFFFFFFFF).astype(np.int32)),
        "leader_id": ints(leader),
        "leader_epoch": ints(np.maximum(registered["leader_epoch"], of_lane("leader_epoch", NULL32))),
        "partition_epoch": ints(np.maximum(registered["partition_epoch"], of_lane("partition_epoch", NULL32))),
        "hw": bigints(hw.astype(np.int64)),
        "leader_leo": bigints(leo.astype(np.int64)),
        "ar": _lists(state, assigned, place, by_history, 1),
        "isr": _lists(state, isr, place, by_history, 0),
        "osr": _lists(state, assigned & ~isr, place, by_history, 2),
        "out_of_sync": _unless(unanswered(state, lane), _lists(state, out_of_sync, place, unled, 3)),
        "behind": _unless(untold(state, lane), _lists(state, behind, place, unled, 3)),
        "holding_replicas": _lists(state, np.where(waits, slowest, 0), place, unled, 3),
        "under_replicated": _under_replicated(isr_size < assigned_size, told, by_history),
        "under_min_isr": pa.array(under_min_isr, mask=~with_isr & ~offline),
        "offline": pa.array(offline, mask=leader == NULL32),
        "lag_records": pa.array(lag, mask=~led | (assigned == 0) | (lag == NEVER)),
        "stalled_ms": pa.array(
            np.where(stalled == NULL, 0, np.maximum(now - stalled, 0) // 1000), mask=(~led) | (now == NULL)
        ),
        "last_event_ts": times(_last_event_ts(state)),
        "level": ints(of_lane("level", NULL32, known)),
        "min_isr": ints(np.where(of_lane("min_isr_told", 0) == 1, min_isr, NULL32)),
        "one_failure_away": word_column(risks(isr_sizes, assigned_sizes, min_isr, offline, told), RISKS),
        "assignments": _assignments(state, count),
        "ar_told": pa.array(told),
    }  # fmt: skip
    schema = partition_health.ARROW
    return pa.table([made[f.name].cast(f.type) for f in schema], schema=schema)


def _assignments(state: State, count: int) -> pa.Array:
    found: list[Any] = [None] * count
    for partition, changes in state.assignments.changed.items():
        found[partition] = [{"since": since, "replicas": replicas} for since, replicas in changes]
    return pa.array(found, partition_health.ARROW.field("assignments").type)


def led_lanes(state: State, low_watermarks: I64) -> I64:
    """Per partition the lane of the broker that leads it, -1 where none is known to."""
    return _led(state, _last_lanes(state, low_watermarks))


def _unless(unknown: Any, lists: pa.Array) -> pa.Array:
    """The lists, null where `unknown`."""
    return pc.if_else(pa.array(~unknown), lists, pa.scalar(None, lists.type)) if unknown.any() else lists


def _led(state: State, last: I64) -> I64:
    if not state.lanes.count:
        return np.full(len(last), -1)
    leads = (state.lanes["state"][last] != IDLE) & (state.lanes["deposed"][last] == 0)
    return np.where((last >= 0) & leads, last, -1)


def _named(numbers: Any, names: list[str]) -> pa.Array:
    """Names by number, null below 0."""
    codes = pa.array(numbers.astype(np.int32), mask=numbers < 0)
    return pa.DictionaryArray.from_arrays(codes, pa.array(names, pa.string())).cast(pa.string())


def _last_lanes(state: State, low_watermarks: Any) -> Any:
    """Per partition the lane whose term started last, -1 where no broker was seen leading.

    Where both a log and samples show a leadership, the log does, unless it cannot show HWs or has fallen silent.
    """
    sampled = state.sampled_lanes() if state.lanes.count else np.zeros(0, np.bool_)
    by_logs = _begun_last(state, ~sampled)
    if not sampled.any():
        return by_logs
    by_samples = _begun_last(state, sampled)
    log, sample, lanes = np.maximum(by_logs, 0), np.maximum(by_samples, 0), state.lanes
    newer = lanes["leader_epoch"][sample] - lanes["leader_epoch"][log]
    shown = (lanes["state"][log] != IDLE) & (lanes["deposed"][log] == 0) & (lanes["level"][log] > 0)
    home = lanes["home"][log]
    latest = np.array([state.sources.latest(str(name[0])) for name in state.clusters.all])
    silent = latest[lanes["cluster"][log]] - low_watermarks[home] > state.sources.grace_us
    by_sample = (by_samples >= 0) & ((by_logs < 0) | (newer > 0) | ((newer == 0) & (~shown | silent)))
    return np.where(by_sample, by_samples, by_logs)


def _begun_last(state: State, which: Any) -> Any:
    """Per partition the one of these lanes whose term started last, -1 where there is none."""
    lane_of = np.full(state.partition_keys.count, -1, dtype=np.int64)
    begun = np.flatnonzero((state.lanes["term_start"] != NULL) & which)
    order = begun[np.argsort(state.lanes["term_start"][begun], kind="stable")]
    lane_of[state.lanes["partition"][order]] = order
    return lane_of


def _last_event_ts(state: State) -> Any:
    """The time of the last event read of each partition."""
    last = np.full(state.partition_keys.count, NULL, dtype=np.int64)
    np.maximum.at(last, state.series["partition"], state.series["last_ts"])
    return last


def _replica_masks(state: State, lane: Any, now: Any) -> tuple[Any, Any, Any, Any]:
    """Per partition: the replicas out of sync, those of the ISR at its smallest LEO (by samples those that may hold the
    HW back), the largest lag in records, and the members of the ISR that have not got by now where their leader was
    BEHIND_MS ago."""
    masks = np.zeros((4, len(lane)), dtype=np.int64)
    if state.lanes.count:
        since = np.minimum(now, last_rounds(state, lane)) - BEHIND_MS * 1000
        _write_replica_masks(lane, state.lanes.data, answered_leos(state), state.replicas.width, since, masks)
    return masks[0], masks[1], masks[2], masks[3]


@compiled
def _write_replica_masks(
    lane: I64, lanes: Records, replicas: Records, width: int, since: I64, masks: Records
) -> None:  # fmt: skip
    for partition in range(len(lane)):
        n = lane[partition]
        if n < 0:
            continue
        least, isr, assigned = NEVER, lanes[n, LANE.isr], lanes[n, LANE.assigned]
        leader_leo = lanes[n, LANE.leader_leo]
        for k in range(width):
            if (isr >> k) & 1:
                least = min(least, replicas[n * width + k, SLOT.leo])
        for k in range(width):
            at = n * width + k
            passed, polled = replicas[at, SLOT.passed], lanes[n, LANE.level] == POLLED
            holds = passed != NULL if polled else (isr >> k) & 1 == 1 and replicas[at, SLOT.leo] == least
            if holds:
                masks[1, partition] |= 1 << k
            follows = (isr >> k) & 1 and replicas[at, SLOT.id] != lanes[n, LANE.broker]
            if lanes[n, LANE.level] == POLLED:  # who answers less than its leader was caught up by then at the latest
                passed = replicas[at, SLOT.caught_up] if 0 <= replicas[at, SLOT.leo] < leader_leo else NULL
            if follows and lanes[n, LANE.level] >= POLLED and NULL < passed < since[partition]:
                masks[3, partition] |= 1 << k
            if (assigned >> k) & 1 or replicas[at, SLOT.leo] >= 0:
                if replicas[at, SLOT.sync] == OUT_OF_SYNC:
                    masks[0, partition] |= 1 << k
                known = leader_leo != NULL and replicas[at, SLOT.leo] >= 0
                masks[2, partition] = max(masks[2, partition], leader_leo - replicas[at, SLOT.leo] if known else NEVER)


def _sizes(isr: Any, assigned: Any, by_history: Mapping[int, Members]) -> tuple[Any, Any]:
    """The numbers of replicas in sync and assigned, by lane or by history; NULL32 if not known."""
    sizes = isr.astype(np.int64), np.where(assigned > 0, assigned.astype(np.int64), NULL32)
    for partition, members_of in by_history.items():
        for known, which in zip(sizes, members_of, strict=False):
            known[partition] = NULL32 if which is None else len(which)
    return sizes


def _under_replicated(by_lane: Any, told: Any, by_history: Mapping[int, Members]) -> pa.Array:
    """Whether fewer replicas are in sync than assigned; null if not known, for instance if not all are `told`."""
    values, known = by_lane.copy(), by_lane | told
    for partition, (isr, assigned, osr, _) in by_history.items():
        known[partition], values[partition] = isr is not None and assigned is not None, bool(osr)
    return pa.array(values, pa.bool_(), mask=~known)


def _members_by_history(state: State, partitions: Any) -> dict[int, Members]:
    """The members, from their histories, of partitions whose ISR no lane knows; None if a history has none."""
    found: dict[int, Members] = {}
    for partition in partitions:
        registration = state.history(int(partition)).registration
        isr = None if registration.isr is None else sorted(registration.isr)
        assigned = None if registration.replicas is None else sorted(registration.replicas)
        osr = None if isr is None or assigned is None else [r for r in assigned if r not in isr]
        found[int(partition)] = (isr, assigned, osr, [])
    return found


def _members_as_named(state: State, partitions: Any, isr: Any, assigned: Any, lanes: Any) -> dict[int, Members]:
    """The members of partitions of which some row named all replicas that their lanes know, and maybe more: of a log
    that begins inside a term a lane knows those that it saw in the ISR."""
    bounds, replicas = state.assignments.as_of(partitions, np.full(len(partitions), NEVER))
    more = np.flatnonzero(np.diff(bounds) >= np.maximum(np.bitwise_count(assigned[partitions].astype(np.int64)), 1))
    which, found = partitions[more], dict[int, Members]()
    at = lanes[which].astype(np.int64)
    isrs, seen = (members(state, masks[which].astype(np.int64), at).to_pylist() for masks in (isr, assigned))
    for k, partition, in_sync, known in zip(more, which, isrs, seen, strict=True):
        named = sorted(replicas[bounds[k] : bounds[k + 1]].tolist())
        if set(named).issuperset(known):
            found[int(partition)] = (in_sync, named, [replica for replica in named if replica not in in_sync], [])
    return found


def _lists(state: State, masks: Any, lanes: Any, by_history: Mapping[int, Members], which: int) -> pa.Array:
    """Lists of replicas by lane, or by history where it has them; `which` of its Members."""
    if not state.lanes.count:
        return pa.array([by_history[k][which] for k in range(len(masks))], pa.list_(pa.int32()))
    made = members(state, masks.astype(np.int64), lanes.astype(np.int64))
    if not by_history:
        return made
    rows = made.to_pylist()
    for partition, lists in by_history.items():
        rows[partition] = lists[which]
    return pa.array(rows, pa.list_(pa.int32()))
