"""Rows of the kernels as columns of bronze/replication_events, without copies: names become dictionaries, nulls
bits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from generators.simulator.cluster.simulation_event import REPLICATION
from generators.simulator.fleet.compiled import I32, I64
from generators.simulator.fleet.event_rows import APPEND, FETCH, HW_ROW, TYPES, Rows
from generators.simulator.telemetry.levels import FULL
from generators.simulator.telemetry.rows import source_id
from schemas import replication_events

_NAMES = ("cluster", "source_id", "event_type", "topic", "topic_id")
SCHEMA = pa.schema(
    [
        pa.field(f.name, pa.dictionary(pa.int32(), pa.string()), f.nullable) if f.name in _NAMES else f
        for f in replication_events.ARROW
    ]
)
"""The bronze schema with names as dictionaries: the same once it is written."""


@dataclass(frozen=True)
class Names:
    """The names for positions in the layout."""

    cluster: str
    brokers: Sequence[int]
    topics: Sequence[str]
    topic_ids: Sequence[str]
    topic: I32
    """Position of the partition's topic."""
    partition: I32
    leader: I32
    leader_epoch: I32
    partition_epoch: I32
    broker_epoch: I64
    """By id of a broker; one that is down has no follower in rounds."""


@dataclass(frozen=True)
class Block:
    """Rows `first` to `last` (half-open) of the broker at this position; `source_seq` has their numbers, one each."""

    broker: int
    first: int
    last: int
    source_seq: I64


def table(rows: Rows, count: int, blocks: Sequence[Block], names: Names) -> pa.Table:
    """The first `count` rows, all of which are in `blocks`, in order, as SCHEMA."""
    kind, partition = rows.kind[:count], rows.partition[:count]
    broker = np.repeat([b.broker for b in blocks], [b.last - b.first for b in blocks]).astype(np.int32)
    topic = names.topic[partition]
    ids = np.array(names.brokers, dtype=np.int32)[broker]
    made = {
        "cluster": _words(np.zeros(count, dtype=np.int32), [names.cluster]),
        "source_id": _words(broker, [source_id(b, REPLICATION) for b in names.brokers]),
        "source_epoch": np.zeros(count, dtype=np.int32),
        "source_seq": np.concatenate([b.source_seq for b in blocks]) if blocks else np.zeros(0, dtype=np.int64),
        "seq": rows.seq[:count],
        "ts": rows.ts[:count],
        "broker_id": ids,
        "event_type": _words(kind.astype(np.int32), TYPES),
        "topic": _words(topic, names.topics),
        "topic_id": _words(topic, names.topic_ids),
        "partition": names.partition[partition],
        "leader_id": names.leader[partition],
        "leader_epoch": names.leader_epoch[partition],
        "partition_epoch": names.partition_epoch[partition],
        "replica_id": (rows.replica[:count], kind != APPEND),
        "broker_epoch": (names.broker_epoch[rows.replica[:count]], kind == FETCH),
        "leo": (rows.offset[:count], kind == FETCH),
        "leader_leo": (rows.leader_leo[:count], kind != HW_ROW),
        "hw": (rows.offset[:count], kind == HW_ROW),
        "hw_before": (rows.leader_leo[:count], kind == HW_ROW),
        "level": np.full(count, FULL, dtype=np.int32),
    }
    return pa.table([_column(made.get(f.name), f.type, count) for f in SCHEMA], schema=SCHEMA)


def _words(codes: Any, options: Sequence[str]) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array(codes), pa.array(options, pa.string()))


def _column(made: Any, kind: pa.DataType, count: int) -> pa.Array:
    """Values, values with a mask of those that are known, or None: the buffers of arrays are used without copies."""
    if made is None:
        return pa.nulls(count, kind)
    if isinstance(made, pa.Array):
        return made
    values, known = made if isinstance(made, tuple) else (made, None)
    bits = None if known is None else pa.py_buffer(np.packbits(known, bitorder="little"))
    return pa.Array.from_buffers(kind, count, [bits, pa.py_buffer(np.ascontiguousarray(values))])
