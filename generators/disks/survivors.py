"""Surviving logs beside one that is rescued: whether they have a record already."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from generators.disks.batches import CONTROL, WHOLE, Array
from generators.disks.files import Unreadable
from generators.disks.replica import ReplicaLog
from generators.disks.segments import WalkEnd, blocks, segments

SEQUENCES = 1 << 31
"""Sequences wrap to 0 behind the last one."""
_NOT_WHOLE = ("unreadable", "damaged", "torn", "gap")
_NONE = np.zeros(0, np.int64)
_RANGE = np.dtype([("producer", "i8"), ("producer_epoch", "i2"), ("sequence", "i8"), ("end", "i8")])


class Survivor:
    """One surviving log: its batches by base offset and checksum, sequences by producer and its epoch."""

    def __init__(self, log: ReplicaLog) -> None:
        self.log, parts = log, list[Array]()
        self._is_whole = not any(finding.kind in _NOT_WHOLE for finding in log.findings)
        try:
            for segment in segments(log.source.path):
                parts += [_ranges(block) for block, _ in blocks(segment, WalkEnd())]
        except (Unreadable, OSError):
            self._is_whole = False
        every = np.sort(np.concatenate(parts), order=("producer", "producer_epoch", "sequence")) if parts else None
        self._ranges: dict[tuple[int, int], tuple[Array, Array]] = {}
        if every is not None and len(every):
            changes = np.flatnonzero(
                every[1:][["producer", "producer_epoch"]] != every[:-1][["producer", "producer_epoch"]]
            )
            for one in np.split(every, changes + 1):
                key = int(one["producer"][0]), int(one["producer_epoch"][0])
                self._ranges[key] = one["sequence"], np.maximum.accumulate(one["end"])

    def holds(self, batch: np.void, sequence: int) -> bool | None:
        """Whether it has the record of this batch with this sequence; None if that cannot be told."""
        keys = self.log.keys
        k = int(np.searchsorted(keys["base"], int(batch["base"])))
        if k < len(keys) and keys["base"][k] == batch["base"] and keys["crc"][k] == batch["crc"]:
            return True
        if batch["sequence"] < 0:
            return None
        begins, ends = self._ranges.get((int(batch["producer"]), int(batch["producer_epoch"])), (_NONE, _NONE))
        for wanted in (sequence, sequence + SEQUENCES):
            k = int(np.searchsorted(begins, wanted, side="right")) - 1
            if k >= 0 and ends[k] >= wanted:
                return True
        return False if self._is_whole else None


def holds(survivors: Sequence[Survivor], batch: np.void, sequence: int) -> bool | None:
    """Whether a surviving log has a record; None without survivors, or if none has it and one cannot tell."""
    answers = [one.holds(batch, sequence) for one in survivors]
    if True in answers:
        return True
    return None if None in answers or not answers else False


def _ranges(block: Array) -> Array:
    data = block[(block["fault"] == WHOLE) & (block["producer"] >= 0) & ((block["attributes"] & CONTROL) == 0)]
    found = np.empty(len(data), _RANGE)
    for name in ("producer", "producer_epoch", "sequence"):
        found[name] = data[name]
    found["end"] = found["sequence"] + data["last"] - data["base"]
    return found
