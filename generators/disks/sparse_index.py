"""The sparse index of a segment against its batches (proofs 5.6)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from generators.disks.batches import Array
from generators.disks.files import Unreadable
from generators.disks.findings import SHOWN, Severity
from generators.disks.segments import Segment, index_entries

if TYPE_CHECKING:
    from generators.disks.replica import ReplicaLog


class SparseIndex:
    """The sparse index of one segment against its batches (5.6), block by block."""

    def __init__(self, log: ReplicaLog, segment: Segment) -> None:
        self._log, self._segment = log, segment
        self._entries = np.zeros((0, 2), np.int64)
        try:
            self._entries = index_entries(segment)
        except Unreadable as error:
            missing = not segment.index.exists()
            log.add("index", Severity.INFO if missing else Severity.CRITICAL, str(error) + "; a start builds it anew")
        log.index_entries += len(self._entries)
        if len(self._entries) > 1 and (np.diff(self._entries, axis=0) <= 0).any():
            log.add("index", Severity.CRITICAL, f"{segment.index.name}: its entries do not rise")
            self._entries = self._entries[:0]

    def observe(self, block: Array) -> None:
        """Compare the entries whose positions lie in this block: each is the start of a batch, its offset the last of
        that batch or of a later one before the next entry's position."""
        positions, lasts = block["position"], block["last"]
        first, end = np.searchsorted(self._entries[:, 1], [positions[0], positions[-1] + 1])
        entries = self._entries[first:end]
        if not len(entries):
            return
        at = np.searchsorted(positions, entries[:, 1])
        fits = (at < len(positions)) & (positions[at.clip(0, len(positions) - 1)] == entries[:, 1])
        to = np.searchsorted(lasts, entries[:, 0])
        limit = np.append(at[1:], len(positions))
        fits &= (to >= at) & (
            (to >= len(lasts)) | ((lasts[to.clip(0, len(lasts) - 1)] == entries[:, 0]) & (to < limit))
        )
        for offset, position in entries[~fits][:SHOWN].tolist():
            detail = f"{self._segment.index.name}: offset {offset} at byte {position:,} is the end of no batch there"
            self._log.add("index", Severity.CRITICAL, detail, offset)

    def close(self, size: int) -> None:
        """The segment ends at byte `size`."""
        beyond = self._entries[self._entries[:, 1] >= size]
        if len(beyond):
            offset, position = beyond[0].tolist()
            detail = f"{self._segment.index.name}: offset {offset} at byte {position:,}, behind the end of the segment"
            self._log.add("index", Severity.CRITICAL, detail, offset)
        steps = np.diff(np.concatenate([[0], self._entries[:, 1], [size]]))
        self._log.longest_scan = max(self._log.longest_scan, int(steps.max()))
