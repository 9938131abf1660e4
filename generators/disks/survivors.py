"""Surviving logs beside one that is rescued: whether they have a record already."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from generators.disks.batches import CONTROL, WHOLE, Array
from generators.disks.checkpoints import LARGEST
from generators.disks.files import Unreadable
from generators.disks.lineage import parts_at
from generators.disks.metadata_log import batches
from generators.disks.records import TIMESTAMP_TYPE, Damaged, Record
from generators.disks.replica import ReplicaLog
from generators.disks.segments import Segment, WalkEnd, blocks, segments

SEQUENCES = 1 << 31
"""Sequences wrap to 0 behind the last one."""
MOST_ALIKE = 8
"""Batches of a producer that are compared with a record: a broker takes five that are not acknowledged."""
_NOT_WHOLE = ("unreadable", "damaged", "torn", "gap")
_RANGE = np.dtype([("producer", "i8"), ("producer_epoch", "i2"), ("sequence", "i8"), ("end", "i8"), ("position", "i8"),
                   ("size", "i4"), ("file", "i4")])  # fmt: skip


class Survivor:
    """One surviving log: its batches by base offset and checksum, and by producer, its epoch and sequences."""

    def __init__(self, log: ReplicaLog) -> None:
        self.log, parts = log, list[Array]()
        self.is_whole = not any(finding.kind in _NOT_WHOLE for finding in log.findings)
        self._bases, self._checksums = (np.ascontiguousarray(log.keys[name]) for name in ("base", "crc"))
        self._files: list[Segment] = []
        try:
            self._files = segments(log.source.path)
            for k, segment in enumerate(self._files):
                parts += [_ranges(block, k) for block, _ in blocks(segment, WalkEnd())]
        except (Unreadable, OSError):
            self.is_whole = False
        every = np.concatenate(parts) if parts else np.zeros(0, _RANGE)
        every.sort(order=("producer", "producer_epoch", "sequence"))
        who = every[["producer", "producer_epoch"]]
        changes = np.flatnonzero(who[1:] != who[:-1]) + 1
        self._ranges: dict[int, dict[int, tuple[Array, Array, Array]]] = {}
        for one in np.split(every, changes) if len(every) else ():
            columns = one, np.ascontiguousarray(one["sequence"]), np.maximum.accumulate(one["end"])
            self._ranges.setdefault(int(one["producer"][0]), {})[int(one["producer_epoch"][0])] = columns
        self._again: dict[tuple[int, int, int], set[tuple[Any, ...]]] = {}
        self._read: tuple[tuple[int, int] | None, dict[int, Record]] = None, {}

    def has(self, block: Array) -> Array:
        """Whether it has each batch of a block: at the same offset, with the same checksum."""
        if not len(self._bases):
            return np.zeros(len(block), np.bool_)
        k = np.searchsorted(self._bases, block["base"]).clip(max=len(self._bases) - 1)
        same: Array = (self._bases[k] == block["base"]) & (self._checksums[k] == block["crc"])
        return same

    def lacks(self, log: ReplicaLog, block: Array) -> Array:
        """Whether it lacks each batch of another log.

        Up to where both part it should have them by its epochs, and it is looked whether it has, except where its log
        begins later, or each of both is cleaned by itself (5.7).
        """
        part, own = parts_at(log.lineage, self.log.lineage), self.log
        missing = ~self.has(block)
        if part is None:
            return missing
        begins = max(log.explained_to, own.explained_to, log.log_start, own.log_start)
        if log.compacted or own.compacted:
            begins = part
        end = LARGEST if own.compared_to is None else own.compared_to
        by_epochs = (block["last"] < part) & ((block["base"] < begins) | (block["base"] >= end))
        lacking: Array = missing & ~by_epochs
        return lacking

    def holds(self, batch: np.void, record: Record, sequence: int) -> bool | None:
        """Whether it has a record of a batch that it does not have as it is; None if that cannot be told.

        It has if there is the same in a batch of its producer with this sequence. The sequence alone shows nothing: it
        wraps, and a transactional producer begins at 0 again in its epoch (resetSequenceForPartition). Or the producer
        has bumped its epoch, and sent again from 0 on what was not acknowledged (KIP-360).
        """
        if batch["sequence"] < 0:
            return None
        producer, epoch = int(batch["producer"]), int(batch["producer_epoch"])
        content = record[2:] if batch["attributes"] & TIMESTAMP_TYPE else record[1:]
        can_tell = self.is_whole
        for wanted in (sequence, sequence + SEQUENCES) if epoch in self._ranges.get(producer, ()) else ():
            ranges, begins, ends = self._ranges[producer][epoch]
            k = int(np.searchsorted(begins, wanted, side="right")) - 1
            least = k - MOST_ALIKE
            while k >= 0 and ends[k] >= wanted:
                other = self._records(ranges[k]).get(wanted - int(begins[k])) if k > least else None
                if other is not None and other[-len(content) :] == content:
                    return True
                can_tell = can_tell and (other is not None or (k > least and ranges["end"][k] < wanted))
                k = k - 1 if k > least else -1
        if content in self._sent_again(producer, epoch, len(content)):
            return True
        return False if can_tell else None

    def _sent_again(self, producer: int, epoch: int, fields: int) -> set[tuple[Any, ...]]:
        """The contents of the first batches of a producer's next epoch."""
        key = producer, epoch, fields
        if key not in self._again:
            epochs = self._ranges.get(producer, {})
            following = min((one for one in epochs if one > epoch), default=None)
            first = () if following is None else epochs[following][0][:MOST_ALIKE]
            self._again[key] = {record[-fields:] for one in first for record in self._records(one).values()}
        return self._again[key]

    def _records(self, place: np.void) -> dict[int, Record]:
        """The records of a batch by their place in it; the cleaner may have removed some."""
        file, position = int(place["file"]), int(place["position"])
        if self._read[0] != (file, position):
            by_place: dict[int, Record] = {}
            try:
                block, data = next(blocks(self._files[file], WalkEnd(), position, int(place["size"])))
                (one,) = batches(block[:1], data, block)
                by_place = {record.offset - int(one.batch["base"]): record for record in one.records()}
            except (Unreadable, OSError, Damaged):
                pass
            self._read = (file, position), by_place
        return self._read[1]


def holds(survivors: Sequence[Survivor], batch: np.void, record: Record, sequence: int) -> bool | None:
    """Whether a surviving log has a record; None without survivors, or if none has it and one cannot tell."""
    answers = [one.holds(batch, record, sequence) for one in survivors]
    if True in answers:
        return True
    return None if None in answers or not answers else False


def _ranges(block: Array, file: int) -> Array:
    data = block[(block["fault"] == WHOLE) & (block["producer"] >= 0) & ((block["attributes"] & CONTROL) == 0)]
    found = np.empty(len(data), _RANGE)
    for name in ("producer", "producer_epoch", "sequence", "position", "size"):
        found[name] = data[name]
    found["end"], found["file"] = found["sequence"] + data["last"] - data["base"], file
    return found
