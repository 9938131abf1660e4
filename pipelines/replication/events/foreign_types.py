"""Columns of events in any of Arrow's types, in the one that is declared: the same values, or refused by name."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.replication.events.columns import NAMED
from schemas import replication_events
from schemas.replication_events import INT, NAIVE

_NO_INT, _NO_LONG = -(1 << 31), -(1 << 62)
"""Stand for numbers that an int, or a long, has no room for: row rules refuse them."""
_LONG = (1 << 63) - 1
_LAST = {"s": _LONG // 1_000_000, "ms": _LONG // 1_000}
_NAME = pa.dictionary(pa.int32(), pa.string())


class ForeignColumnError(ValueError):
    """A column is not there, or holds what its declared type does not; the message names it, found and expected."""


def cast_events(events: pa.Table) -> pa.Table:
    """Return the columns of events, and no others, in their declared types; those of few names may be dictionaries."""
    columns = {}
    for field in replication_events.ARROW:
        if field.name not in events.column_names:
            if field.name in _REQUIRED:
                raise ForeignColumnError(f"column {field.name}: found none, expected {field.type}")
            columns[field.name] = pa.chunked_array([pa.nulls(len(events), field.type)])
        else:
            of_names = field.name in NAMED and events[field.name].type == _NAME
            kind = _NAME if of_names else field.type
            columns[field.name] = cast_column(events[field.name], kind, field.name)
    return pa.table(columns)


_REQUIRED = frozenset(column.name for column in replication_events.TABLE.columns if not column.null)


def cast_column(column: pa.ChunkedArray, kind: pa.DataType, name: str) -> pa.ChunkedArray:
    """Return the values of a column as `kind`, a declared type or a dictionary of names."""
    try:
        column = column if column.type == kind else _cast(column, kind, name)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
        expected = kind.value_type if pa.types.is_dictionary(kind) else kind
        raise ForeignColumnError(f"column {name}: found {column.type}, expected {expected} ({error})") from error
    return _with_empty_nulls(column) if pa.types.is_list(kind) else column


def _cast(column: pa.ChunkedArray, kind: pa.DataType, name: str) -> pa.ChunkedArray:
    column = _decoded(column)
    if pa.types.is_null(column.type):
        return pa.chunked_array([pa.nulls(len(column), kind)])
    if not _is_of_kind(column.type, kind):
        raise pa.ArrowTypeError(f"no {_KINDS.get(kind.id, kind)}")
    if pa.types.is_timestamp(kind):
        return _time(column, kind)
    if pa.types.is_dictionary(kind):
        return column.cast(pa.string()).dictionary_encode()
    if kind == pa.int32() and pa.types.is_integer(column.type):
        return _int(column, INT if name == "lag_max_ms" else _NO_INT)
    if kind == pa.int64() and column.type == pa.uint64():
        return _long(column)
    if kind == pa.list_(pa.int32()):
        lists = column.cast(pa.list_(pa.int64())).chunks
        made = [pa.ListArray.from_arrays(c.offsets, _int(c.values, _NO_INT), mask=c.is_null()) for c in lists]
        return pa.chunked_array(made, kind)
    return column.cast(kind)


def _decoded(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """The values themselves where a dictionary, lengths of runs or views stand for them."""
    if pa.types.is_run_end_encoded(column.type):
        column = pa.chunked_array([pc.run_end_decode(chunk) for chunk in column.chunks], column.type.value_type)
    if pa.types.is_list_view(column.type):  # pyarrow 22 casts them to lists that lack their last offset
        column = pa.chunked_array([column.to_pylist()], pa.large_list(column.type.value_type))
    return column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column


_TEXT, _NUMBER, _LIST = "text", "number", "list"
_KINDS = {
    pa.string().id: _TEXT, _NAME.id: _TEXT, pa.int32().id: _NUMBER, pa.int64().id: _NUMBER, pa.float64().id: _NUMBER,
    pa.bool_().id: "boolean", pa.timestamp("us").id: "timestamp", pa.list_(pa.int32()).id: _LIST,
}  # fmt: skip
"""The kind of each declared type."""


def _is_of_kind(found: pa.DataType, kind: pa.DataType) -> bool:
    """Whether values of a type may be those of a declared one: Arrow itself would read text as times and numbers."""
    of, types = _KINDS.get(kind.id), pa.types
    if of == _TEXT:
        return bool(types.is_string(found) or types.is_large_string(found) or types.is_string_view(found))
    if of == _NUMBER:
        return bool(types.is_integer(found) or types.is_floating(found) or types.is_decimal(found))
    if of == _LIST:
        lists = (types.is_list, types.is_large_list, types.is_fixed_size_list, types.is_list_view)
        is_list = any(is_it(found) for is_it in (*lists, types.is_large_list_view))
        return is_list and (types.is_null(found.value_type) or _is_of_kind(found.value_type, kind.value_type))
    return bool(found.id == kind.id)


def _int(column: Any, instead: int) -> Any:
    """Whole numbers as ints, `instead` of one that an int has no room for."""
    wide = column if column.type == pa.uint64() else column.cast(pa.int64())
    beyond = pc.greater(wide, pa.scalar(INT, wide.type))
    if wide.type != pa.uint64():
        beyond = pc.or_(beyond, pc.less(wide, _NO_INT))
    return pc.if_else(beyond, pa.scalar(instead, pa.int64()), wide.cast(pa.int64(), safe=False)).cast(pa.int32())


def _long(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Unsigned numbers as longs, _NO_LONG of one that a long has no room for."""
    beyond = pc.greater(column, pa.scalar(_LONG, pa.uint64()))
    return pc.if_else(beyond, pa.scalar(_NO_LONG, pa.int64()), column.cast(pa.int64(), safe=False))


def _time(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    """Times in microseconds, those in nanoseconds floored; the first or last there is for one beyond."""
    if column.type.tz is None:
        raise pa.ArrowTypeError(NAIVE)
    if column.type.unit == "ns":
        column = pc.floor_temporal(column, unit="microsecond")
        column = column.cast(pa.timestamp("us", column.type.tz), safe=False)
    elif most := _LAST.get(column.type.unit):
        ticks = pc.min_element_wise(column.cast(pa.int64()), most, skip_nulls=False)
        column = pc.max_element_wise(ticks, -most, skip_nulls=False).cast(column.type)
    return column.cast(kind)


def _with_empty_nulls(lists: pa.ChunkedArray) -> pa.ChunkedArray:
    """The lists, none of which is null over values: kernels read values by their offsets."""
    return pa.chunked_array([_hides_nothing(chunk) for chunk in lists.chunks], lists.type)


def _hides_nothing(lists: pa.ListArray) -> pa.ListArray:
    if not lists.null_count or not len(lists.values):
        return lists
    offsets = lists.offsets
    shown = pc.sum(pc.list_value_length(lists)).as_py() or 0
    if offsets[-1].as_py() - offsets[0].as_py() == shown:
        return lists
    return lists.take(pa.array(np.arange(len(lists))))
