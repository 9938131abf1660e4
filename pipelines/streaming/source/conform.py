"""Events as anyone wrote them, in the types that are declared: cast without loss, or refused."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pipelines.replication.events.columns import with_readable_text
from pipelines.streaming.source.blobs import column_type
from pipelines.streaming.source.suitable import NAIVE, UnreadableFileError
from schemas import replication_events
from schemas.replication_events import INT

_NO_INT = -(1 << 31)
_LAST = {"s": ((1 << 63) - 1) // 1_000_000, "ms": ((1 << 63) - 1) // 1_000}


def conform(events: pa.Table, path: str, legacy_times: bool = False) -> pa.Table:
    """The same rows in the types of `column_type`; columns that are not there stay away.

    `path`: the file they are from, for the error. `legacy_times`: times are Spark's INT96, which are in UTC without a
    time zone. Raises UnreadableFileError where a value would change.
    """
    for at, field in enumerate(events.schema):
        kind = column_type(replication_events.ARROW.field(field.name))
        if field.type != kind:
            events = events.set_column(at, field.name, _cast(events[field.name], kind, path, field.name, legacy_times))
    return with_readable_text(events)


def _cast(column: pa.ChunkedArray, kind: pa.DataType, path: str, name: str, legacy_times: bool) -> pa.ChunkedArray:
    try:
        if pa.types.is_timestamp(kind) and pa.types.is_timestamp(column.type):
            return _time(column, kind, legacy_times)
        if pa.types.is_dictionary(kind):
            return _text(column).dictionary_encode()
        if pa.types.is_string(kind):
            return _text(column)
        if kind == pa.int32() and pa.types.is_integer(column.type):
            return _int(column, INT if name == "lag_max_ms" else _NO_INT)
        if kind == pa.list_(pa.int32()) and column.type.value_type != pa.int32():
            lists = column.cast(pa.list_(pa.int64())).chunks
            made = [pa.ListArray.from_arrays(c.offsets, _int(c.values, _NO_INT), mask=c.is_null()) for c in lists]
            return pa.chunked_array(made, kind)
        return column.cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
        found = f"column {name}: found {column.type}, expected {_plain(kind)} ({error})"
        raise UnreadableFileError(path, found) from error


def _int(column: Any, instead: int) -> Any:
    """Whole numbers as ints, `instead` of one that an int has no room for: row rules refuse the least of them."""
    wide = column.cast(pa.int64(), safe=False)
    beyond = pc.or_(pc.less(wide, _NO_INT), pc.greater(wide, INT))
    return pc.if_else(beyond, pa.scalar(instead, pa.int64()), wide).cast(pa.int32())


def _text(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Text of any of Arrow's types as its plain one."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type) or _is_view(column.type)):
        raise pa.ArrowTypeError("no text")
    return column.cast(pa.string())


def _is_view(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string_view(kind))


def _time(column: pa.ChunkedArray, kind: pa.DataType, legacy_times: bool) -> pa.ChunkedArray:
    """Times in microseconds, those in nanoseconds floored; the first or last there is for one beyond."""
    if column.type.tz is None and not legacy_times:
        raise pa.ArrowTypeError(NAIVE)
    if column.type.unit == "ns":
        column = pc.floor_temporal(column, unit="microsecond")
        column = column.cast(pa.timestamp("us", column.type.tz), safe=False)
    elif most := _LAST.get(column.type.unit):
        ticks = pc.min_element_wise(column.cast(pa.int64()), most, skip_nulls=False)
        column = pc.max_element_wise(ticks, -most, skip_nulls=False).cast(column.type)
    return column.cast(kind)


def _plain(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def constant(name: str, value_in_log: str | None, rows: int) -> pa.ChunkedArray:
    """A column that the table is partitioned by, which no file holds; `value_in_log` is its value in Delta's log."""
    kind = column_type(replication_events.ARROW.field(name))
    value = pa.scalar(value_in_log or None, pa.string())
    if pa.types.is_dictionary(kind):
        column = pa.repeat(value, rows).dictionary_encode()
    else:
        column = pa.repeat(value.cast(kind), rows)
    return pa.chunked_array([column], kind)
