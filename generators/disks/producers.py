"""Sequences of idempotent producers and ends of transactions in one log, block by block."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from generators.disks.batches import ABORT, BATCH, COMMIT, CONTROL, TRANSACTIONAL, WHOLE, Array

EXPIRATION_MS = 86_400_000
"""`producer.id.expiration.ms` by default: a broker forgets a producer's sequence after it."""
LAST_SEQUENCE = (1 << 31) - 1


@dataclass
class Producers:
    """Producers as the batches up to now show them; offsets below `floor` (cleaned, or before the log) are left out."""

    floor: int = 0
    expiration_ms: int = EXPIRATION_MS
    sequenced: int = 0
    """Batches with a sequence."""
    ids: set[int] = field(default_factory=set)
    duplicates: list[tuple[int, int, int]] = field(default_factory=list)
    """(first offset, last offset, producer id) of batches whose sequences this producer had written before."""
    holes: list[tuple[int, int, int]] = field(default_factory=list)
    """The same of batches before which sequences are missing."""
    committed: int = 0
    aborted: int = 0
    open: dict[int, int] = field(default_factory=dict)
    """First offset of each producer's transaction that has no marker yet."""
    _last: Array = field(default_factory=lambda: np.zeros(0, BATCH))

    def observe(self, block: Array) -> None:
        """Take a block of batches, in the order of the log."""
        block = block[(block["producer"] >= 0) & (block["fault"] == WHOLE) & (block["base"] >= self.floor)]
        if len(block):
            self._sequences(block[(block["attributes"] & CONTROL) == 0])
            self._transactions(block[(block["attributes"] & TRANSACTIONAL) != 0])

    def _sequences(self, block: Array) -> None:
        self.sequenced += len(block)
        self.ids.update(np.unique(block["producer"]).tolist())
        rows = np.concatenate([self._last, block])
        rows = rows[np.lexsort((rows["base"], rows["producer"]))]
        while (back := np.flatnonzero(self._steps(rows) > LAST_SEQUENCE // 2)).size:
            self.duplicates += _places(rows, back[:1] + 1)
            rows = np.delete(rows, back[:1] + 1)
        self.holes += _places(rows, np.flatnonzero(self._steps(rows)) + 1)
        ends = np.append(rows["producer"][1:] != rows["producer"][:-1], True)
        kept = rows[ends]
        self._last = kept[kept["max_ts"] > kept["max_ts"].max() - self.expiration_ms] if len(kept) else kept

    def _steps(self, rows: Array) -> Array:
        """The number of sequences missing before each batch but the first, modulo 2^31; 0 where that cannot be told."""
        before, after = rows[:-1], rows[1:]
        last = (before["sequence"].astype(np.int64) + before["last"] - before["base"]) & LAST_SEQUENCE
        same = (after["producer"] == before["producer"]) & (after["producer_epoch"] == before["producer_epoch"])
        same &= after["max_ts"] - before["max_ts"] < self.expiration_ms
        return np.where(same, (after["sequence"] - last - 1) & LAST_SEQUENCE, 0)

    def _transactions(self, block: Array) -> None:
        self.committed += int(np.count_nonzero(block["control"] == COMMIT))
        self.aborted += int(np.count_nonzero(block["control"] == ABORT))
        block = block[np.argsort(block["producer"], kind="stable")]
        starts = np.flatnonzero(np.append(True, block["producer"][1:] != block["producer"][:-1]))
        for rows in np.split(block, starts[1:]) if len(block) else []:
            producer, markers = int(rows["producer"][0]), np.flatnonzero(rows["control"] >= 0)
            if len(markers):
                self.open.pop(producer, None)
                rows = rows[markers[-1] + 1 :]
            if len(rows):
                self.open.setdefault(producer, int(rows["base"][0]))


def _places(rows: Array, where: Array) -> list[tuple[int, int, int]]:
    return [(int(row["base"]), int(row["last"]), int(row["producer"])) for row in rows[where]]
