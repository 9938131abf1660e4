"""Records of numbers that kernels read and write: one flat int64 array per structure.

A kernel has a view of the same bytes with fields by name (`as_records`): `lanes[n].hw` is a read at a constant offset.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple, TypeAlias, TypeVar
from weakref import ref

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

Records: TypeAlias = npt.NDArray[np.int64]
"""A row per lane, slot or output row; columns as a RecordLayout names them."""
RecordArray: TypeAlias = npt.NDArray[np.void]
"""The same with a field per column."""
Array = TypeVar("Array", bound=npt.NDArray[Any])
Record: TypeAlias = Any
"""One of these, by reference: what is written to it is written to the array."""


def read_only(array: Array) -> Array:
    """The array, read-only as Arrow's buffers are: one type of array means one compiled kernel."""
    array.flags.writeable = False
    return array


class RecordLayout(NamedTuple):
    """Columns by name: `at.name` is the column's index, a constant to a kernel."""

    at: Any
    defaults: tuple[int, ...]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.at._fields)


def record_layout(**defaults: int) -> RecordLayout:
    """Columns with the value that a new row has in each."""
    columns = namedtuple("columns", defaults)  # type: ignore[misc]
    return RecordLayout(columns(*range(len(defaults))), tuple(defaults.values()))


@cache
def _fields(names: tuple[str, ...]) -> np.dtype[np.void]:
    return np.dtype([(name, np.int64) for name in names], align=True)


def as_records(layout: RecordLayout, rows: Records) -> RecordArray:
    """The same rows as records, in the same memory; `rows` are contiguous."""
    return rows.view(_fields(layout.names)).reshape(len(rows))


def _copy_record(typing: Any, target: Any, source: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        size = context.get_constant(types.intp, signature.args[0].size)
        cgutils.raw_memcpy(builder, values[0], values[1], size, 1, align=8)
        return context.get_dummy_value()

    return types.void(target, source), generate


copy_record: Callable[[Record, Record], None] = intrinsic(_copy_record)
"""copy_record(target, source): numba's own assignment of records copies byte by byte."""


def records(layout: RecordLayout, count: int) -> Records:
    """`count` rows with their defaults."""
    made = np.empty((count, len(layout.defaults)), dtype=np.int64)
    made[:] = layout.defaults
    return made


CACHE_LINE = 8
"""Numbers in a cache line."""


MOST_KEPT, SPARE = 1 << 23, 16
"""The most lines whose memory outlives them, and how many times what is asked for it may hold."""
_kept: list[tuple[Records, ref[Records]]] = []
"""Memory, and what is dead once nobody holds a view of it."""


def lines(count: int) -> Records:
    """`count` rows to be written, each of which is a cache line.

    Memory that comes anew from the system costs as much as all that is written to it: that of the lines before serves
    again, unless somebody still holds a view of them.
    """
    if not count:
        return np.empty((0, CACHE_LINE), dtype=np.int64)
    size = (count + 1) * CACHE_LINE - 1
    memory, lent = _kept.pop() if _kept else (np.empty(0, dtype=np.int64), None)
    if (lent is not None and lent() is not None) or not size <= len(memory) <= SPARE * size:
        memory = np.empty(size, dtype=np.int64)
    first = -(memory.ctypes.data // 8) % CACHE_LINE
    # Behind a memoryview: views of an array's views hold that array, and not the one between them.
    whole = np.frombuffer(memory.data, np.int64, count * CACHE_LINE, 8 * first)
    if count <= MOST_KEPT:
        _kept.append((memory, ref(whole)))
    return whole.reshape(count, CACHE_LINE)


class Arrays:
    """Rows that grow. `width` entries per row lie side by side: entry k of row n stands at n * width + k.

    Kernels read and write `data`, which has room to spare; `blank=False` where they write whole rows.
    """

    def __init__(self, layout: RecordLayout, width: int = 1, count: int = 0, blank: bool = True) -> None:
        self.layout, self.width, self.count, self.blank = layout, width, 0, blank
        self.data = records(layout, 0)
        self.grow(count)

    def grow(self, count: int) -> None:
        """Make room for rows up to `count`, new ones with their defaults."""
        if count * self.width > len(self.data):
            room = max(64, count + count // 2) * self.width
            grown = records(self.layout, room) if self.blank else np.empty((room, len(self.layout.defaults)), np.int64)
            grown[: self.count * self.width] = self.data[: self.count * self.width]
            self.data = grown
        self.count = max(self.count, count)

    def widen(self, width: int) -> None:
        """Give every row more entries, the new ones with their defaults."""
        columns = len(self.layout.defaults)
        wider = records(self.layout, self.count * width).reshape(self.count, width, columns)
        wider[:, : self.width] = self.data[: self.count * self.width].reshape(self.count, self.width, columns)
        self.data, self.width = wider.reshape(-1, columns), width

    @property
    def records(self) -> RecordArray:
        """All rows that there is room for, as records."""
        return as_records(self.layout, self.data)

    def __getitem__(self, name: str) -> Any:
        return self.data[: self.count * self.width, getattr(self.layout.at, name)]

    def table(self) -> pa.Table:
        """All rows, a column per name; entries of wide rows lie side by side."""
        return pa.table({name: np.ascontiguousarray(self[name]) for name in self.layout.names})

    @classmethod
    def from_table(
        cls, layout: RecordLayout, table: pa.Table, width: int = 1, later: frozenset[str] = frozenset()
    ) -> Arrays:
        """The rows that `table` returned. Columns of `later` that it lacks get their defaults.

        Raises ValueError naming a column that is not known here, or that is missing.
        """
        present = set(table.column_names)
        if unknown := sorted(present - set(layout.names)):
            raise ValueError(f"column {unknown[0]} is not known to this version")
        if missing := sorted(set(layout.names) - present - later):
            raise ValueError(f"column {missing[0]} is missing")
        arrays = cls(layout, width, table.num_rows // width)
        for name in layout.names:
            if name in present:
                arrays[name][:] = table[name].to_numpy()
        return arrays
