"""Histories as the bytes that a snapshot has of them: nobody decodes one that is not asked for."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from pipelines.replication.compiled.types import I64

PACKED = pa.schema([("partition", pa.int32()), ("history", pa.binary())])


class Packed:
    """Bytes by partition number; whoever asks for some takes them out."""

    def __init__(self, histories: pa.Table | None = None) -> None:
        self._rows = (PACKED.empty_table() if histories is None else histories).combine_chunks()
        numbers = self._rows["partition"].to_numpy().astype(np.int64)
        self._order: I64 = np.argsort(numbers, kind="stable")
        self._sorted: I64 = numbers[self._order]
        self._here = np.ones(len(numbers), dtype=np.bool_)

    def take(self, partition: int) -> bytes | None:
        """The bytes of a partition, which are here no longer; None where there are none."""
        place = int(np.searchsorted(self._sorted, partition))
        if place == len(self._sorted) or self._sorted[place] != partition or not self._here[self._order[place]]:
            return None
        row = int(self._order[place])
        self._here[row] = False
        blob: bytes = self._rows["history"][row].as_py()
        return blob

    def table(self, others: Mapping[int, bytes]) -> pa.Table:
        """What nobody has taken, and `others`, as a snapshot keeps them."""
        more = pa.table([pa.array(others.keys(), pa.int32()), pa.array(others.values(), pa.binary())], schema=PACKED)
        left = self._rows if self._here.all() else self._rows.filter(pa.array(self._here))
        return pa.concat_tables([left, more]).combine_chunks()
