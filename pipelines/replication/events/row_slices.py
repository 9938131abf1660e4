"""A micro-batch in slices that fit the cache, Arrow's own buffers as numpy arrays without a copy."""

from __future__ import annotations

from functools import cache
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.replication.compiled.types import I32, I64, read_only
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
        """Where the rows stand in the micro-batch."""
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
        """Which rows of a column are not null."""
        if name not in self._valid:
            self._valid[name] = valid(self.columns[name])
        return self._valid[name]

    def codes(self, name: str) -> tuple[I32, pa.Array]:
        """A column of names as (codes, names); the code under a null is arbitrary."""
        array = self.columns[name]
        if not pa.types.is_dictionary(array.type):
            array = array.dictionary_encode()
        indices = array.indices
        return _values(indices if indices.type == pa.int32() else indices.cast(pa.int32()), np.int32), array.dictionary


def row_slices(events: pa.Table) -> list[RowSlice]:
    """The rows of `events` in their order."""
    batches = events.to_batches(max_chunksize=MOST_ROWS)
    if len(batches) > 4 + events.num_rows // SMALL:
        batches = events.unify_dictionaries().combine_chunks().to_batches(max_chunksize=MOST_ROWS)
    batches = [batch for batch in batches if batch.num_rows]
    firsts = np.cumsum([0, *(batch.num_rows for batch in batches)]).tolist()
    return [RowSlice(batch, first) for batch, first in zip(batches, firsts, strict=False)]


def valid(array: pa.Array) -> Bits:
    """Which values are not null."""
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
