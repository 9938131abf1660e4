"""Records that are about to be lost, or were cut: copied whole, each with what is known of it."""

from __future__ import annotations

import base64
import hashlib
import json
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from generators.disks.batches import ABORT, COMMIT, CONTROL, TRANSACTIONAL, WHOLE, ZEROS, Array
from generators.disks.checkpoints import LARGEST, Place
from generators.disks.comparison import parts_at
from generators.disks.directories import LogDirectory, PartitionDirectory
from generators.disks.files import Unreadable
from generators.disks.metadata_log import batches
from generators.disks.records import Damaged, records
from generators.disks.replica import SHOWN, read_replica
from generators.disks.segments import Segment, WalkEnd, blocks, segments
from pipelines.errors import UsageError

SCHEMA = pa.schema(
    [
        *(("topic", pa.string()), ("partition", pa.int32()), ("offset", pa.int64()), ("leader_epoch", pa.int32())),
        *(("timestamp_ms", pa.int64()), ("key", pa.binary()), ("value", pa.binary())),
        ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
        *(("producer_id", pa.int64()), ("producer_epoch", pa.int16()), ("sequence", pa.int32())),
        *(("below_hw", pa.bool_()), ("transaction", pa.string()), ("in_survivor", pa.bool_())),
        *(("broker_id", pa.int32()), ("source", pa.string())),
    ]
)
"""One record. `below_hw`: whether it lies below the high watermark known in its directory; `transaction`: committed,
aborted or open in what is there, null of none; `in_survivor`: whether a surviving log has it; null is not known."""
ROWS_OF_A_GROUP = 20_000


class Range(NamedTuple):
    """Offsets [start, end) of a partition."""

    start: int
    end: int


@dataclass
class RescueSummary:
    """The number of records found, by what is known of them."""

    place: Place
    offsets: Range
    records: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    damaged: list[str] = field(default_factory=list)
    sha256: str = ""

    def lines(self, out: Path | None) -> list[str]:
        """The summary, line by line."""
        last = f"{self.offsets.start}..{self.offsets.end - 1}"
        text = [f"{self.place[0]}-{self.place[1]}: {self.records:,} records of offsets {last}"]
        text += [f"  {count:,} {words}" for words, count in sorted(self.counts.items())]
        text += [f"  left out: {words}" for words in self.damaged]
        done = f"written to {out}, sha256 {self.sha256}" if out else "nothing was written: name a file with --out"
        return [*text, f"  {done}"]


class Rescue:
    """One partition of one broker's directory, and the surviving replicas beside it."""

    def __init__(self, directory: LogDirectory, place: Place, survivors: Sequence[LogDirectory] = ()) -> None:
        self._directory, self._place = directory, place
        self._sources = sorted(
            (one for one in directory.partitions if one.place == place), key=lambda one: one.kind or ""
        )
        if not self._sources:
            raise UsageError(f"{directory.path} has no directory of {place[0]}-{place[1]}: name another broker's")
        replicas = [(one, one.replica(place)) for one in survivors if one.path != directory.path]
        self._survivors = [read_replica(one, replica) for one, replica in replicas if replica is not None]
        self._segments = [(source, segment) for source in self._sources for segment in segments(source.path)]
        self._own_sequences = _Sequences(self._survivors_blocks())
        self._markers = _markers(self._segments)

    def divergence(self) -> Range:
        """The offsets that no survivor's lineage has; all without survivors."""
        own = self._directory.replica(self._place)
        log = read_replica(self._directory, own) if own is not None else None
        if log is None or not self._survivors:
            return Range(0, LARGEST)
        parts = [parts_at(log, other) for other in self._survivors]
        end = LARGEST if log.is_cut_short else log.end
        return Range(max((part for part in parts if part is not None), default=log.start), end)

    def rows(self, offsets: Range, summary: RescueSummary) -> Iterator[pa.Table]:
        """Tables of records inside `offsets`; damaged batches are left out, and named in the summary."""
        waiting: list[dict[str, Any]] = []
        for source, segment in self._segments:
            for block, data in self._readable(segment, summary):
                near = (block["last"] >= offsets.start) & (block["base"] < offsets.end)
                faults = np.flatnonzero(near & (block["fault"] != WHOLE))
                more = f", and {len(faults) - 1:,} more near it" if len(faults) > SHOWN else ""
                for k in faults[: 1 if more else SHOWN]:
                    where = f"{segment.path.name} at byte {int(block['position'][k])}"
                    summary.damaged.append(f"{where}: a damaged batch{more}")
                for one in batches(block[near & (block["fault"] == WHOLE)], data, block):
                    if one.is_control or int(one.batch["magic"]) < 2:
                        summary.counts["control batches and old messages, left out"] += 1
                        continue
                    waiting += self._records(source, segment, one.batch, one.content, offsets, summary)
                    if len(waiting) >= ROWS_OF_A_GROUP:
                        yield pa.Table.from_pylist(waiting, SCHEMA)
                        waiting = []
        if waiting:
            yield pa.Table.from_pylist(waiting, SCHEMA)

    def _readable(self, segment: Segment, summary: RescueSummary) -> Iterator[tuple[Array, bytes]]:
        end = WalkEnd()
        try:
            yield from blocks(segment, end)
        except (Unreadable, OSError) as error:
            summary.damaged.append(str(error))
        if end.reason not in (WHOLE, ZEROS):
            left = f"{end.size - end.position:,} bytes from byte {end.position:,} on"
            summary.damaged.append(f"{segment.path.name}, {left}: {end.words}")

    def _records(
        self, source: PartitionDirectory, segment: Segment, batch: np.void, content: bytes, offsets: Range,
        summary: RescueSummary,
    ) -> list[dict[str, Any]]:  # fmt: skip
        try:
            found = [one for one in records(batch, content) if offsets.start <= one.offset < offsets.end]
        except Damaged as error:
            summary.damaged.append(f"{segment.path.name}: {error}")
            return []
        same = {
            "topic": self._place[0], "partition": self._place[1], "leader_epoch": int(batch["epoch"]),
            "producer_id": _known(batch["producer"]), "producer_epoch": _known(batch["producer_epoch"]),
            "transaction": self._transaction(batch), "broker_id": self._directory.broker_id,
            "source": f"{source.path.name}/{segment.path.name}",
        }  # fmt: skip
        hw = self._directory.high_watermark(source)
        rows = []
        for one in found:
            sequence = (int(batch["sequence"]) + one.offset - int(batch["base"])) & 0x7FFFFFFF
            row = same | {
                "offset": one.offset, "timestamp_ms": one.ts, "key": one.key, "value": one.value,
                "headers": [{"key": key, "value": value} for key, value in one.headers],
                "sequence": None if batch["sequence"] < 0 else sequence,
                "below_hw": None if hw is None else one.offset < hw,
                "in_survivor": self._own_sequences.holds(batch, one.offset, sequence) if self._survivors else None,
            }  # fmt: skip
            rows.append(row)
            summary.counts[_words(row)] += 1
        summary.records += len(rows)
        return rows

    def _survivors_blocks(self) -> Iterator[Array]:
        for log in self._survivors:
            for segment in segments(log.source.path):
                if not segment.deleted:
                    yield from (block[block["fault"] == WHOLE] for block, _ in blocks(segment, WalkEnd()))

    def _transaction(self, batch: np.void) -> str | None:
        """The end of a batch's transaction: committed, aborted or open, by its producer's next marker."""
        if not batch["attributes"] & TRANSACTIONAL:
            return None
        bases, kinds = self._markers.get(int(batch["producer"]), ([], []))
        k = int(np.searchsorted(bases, int(batch["base"])))
        return {ABORT: "aborted", COMMIT: "committed"}.get(kinds[k], "open") if k < len(bases) else "open"


class _Sequences:
    """Sequences that surviving logs have, by producer and its epoch, and their batches by base offset and checksum."""

    def __init__(self, found: Iterator[Array]) -> None:
        ranges: dict[tuple[int, int], list[tuple[int, int]]] = {}
        self._batches: set[tuple[int, int]] = set()
        for block in found:
            self._batches.update(zip(block["base"].tolist(), block["crc"].tolist(), strict=True))
            data = block[(block["producer"] >= 0) & ((block["attributes"] & CONTROL) == 0)]
            ends = data["sequence"].astype(np.int64) + data["last"] - data["base"]
            names = ("producer", "producer_epoch", "sequence")
            for pid, epoch, first, last in zip(*(data[name].tolist() for name in names), ends.tolist(), strict=True):
                ranges.setdefault((pid, epoch), []).append((first, last))
        self._ranges = {key: sorted(values) for key, values in ranges.items()}

    def holds(self, batch: np.void, offset: int, sequence: int) -> bool | None:
        """Whether a surviving log has this record; None where a record without a sequence cannot be told."""
        if (int(batch["base"]), int(batch["crc"])) in self._batches:
            return True
        if batch["sequence"] < 0:
            return None
        ranges = self._ranges.get((int(batch["producer"]), int(batch["producer_epoch"])), [])
        return any(first <= sequence <= last for first, last in ranges)


def _markers(sources: Sequence[tuple[PartitionDirectory, Segment]]) -> dict[int, tuple[list[int], list[int]]]:
    """By producer the offsets and types of its markers, in the order of the log."""
    found: dict[int, list[tuple[int, int]]] = {}
    for _, segment in sources:
        try:
            for block, _ in blocks(segment, WalkEnd()):
                for one in block[(block["control"] >= 0) & (block["fault"] == WHOLE)]:
                    found.setdefault(int(one["producer"]), []).append((int(one["base"]), int(one["control"])))
        except (Unreadable, OSError):
            continue  # the walk for the records themselves names it
    pairs = {producer: sorted(markers) for producer, markers in found.items()}
    return {producer: ([base for base, _ in one], [kind for _, kind in one]) for producer, one in pairs.items()}


def _known(value: Any) -> int | None:
    return None if value < 0 else int(value)


def _words(row: dict[str, Any]) -> str:
    place = {True: "below the high watermark known", False: "beyond it", None: "where the high watermark is not known"}
    there = {True: ", already in the surviving log", False: ", in no surviving log", None: ""}
    ended = f", transaction {row['transaction']}" if row["transaction"] else ""
    return f"{place[row['below_hw']]}{ended}{there[row['in_survivor']]}"


def write(rows: Iterator[pa.Table], out: Path, inside: Sequence[Path]) -> str:
    """Write records to `out` (.parquet or .jsonl), whole or not at all; returns its SHA-256.

    Raises UsageError for a file that exists, of another kind, or below one of the directories `inside`.
    """
    if out.suffix not in (".parquet", ".jsonl"):
        raise UsageError(f"--out {out}: name a file that ends in .parquet or .jsonl")
    if out.exists():
        raise UsageError(f"--out {out} exists: name a new file")
    if any(out.resolve().is_relative_to(folder.resolve()) for folder in inside):
        raise UsageError(f"--out {out} lies below a log directory: name a file elsewhere")
    part = out.with_name(out.name + ".part")
    try:
        if out.suffix == ".parquet":
            with pq.ParquetWriter(part, SCHEMA, compression="zstd") as writer:
                for table in rows:
                    writer.write_table(table)
        else:
            with open(part, "w") as file:
                file.writelines(json.dumps(row, default=_as_text) + "\n" for table in rows for row in table.to_pylist())
        with open(part, "rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
            os.fsync(file.fileno())
        part.rename(out)
    finally:
        part.unlink(missing_ok=True)
    return digest


def _as_text(value: Any) -> str:
    """Bytes of keys and values as base64: they may be anything."""
    return base64.b64encode(value).decode()


def read(path: Path) -> Iterator[dict[str, Any]]:
    """The records of a file that `write` wrote. Raises UsageError for any other."""
    try:
        if path.suffix == ".parquet":
            for group in pq.ParquetFile(path).iter_batches(ROWS_OF_A_GROUP):
                yield from group.cast(SCHEMA).to_pylist()
        else:
            with open(path) as file:
                yield from (_from_json(json.loads(line)) for line in file)
    except (pa.ArrowInvalid, ValueError, KeyError, TypeError) as error:
        raise UsageError(f"{path} is no file of `hwmark rescue`: {error}") from error


def _from_json(row: dict[str, Any]) -> dict[str, Any]:
    def bytes_of(text: str | None) -> bytes | None:
        return None if text is None else base64.b64decode(text)

    headers = [{"key": header["key"], "value": bytes_of(header["value"])} for header in row["headers"]]
    return {**row, "key": bytes_of(row["key"]), "value": bytes_of(row["value"]), "headers": headers}
