"""A slice of events as the row rules see it: sets of rows as bit masks, each computed once for all rules."""

from __future__ import annotations

from functools import cached_property, reduce
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pipelines.replication.compiled.decorators import compiled, kernel
from pipelines.replication.compiled.types import I32, I64
from pipelines.replication.events.row_slices import Bits, RowSlice
from schemas import replication_events

Mask: TypeAlias = Any  # a boolean pyarrow Array; pyarrow ships no types

NEVER = 1 << 62
_INT32 = {f.name for f in replication_events.ARROW if f.type == pa.int32()}


class CheckedSlice:
    """A slice and what several rules ask of it. `with_details` are the event types whose `detail` carries meaning."""

    def __init__(self, rows: RowSlice, known_types: frozenset[str], with_details: tuple[str, ...]) -> None:
        self.rows, self._with_details = rows, with_details
        self._codes, names = rows.codes("event_type")
        self._typed = rows.valid("event_type")
        self._names: list[str | None] = names.to_pylist()
        self._by_code = np.zeros((len(self._names) + 7 & ~7, len(self._typed)), dtype=np.uint8)
        for first in range(0, len(self._names), 8):
            _rows_of_eight_codes(self._codes, first, self._by_code[first : first + 8])
        self.unknown_types = [name for name in self._names if name is not None and name not in known_types]

    def __getitem__(self, column: str) -> pa.Array:
        return self.rows.columns[column]

    def has_values(self, *columns: str) -> bool:
        """Whether each of these columns holds a value."""
        return all(self[name].null_count < len(self.rows) for name in columns)

    def least(self, column: str) -> int:
        """A lower bound of a column's values."""
        if not self.has_values(column):
            return NEVER
        return self.rows.bounds[column][0] if column in self.rows.bounds else int(self._values(column).min())

    def most(self, column: str) -> int:
        """An upper bound of a column's values."""
        if not self.has_values(column):
            return -NEVER
        return self.rows.bounds[column][1] if column in self.rows.bounds else int(self._values(column).max())

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
        """Where each list of a column begins among the values, and where the last one ends."""
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
    """Writes the rows of codes `first` to `first + 7`, one bit per row; `found` is all zeros."""
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
