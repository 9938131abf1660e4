"""Bronze events as flat numpy columns, the form in which compiled functions read them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.replication.compiled.records import read_only
from pipelines.replication.compiled.types import I8, I32, I64, NULL, NULL32
from schemas import replication_events
from schemas.event_types import EVENT_TYPES

CODE = {name: code for code, name in enumerate(EVENT_TYPES)}
VOID = -1
"""The type of a row that takes up its sequence number and has no other effect: it is in quarantine."""

RARE = np.zeros(len(EVENT_TYPES) + 1, dtype=np.bool_)
"""Event types that go to the history of their partition; the last entry stands for VOID."""
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


_INT64_COLUMNS = ("ts", "leo", "hw")
_INT32_COLUMNS = ("leader_id", "leader_epoch", "partition_epoch", "replica_id", "min_isr", "lag_max_ms", "level")
ADDED_COLUMNS = tuple(replication_events.ARROW.field(column.name) for column in replication_events.LATER)
BY_CONTROLLER, BY_METADATA = 1, 2
"""Who reports an ISR other than in an AlterPartition response: the controller, which moves no high watermark by itself,
or a broker that applied the metadata."""
_ISR_REPORTERS = pa.array(["controller", "metadata"])


def with_all_columns(events: pa.Table) -> pa.Table:
    """The same events, with nulls in the columns that an earlier version did not write."""
    missing = [field for field in ADDED_COLUMNS if field.name not in events.column_names]
    if not missing:
        return events
    for field in missing:
        events = events.append_column(field, pa.nulls(len(events), field.type))
    declared, present = replication_events.ARROW.names, set(events.column_names)
    others = [name for name in events.column_names if name not in declared]
    return events.select([*others, *(name for name in declared if name in present)])


NAMED = ("cluster", "source_id", "event_type", "topic")
"""Columns that hold few distinct names."""
TEXTS = ("topic_id", "detail")
"""Columns of any text."""
NO_TOPIC = "", "AAAAAAAAAAAAAAAAAAAAAA"
"""Ids that name no topic: none, as other writers put it, and Kafka's zero id (org.apache.kafka.common.Uuid)."""
NOT_UTF8 = "\N{REPLACEMENT CHARACTER}"
"""Stands for bytes that are no UTF-8."""


def with_dictionaries(events: pa.Table) -> pa.Table:
    """The same events with all columns and the NAMED ones dictionary-encoded, so that each name is hashed once."""
    events = with_all_columns(events)
    for at, field in enumerate(events.schema):
        if field.name in NAMED and not pa.types.is_dictionary(field.type):
            events = events.set_column(at, field.name, events[field.name].dictionary_encode())
    return with_readable_text(events)


def with_readable_text(events: pa.Table) -> pa.Table:
    """The same events; NOT_UTF8 stands for what neither Arrow nor Parquet refuse and nobody can read, null for an id
    that names no topic."""
    for at, name in enumerate(events.column_names):
        if name in (*NAMED, *TEXTS):
            events = events.set_column(at, name, _readable(events[name]))
        if name == "topic_id":
            events = events.set_column(at, name, _named_ids(events[name]))
    return events


def _named_ids(ids: pa.ChunkedArray) -> pa.ChunkedArray:
    """The ids, null where they name no topic."""
    kind = ids.type.value_type if pa.types.is_dictionary(ids.type) else ids.type
    unnamed = pc.is_in(ids, pa.array(NO_TOPIC, kind))
    return pc.if_else(unnamed, None, ids.cast(kind)) if pc.any(unnamed).as_py() else ids


def _readable(column: pa.ChunkedArray) -> pa.ChunkedArray:
    chunks = [chunk.dictionary if pa.types.is_dictionary(column.type) else chunk for chunk in column.chunks]
    if all(map(_is_utf8, chunks)):
        return column
    texts = [text if _is_utf8(text) else _replaced(text) for text in chunks]
    if pa.types.is_dictionary(column.type):
        texts = [pa.DictionaryArray.from_arrays(c.indices, t) for c, t in zip(column.chunks, texts, strict=True)]
    return pa.chunked_array(texts, column.type)


def holds_other_letters(text: pa.Array) -> bool:
    """Whether any is not ASCII, as nearly all text is: that costs a twentieth of Arrow's own look."""
    letters = text.buffers()[2]
    return bool(letters and letters.size and np.frombuffer(letters, np.int8).min() < 0)


def _is_utf8(text: pa.Array) -> bool:
    if not holds_other_letters(text):
        return True
    try:
        text.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def _replaced(text: pa.Array) -> pa.Array:
    bytes_of = text.cast(pa.binary()).to_pylist()
    return pa.array([None if b is None else b.decode(errors="replace") for b in bytes_of], text.type)


def contiguous(column: pa.ChunkedArray) -> pa.Array:
    """The column as one array."""
    if column.num_chunks > 1 and pa.types.is_dictionary(column.type):
        column = column.unify_dictionaries()
    return column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)


def take_rows(events: pa.Table, rows: I64) -> pa.Table:
    """These rows in this order, taken batch by batch: Arrow's `take` first makes one chunk of every column."""
    if not len(rows):
        return events.slice(0, 0)
    ascending = bool((rows[1:] >= rows[:-1]).all())
    order = np.arange(len(rows)) if ascending else np.argsort(rows, kind="stable")
    ordered, parts, begin = rows[order], [], 0
    for batch in events.to_batches():
        in_batch = ordered[slice(*np.searchsorted(ordered, [begin, begin + len(batch)]))]
        if len(in_batch):
            parts.append(batch.take(pa.array(in_batch - begin)))
        begin += len(batch)
    taken = pa.Table.from_batches(parts).unify_dictionaries()
    if ascending:
        return taken
    original_place = np.empty(len(rows), dtype=np.int64)
    original_place[order] = np.arange(len(rows))
    return taken.take(pa.array(original_place))


def int64_column(column: pa.ChunkedArray) -> I64:
    """A 64-bit integer column, or timestamps in microseconds, nulls as NULL; no copy where nothing is null."""
    array = contiguous(column)
    if pa.types.is_timestamp(array.type):
        array = (
            array.view(pa.int64())
            if array.type.unit == "us"
            else array.cast(pa.timestamp("us", "UTC")).view(pa.int64())
        )
    if array.null_count == len(array) and len(array):
        return read_only(np.full(len(array), NULL, dtype=np.int64))
    values: I64 = (array.fill_null(NULL) if array.null_count else array).to_numpy(zero_copy_only=False)
    return read_only(values)


def int32_column(column: pa.ChunkedArray) -> I32:
    """A 32-bit integer column, nulls as NULL32; no copy where nothing is null."""
    array = contiguous(column)
    if array.null_count == len(array) and len(array):
        return read_only(np.full(len(array), NULL32, dtype=np.int32))
    values: I32 = (array.fill_null(NULL32) if array.null_count else array).to_numpy(zero_copy_only=False)
    return read_only(values)


def list_column(column: pa.ChunkedArray) -> tuple[I32, I32]:
    """A list column as (offsets, values); a null list has the offsets of an empty one."""
    array = contiguous(column)
    offsets: I32 = array.offsets.to_numpy()
    values: I32 = array.values.to_numpy(zero_copy_only=False).astype(np.int32, copy=False)
    return read_only(offsets), read_only(values)


def event_kinds(events: pa.Table) -> I8:
    """The event type of each row as its CODE; an unknown one is VOID."""
    column = contiguous(events["event_type"])
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    codes = np.array([CODE.get(name, VOID) for name in column.dictionary.to_pylist()] or [VOID], dtype=np.int8)
    return read_only(codes[column.indices.fill_null(0).to_numpy(zero_copy_only=False)])


def kernel_columns(events: pa.Table, topic_id: I32) -> Columns:
    """The columns of rare `events` that compiled functions read; `topic_id` holds the numbers of the topic ids."""
    isr_from, isr_ids = list_column(events["isr"])
    replicas_from, replicas_ids = list_column(events["replicas"])
    kind = event_kinds(events)
    numbers: dict[str, Any] = {name: int64_column(events[name]) for name in _INT64_COLUMNS}
    numbers |= {name: int32_column(events[name]) for name in _INT32_COLUMNS}
    return Columns(
        **numbers, kind=kind, broker=int32_column(events["broker_id"]), topic_id=read_only(topic_id),
        isr_from=isr_from, isr_ids=isr_ids, replicas_from=replicas_from, replicas_ids=replicas_ids,
        isr_from_whom=_isr_reporters(events, kind),
    )  # fmt: skip


def _isr_reporters(events: pa.Table, kind: I8) -> I8:
    """BY_CONTROLLER or BY_METADATA; 0 for an `isr` row of an AlterPartition response, and for all other types."""
    reporters = np.zeros(len(kind), dtype=np.int8)
    rows = np.flatnonzero(kind == CODE["isr"])
    if len(rows):
        detail = events["detail"].take(pa.array(rows))
        found = pc.fill_null(pc.index_in(detail, value_set=_ISR_REPORTERS), -1).to_numpy(zero_copy_only=False)
        reporters[rows] = found + BY_CONTROLLER
    return read_only(reporters)
