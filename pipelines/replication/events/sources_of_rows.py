"""The telemetry source of each row of a micro-batch, as a number."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa

from pipelines.replication.compiled.decorators import kernel
from pipelines.replication.compiled.hash_index import Keys, enter
from pipelines.replication.compiled.types import I32, I64, read_only
from pipelines.replication.events.row_slices import RowSlice, row_slices


class SourcedRows:
    """The rows of `events` in slices, and their sources, numbered in the order of their first row."""

    def __init__(self, events: pa.Table) -> None:
        self.events, self.slices = events, row_slices(events)
        self.names: list[tuple[str, str, int]] = []
        """(cluster, source_id, source_epoch) of each source."""
        self.source_of: list[I32] = []
        """By slice the number of each row's source."""
        self._clusters: dict[str, int] = {}
        self._ids: dict[str, int] = {}
        self._keys = Keys()
        for rows in self.slices:
            self.source_of.append(read_only(self._number(rows)))
        clusters, ids = list(self._clusters), list(self._ids)
        for key in self._keys.keys.tolist():
            epoch = (key & 0xFFFFFFFF ^ _SIGN) - _SIGN
            self.names.append((clusters[key >> 52], ids[(key >> 32) & 0xFFFFF], epoch))
        epochs = [epoch for _, _, epoch in self.names]
        self.set_bounds("source_epoch", min(epochs, default=0), max(epochs, default=0))

    def set_bounds(self, column: str, least: int, most: int) -> None:
        """Records the range of a column's values, so that validation need not read them again."""
        for rows in self.slices:
            rows.bounds[column] = least, most

    def _number(self, rows: RowSlice) -> I32:
        clusters, cluster_names = rows.codes("cluster")
        ids, id_names = rows.codes("source_id")
        known = _numbers_of(self._clusters, cluster_names), _numbers_of(self._ids, id_names)
        epoch, numbers, done = rows.int32("source_epoch"), np.empty(len(rows), dtype=np.int32), 0
        while True:
            columns = _SourceColumns(clusters[done:], known[0], ids[done:], known[1], epoch[done:])
            numbered, self._keys.count = _number_sources(columns, self._keys.table, numbers[done:])
            done += numbered
            if done == len(rows):
                return numbers
            self._keys.widen()


_SIGN = 1 << 31


def _numbers_of(known: dict[str, int], names: pa.Array) -> I32:
    """The numbers of the names of one dictionary; new names get the next ones."""
    return np.array([known.setdefault(name, len(known)) for name in names.to_pylist()], dtype=np.int32)


class _SourceColumns(NamedTuple):
    """Who wrote each row of a slice: codes of names, and the number that stands for each code."""

    cluster: I32
    cluster_number: I32
    source_id: I32
    source_id_number: I32
    epoch: I32


@kernel
def _number_sources(columns: _SourceColumns, index: tuple[I64, int, I64, int], numbers: I32) -> tuple[int, int]:
    """(rows numbered, sources known): writes the source of each row; stops where the hash index is to be widened."""
    table, bits, keys, count = index
    last, number = -1, np.int32(-1)
    for row in range(len(numbers)):
        cluster = np.int64(columns.cluster_number[columns.cluster[row]])
        source_id = np.int64(columns.source_id_number[columns.source_id[row]])
        key = int((cluster << 52) | (source_id << 32) | (np.int64(columns.epoch[row]) & 0xFFFFFFFF))
        if key != last:
            found, count = enter(table, bits, keys, count, key)
            if found < 0:
                return row, count
            last, number = key, np.int32(found)
        numbers[row] = number
    return len(numbers), count
