"""Sequences of idempotent producers and ends of transactions in one log, block by block."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from generators.disks.batches import ABORT, BATCH, COMMIT, CONTROL, TRANSACTIONAL, WHOLE, Array, chosen
from pipelines.replication.compiled.decorators import compiled

EXPIRATION_MS = 86_400_000
"""`producer.id.expiration.ms` by default: a broker forgets a producer's sequence after it."""
LAST_SEQUENCE = (1 << 31) - 1
_UNKNOWN = np.zeros((), BATCH)
_UNKNOWN["producer_epoch"] = -2
DUPLICATE, HOLE = 1, 2
"""A batch's sequences were written before, or some before it are missing."""


@dataclass
class Producers:
    """Producers as the batches read so far show them, without batches below `floor` (cleaned, or before the log)."""

    floor: int = 0
    expiration_ms: int = EXPIRATION_MS
    ids: set[int] = field(default_factory=set)
    duplicates: list[tuple[int, int, int]] = field(default_factory=list)
    """(first offset, last offset, producer id) of batches whose sequences this producer had written before."""
    holes: list[tuple[int, int, int]] = field(default_factory=list)
    """The same for batches with sequences missing before them."""
    committed: int = 0
    aborted: int = 0
    open: dict[int, int] = field(default_factory=dict)
    """First offset of each producer's transaction that has no marker yet."""
    _last: Array = field(default_factory=lambda: np.zeros(0, BATCH))

    def observe(self, block: Array) -> None:
        """Take a block of batches, in the order of the log."""
        block = chosen(block, (block["producer"] >= 0) & (block["fault"] == WHOLE) & (block["base"] >= self.floor))
        if len(block):
            self._sequences(chosen(block, (block["attributes"] & CONTROL) == 0))
            self._transactions(chosen(block, (block["attributes"] & TRANSACTIONAL) != 0))

    def _sequences(self, block: Array) -> None:
        ids = np.unique(np.append(self._last["producer"], block["producer"]))
        self.ids.update(ids.tolist())
        last = np.full(len(ids), _UNKNOWN)
        last[np.searchsorted(ids, self._last["producer"])] = self._last
        faults = np.zeros(len(block), np.int8)
        judge_sequences(block, ids, last, self.expiration_ms, faults)
        self.duplicates += _places(block, faults == DUPLICATE)
        self.holes += _places(block, faults == HOLE)
        if len(last):
            self._last = last[last["max_ts"] > last["max_ts"].max() - self.expiration_ms]

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


@compiled
def judge_sequences(rows: Array, ids: Array, last: Array, expiration_ms: int, faults: Array) -> None:
    """Mark batches whose sequences do not continue those before; `rows` are in the order of the log.

    `last` has the last batch of each producer in `ids` (sorted), and is updated. Its `position` is the first sequence
    of the run that ends in it: an earlier sequence is no duplicate, as the broker had forgotten the producer.
    """
    at = 0
    for k in range(len(rows)):
        row = rows[k]
        if ids[at] != row.producer:
            at = np.searchsorted(ids, row.producer)
        known, first = last[at], np.int64(row.sequence)
        if known.producer_epoch == row.producer_epoch and abs(row.max_ts - known.max_ts) < expiration_ms:
            end = known.sequence + (known.last - known.base) + 1
            step = (row.sequence - end) & LAST_SEQUENCE
            if (row.sequence - known.position) & LAST_SEQUENCE < (end - known.position) & LAST_SEQUENCE:
                faults[k] = DUPLICATE
                continue
            if step <= LAST_SEQUENCE // 2:
                faults[k], first = HOLE if step else 0, known.position
        last[at] = row
        last[at].position = first


def _places(rows: Array, where: Array) -> list[tuple[int, int, int]]:
    return [(int(row["base"]), int(row["last"]), int(row["producer"])) for row in rows[where]]
