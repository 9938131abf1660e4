"""From numbers and masks to the silver tables: names come back, masks become lists of replicas."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from pipelines.replication.arrays import Records
from pipelines.replication.columns import I8, I32, I64, NULL, NULL32
from pipelines.replication.compiled import compiled
from pipelines.replication.facts import SCHEMAS
from pipelines.replication.intake import Batch
from pipelines.replication.lanes import AGREEMENTS, KINDS, REASONS, REPLICA_HW, REPLICAS, STATES
from pipelines.replication.state import State

Rows = dict[str, Any]
ID = REPLICAS.at.id


def bigints(values: I64) -> pa.Array:
    """64-bit numbers with NULL as null."""
    return pa.array(values, mask=values == NULL) if len(values) else pa.array([], pa.int64())


def ints(values: I32) -> pa.Array:
    """32-bit numbers with NULL32 as null."""
    return pa.array(values.astype(np.int32, copy=False), mask=values == NULL32)


def times(values: I64) -> pa.Array:
    """Microseconds as UTC timestamps."""
    return bigints(values).view(pa.timestamp("us", tz="UTC"))


def words(codes: I8, vocabulary: tuple[str, ...]) -> pa.Array:
    """Codes as words; a negative code is null."""
    return pa.DictionaryArray.from_arrays(
        pa.array(codes.astype(np.int32, copy=False), mask=codes < 0), pa.array(vocabulary)
    ).cast(pa.string())


@compiled
def _members(masks: I64, lanes: I32, replicas: Records, width: int, offsets: I32, values: I32) -> None:
    at = 0
    for row in range(len(masks)):
        offsets[row] = at
        for k in range(width):
            if (masks[row] >> k) & 1:
                replica = replicas[lanes[row] * width + k, ID]
                to = at
                while to > offsets[row] and values[to - 1] > replica:
                    values[to] = values[to - 1]
                    to -= 1
                values[to] = replica
                at += 1
    offsets[len(masks)] = at


def members(state: State, masks: I64, lanes: I32) -> pa.Array:
    """Masks over the slots of lanes as sorted lists of replica ids."""
    width = state.replicas.width
    count = int(np.bitwise_count(masks).sum())
    offsets, values = np.empty(len(masks) + 1, dtype=np.int32), np.empty(count, dtype=np.int32)
    _members(masks, lanes, state.replicas.data, width, offsets, values)
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(values))


def places(state: State, lanes: I32, topic_id: I32) -> dict[str, pa.Array]:
    """cluster, topic, topic_id, partition and leader of rows that belong to lanes."""
    partition = state.lanes["partition"][lanes]
    topic = state.lanes["topic"][lanes]
    topics = state.topics.all or [("", "")]
    known = np.where(topic_id < 0, 0, topic_id)
    ids = pa.array([str(t[0]) for t in state.topic_ids.all] or [""])
    return {
        "cluster": pa.DictionaryArray.from_arrays(pa.array(topic), pa.array([str(t[0]) for t in topics])).cast(
            pa.string()
        ),
        "topic": pa.DictionaryArray.from_arrays(pa.array(topic), pa.array([str(t[1]) for t in topics])).cast(
            pa.string()
        ),
        "topic_id": pa.DictionaryArray.from_arrays(pa.array(known, mask=topic_id < 0), ids).cast(pa.string()),
        "partition": pa.array(state.partition_keys.keys[partition] & 0xFFFFFFFF),
        "leader_id": ints(state.lanes["broker"][lanes]),
    }


def partition_hw(state: State, rows: Rows) -> pa.Table:
    """silver/partition_hw from the kernel's final rows."""
    lanes = rows["lane"]
    return _table("partition_hw", {
        **places(state, lanes, rows["topic_id"]),
        "ts": times(rows["ts"]),
        "leader_epoch": ints(rows["leader_epoch"]),
        "kind": words(rows["kind"], KINDS),
        "hw": bigints(rows["hw"]),
        "reported_hw": bigints(rows["reported"]),
        "leader_leo": bigints(rows["leader_leo"]),
        "isr": members(state, rows["isr"], lanes),
        "holding_replicas": members(state, rows["holding"], lanes),
        "frozen": pa.array(rows["frozen"]).cast(pa.bool_()),
        "agreement": words(rows["agreement"], AGREEMENTS),
        "level": pa.array(rows["level"]),
    })  # fmt: skip


def replica_hw(state: State, rows: Rows) -> pa.Table:
    """silver/replica_hw: what the kernel computed of the followers' HWs."""
    rows = _where(rows, rows["state"] == REPLICA_HW)
    return _table("replica_hw", {
        **places(state, rows["lane"], rows["topic_id"]),
        "ts": times(rows["ts"]),
        "leader_epoch": ints(rows["leader_epoch"]),
        "replica_id": pa.array(rows["replica"]),
        "hw": bigints(rows["leo"]),
        "reported_hw": pa.nulls(len(rows["lane"])),
        "level": pa.array(rows["level"]),
    })  # fmt: skip


def _where(rows: Rows, mask: Any) -> Rows:
    return rows if mask.all() else {name: values[mask] for name, values in rows.items()}


def replica_sync(state: State, rows: Rows) -> pa.Table:
    """silver/replica_sync from the kernel's rows."""
    rows = _where(rows, rows["state"] != REPLICA_HW)
    lanes, leo, leader_leo = rows["lane"], rows["leo"], rows["leader_leo"]
    unknown = (leo < 0) | (leader_leo == NULL)
    never = rows["caught_up"] == NULL
    return _table("replica_sync", {
        **places(state, lanes, rows["topic_id"]),
        "ts": times(rows["ts"]),
        "leader_epoch": ints(rows["leader_epoch"]),
        "replica_id": pa.array(rows["replica"]),
        "state": words(rows["state"], STATES),
        "previous_state": words(rows["previous"], STATES),
        "in_isr": pa.array(rows["in_isr"]).cast(pa.bool_()),
        "last_caught_up_ts": times(rows["caught_up"]),
        "leo": pa.array(leo, mask=leo < 0),
        "leader_leo": bigints(leader_leo),
        "lag_records": pa.array(np.where(unknown, 0, leader_leo - leo), mask=unknown),
        "lag_ms": pa.array(np.where(never, 0, (rows["ts"] - rows["caught_up"]) // 1000), mask=never),
        "reason": words(rows["reason"], REASONS),
        "level": pa.array(rows["level"]),
    })  # fmt: skip


def _table(name: str, made: dict[str, pa.Array]) -> pa.Table:
    schema = SCHEMAS[name]
    return pa.table([made[field.name].cast(field.type) for field in schema], schema=schema)


def reported_hws(batch: Batch, rows: I64) -> pa.Table:
    """silver/replica_hw: what brokers told of their HW as followers (`rows` of the micro-batch)."""
    told = batch.events.take(pa.array(rows))
    schema = SCHEMAS["replica_hw"]
    made = {f.name: told[f.name] for f in schema if f.name in told.column_names}
    made |= {"hw": pa.nulls(len(rows)), "reported_hw": told["hw"]}
    return pa.table([made[f.name].cast(f.type) for f in schema], schema=schema)


def listed(name: str, rows: list[Rows]) -> pa.Table:
    """Rows given as dicts, in the schema of their table; times in microseconds."""
    return pa.Table.from_pylist(rows, schema=SCHEMAS[name]) if rows else SCHEMAS[name].empty_table()
