"""Histories as the bytes that a snapshot has of them: one that no event touches is never decoded."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from pipelines.replication.compiled.types import I64

ENCODED = pa.schema([("partition", pa.int32()), ("history", pa.binary())])


class EncodedHistories:
    """Bytes by partition number; `take` removes those it returns."""

    def __init__(self, histories: pa.Table | None = None) -> None:
        self._rows = (ENCODED.empty_table() if histories is None else histories).combine_chunks()
        numbers = self._rows["partition"].to_numpy().astype(np.int64)
        self._order: I64 = np.argsort(numbers, kind="stable")
        self._sorted: I64 = numbers[self._order]
        self._present = np.ones(len(numbers), dtype=np.bool_)

    def take(self, partition: int) -> bytes | None:
        """Remove and return the bytes of a partition; None where there are none."""
        place = int(np.searchsorted(self._sorted, partition))
        if place == len(self._sorted) or self._sorted[place] != partition or not self._present[self._order[place]]:
            return None
        row = int(self._order[place])
        self._present[row] = False
        blob: bytes = self._rows["history"][row].as_py()
        return blob

    def table(self, others: Mapping[int, bytes]) -> pa.Table:
        """The histories that were not taken, followed by `others`, for a snapshot."""
        more = pa.table([pa.array(others.keys(), pa.int32()), pa.array(others.values(), pa.binary())], schema=ENCODED)
        left = self._rows if self._present.all() else self._rows.filter(pa.array(self._present))
        return pa.concat_tables([left, more]).combine_chunks()
