"""One replica's log as it lies: its batches, where it ends, and what is wrong with it by itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from generators.disks.batches import COMPRESSION, CONTROL, FAULTS, TORN, WHOLE, ZEROS, Array, chosen
from generators.disks.checkpoints import CLEANER_OFFSETS, LOG_STARTS, RECOVERY_POINTS
from generators.disks.directories import LogDirectory, PartitionDirectory
from generators.disks.files import Unreadable
from generators.disks.findings import SHOWN, Finding, Severity
from generators.disks.keys import count_keys, count_plain_keys
from generators.disks.lineage import Lineage, batch_epochs, contradiction, lineage, rising
from generators.disks.producers import Producers
from generators.disks.records import Damaged, payload_of
from generators.disks.segments import Segment, WalkEnd, blocks, log_end, segments
from generators.disks.sparse_index import SparseIndex
from pipelines.printable import printable

KEPT = np.dtype([("base", "i8"), ("last", "i8"), ("epoch", "i4"), ("crc", "u4"), ("cleaned", "?")])
DELETE_HORIZON = 0x40
"""The attribute of a batch that the cleaner wrote anew (KIP-534)."""
MOST_BATCHES = 20_000_000
"""Batches of one replica whose checksums are kept for the comparison: half a gigabyte."""
COMPACTED = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})
"""Topics that Kafka makes itself, and compacts."""


@dataclass
class ReplicaLog:
    """A replica's log. `end` is its log end offset by its last whole batch, `start` that of its first segment."""

    directory: LogDirectory
    source: PartitionDirectory
    live: bool = False
    partitions: int = 0
    """Partitions of the topic in the given directories, 1 if not known; 0: records inside batches are not read."""
    key_counts: Array = field(default_factory=lambda: np.zeros(4, np.int64))
    start: int = 0
    end: int = 0
    bytes: int = 0
    batches: int = 0
    records: int = 0
    index_entries: int = 0
    longest_scan: int = 0
    """Bytes that a look-up through the index reads at most before the batch that it looks for."""
    lineage: Lineage = field(default_factory=lambda: Lineage((), (), 0))
    last_epoch: int = -1
    """The last epoch in its leader-epoch-checkpoint: one at the log's end, which `lineage` leaves out, is of a leader
    that has not written yet."""
    producers: Producers = field(default_factory=Producers)
    keys: Array = field(default_factory=lambda: np.zeros(0, KEPT))
    """Base, last offset, epoch and checksum of each whole batch, and whether it shows that the cleaner was there."""
    compared_to: int | None = None
    """The offset up to which `keys` reach, if there were too many."""
    findings: list[Finding] = field(default_factory=list)
    compacted: bool = False
    """Whether the cleaner has rewritten a log of this topic: this replica may be copied from a cleaned leader."""
    explained_to: int = 0
    """The offset up to which the cleaner has rewritten a log of this partition."""
    has_twin: bool = False
    """Whether another log of the same broker is compared with this one."""

    @property
    def name(self) -> str:
        """The name of its broker, with the path if another log of that broker is compared with it."""
        return (
            f"{self.directory.name} ({printable(str(self.directory.path))})" if self.has_twin else self.directory.name
        )

    @cached_property
    def topic_id(self) -> str | None:
        """The topic id in partition.metadata; None if there is none, or it cannot be read."""
        try:
            return self.source.topic_id
        except Unreadable:
            return None

    @property
    def hw(self) -> int | None:
        """The high watermark in the checkpoint of its directory."""
        return self.directory.high_watermark(self.source)

    @property
    def recovery_point(self) -> int | None:
        return self.directory.offset(RECOVERY_POINTS, self.source.place)

    @property
    def cleaned_to(self) -> int | None:
        """The offset up to which the cleaner has rewritten this log; None if it never did."""
        return self.directory.offset_of_replica(CLEANER_OFFSETS, self.source)

    @property
    def log_start(self) -> int:
        """The start of the log by its files and its checkpoint; between this and `start` a tiered log is remote.

        An entry above the end is of a deleted topic of this name: the checkpoint is keyed by name.
        """
        told = self.directory.offset(LOG_STARTS, self.source.place) or 0
        return max(self.start, told if told <= self.end else 0)

    @property
    def is_cut_short(self) -> bool:
        """Whether reading ended early, so that `end` and `lineage` are not those of the log."""
        return any(finding.kind == "unreadable" for finding in self.findings)

    def add(
        self, kind: str, severity: Severity, detail: str, from_offset: int | None = None, to_offset: int | None = None,
        other: ReplicaLog | None = None,
    ) -> None:  # fmt: skip
        """Add a finding about this replica."""
        topic, partition = self.source.place
        broker, another = self.directory.broker_id, other.directory.broker_id if other else None
        told = Finding(topic, partition, broker, kind, severity, detail, from_offset, to_offset, another, self.topic_id)
        self.findings.append(told._replace(directory_id=self.directory.directory_id))


def read_replica(
    directory: LogDirectory,
    source: PartitionDirectory,
    *,
    live: bool = False,
    partitions: int = 0,
    on_bytes: Callable[[int], None] = lambda size: None,
    compacted: bool = False,
    explained_to: int = 0,
) -> ReplicaLog:
    """Read all segments of a replica; if `partitions` (those of its topic) is given, the records inside batches, too.

    What cannot be read is a finding. `on_bytes` is called with the size of each piece that was read; `compacted` and
    `explained_to` are what other directories show of the cleaner.
    """
    log = ReplicaLog(directory, source, live, partitions, compacted=compacted or source.place[0] in COMPACTED)
    log.explained_to = max(explained_to, log.cleaned_to or 0)
    kept: list[Array] = []
    try:
        told = directory.offset(LOG_STARTS, source.place) or 0
        log.producers.floor = max(log.explained_to, told if told and told <= (log_end(source.path) or 0) else 0)
        files = segments(source.path)
        if not files:
            raise Unreadable(source.path, "it has no segment, which Kafka makes with the directory")
        log.start = log.end = files[0].base
        for k, segment in enumerate(files):
            _read_segment(log, segment, kept, on_bytes, newest=k == len(files) - 1)
    except (Unreadable, OSError) as error:
        log.add("unreadable", Severity.UNKNOWN, str(error))
    log.keys = np.concatenate(kept) if kept else log.keys
    _judge_lineage(log)
    if not log.is_cut_short:
        _judge_checkpoints(log)
    _judge_producers(log)
    return log


def _read_segment(
    log: ReplicaLog, segment: Segment, kept: list[Array], on_bytes: Callable[[int], None], *, newest: bool
) -> None:
    walk_end, faults, gaps, index = WalkEnd(), Counter[int](), [], SparseIndex(log, segment)
    log.end = max(log.end, segment.base)
    for block, data in blocks(segment, walk_end):
        on_bytes(len(data))
        whole = chosen(block, block["fault"] == WHOLE)
        if whole is not block:
            faults.update(block["fault"][block["fault"] != WHOLE].tolist())
            _name_faults(log, segment, block)
        log.batches, log.records = log.batches + len(block), log.records + int(whole["count"].clip(0).sum())
        if not len(whole):
            continue
        ends = np.append(log.end, whole["last"][:-1] + 1)
        gaps += [(int(ends[k]), int(whole["base"][k])) for k in np.flatnonzero(ends < whole["base"])]
        log.end = int(whole["last"][-1]) + 1
        kept.append(_keys(whole))
        log.compacted = log.compacted or bool(kept[-1]["cleaned"].any())
        log.producers.observe(block)
        if log.partitions:
            _read_records(log, segment, whole, data, block)
        index.observe(block)
        if log.batches > MOST_BATCHES:
            kept.pop()
            log.compared_to = int(whole["base"][0]) if log.compared_to is None else log.compared_to
    log.bytes += walk_end.size
    index.close(walk_end.position)
    _judge_end(log, segment, walk_end, newest=newest)
    if not faults:
        _judge_gaps(log, segment, gaps)


def _read_records(log: ReplicaLog, segment: Segment, whole: Array, data: bytes, block: Array) -> None:
    place = log.source.place[1], log.partitions
    batches = whole[((whole["attributes"] & CONTROL) == 0) & (whole["magic"] == 2)]
    packed = (batches["attributes"] & COMPRESSION) != 0
    plain, faults = batches[~packed], np.zeros(np.count_nonzero(~packed), np.bool_)
    plain["position"] -= block["position"][0]
    count_plain_keys(np.frombuffer(data, np.uint8), plain, place, log.key_counts, faults)
    plain["position"] += block["position"][0]
    not_so = "the records of the batch at offset {} are not what it says"
    damaged = [(batch, not_so.format(batch["base"])) for batch in plain[faults]]
    for batch in batches[packed]:
        at = int(batch["position"] - block["position"][0])
        try:
            payload = np.frombuffer(payload_of(batch, data[at : at + int(batch["size"])]), np.uint8)
            if not count_keys(payload, int(batch["count"]), place, log.key_counts):
                damaged.append((batch, not_so.format(batch["base"])))
        except Damaged as error:
            damaged.append((batch, str(error)))
    for batch, why in damaged[:SHOWN]:
        more = f", and {len(damaged) - 1:,} more batches near it" if len(damaged) > SHOWN else ""
        detail = f"{segment.path.name} at byte {int(batch['position']):,}: {why}{more}"
        log.add("damaged", Severity.CRITICAL, detail, int(batch["base"]), int(batch["last"]) + 1)


def _keys(whole: Array) -> Array:
    keys = np.empty(len(whole), KEPT)
    for name in ("base", "last", "epoch", "crc"):
        keys[name] = whole[name]
    fewer = whole["count"] != whole["last"] - whole["base"] + 1
    keys["cleaned"] = (whole["magic"] == 2) & (fewer | ((whole["attributes"] & DELETE_HORIZON) != 0))
    return keys


def _name_faults(log: ReplicaLog, segment: Segment, block: Array) -> None:
    damaged = block[block["fault"] != WHOLE]
    for batch in damaged[:SHOWN]:
        more = f", and {len(damaged) - 1:,} more batches near it" if len(damaged) > SHOWN else ""
        where = f"{segment.path.name} at byte {batch['position']:,}"
        first, end = int(batch["base"]), int(batch["last"]) + 1
        log.add("damaged", Severity.CRITICAL, f"{where}: {FAULTS[batch['fault']]}{more}", first, end)


def _judge_end(log: ReplicaLog, segment: Segment, end: WalkEnd, *, newest: bool) -> None:
    """Judge the bytes behind the last whole batch: zeros of a preallocated file are no damage (5.5)."""
    if end.reason == WHOLE or (end.reason == ZEROS and newest):
        return
    left = f"{segment.path.name} from byte {end.position:,} ({end.size - end.position:,} bytes): {FAULTS[end.reason]}"
    if log.live and newest and end.reason == TORN:
        log.add("torn", Severity.INFO, f"{left}; the broker may be writing it", log.end)
    else:
        log.add("torn", Severity.CRITICAL, f"{left}; a recovery would cut there", log.end)


def _judge_gaps(log: ReplicaLog, segment: Segment, gaps: list[tuple[int, int]]) -> None:
    """Add gaps in offsets. Below the cleaner's offset compaction explains them (5.7); above it they may come from a
    leader whose log was cleaned further."""
    unexplained = [gap for gap in gaps if gap[0] >= log.explained_to]
    severity, why = Severity.CRITICAL, ", above what the cleaner did"
    if log.compacted:
        severity, why = Severity.UNKNOWN, ": missing, or it was copied from a log that was cleaned further"
    for first, end in unexplained[:SHOWN]:
        more = f"; {len(unexplained)} such gaps in {segment.path.name}" if len(unexplained) > SHOWN else ""
        log.add("gap", severity, f"no batch has offsets {first}..{end - 1}{why}{more}", first, end)


def _judge_lineage(log: ReplicaLog) -> None:
    seen = batch_epochs(log.keys["epoch"], log.keys["base"])
    try:
        entries = log.source.leader_epochs()
        if (sound := rising(seen)) != seen:
            epoch, base = next(one for one in seen if one not in sound)
            detail = f"the batch at {base} is of epoch {epoch}, a later one of an earlier epoch: one is damaged"
            log.add("epochs", Severity.CRITICAL, detail, base)
            seen = entries or sound
        entries = entries or seen
        if why := contradiction(entries, seen, log.end):
            log.add("epochs", Severity.CRITICAL, f"leader-epoch-checkpoint does not fit the log: {why}")
            entries = seen
    except Unreadable as error:
        log.add("epochs", Severity.CRITICAL, str(error))
        entries = seen
    log.lineage = lineage(entries, log.end)
    log.last_epoch = max((epoch for epoch, _ in entries), default=-1)


def _judge_checkpoints(log: ReplicaLog) -> None:
    """The high watermark above the log's end is damage or a cut (5.4); a start without a clean stop recovers (5.5)."""
    if log.hw is not None and log.hw > log.end:
        detail = f"the checkpoint has a high watermark of {log.hw}, the log ends at {log.end}: damaged, or cut"
        log.add("hw_above_end", Severity.INFO if log.live else Severity.CRITICAL, detail, log.end, log.hw)
    if not log.directory.clean and not log.live:
        point = log.recovery_point or 0
        bases = (segment.base for segment in segments(log.source.path))
        first = max((base for base in bases if base <= point), default=log.start)
        detail = (
            f"not stopped cleanly: a start recovers from segment {first} on (recovery point {point}, end {log.end})"
        )
        log.add("recovery", Severity.INFO, detail, point, log.end)


def _judge_producers(log: ReplicaLog) -> None:
    producers = log.producers
    copied_clean = log.compacted and any(finding.kind == "gap" for finding in log.findings)
    holes = [] if copied_clean else producers.holes
    for kind, places in (("duplicate", producers.duplicates), ("sequence", holes)):
        for first, last, producer in places[:SHOWN]:
            says = "has sequences that it wrote before" if kind == "duplicate" else "lacks sequences before this batch"
            more = f"; {len(places)} such batches" if len(places) > SHOWN else ""
            log.add(kind, Severity.CRITICAL, f"producer {producer} {says}{more}", first, last + 1)
    for producer, first in sorted(producers.open.items(), key=lambda item: item[1])[:SHOWN]:
        more = f"; {len(producers.open)} are open" if len(producers.open) > SHOWN else ""
        log.add("open_transaction", Severity.INFO, f"producer {producer} has a transaction without an end{more}", first)
