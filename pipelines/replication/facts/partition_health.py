"""gold/partition_health: the present state of every partition, from its leader's lane and its history."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from pipelines.replication.compiled.decorators import compiled
from pipelines.replication.compiled.records import Records
from pipelines.replication.compiled.types import I64, NEVER, NULL, NULL32
from pipelines.replication.facts.columns import bigints, ints, members, times
from pipelines.replication.state.state import State
from pipelines.replication.term.layout import IDLE, LANES, OUT_OF_SYNC, REPLICAS
from schemas import partition_health

LANE, SLOT = LANES.at, REPLICAS.at

Members = tuple[list[int] | None, list[int] | None, list[int] | None, list[int]]
"""ISR, assigned replicas, those of them outside the ISR, and nobody."""


def health(state: State, told: Any) -> pa.Table:
    """One row per partition; `told` is, per source number, how far it has told (microseconds)."""
    count = state.partition_keys.count
    if not count:
        return partition_health.ARROW.empty_table()
    p, keys = state.partitions, state.partition_keys.keys
    last = _last_lanes(state)
    leads = state.lanes["state"][last] != IDLE if state.lanes.count else np.zeros(count, dtype=np.bool_)
    led = (last >= 0) & leads & (state.lanes["deposed"][last] == 0 if state.lanes.count else False)
    lane, known, of = np.where(led, last, -1), last >= 0, np.maximum(last, 0)
    lanes = state.lanes if state.lanes.count else None
    topic = (keys >> 32).astype(np.int64)

    def col(name: str, default: int, where: Any = led) -> Any:
        return np.where(where, lanes[name][of], default) if lanes is not None else np.full(count, default)

    isr, assigned = col("isr", 0), col("assigned", 0)
    hw, leo, stalled = col("hw", NULL, known), col("leader_leo", NULL, known), col("stalled_since", NULL)
    home = col("home", -1)
    now = np.where(home < 0, NULL, told[home]) if len(told) else np.full(count, NULL)
    sizes = np.bitwise_count(isr.astype(np.int64)), np.bitwise_count(assigned.astype(np.int64))
    topic_ids = np.where(p["topic_id"] >= 0, p["topic_id"], col("topic_id", -1))
    leader = np.where(p["leader_id"] != NULL32, p["leader_id"], col("broker", NULL32))
    offline = leader == -1
    masks = _replica_masks(state, lane)
    with_isr = led & (col("isr_known", 0) == 1)
    absent = _absent_members(state, np.flatnonzero(~with_isr))
    unled = {partition: found for partition, found in absent.items() if not led[partition]}
    made = {
        "cluster": _named(topic, [str(t[0]) for t in state.topics.all]),
        "topic": _named(topic, [str(t[1]) for t in state.topics.all]),
        "topic_id": _named(topic_ids, [str(t[0]) for t in state.topic_ids.all]),
        "partition": pa.array((keys & 0xFFFFFFFF).astype(np.int32)),
        "leader_id": ints(leader),
        "leader_epoch": ints(np.maximum(p["leader_epoch"], col("leader_epoch", NULL32))),
        "partition_epoch": ints(np.maximum(p["partition_epoch"], col("partition_epoch", NULL32))),
        "hw": bigints(hw.astype(np.int64)),
        "leader_leo": bigints(leo.astype(np.int64)),
        "ar": _lists(state, assigned, of, absent, 1),
        "isr": _lists(state, isr, of, absent, 0),
        "osr": _lists(state, assigned & ~isr, of, absent, 2),
        "out_of_sync": _lists(state, masks[0], of, unled, 3),
        "holding_replicas": _lists(state, np.where(leo > hw, masks[1], 0), of, unled, 3),
        "under_replicated": _under_replicated(sizes[0] < sizes[1], absent),
        "under_min_isr": pa.array(np.where(with_isr, col("frozen", 0) == 1, offline), mask=~with_isr & ~offline),
        "offline": pa.array(offline, mask=leader == NULL32),
        "lag_records": pa.array(masks[2], mask=~led),
        "stalled_ms": pa.array(
            np.where(stalled == NULL, 0, (now - stalled) // 1000), mask=(~led) | (now == NULL)
        ),
        "last_event_ts": times(_last_told(state)),
        "level": ints(col("level", NULL32, known)),
    }  # fmt: skip
    schema = partition_health.ARROW
    return pa.table([made[f.name].cast(f.type) for f in schema], schema=schema)


def _named(numbers: Any, names: list[str]) -> pa.Array:
    """Names by number, null below 0."""
    codes = pa.array(numbers.astype(np.int32), mask=numbers < 0)
    return pa.DictionaryArray.from_arrays(codes, pa.array(names, pa.string())).cast(pa.string())


def _last_lanes(state: State) -> Any:
    """Per partition the lane whose term started last, -1 where nobody was seen leading: it may lead still."""
    lane_of = np.full(state.partition_keys.count, -1, dtype=np.int64)
    begun = np.flatnonzero(state.lanes["term_start"] != NULL)
    order = begun[np.argsort(state.lanes["term_start"][begun], kind="stable")]
    lane_of[state.lanes["partition"][order]] = order
    return lane_of


def _last_told(state: State) -> Any:
    """The time of the last event read of each partition."""
    last = np.full(state.partition_keys.count, NULL, dtype=np.int64)
    np.maximum.at(last, state.series["partition"], state.series["last_ts"])
    return last


def _replica_masks(state: State, lane: Any) -> tuple[Any, Any, Any]:
    """Per partition: replicas out of sync, replicas at the smallest LEO of the ISR, the largest lag."""
    masks = np.zeros((3, len(lane)), dtype=np.int64)
    if state.lanes.count:
        _weigh(lane, state.lanes.data, state.replicas.data, state.replicas.width, masks)
    return masks[0], masks[1], masks[2]


@compiled
def _weigh(lane: I64, L: Records, R: Records, width: int, masks: Records) -> None:
    for partition in range(len(lane)):
        n = lane[partition]
        if n < 0:
            continue
        least, isr, assigned, end = NEVER, L[n, LANE.isr], L[n, LANE.assigned], L[n, LANE.leader_leo]
        for k in range(width):
            if (isr >> k) & 1:
                least = min(least, R[n * width + k, SLOT.leo])
        for k in range(width):
            at = n * width + k
            if (isr >> k) & 1 and R[at, SLOT.leo] == least:
                masks[1, partition] |= 1 << k
            if (assigned >> k) & 1 or R[at, SLOT.leo] >= 0:
                if R[at, SLOT.sync] == OUT_OF_SYNC:
                    masks[0, partition] |= 1 << k
                if end != NULL:
                    masks[2, partition] = max(masks[2, partition], end - max(R[at, SLOT.leo], 0))


def _under_replicated(led: Any, absent: Mapping[int, Members]) -> pa.Array:
    """Whether fewer are in sync than assigned: `led`, where a lane knows its ISR; else by the history, if it does."""
    if not absent:
        return pa.array(led)
    values = led.tolist()
    for partition, (isr, assigned, *_) in absent.items():
        values[partition] = None if isr is None or assigned is None else len(isr) < len(assigned)
    return pa.array(values, pa.bool_())


def _absent_members(state: State, partitions: Any) -> dict[int, Members]:
    """The members of partitions of which no lane knows the ISR, as their history has them; None where it does not."""
    found: dict[int, Members] = {}
    for partition in partitions:
        present = state.history(int(partition)).present
        isr = None if present.isr is None else sorted(present.isr)
        assigned = None if present.replicas is None else sorted(present.replicas)
        osr = None if isr is None or assigned is None else [r for r in assigned if r not in isr]
        found[int(partition)] = (isr, assigned, osr, [])
    return found


def _lists(state: State, masks: Any, lanes: Any, absent: Mapping[int, Members], which: int) -> pa.Array:
    if not state.lanes.count:
        return pa.array([absent[k][which] for k in range(len(masks))], pa.list_(pa.int32()))
    made = members(state, masks.astype(np.int64), lanes.astype(np.int64))
    if not absent:
        return made
    rows = made.to_pylist()
    for partition, lists in absent.items():
        rows[partition] = lists[which]
    return pa.array(rows, pa.list_(pa.int32()))
