"""Records that are about to be lost, or were cut: copied whole, each with what is known of it."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from generators.disks.batches import WHOLE, ZEROS, Array
from generators.disks.checkpoints import LARGEST, Place
from generators.disks.directories import LogDirectory, PartitionDirectory
from generators.disks.files import Unreadable
from generators.disks.findings import SHOWN
from generators.disks.lineage import parts_at
from generators.disks.metadata_log import batches
from generators.disks.records import Damaged, Record, records
from generators.disks.replica import read_replica
from generators.disks.rescue_files import ROWS_OF_A_GROUP, SCHEMA
from generators.disks.segments import Segment, WalkEnd, blocks, index_entries, segments
from generators.disks.survivors import SEQUENCES, Survivor, holds
from generators.disks.transactions import Transactions
from pipelines.errors import UsageError


class Range(NamedTuple):
    """Offsets [start, end) of a partition."""

    start: int
    end: int


EVERY = Range(0, LARGEST)


@dataclass
class RescueSummary:
    """The number of records found, by what is known of them."""

    place: Place
    offsets: Range | None
    records: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    damaged: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    sha256: str = ""
    reach: Range | None = None
    """The offsets of the records."""

    def count(self, row: dict[str, Any]) -> None:
        """Add one record."""
        self.records += 1
        self.counts[_words(row)] += 1
        offset, reach = row["offset"], self.reach or Range(row["offset"], row["offset"] + 1)
        self.reach = Range(min(reach.start, offset), max(reach.end, offset + 1))

    def lines(self, out: Path | None) -> list[str]:
        """The summary, line by line."""
        reach = self.offsets or self.reach
        which = f" of offsets {reach.start}..{reach.end - 1}" if reach else ""
        text = [f"{self.place[0]}-{self.place[1]}: {self.records:,} records{which}"]
        text += [f"  {count:,} {words}" for words, count in sorted(self.counts.items())]
        text += [f"  left out: {words}" for words in self.damaged]
        text += [f"  {words}" for words in self.notes]
        done = f"written to {out}, sha256 {self.sha256}" if out else "nothing was written: name a file with --out"
        return [*text, f"  {done}"]


class _Source:
    """One directory that has records of the partition, its log, and the surviving logs of the same topic."""

    def __init__(self, directory: LogDirectory, source: PartitionDirectory, beside: Sequence[Survivor]) -> None:
        self.directory, self.source = directory, source
        self.log = read_replica(directory, source)
        self.survivors = [one for one in beside if _is_same_topic(one.log.topic_id, self.log.topic_id)]
        self.files = segments(source.path, renamed=True)
        self.transactions = Transactions(self.log, self.files)
        self.notes = [
            f"{one.name} has {source.place[0]}-{source.place[1]} of topic id {one.topic_id}, not {self.log.topic_id}: "
            "not compared with it"
            for one in (one.log for one in beside if one not in self.survivors)
        ]
        # a checkpoint older than the epochs is of the log before them, of which some may have been cut (proofs 5.3)
        is_of_log = source.epochs_written <= directory.offsets_written
        self.hw = directory.high_watermark(source) if is_of_log else None

    def limits(self, offsets: Range | None) -> Iterator[str]:
        """The parts of `offsets` that the log, or the surviving ones, lack, in words."""
        log, starts = self.log, [one.log.log_start for one in self.survivors]
        if not self.source.is_replica:
            return
        if offsets and not log.start <= offsets.start < offsets.end == log.end:
            more = ', and a loss of "at least" a range may reach further' if log.end > offsets.end else ""
            has = f"offsets {log.start}..{log.end - 1}" if log.end > log.start else "no record"
            yield f"its log has {has}{more}"
        if offsets is None and not starts:
            yield "no log beside has this partition: all of its records are taken"
        elif offsets is None and log.log_start < min(starts):
            removed = f"offsets {log.log_start}..{min(starts) - 1} lie before the start of every log beside"
            yield f"{removed}, as where retention removed them: name --offsets to take them"

    def divergence(self, segment: Segment) -> Range:
        """The offsets of a segment that no whole survivor's lineage has; all of them if that cannot be told."""
        whole = [one.log.lineage for one in self.survivors if one.is_whole]
        if not whole or not self._is_of_lineage(segment):
            return EVERY
        parts = [part for one in whole if (part := parts_at(self.log.lineage, one)) is not None]
        return Range(max(parts, default=0), LARGEST)

    def _is_of_lineage(self, segment: Segment) -> bool:
        """Whether the epochs of the log, if they can be trusted, are those of a segment."""
        has_epochs = self.source.is_replica and not any(finding.kind == "epochs" for finding in self.log.findings)
        return has_epochs and not segment.deleted

    def lacking(self, segment: Segment, block: Array) -> Array:
        """Whether each batch of a block is in no surviving log."""
        by_epochs, lacking = self._is_of_lineage(segment), np.ones(len(block), np.bool_)
        for one in self.survivors:
            lacking &= one.lacks(self.log, block) if by_epochs else ~one.has(block)
        return lacking

    def readable(self, segment: Segment, summary: RescueSummary) -> Iterator[tuple[Array, bytes]]:
        """Blocks of a segment; after a batch without a known end, reading goes on at the next index entry."""
        start, entries = 0, np.zeros(0, np.int64)
        while True:
            end = WalkEnd()
            try:
                yield from blocks(segment, end, start)
                if end.reason in (WHOLE, ZEROS):
                    return
                if not start:
                    entries = np.unique(_positions(segment))
            except (Unreadable, OSError) as error:
                summary.damaged.append(str(error))
                return
            following = entries[entries > end.position]
            until = int(following[0]) if len(following) else end.size
            left = f"{until - end.position:,} bytes from byte {end.position:,} on"
            summary.damaged.append(f"{segment.path.name}, {left}: {end.words}")
            if not len(following):
                return
            start = until


class Rescue:
    """One partition of one broker's directory, and the surviving replicas beside it.

    `topic_id`: if given, directories of another topic of that name are left out; those without an id are read.
    """

    def __init__(
        self, directory: LogDirectory, place: Place, survivors: Sequence[LogDirectory] = (), topic_id: str | None = None
    ) -> None:
        self._directory, self._place = directory, place
        copies = [one.path for one in survivors if _is_same_disk(one, directory)]
        replicas = [(one, one.replica(place)) for one in survivors if one.path not in copies]
        beside = [Survivor(read_replica(one, replica)) for one, replica in replicas if replica is not None]
        self._notes = [f"{path} is a copy of the same disk: no surviving log" for path in copies
                       if not os.path.samefile(path, directory.path)]  # fmt: skip
        found = sorted((one for one in directory.partitions if one.place == place), key=lambda one: one.kind or "")
        sources = [_Source(directory, one, beside) for one in found]
        self._sources = [one for one in sources if _is_same_topic(one.log.topic_id, topic_id)]
        if not self._sources:
            raise UsageError(f"{directory.path} has no directory of {place[0]}-{place[1]}: name another broker's")

    def rows(self, offsets: Range | None, summary: RescueSummary) -> Iterator[pa.Table]:
        """Tables of the records in `offsets`; if that is None, of the records that no survivor has.

        Damaged batches are left out, and named in the summary.
        """
        waiting: list[dict[str, Any]] = []
        summary.notes += self._notes
        for source in self._sources:
            summary.notes += [*source.notes, *source.limits(offsets)]
            for segment in source.files:
                for block, data in source.readable(segment, summary):
                    for row in self._rows(source, segment, block, data, offsets, summary):
                        waiting.append(row)
                        summary.count(row)
                    if len(waiting) >= ROWS_OF_A_GROUP:
                        yield pa.Table.from_pylist(waiting, SCHEMA)
                        waiting = []
        if waiting:
            yield pa.Table.from_pylist(waiting, SCHEMA)

    def _rows(
        self, source: _Source, segment: Segment, block: Array, data: bytes, offsets: Range | None,
        summary: RescueSummary,
    ) -> Iterator[dict[str, Any]]:  # fmt: skip
        wanted = offsets or EVERY
        near = (block["last"] >= wanted.start) & (block["base"] < wanted.end)
        if offsets is None:
            near &= source.lacking(segment, block)
        faults = np.flatnonzero(_damage_near(block, segment.base, offsets or source.divergence(segment)))
        more = f", and {len(faults) - 1:,} more near it" if len(faults) > SHOWN else ""
        for k in faults[: 1 if more else SHOWN]:
            where = f"{segment.path.name} at byte {int(block['position'][k])}"
            summary.damaged.append(f"{where}: a damaged batch{more}")
        old = np.count_nonzero(near & (block["magic"] < 2))
        if old:
            summary.damaged.append(
                f"{segment.path.name}: {old:,} messages in the format before 0.11, which is not read"
            )
        chosen = block[near & (block["fault"] == WHOLE) & (block["magic"] == 2)]
        there = np.zeros(len(chosen), np.bool_)
        for survivor in source.survivors:
            there |= survivor.has(chosen)
        for one, is_there in zip(batches(chosen, data, block), there.tolist(), strict=True):
            if one.is_control:
                summary.counts["control batches, left out"] += 1
                continue
            try:
                found = list(records(one.batch, one.content))
            except Damaged as error:
                summary.damaged.append(f"{segment.path.name}: {error}")
                continue
            same = self._of_batch(source, segment, one.batch)
            hw = source.hw if source.transactions.is_in_log(one.batch, segment) else None
            for record in found:
                if wanted.start <= record.offset < wanted.end:
                    yield self._of_record(source, one.batch, record, hw, is_there=is_there) | same

    def _of_batch(self, source: _Source, segment: Segment, batch: np.void) -> dict[str, Any]:
        return {
            "topic": self._place[0], "partition": self._place[1], "leader_epoch": int(batch["epoch"]),
            "producer_id": _known(batch["producer"]), "producer_epoch": _known(batch["producer_epoch"]),
            "transaction": source.transactions.end(batch, segment), "broker_id": self._directory.broker_id,
            "source": f"{source.source.path.name}/{segment.path.name}", "topic_id": source.log.topic_id,
        }  # fmt: skip

    def _of_record(
        self, source: _Source, batch: np.void, one: Record, hw: int | None, *, is_there: bool
    ) -> dict[str, Any]:
        sequence = (int(batch["sequence"]) + one.offset - int(batch["base"])) % SEQUENCES
        return {
            "offset": one.offset, "timestamp_ms": one.ts, "key": one.key, "value": one.value,
            "headers": [{"key": key, "value": value} for key, value in one.headers],
            "sequence": None if batch["sequence"] < 0 else sequence,
            "below_hw": None if hw is None else one.offset < hw,
            "in_survivor": is_there or holds(source.survivors, batch, one, sequence),
        }  # fmt: skip


def _damage_near(block: Array, base: int, offsets: Range) -> Array:
    """Whether each batch is damaged and may have one of these offsets, by the headers of the batches before and behind:
    its own may say anything."""
    whole = block["fault"] == WHOLE
    before = np.maximum.accumulate(np.where(whole, block["last"] + 1, base))
    behind = np.minimum.accumulate(np.where(whole, block["base"], LARGEST)[::-1])[::-1]
    damage: Array = ~whole & (before < offsets.end) & (behind > offsets.start)
    return damage


def _is_same_disk(one: LogDirectory, other: LogDirectory) -> bool:
    """Whether a directory is another one, or a copy of it, taken before or after: by the directory's id, else (before
    3.7) by the broker's."""
    if one.directory_id and other.directory_id:
        return one.directory_id == other.directory_id
    ids = one.broker_id, other.broker_id
    return os.path.samefile(one.path, other.path) or (ids[0] == ids[1] and None not in ids)


def _is_same_topic(one: str | None, other: str | None) -> bool:
    return one is None or other is None or one == other


def _positions(segment: Segment) -> Array:
    """The positions of a segment's index, none if it cannot be read."""
    try:
        return index_entries(segment)[:, 1]
    except Unreadable:
        return np.zeros(0, np.int64)


def _known(value: Any) -> int | None:
    return None if value < 0 else int(value)


def _words(row: dict[str, Any]) -> str:
    place = {True: "below the high watermark known", False: "beyond it", None: "where the high watermark is not known"}
    there = {True: ", already in the surviving log", False: ", in no surviving log", None: ""}
    ended = f", transaction {row['transaction']}" if row["transaction"] else ""
    return f"{place[row['below_hw']]}{ended}{there[row['in_survivor']]}"
