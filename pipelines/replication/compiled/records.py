"""Numbers in rows and named columns that kernels read and write: one flat int64 array per structure."""

from __future__ import annotations

from collections import namedtuple
from typing import Any, NamedTuple, TypeAlias
from weakref import ref

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Records: TypeAlias = npt.NDArray[np.int64]
"""A row per lane, slot or output row; columns as a Shape names them."""


class Shape(NamedTuple):
    """Columns by name: `at.name` is the column's index, a constant to a kernel."""

    at: Any
    defaults: tuple[int, ...]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.at._fields)


def shape(**defaults: int) -> Shape:
    """Columns with the value that a new row has in each."""
    columns = namedtuple("columns", defaults)  # type: ignore[misc]
    return Shape(columns(*range(len(defaults))), tuple(defaults.values()))


def records(of: Shape, count: int) -> Records:
    """`count` rows with their defaults."""
    made = np.empty((count, len(of.defaults)), dtype=np.int64)
    made[:] = of.defaults
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

    def __init__(self, of: Shape, width: int = 1, count: int = 0, blank: bool = True) -> None:
        self.shape, self.width, self.count, self.blank = of, width, 0, blank
        self.data = records(of, 0)
        self.grow(count)

    def grow(self, count: int) -> None:
        """Makes room for rows up to `count`, new ones with their defaults."""
        if count * self.width > len(self.data):
            room = max(64, count + count // 2) * self.width
            grown = records(self.shape, room) if self.blank else np.empty((room, len(self.shape.defaults)), np.int64)
            grown[: self.count * self.width] = self.data[: self.count * self.width]
            self.data = grown
        self.count = max(self.count, count)

    def widen(self, width: int) -> None:
        """Gives every row more entries, the new ones with their defaults."""
        columns = len(self.shape.defaults)
        wider = records(self.shape, self.count * width).reshape(self.count, width, columns)
        wider[:, : self.width] = self.data[: self.count * self.width].reshape(self.count, self.width, columns)
        self.data, self.width = wider.reshape(-1, columns), width

    def __getitem__(self, name: str) -> Any:
        return self.data[: self.count * self.width, getattr(self.shape.at, name)]

    def table(self) -> pa.Table:
        """All rows, a column per name; entries of wide rows lie side by side."""
        return pa.table({name: np.ascontiguousarray(self[name]) for name in self.shape.names})

    @classmethod
    def from_table(cls, of: Shape, table: pa.Table, width: int = 1, later: frozenset[str] = frozenset()) -> Arrays:
        """The rows that `table` gave. Those of `later` that it lacks get their defaults.

        Raises ValueError naming a column that is not known here, or that is missing.
        """
        present = set(table.column_names)
        if unknown := sorted(present - set(of.names)):
            raise ValueError(f"column {unknown[0]} is not known to this version")
        if missing := sorted(set(of.names) - present - later):
            raise ValueError(f"column {missing[0]} is missing")
        arrays = cls(of, width, table.num_rows // width)
        for name in of.names:
            if name in present:
                arrays[name][:] = table[name].to_numpy()
        return arrays
