"""The pieces of a micro-batch, and who wrote each row: numbers for the sources that it names."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from pipelines.replication.compiled.decorators import kernel
from pipelines.replication.compiled.hash_index import Keys, enter
from pipelines.replication.compiled.types import I32, I64, frozen
from pipelines.replication.events.row_slices import Piece, pieces


class Written:
    """The rows of `events` in pieces, and their sources, numbered in the order of their appearance."""

    def __init__(self, events: pa.Table) -> None:
        self.events, self.pieces = events, pieces(events)
        self.names: list[tuple[str, str, int]] = []
        """(cluster, source_id, source_epoch) of each source."""
        self.by: list[I32] = []
        """By piece the number of each row's source."""
        self._clusters: dict[str, int] = {}
        self._ids: dict[str, int] = {}
        self._keys = Keys()
        for piece in self.pieces:
            self.by.append(frozen(self._numbered(piece)))
        clusters, ids = list(self._clusters), list(self._ids)
        for key in self._keys.keys.tolist():
            epoch = (key & 0xFFFFFFFF ^ _SIGN) - _SIGN
            self.names.append((clusters[key >> 52], ids[(key >> 32) & 0xFFFFF], epoch))
        epochs = [epoch for _, _, epoch in self.names]
        self.know("source_epoch", min(epochs, default=0), max(epochs, default=0))

    def know(self, column: str, least: int, most: int) -> None:
        """Saves others from reading a column only to see that its values are what they can be."""
        for piece in self.pieces:
            piece.bounds[column] = least, most

    def _numbered(self, piece: Piece) -> I32:
        clusters, cluster_words = piece.codes("cluster")
        ids, id_words = piece.codes("source_id")
        known = _numbered(self._clusters, cluster_words), _numbered(self._ids, id_words)
        epoch, numbers, done = piece.narrow("source_epoch"), np.empty(len(piece), dtype=np.int32), 0
        while True:
            rows, self._keys.count = _sources(
                clusters[done:], known[0], ids[done:], known[1], epoch[done:], *self._keys.table, numbers[done:]
            )
            done += rows
            if done == len(piece):
                return numbers
            self._keys.widen()


_SIGN = 1 << 31


def _numbered(known: dict[str, int], words: pa.Array) -> I32:
    """Numbers of the words of one piece's dictionary."""
    return np.array([known.setdefault(word, len(known)) for word in words.to_pylist()], dtype=np.int32)


@kernel
def _sources(
    cluster: I32, clusters: I32, writer: I32, writers: I32, epoch: I32, table: I64, bits: int, keys: I64, count: int,
    numbers: I32,
) -> tuple[int, int]:  # fmt: skip
    """Numbers the sources; (rows done, sources known)."""
    last, number = -1, np.int32(-1)
    for row in range(len(numbers)):
        name = (np.int64(clusters[cluster[row]]) << 52) | (np.int64(writers[writer[row]]) << 32)
        key = int(name | (np.int64(epoch[row]) & 0xFFFFFFFF))
        if key != last:
            found, count = enter(table, bits, keys, count, key)
            if found < 0:
                return row, count
            last, number = key, np.int32(found)
        numbers[row] = number
    return len(numbers), count
