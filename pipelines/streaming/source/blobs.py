"""Events packed into one Arrow blob per bucket, the only form in which rows pass through the JVM, and unpacked."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.replication.events.columns import NAMED, contiguous, with_dictionaries
from pipelines.replication.events.sharding import assign
from pipelines.replication.telemetry import coverage as source_coverage
from schemas import replication_events

ALWAYS = {"topic", *(c.name for c in replication_events.TABLE.columns if not c.null)}
"""The columns that are always packed."""
PACKED = pa.schema([("key", pa.int32()), ("kind", pa.string()), ("blob", pa.binary())])
EVENTS, COVERAGE, FILES = "events", "coverage", "files"
ROWS_PER_BLOB = 1 << 19
BYTES_PER_BATCH = 1 << 30
"""The most bytes of a batch of blobs: Arrow's offsets in it have 32 bits, and each bucket has all broker-wide rows."""

_LZ4 = pa.ipc.IpcWriteOptions(compression="lz4", unify_dictionaries=True)


def column_type(field: pa.Field) -> pa.DataType:
    """A column's type for the reconstruction: columns with few names as dictionaries."""
    return pa.dictionary(pa.int32(), pa.string()) if field.name in NAMED else field.type


_NO_EVENTS = pa.schema([(field.name, column_type(field)) for field in replication_events.ARROW]).empty_table()


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
    """Rows of PACKED for the events (bronze schema) of one task; bucket k has the key `keys[k]`.

    Every bucket gets its own events, the broker-wide ones, and the coverage of all events.
    """
    for events in _chunks(batches):
        yield from pack_table(events, keys)


def pack_table(events: pa.Table, keys: Sequence[int]) -> Iterator[pa.RecordBatch]:
    """Rows of PACKED for one table of events, in several batches if they are large."""
    blobs = _Blobs()
    covered = source_coverage.coverage(events)
    broker_wide, *own = _by_bucket(events, len(keys))
    for key, mine in zip(keys, own, strict=True):
        blobs.add(key, COVERAGE, covered)
        if len(broker_wide) or len(mine):
            blobs.add(key, EVENTS, broker_wide, mine)
        if key == keys[-1] or blobs.size >= BYTES_PER_BATCH:
            yield blobs.batch()
            blobs = _Blobs()


def unpack(kinds: Iterable[str], blobs: Iterable[bytes]) -> tuple[pa.Table, pa.Table]:
    """Events (bronze columns in one piece each, names as dictionaries) and coverage of one bucket's packed rows."""
    tables = {EVENTS: [_NO_EVENTS], COVERAGE: [source_coverage.COVERAGE.empty_table()]}
    for kind, blob in zip(kinds, blobs, strict=True):
        tables[kind].append(decode(blob))
    events = pa.concat_tables(tables[EVENTS], promote_options="default").unify_dictionaries().combine_chunks()
    return events, source_coverage.joined(pa.concat_tables(tables[COVERAGE]))


class _Blobs:
    """Rows of PACKED with blobs written one after another into the buffer of the Arrow column."""

    def __init__(self) -> None:
        self._out = pa.BufferOutputStream()
        self._rows: list[tuple[int, str]] = []
        self._ends = [0]

    def add(self, key: int, kind: str, *tables: pa.Table) -> None:
        with pa.ipc.new_stream(self._out, tables[0].schema, options=_LZ4) as stream:
            for table in tables:
                stream.write_table(table)
        self._rows.append((key, kind))
        self._ends.append(self._out.tell())

    @property
    def size(self) -> int:
        return self._ends[-1]

    def batch(self) -> pa.RecordBatch:
        ends = pa.py_buffer(np.array(self._ends, dtype=np.int32))
        blobs = pa.BinaryArray.from_buffers(pa.binary(), len(self._rows), [None, ends, self._out.getvalue()])
        keys, kinds = (pa.array(c, f.type) for c, f in zip(zip(*self._rows, strict=True), PACKED, strict=False))
        return pa.record_batch([keys, kinds, blobs], PACKED)


def _chunks(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    waiting: list[pa.RecordBatch] = []
    for batch in batches:
        waiting.append(batch)
        if sum(len(b) for b in waiting) >= ROWS_PER_BLOB:
            yield pa.Table.from_batches(waiting)
            waiting = []
    if sum(len(b) for b in waiting):
        yield pa.Table.from_batches(waiting)


def _by_bucket(events: pa.Table, buckets: int) -> list[pa.Table]:
    """The broker-wide events, then those of each bucket, in the order of arrival, without empty columns."""
    events = with_dictionaries(events)
    bucket = assign(events, buckets) + 1
    present = [name for name in replication_events.ARROW.names if name in events.column_names]
    filled = [name for name in present if name in ALWAYS or events[name].null_count < len(events)]
    # With few keys Arrow counts and does not compare.
    ordered = pa.table({n: contiguous(events[n]) for n in filled}).take(pc.array_sort_indices(pa.array(bucket)))
    sizes = np.bincount(bucket, minlength=buckets + 1)
    return [ordered.slice(end - size, size) for end, size in zip(np.cumsum(sizes), sizes, strict=True)]
