"""Numbers for the rows of one source: `source_epoch`, `source_seq` over all of them, `seq` per partition."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from schemas import replication_events


class Numbering:
    """Counts the rows of one incarnation of a source; its state is a JSON value."""

    def __init__(self, epoch: int = 0, following: int = 0, series: Sequence[Sequence[Any]] = ()) -> None:
        self.epoch = epoch
        self.following = following
        self._ids: dict[tuple[str | None, int], int] = {}
        self._counts = np.zeros(16, np.int64)
        ids = self._ids_of([(topic, partition) for topic, partition, _ in series])
        self._counts[ids] = [count for _, _, count in series]

    def as_json(self) -> dict[str, Any]:
        """Arguments that make an equal Numbering."""
        series = [[topic, partition, int(self._counts[i])] for (topic, partition), i in self._ids.items()]
        return {"epoch": self.epoch, "following": self.following, "series": series}

    def number(self, rows: pa.Table) -> pa.Table:
        """Rows of this source in its order (bronze without numbers), as rows of bronze."""
        count = rows.num_rows
        columns = {name: rows[name] for name in rows.column_names} | {
            "source_epoch": pa.repeat(pa.scalar(self.epoch, pa.int32()), count),
            "source_seq": pa.array(np.arange(self.following, self.following + count)),
            "seq": pa.array(self._partition_numbers(rows)),
        }
        self.following += count
        schema = replication_events.ARROW
        filled = [columns[f.name] if f.name in columns else pa.nulls(count, f.type) for f in schema]
        return pa.table(filled, schema=schema)

    def _partition_numbers(self, rows: pa.Table) -> np.ndarray:
        topics = pc.dictionary_encode(rows["topic"].combine_chunks(), null_encoding="encode")
        partitions = rows["partition"].to_numpy().astype(np.int64)
        keys = (topics.indices.to_numpy().astype(np.int64) << 32) + (partitions + 1)
        distinct, inverse = np.unique(keys, return_inverse=True)
        names = topics.dictionary.to_pylist()
        ids = self._ids_of([(names[key >> 32], int(key & 0xFFFFFFFF) - 1) for key in distinct.tolist()])
        rank, sizes = _rank_within(inverse, len(distinct))
        numbers: np.ndarray = self._counts[ids][inverse] + rank
        self._counts[ids] += sizes
        return numbers

    def _ids_of(self, keys: list[tuple[str | None, int]]) -> np.ndarray:
        ids = np.array([self._ids.setdefault(key, len(self._ids)) for key in keys], np.int64)
        if len(self._ids) > len(self._counts):
            self._counts = np.concatenate([self._counts, np.zeros(len(self._ids), np.int64)])
        return ids


def _rank_within(groups: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """For each row how many rows of its group come before it, and the size of each group."""
    order = np.argsort(groups, kind="stable")
    sizes = np.bincount(groups, minlength=count)
    starts = np.cumsum(sizes) - sizes
    rank = np.empty(len(groups), np.int64)
    rank[order] = np.arange(len(groups)) - np.repeat(starts, sizes)
    return rank, sizes
