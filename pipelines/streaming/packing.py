"""Events to one Arrow blob per bucket and back: the only form in which rows pass through the JVM."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from pipelines.replication import sources
from pipelines.replication.buckets import assign
from pipelines.replication.columns import NAMED, with_dictionaries
from schemas import replication_events

PACKED = pa.schema([("key", pa.int32()), ("kind", pa.string()), ("blob", pa.binary())])
PACKED_SQL = "key int, kind string, blob binary"
EVENTS, COVERAGE = "events", "coverage"
ROWS_PER_BLOB = 1 << 19

_WORDS = ("cluster", "source_id", "event_type", "topic", "topic_id", "detail")
ALWAYS = {"topic", *(c.name for c in replication_events.TABLE.columns if not c.null)}
_NAME = pa.dictionary(pa.int32(), pa.string())
_LZ4 = pa.ipc.IpcWriteOptions(compression="lz4", unify_dictionaries=True)


def encode(table: pa.Table) -> bytes:
    """A table as an LZ4 Arrow IPC stream."""
    out = pa.BufferOutputStream()
    with pa.ipc.new_stream(out, table.schema, options=_LZ4) as stream:
        stream.write_table(table)
    blob: bytes = out.getvalue().to_pybytes()
    return blob


def decode(blob: bytes) -> pa.Table:
    """The table of an `encode`d blob."""
    return pa.ipc.open_stream(blob).read_all()


def pack(batches: Iterable[pa.RecordBatch], keys: Sequence[int]) -> Iterator[pa.RecordBatch]:
    """Rows of PACKED for the events (bronze schema) of one task; bucket k goes under `keys[k]`.

    Every bucket gets its own events, the broker-wide ones, and what all these events cover.
    """
    for events in _chunks(batches):
        yield pack_table(events, keys)


def pack_table(events: pa.Table, keys: Sequence[int]) -> pa.RecordBatch:
    """Rows of PACKED for one table of events."""
    covered = encode(sources.coverage(events))
    own, broker_wide = _by_bucket(_narrow(events), len(keys))
    shared = [(COVERAGE, covered)] + ([(EVENTS, encode(broker_wide))] if len(broker_wide) else [])
    rows = [(key, kind, blob) for key in keys for kind, blob in shared]
    rows += [(key, EVENTS, encode(table)) for key, table in zip(keys, own, strict=True) if len(table)]
    columns = zip(*rows, strict=True)
    return pa.record_batch([pa.array(c, f.type) for c, f in zip(columns, PACKED, strict=True)], PACKED)


def unpack(kinds: Iterable[str], blobs: Iterable[bytes]) -> tuple[pa.Table, pa.Table]:
    """Events (bronze columns; words may be dictionary-encoded) and coverage of one bucket's packed rows."""
    tables: dict[str, list[pa.Table]] = {EVENTS: [], COVERAGE: []}
    for kind, blob in zip(kinds, blobs, strict=True):
        tables[kind].append(decode(blob))
    events = [_wide(table) for table in tables[EVENTS]] or [with_dictionaries(replication_events.ARROW.empty_table())]
    return pa.concat_tables(events), pa.concat_tables(tables[COVERAGE] or [sources.COVERAGE.empty_table()])


def _chunks(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    waiting: list[pa.RecordBatch] = []
    for batch in batches:
        waiting.append(batch)
        if sum(len(b) for b in waiting) >= ROWS_PER_BLOB:
            yield pa.Table.from_batches(waiting)
            waiting = []
    if sum(len(b) for b in waiting):
        yield pa.Table.from_batches(waiting)


def _narrow(events: pa.Table) -> pa.Table:
    """Without the columns that are null throughout, and with words as dictionaries: half the bytes to sort and send."""
    events = events.select([n for n in events.column_names if n in ALWAYS or events[n].null_count < len(events)])
    for name in set(_WORDS) & set(events.column_names):
        if not pa.types.is_dictionary(events[name].type):
            at = events.column_names.index(name)
            events = events.set_column(at, name, events[name].combine_chunks().dictionary_encode())
    return events.unify_dictionaries().combine_chunks()


def _wide(events: pa.Table) -> pa.Table:
    """All columns again, with what holds few distinct names as dictionaries."""
    columns = [
        events[f.name].cast(_NAME if f.name in NAMED else f.type)
        if f.name in events.column_names
        else pa.nulls(len(events), f.type)
        for f in replication_events.ARROW
    ]
    return pa.table(columns, names=replication_events.ARROW.names)


def _by_bucket(events: pa.Table, buckets: int) -> tuple[list[pa.Table], pa.Table]:
    """Events of each bucket, in the order they came, and the broker-wide ones."""
    bucket = assign(events, buckets) + 1
    # 16-bit keys make numpy's stable sort a radix sort.
    order = np.argsort(bucket.astype(np.uint16), kind="stable")
    ends = np.cumsum(np.bincount(bucket, minlength=buckets + 1))
    ordered = events.take(pa.array(order))
    broker_wide, *own = (
        ordered.slice(end - size, size) for end, size in zip(ends, np.diff(ends, prepend=0), strict=True)
    )
    return own, broker_wide
