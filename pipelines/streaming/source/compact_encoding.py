"""Events in a third of their bytes, without compressing: numbers as what they exceed their column's least by."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.replication.events.columns import NAMED, contiguous
from schemas import replication_events

ALWAYS = {"topic", *(c.name for c in replication_events.TABLE.columns if not c.null)}
"""Columns that are never left out."""
_TEXTS = ("topic_id", "detail")
_WIDTHS = (np.uint8, np.uint16, np.uint32)
_MEANING = b"hwmark"

Numbers = npt.NDArray[Any]
Mask = npt.NDArray[np.bool_]


def narrow(events: pa.Table) -> pa.Table:
    """The same rows as `widen` understands them: see `_code`. Columns that are null throughout are left out."""
    columns: dict[str, pa.Array] = {}
    meaning: dict[str, Any] = {}
    for field in replication_events.ARROW:
        if field.name not in events.column_names:
            continue
        column = contiguous(events[field.name])
        if column.null_count == len(column) and field.name not in ALWAYS:
            continue
        if field.name in (*NAMED, *_TEXTS):
            encoded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
            meaning[field.name] = {"words": encoded.dictionary.to_pylist()}
            column = encoded.indices
        else:
            meaning[field.name] = {}
        coded, how = _code(column)
        meaning[field.name] |= how
        if coded is not None:
            columns[field.name] = coded
    if not columns:
        columns["level"], meaning["level"] = contiguous(events["level"]), {}
    return pa.table(columns).replace_schema_metadata({_MEANING: json.dumps(meaning)})


def _code(column: pa.Array) -> tuple[pa.Array | None, dict[str, int]]:
    """The column as small numbers, and what they mean.

    `same`: every row has this value, there is no column; `least`: what to add; `null`: 0 means null and 1 the least.
    Without any of them the column stands as it is.
    """
    if not (pa.types.is_integer(column.type) or pa.types.is_timestamp(column.type)):
        return column, {}
    values = column.view(pa.int64()) if pa.types.is_timestamp(column.type) else column
    found = pc.min_max(values).as_py()
    least, most = found["min"], found["max"]
    if least is not None and least == most and not column.null_count:
        return None, {"same": least}
    if not len(column):
        return column, {}
    null = int(column.null_count > 0)
    span = 0 if least is None else most - least + null
    fitting = [width for width in _WIDTHS if span <= np.iinfo(width).max]
    if not fitting:
        return column, {}
    raw = np.frombuffer(values.buffers()[1], values.type.to_pandas_dtype())[values.offset : values.offset + len(values)]
    coded = (raw - _wrapped((least or 0) - null, raw.dtype)).astype(fitting[0])
    if null:
        coded *= np.asarray(column.is_valid())
    return pa.array(coded), {"least": least or 0, "null": null}


def _wrapped(number: int, kind: np.dtype[Any]) -> Any:
    """The number as arithmetic of this type has it: what overflows on the way there overflows back."""
    bits = 8 * kind.itemsize
    return np.array(number % (1 << bits), f"u{kind.itemsize}").astype(kind)


class _Part:
    """Rows of a narrow table, and where they stand among all."""

    def __init__(self, rows: pa.RecordBatch, meaning: Mapping[str, Any], begin: int) -> None:
        self.rows, self.meaning = rows, meaning
        self.place = slice(begin, begin + len(rows))

    def fill(self, name: str, all_values: Numbers) -> Mask | bool:
        """Puts a column of numbers in its place; returns which of them are not null."""
        values, how = all_values[self.place], self.meaning.get(name)
        if how is None:
            values[:] = 0
            return False
        if "same" in how:
            values[:] = how["same"]
            return True
        column = self.rows[name]
        if "least" not in how:
            shown = column.view(pa.int64()) if pa.types.is_timestamp(column.type) else column
            values[:] = pc.fill_null(shown, 0).to_numpy(zero_copy_only=False)
            return np.asarray(column.is_valid()) if column.null_count else True
        coded = column.to_numpy()
        values[:] = coded
        values += _wrapped(how["least"] - how["null"], values.dtype)
        return coded != 0 if how["null"] else True


def widen(tables: Sequence[pa.Table]) -> pa.Table:
    """All columns of bronze of these narrow tables, in one piece each, what holds few names as dictionaries."""
    parts = list(_parts(tables))
    columns = []
    for field in replication_events.ARROW:
        if all(field.name not in part.meaning for part in parts):
            columns.append(pa.nulls(sum(map(len, tables)), declared(field)))
        elif field.name in (*NAMED, *_TEXTS):
            columns.append(_names(parts, field.name).cast(declared(field)))
        elif pa.types.is_integer(field.type) or pa.types.is_timestamp(field.type):
            columns.append(_numbers(parts, field.name, field.type))
        else:
            columns.append(pa.concat_arrays([_as_it_is(part, field) for part in parts]))
    return pa.table(columns, names=replication_events.ARROW.names)


def _parts(tables: Sequence[pa.Table]) -> Iterator[_Part]:
    begin = 0
    for table in tables:
        meaning = json.loads(table.schema.metadata[_MEANING])
        for rows in table.to_batches():
            yield _Part(rows, meaning, begin)
            begin += len(rows)


def declared(field: pa.Field) -> pa.DataType:
    """A column's type as the reconstruction is given it: few names as a dictionary."""
    return pa.dictionary(pa.int32(), pa.string()) if field.name in NAMED else field.type


def _numbers(parts: Sequence[_Part], name: str, kind: pa.DataType) -> pa.Array:
    values, valid = _filled(parts, name, np.dtype(np.int32 if kind == pa.int32() else np.int64))
    return _array(values, valid, kind)


def _names(parts: Sequence[_Part], name: str) -> pa.DictionaryArray:
    """Names under one dictionary, whichever each part has."""
    number: dict[str, int] = {}
    for part in parts:
        for word in part.meaning.get(name, {}).get("words", ()):
            number.setdefault(word, len(number))
    codes, valid = _filled(parts, name, np.dtype(np.int32))
    for part in parts:
        words = part.meaning.get(name, {}).get("words", ())
        of = np.array([number[word] for word in words], dtype=np.int32)
        if not np.array_equal(of, np.arange(len(of))):
            # Null has a code, too, which may be -1: it finds the last.
            codes[part.place] = of[codes[part.place]]
    return pa.DictionaryArray.from_arrays(_array(codes, valid, pa.int32()), pa.array(number, pa.string()))


def _filled(parts: Sequence[_Part], name: str, kind: np.dtype[Any]) -> tuple[Numbers, Mask | None]:
    count = parts[-1].place.stop
    values, valid = np.empty(count, kind), None
    for part in parts:
        known = part.fill(name, values)
        if known is not True:
            if valid is None:
                valid = np.ones(count, np.bool_)
            valid[part.place] = known
    return values, valid


def _array(values: Numbers, valid: Mask | None, kind: pa.DataType) -> pa.Array:
    bits = None if valid is None else pa.py_buffer(np.packbits(valid, bitorder="little"))
    return pa.Array.from_buffers(kind, len(values), [bits, pa.py_buffer(values)])


def _as_it_is(part: _Part, field: pa.Field) -> pa.Array:
    return part.rows[field.name] if field.name in part.meaning else pa.nulls(len(part.rows), field.type)
