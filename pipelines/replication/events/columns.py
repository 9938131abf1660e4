"""Events as flat numpy columns: what the kernels read."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.replication.compiled.types import I8, I32, I64, NULL, NULL32, frozen
from schemas import replication_events
from schemas.event_types import EVENT_TYPES

CODE = {name: code for code, name in enumerate(EVENT_TYPES)}
VOID = -1
"""A row that fills its number and tells nothing: it was quarantined."""

RARE = np.zeros(len(EVENT_TYPES) + 1, dtype=np.bool_)
"""Event types that go to a partition's history as notes; the last entry stands for VOID."""
RARE[[CODE[n] for n in ("leader", "follower", "election", "isr", "isr_proposed", "isr_rejected", "truncate")]] = True


class Columns(NamedTuple):
    """The rare rows of one micro-batch, nulls as NULL or NULL32; lists as offsets into values."""

    ts: I64
    kind: I8
    broker: I32
    leader_id: I32
    leader_epoch: I32
    partition_epoch: I32
    replica_id: I32
    leo: I64
    hw: I64
    min_isr: I32
    lag_max_ms: I32
    level: I32
    topic_id: I32
    isr_from: I32
    isr_ids: I32
    replicas_from: I32
    replicas_ids: I32
    isr_from_whom: I8


_WIDE = ("ts", "leo", "hw")
_NARROW = ("leader_id", "leader_epoch", "partition_epoch", "replica_id", "min_isr", "lag_max_ms", "level")
LATER = tuple(replication_events.ARROW.field(column.name) for column in replication_events.LATER)
BY_CONTROLLER, BY_METADATA = 1, 2
"""Who told of an ISR: the controller (it moves no high watermark by itself), a broker that saw it in metadata."""
_WHOM = pa.array(["controller", "metadata"])


def whole(events: pa.Table) -> pa.Table:
    """The same events with the columns that those written by earlier versions lack."""
    missing = [field for field in LATER if field.name not in events.column_names]
    if not missing:
        return events
    for field in missing:
        events = events.append_column(field, pa.nulls(len(events), field.type))
    declared, present = replication_events.ARROW.names, set(events.column_names)
    others = [name for name in events.column_names if name not in declared]
    return events.select([*others, *(name for name in declared if name in present)])


NAMED = ("cluster", "source_id", "event_type", "topic")
"""Columns that hold few distinct names."""


def with_dictionaries(events: pa.Table) -> pa.Table:
    """The same events, whole, with their names as dictionaries: each name is hashed once for all who ask."""
    events = whole(events)
    for name in NAMED:
        if not pa.types.is_dictionary(events.schema.field(name).type):
            at = events.schema.get_field_index(name)
            events = events.set_column(at, name, events[name].dictionary_encode())
    return events


def plain(column: pa.ChunkedArray) -> pa.Array:
    """The column as one contiguous array."""
    if column.num_chunks > 1 and pa.types.is_dictionary(column.type):
        column = column.unify_dictionaries()
    return column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)


def rows_of(events: pa.Table, rows: I64) -> pa.Table:
    """These rows in this order. Arrow's `take` would first make one chunk of every column."""
    if not len(rows):
        return events.slice(0, 0)
    rises = bool((rows[1:] >= rows[:-1]).all())
    order = np.arange(len(rows)) if rises else np.argsort(rows, kind="stable")
    ordered, parts, begin = rows[order], [], 0
    for batch in events.to_batches():
        mine = ordered[slice(*np.searchsorted(ordered, [begin, begin + len(batch)]))]
        if len(mine):
            parts.append(batch.take(pa.array(mine - begin)))
        begin += len(batch)
    taken = pa.Table.from_batches(parts).unify_dictionaries()
    if rises:
        return taken
    back = np.empty(len(rows), dtype=np.int64)
    back[order] = np.arange(len(rows))
    return taken.take(pa.array(back))


def wide(column: pa.ChunkedArray) -> I64:
    """A 64-bit integer or timestamp column with nulls as NULL; no copy where nothing is null."""
    array = plain(column)
    if pa.types.is_timestamp(array.type):
        array = (
            array.view(pa.int64())
            if array.type.unit == "us"
            else array.cast(pa.timestamp("us", "UTC")).view(pa.int64())
        )
    if array.null_count == len(array) and len(array):
        return frozen(np.full(len(array), NULL, dtype=np.int64))
    values: I64 = (array.fill_null(NULL) if array.null_count else array).to_numpy(zero_copy_only=False)
    return frozen(values)


def narrow(column: pa.ChunkedArray) -> I32:
    """A 32-bit integer column with nulls as NULL32; no copy where nothing is null."""
    array = plain(column)
    if array.null_count == len(array) and len(array):
        return frozen(np.full(len(array), NULL32, dtype=np.int32))
    values: I32 = (array.fill_null(NULL32) if array.null_count else array).to_numpy(zero_copy_only=False)
    return frozen(values)


def lists(column: pa.ChunkedArray) -> tuple[I32, I32]:
    """A list column as (offsets, values); a null list has the offsets of an empty one."""
    array = plain(column)
    offsets: I32 = array.offsets.to_numpy()
    values: I32 = array.values.to_numpy(zero_copy_only=False).astype(np.int32, copy=False)
    return frozen(offsets), frozen(values)


def kinds(events: pa.Table) -> I8:
    """Event types as codes; an unknown one is VOID."""
    column = plain(events["event_type"])
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    codes = np.array([CODE.get(name, VOID) for name in column.dictionary.to_pylist()] or [VOID], dtype=np.int8)
    return frozen(codes[column.indices.fill_null(0).to_numpy(zero_copy_only=False)])


def columns(events: pa.Table, topic_id: I32) -> Columns:
    """The columns of `events` that the kernels read; `topic_id` as numbers."""
    isr_from, isr_ids = lists(events["isr"])
    replicas_from, replicas_ids = lists(events["replicas"])
    kind = kinds(events)
    read: dict[str, Any] = {name: wide(events[name]) for name in _WIDE}
    read |= {name: narrow(events[name]) for name in _NARROW}
    return Columns(
        **read, kind=kind, broker=narrow(events["broker_id"]), topic_id=frozen(topic_id),
        isr_from=isr_from, isr_ids=isr_ids, replicas_from=replicas_from, replicas_ids=replicas_ids,
        isr_from_whom=_from_whom(events, kind),
    )  # fmt: skip


def _from_whom(events: pa.Table, kind: I8) -> I8:
    """BY_CONTROLLER, BY_METADATA, or 0 for an `isr` row that tells an AlterPartition answer, and for all others."""
    whom = np.zeros(len(kind), dtype=np.int8)
    rows = np.flatnonzero(kind == CODE["isr"])
    if len(rows):
        detail = events["detail"].take(pa.array(rows))
        found = pc.fill_null(pc.index_in(detail, value_set=_WHOM), -1).to_numpy(zero_copy_only=False)
        whom[rows] = found + BY_CONTROLLER
    return frozen(whom)
