"""Records that grow: one structured numpy array, a record per lane, replica slot, series or row."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Records: TypeAlias = npt.NDArray[np.void]
Fields: TypeAlias = dict[str, tuple[str, int]]
"""Field name -> (dtype, default)"""


def records(fields: Fields, count: int) -> Records:
    """`count` records with their defaults."""
    made = np.empty(count, dtype=np.dtype([(name, dtype) for name, (dtype, _) in fields.items()], align=True))
    made[:] = tuple(default for _, default in fields.values())
    return made


class Arrays:
    """Records of typed fields with a default each. `width` entries per row lie side by side:
    entry k of row n stands at n * width + k. Kernels read and write `data`, which has room to spare.
    """

    def __init__(self, fields: Fields, width: int = 1, count: int = 0) -> None:
        self.fields, self.width, self.count = fields, width, 0
        self.data = records(fields, 0)
        self.grow(count)

    def grow(self, count: int) -> None:
        """Makes room for rows up to `count`, new ones with their defaults."""
        if count * self.width > len(self.data):
            grown = records(self.fields, max(64, count + count // 2) * self.width)
            grown[: self.count * self.width] = self.data[: self.count * self.width]
            self.data = grown
        self.count = max(self.count, count)

    def widen(self, width: int) -> None:
        """Gives every row more entries, the new ones with their defaults."""
        wider = records(self.fields, self.count * width).reshape(self.count, width)
        wider[:, : self.width] = self.data[: self.count * self.width].reshape(self.count, self.width)
        self.data, self.width = wider.reshape(-1), width

    def __getitem__(self, name: str) -> Any:
        return self.data[name][: self.count * self.width]

    def table(self) -> pa.Table:
        """All rows, a column per field; entries of wide rows lie side by side."""
        return pa.table({name: np.ascontiguousarray(self[name]) for name in self.fields})

    @classmethod
    def of(cls, fields: Fields, table: pa.Table, width: int = 1) -> Arrays:
        """The rows that `table` gave. A field it does not know gets its default."""
        arrays = cls(fields, width, table.num_rows // width)
        for name in fields:
            if name in table.column_names:
                arrays.data[name][: table.num_rows] = table[name].to_numpy()
        return arrays
