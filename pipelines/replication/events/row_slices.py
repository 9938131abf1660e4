"""A micro-batch in slices that fit the cache: Arrow's own buffers as numpy arrays without a copy.

The row rules see a slice as sets of rows: bit masks, each computed once for all rules.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, cached_property, reduce
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.replication.compiled.decorators import compiled, kernel
from pipelines.replication.compiled.records import read_only
from pipelines.replication.compiled.types import I32, I64
from schemas import replication_events

MOST_ROWS = 1 << 17
"""The most rows of a slice."""
SMALL = 1 << 13
"""Chunks smaller than this on average are combined first: each slice costs a few calls, whatever its size."""
_TYPES = {field.name: field.type for field in replication_events.ARROW}
Bits: TypeAlias = npt.NDArray[np.uint8]
"""One bit per row, in Arrow's layout."""


class RowSlice:
    """Rows `first` to `first + len(self)` of a micro-batch. Several steps read the same columns: views are cached."""

    def __init__(self, batch: pa.RecordBatch, first: int) -> None:
        self.first, self._size = first, int(batch.num_rows)
        self.columns = dict(zip(batch.schema.names, batch.columns, strict=True))
        self.bounds: dict[str, tuple[int, int]] = {}
        """(lower bound, upper bound) of columns whose values another step has already read."""
        self._numbers: dict[str, Any] = {}
        self._valid: dict[str, Bits] = {}

    def __len__(self) -> int:
        return self._size

    @property
    def rows(self) -> slice:
        """The place of the rows in the micro-batch."""
        return slice(self.first, self.first + len(self))

    def array(self, name: str) -> pa.Array:
        """A column of numbers or times in its declared type."""
        array, declared = self.columns[name], _TYPES[name]
        return array if array.type == declared else array.cast(declared)

    def int32(self, name: str) -> I32:
        """A 32-bit column; the value under a null is arbitrary."""
        values: I32 = self._view(name, np.int32)
        return values

    def int64(self, name: str) -> I64:
        """A 64-bit column, or times in microseconds; the value under a null is arbitrary."""
        values: I64 = self._view(name, np.int64)
        return values

    def _view(self, name: str, dtype: Any) -> Any:
        if name not in self._numbers:
            self._numbers[name] = _values(self.array(name), dtype)
        return self._numbers[name]

    def valid(self, name: str) -> Bits:
        """A mask of the rows that are not null in a column."""
        if name not in self._valid:
            self._valid[name] = valid(self.columns[name])
        return self._valid[name]

    def codes(self, name: str) -> tuple[I32, pa.Array]:
        """A column of names as (codes, names); the code under a null is arbitrary."""
        array = self.columns[name]
        if not pa.types.is_dictionary(array.type):
            array = array.dictionary_encode()
        indices, names = array.indices, array.dictionary
        if not len(names):  # of nulls alone, whose code stands for something all the same
            names = pa.array([""], names.type)
        return _values(indices if indices.type == pa.int32() else indices.cast(pa.int32()), np.int32), names


def row_slices(events: pa.Table) -> list[RowSlice]:
    """The rows of `events` in their order."""
    batches = events.to_batches(max_chunksize=MOST_ROWS)
    if len(batches) > 4 + events.num_rows // SMALL:
        batches = events.unify_dictionaries().combine_chunks().to_batches(max_chunksize=MOST_ROWS)
    batches = [batch for batch in batches if batch.num_rows]
    firsts = np.cumsum([0, *(batch.num_rows for batch in batches)]).tolist()
    return [RowSlice(batch, first) for batch, first in zip(batches, firsts, strict=False)]


def valid(array: pa.Array) -> Bits:
    """A mask of the values that are not null."""
    size = (len(array) + 7) // 8
    if array.null_count in (0, len(array)):
        all_alike: Bits = _constant(np.uint8, 0 if array.null_count else 255)[:size]
        return all_alike
    if array.offset % 8:
        return read_only(np.packbits(pc.is_valid(array).to_numpy(zero_copy_only=False), bitorder="little"))
    return read_only(np.frombuffer(array.buffers()[0], np.uint8, size, array.offset // 8))


def _values(array: pa.Array, dtype: Any) -> Any:
    if array.null_count == len(array):
        return _constant(dtype, 0)[: len(array)]
    values = np.frombuffer(array.buffers()[1], dtype, len(array), array.offset * np.dtype(dtype).itemsize)
    return read_only(values)


@cache
def _constant(dtype: Any, value: int) -> Any:
    """An array that all columns without nulls, or without values, share."""
    return read_only(np.full(MOST_ROWS, value, dtype=dtype))


Mask: TypeAlias = Any  # a boolean pyarrow Array; pyarrow ships no types

_INT32 = {f.name for f in replication_events.ARROW if f.type == pa.int32()}


Limits: TypeAlias = Mapping[str, tuple[int | None, int | None]]
"""By column the least and the largest value that it may hold, None where any will do; times in microseconds."""


class CheckedSlice:
    """A slice and what several rules ask of it. `with_details` are the event types whose `detail` carries meaning.

    What a column holds at all is found once: `types` are the event types of the slice, `with_nulls` and `with_values`
    the columns that hold a null or a value, `beyond` those that hold a value outside their `limits`. (A value under a
    null counts, as does an event type that only the dictionary has: so these may name too much, never too little.)
    """

    def __init__(
        self, rows: RowSlice, known_types: frozenset[str], with_details: tuple[str, ...], limits: Limits
    ) -> None:
        self.rows, self._with_details = rows, with_details
        nulls = {name: rows.columns[name].null_count for name in _TYPES}
        self.with_nulls = frozenset(name for name, count in nulls.items() if count)
        self.with_values = frozenset(name for name, count in nulls.items() if count < len(rows))
        self.beyond = frozenset(name for name in limits if name in self.with_values and self._exceeds(name, limits))
        self._codes, names = rows.codes("event_type")
        self._typed = rows.valid("event_type")
        self._names: list[str | None] = names.to_pylist()
        self.types = frozenset(self._names)
        self._by_code = np.zeros((len(self._names) + 7 & ~7, len(self._typed)), dtype=np.uint8)
        for first in range(0, len(self._names), 8):
            _rows_of_eight_codes(self._codes, first, self._by_code[first : first + 8])
        self.unknown_types = [name for name in self._names if name is not None and name not in known_types]

    def __getitem__(self, column: str) -> pa.Array:
        return self.rows.columns[column]

    def _exceeds(self, column: str, limits: Limits) -> bool:
        """Whether a value of a column, or one under a null, is outside its limits."""
        least, most = limits[column]
        if column in self.rows.bounds:
            low, high = self.rows.bounds[column]
            return (least is not None and low < least) or (most is not None and high > most)
        values = self._values(column)
        return bool((least is not None and values.min() < least) or (most is not None and values.max() > most))

    def _values(self, column: str) -> npt.NDArray[Any]:
        """The values of a column, and whatever stands under its nulls."""
        return self.rows.int32(column) if column in _INT32 else self.rows.int64(column)

    def of_types(self, *types: str) -> Bits:
        """The rows of these event types."""
        bits = np.zeros(len(self._typed), dtype=np.uint8)
        for name in types:
            if name in self._names:
                bits |= self._by_code[self._names.index(name)]
        return bits & self._typed

    @cached_property
    def broker_wide(self) -> Bits:
        """The rows whose partition is negative."""
        return packed_bits(self.rows.int32("partition") < 0) & self.rows.valid("partition")

    @property
    def on_partition(self) -> Bits:
        """The rows that name a partition."""
        return ~self.broker_wide & self.rows.valid("partition")

    @cached_property
    def details(self) -> tuple[I64, I32, I32, list[str | None]]:
        """The rows with a meaningful `detail`: (rows, codes of their types, codes of their details, all details)."""
        at = self.numbers(self.of_types(*self._with_details))
        detail = self["detail"].take(pa.array(at))
        detail = detail.cast(pa.string()) if pa.types.is_dictionary(detail.type) else detail
        encoded = detail.dictionary_encode(null_encoding="encode")
        return at, self._codes[at], encoded.indices.to_numpy(), encoded.dictionary.to_pylist()

    def code(self, event_type: str) -> int:
        """The code of an event type, -1 where no row is of it."""
        return self._names.index(event_type) if event_type in self._names else -1

    def offsets(self, column: str) -> I32:
        """The beginning of each list of a column among the values, and the end of the last one."""
        offsets: I32 = self[column].offsets.to_numpy()
        return offsets

    def rows_with(self, *columns: str) -> I64:
        """The rows that hold a value in each of these columns."""
        return self.numbers(reduce(np.bitwise_and, (self.rows.valid(name) for name in columns)))

    def numbers(self, bits: Bits) -> I64:
        """These rows by number."""
        return _set_bits(bits, np.flatnonzero(bits), len(self.rows))

    def mask_of_rows(self, rows: I64) -> Mask | None:
        """These rows as a mask, None where there are none."""
        if not len(rows):
            return None
        mask = np.zeros(len(self.rows), dtype=np.bool_)
        mask[rows] = True
        return pa.array(mask)

    def null(self, column: str) -> Bits:
        """The rows in which a column is null; bits behind the last row may be set."""
        return ~self.rows.valid(column)

    def mask(self, bits: Bits) -> pa.BooleanArray | None:
        """These rows as a mask, None where there are none."""
        if not bits.any():
            return None
        return pa.BooleanArray.from_buffers(pa.bool_(), len(self.rows), [None, pa.py_buffer(bits)])


def packed_bits(mask: npt.NDArray[np.bool_]) -> Bits:
    """A boolean per row as a bit per row."""
    return np.packbits(mask, bitorder="little")


@kernel
def _rows_of_eight_codes(codes: I32, first: int, found: npt.NDArray[np.uint8]) -> None:
    """Write the rows of codes `first` to `first + 7`, one bit per row; `found` is all zeros."""
    for byte in range(len(codes) >> 3):
        eight = np.uint64(0)
        for row in range(8):
            code = np.uint64(codes[8 * byte + row] - first)
            bit = np.uint64(1) << ((code << np.uint64(3) | np.uint64(row)) & np.uint64(63))
            eight |= bit if code < np.uint64(8) else np.uint64(0)
        for k in range(8):
            found[k, byte] = eight >> np.uint64(8 * k)
    for row in range(len(codes) & ~7, len(codes)):
        code = np.uint64(codes[row] - first)
        if code < np.uint64(8):
            found[code, row >> 3] |= np.uint8(1 << (row & 7))


@compiled
def _set_bits(bits: Bits, nonzero: I64, count: int) -> I64:
    """The places of the bits that are set among the first `count`; `nonzero` are the bytes that are not 0."""
    rows, found = np.empty(8 * len(nonzero), dtype=np.int64), 0
    for byte in nonzero:
        for row in range(byte * 8, min(byte * 8 + 8, count)):
            rows[found] = row
            found += (bits[byte] >> (row & 7)) & 1
    return rows[:found]
