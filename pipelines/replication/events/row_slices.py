"""A micro-batch in pieces that fit the cache: Arrow's own buffers as numpy arrays, nothing copied."""

from __future__ import annotations

from functools import cache
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.replication.compiled.types import I32, I64, frozen
from schemas import replication_events

ROWS = 1 << 17
"""The most rows of a piece."""
SMALL = 1 << 13
"""Pieces smaller than this on average are put together first: each costs some calls."""
_TYPES = {field.name: field.type for field in replication_events.ARROW}
Bits: TypeAlias = npt.NDArray[np.uint8]
"""A bit per row, as Arrow has them."""


class Piece:
    """Rows `first` to `first + len(self)` of a micro-batch; what was asked of a column is kept: many ask it."""

    def __init__(self, batch: pa.RecordBatch, first: int) -> None:
        self.first, self._size = first, int(batch.num_rows)
        self.columns = dict(zip(batch.schema.names, batch.columns, strict=True))
        self.bounds: dict[str, tuple[int, int]] = {}
        """(least, most) of columns where somebody has seen all their values; they may lie further apart than these."""
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

    def narrow(self, name: str) -> I32:
        """A 32-bit column; what stands under a null means nothing."""
        values: I32 = self._as(name, np.int32)
        return values

    def wide(self, name: str) -> I64:
        """A 64-bit or time column, in microseconds; what stands under a null means nothing."""
        values: I64 = self._as(name, np.int64)
        return values

    def _as(self, name: str, kind: Any) -> Any:
        if name not in self._numbers:
            self._numbers[name] = _values(self.array(name), kind)
        return self._numbers[name]

    def valid(self, name: str) -> Bits:
        """Which rows of a column are not null."""
        if name not in self._valid:
            self._valid[name] = valid(self.columns[name])
        return self._valid[name]

    def codes(self, name: str) -> tuple[I32, pa.Array]:
        """A column of names as (codes, names); what stands under a null means nothing."""
        array = self.columns[name]
        if not pa.types.is_dictionary(array.type):
            array = array.dictionary_encode()
        indices = array.indices
        return _values(indices if indices.type == pa.int32() else indices.cast(pa.int32()), np.int32), array.dictionary


def pieces(events: pa.Table) -> list[Piece]:
    """The rows of `events` in their order."""
    batches = events.to_batches(max_chunksize=ROWS)
    if len(batches) > 4 + events.num_rows // SMALL:
        batches = events.unify_dictionaries().combine_chunks().to_batches(max_chunksize=ROWS)
    batches = [batch for batch in batches if batch.num_rows]
    firsts = np.cumsum([0, *(batch.num_rows for batch in batches)]).tolist()
    return [Piece(batch, first) for batch, first in zip(batches, firsts, strict=False)]


def valid(array: pa.Array) -> Bits:
    """Which values are not null."""
    size = (len(array) + 7) // 8
    if array.null_count in (0, len(array)):
        alike: Bits = _constant(np.uint8, 0 if array.null_count else 255)[:size]
        return alike
    if array.offset % 8:
        return frozen(np.packbits(pc.is_valid(array).to_numpy(zero_copy_only=False), bitorder="little"))
    return frozen(np.frombuffer(array.buffers()[0], np.uint8, size, array.offset // 8))


def _values(array: pa.Array, kind: Any) -> Any:
    if array.null_count == len(array):
        return _constant(kind, 0)[: len(array)]
    values = np.frombuffer(array.buffers()[1], kind, len(array), array.offset * np.dtype(kind).itemsize)
    return frozen(values)


@cache
def _constant(kind: Any, value: int) -> Any:
    """What columns without nulls, or without values, have in common."""
    return frozen(np.full(ROWS, value, dtype=kind))
