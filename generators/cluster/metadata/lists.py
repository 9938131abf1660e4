"""Lists of broker ids, one per partition, as two arrays."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


class Lists(NamedTuple):
    """List k is `values[offsets[k] : offsets[k + 1]]`."""

    offsets: I32
    values: I32

    @classmethod
    def of(cls, lists: Sequence[Sequence[int]]) -> Lists:
        sizes = np.fromiter(map(len, lists), np.int32, len(lists))
        offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
        return cls(offsets, np.fromiter(chain.from_iterable(lists), np.int32, int(offsets[-1])))

    @property
    def sizes(self) -> I32:
        return np.diff(self.offsets)

    def take(self, rows: I64) -> Lists:
        """The lists of these rows."""
        sizes = self.sizes[rows]
        offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
        within = np.arange(offsets[-1]) - np.repeat(offsets[:-1], sizes)
        return Lists(offsets, self.values[np.repeat(self.offsets[:-1][rows], sizes) + within])

    def arrow(self, null: Mask) -> pa.Array:
        """The lists as a column, null where `null`."""
        return pa.ListArray.from_arrays(pa.array(self.offsets), pa.array(self.values), mask=pa.array(null))

    def differs(self, other: Lists) -> Mask:
        """A mask of the lists that differ in some element; both have the same number of lists."""
        different: Mask = self.sizes != other.sizes
        same = np.flatnonzero(~different)
        mine, theirs = self.take(same), other.take(same)
        rows = np.repeat(same, mine.sizes)
        different[rows[mine.values != theirs.values]] = True
        return different
