"""Events as fixed-width rows, and the Arrow table made from them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from schemas import replication_events
from schemas.event_types import EVENT_TYPES

UNKNOWN = -(1 << 31)
"""Null of every 32-bit and 64-bit field of a row; -1 has a meaning of its own in Kafka."""

UNREADABLE = -1
"""In place of a number of lost lines: an unreadable line in a log without line numbers."""

TYPES = tuple(name for name in EVENT_TYPES if name != "progress")
APPEND, FETCH, HW, REPLICA_LEO, LOST = (TYPES.index(t) for t in ("append", "fetch", "hw", "replica_leo", "lost"))

_INT32 = (
    "broker_id",
    "leader_id",
    "leader_epoch",
    "partition_epoch",
    "replica_id",
    "min_isr",
    "lag_max_ms",
    "controller_epoch",
)
_INT64 = ("broker_epoch", "leo", "leader_leo", "hw", "log_start", "hw_before")
_BOOLS = ("unclean", "committed")
"""1 and 0, -1 where unknown."""
_INDEX = ("place", "topic_id", "isr", "replicas", "detail")

ROW = np.dtype(
    [("ts", "i8"), ("type", "i1"), ("level", "i1")]
    + [(name, "i1") for name in _BOOLS]
    + [(name, "i4") for name in _INT32]
    + [(name, "i8") for name in _INT64]
    + [(name, "i4") for name in _INDEX],
    align=True,
)
"""One event, `ts` in ms; the fields of `_INDEX` are indices into the lists that go with the rows, -1 for none."""

_OF_A_SOURCE = ("cluster", "source_id", "event_type", "topic", "partition", "covers")
EVENTS = pa.schema([field for field in replication_events.ARROW if field.name in (*_OF_A_SOURCE, *(ROW.names or ()))])
"""The columns of the bronze schema that log lines have."""


BLANK = tuple(UNKNOWN if name in (*_INT32, *_INT64) else -1 for name in ROW.fields or ())
"""A row in which everything is unknown."""


def table(
    rows: np.ndarray,
    cluster: str,
    source_id: str,
    places: Sequence[tuple[str | None, int]],
    topic_ids: Sequence[str],
    lists: Sequence[Sequence[int]],
    details: Sequence[str],
) -> pa.Table:
    """Rows in the schema EVENTS; `places`, `topic_ids`, `lists` and `details` are what the indices refer to."""
    count = len(rows)
    topics = pa.array([topic for topic, _ in places], pa.string())
    partitions = pa.array([partition for _, partition in places], pa.int32())
    place = _index(rows["place"])
    columns: dict[str, pa.Array] = {
        "cluster": pa.repeat(pa.scalar(cluster), count),
        "source_id": pa.repeat(pa.scalar(source_id), count),
        "ts": pa.array(rows["ts"] * 1000, pa.timestamp("us", tz="UTC")),
        "event_type": pa.array(TYPES).take(pa.array(rows["type"].astype("i4"))),
        "topic": topics.take(place),
        "partition": partitions.take(place).fill_null(-1),
        "topic_id": pa.array(topic_ids, pa.string()).take(_index(rows["topic_id"])),
        "isr": _lists(lists).take(_index(rows["isr"])),
        "replicas": _lists(lists).take(_index(rows["replicas"])),
        "level": pa.array(rows["level"].astype("i4")),
        "detail": pa.array(details, pa.string()).take(_index(rows["detail"])),
    }
    columns["covers"] = pa.nulls(count, EVENTS.field("covers").type)
    for name in _BOOLS:
        columns[name] = pa.array(rows[name] == 1, pa.bool_(), mask=rows[name] < 0)
    for name in (*_INT32, *_INT64):
        values = np.ascontiguousarray(rows[name])
        columns[name] = pa.array(values, EVENTS.field(name).type, mask=values == UNKNOWN)
    return pa.table([columns[name] for name in EVENTS.names], schema=EVENTS)


def _index(values: np.ndarray) -> pa.Array:
    return pa.array(np.ascontiguousarray(values), pa.int32(), mask=values < 0)


def _lists(lists: Sequence[Sequence[int]]) -> pa.Array:
    return pa.array(lists, pa.list_(pa.int32()))
