"""Rows of bronze out of the metadata log: ISR changes, elections, configurations, states of brokers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from generators.brokerlogs.events.event_builder import EventBuilder, TopicIds
from generators.brokerlogs.events.event_rows import EVENTS
from generators.brokerlogs.events.source_state import PartitionStates
from generators.brokerlogs.messages.broker_state import BrokerLogState, Line
from generators.brokerlogs.messages.controller_state import METADATA_LOG, ControllerLogState
from generators.brokerlogs.messages.metadata_records import append_rows
from generators.disks.files import Unreadable
from generators.disks.metadata_log import (
    BatchContent,
    NodeLog,
    Piece,
    Snapshot,
    committed_end,
    longest,
    pieces,
    read_piece,
    read_snapshot,
)
from generators.disks.metadata_messages import UnknownRecord, decode
from generators.disks.quorum import QuorumEnd
from generators.disks.records import Damaged

SOURCE = "disk/metadata"
BEGIN, END, ABORT = "BEGIN_TRANSACTION_RECORD", "END_TRANSACTION_RECORD", "ABORT_TRANSACTION_RECORD"
_BASE_TIMESTAMP = slice(27, 35)

Pending = tuple[int, int, str, dict[str, object]]
"""Time (ms), offset, name and fields of a record."""


@dataclass
class MetadataRows:
    """Rows in the schema EVENTS, the offset of the record behind each, and how far the log was read."""

    rows: pa.Table
    offsets: np.ndarray
    committed_end: int
    end: int
    epoch: int
    last_ts: int = 0
    """Greatest time (ms) of a batch."""
    records: int = 0
    lost: int = 0
    unknown: Counter[str] = field(default_factory=Counter)


def _joined(first: MetadataRows, chosen: npt.NDArray[np.bool_], second: MetadataRows) -> tuple[pa.Table, np.ndarray]:
    """Chosen rows of the first, then all of the second, and their offsets."""
    rows = pa.concat_tables([first.rows.filter(pa.array(chosen)), second.rows])
    return rows, np.append(first.offsets[chosen], second.offsets)


class Replay:
    """The state of the replay: registrations (epochs come from them), and an open metadata transaction."""

    def __init__(self, cluster: str) -> None:
        self._cluster = cluster
        self._begin()

    def _begin(self) -> None:
        self._partitions, self._topic_ids = PartitionStates(True), TopicIds()
        self._controller = ControllerLogState(BrokerLogState(self._partitions))
        self._open: list[Pending] | None = None
        self._result = self._waiting = MetadataRows(EVENTS.empty_table(), np.zeros(0, np.int64), 0, 0, -1)

    def read(self, nodes: Sequence[NodeLog], quorum: QuorumEnd | None = None) -> MetadataRows:
        """Rows of records that are new since the last call, and provisional rows that are committed by now.

        All rows if the log of the last call is not part of the longest one. Raises Unreadable.
        """
        before, chosen = self._result, longest(nodes)
        same = chosen.lineage.end_of(before.epoch)
        if same is None or same[0] != before.epoch or same[1] < before.end:
            self._begin()
            before = self._result
        self._nodes, self._offsets = nodes, list[int]()
        self._committed = committed_end(nodes, quorum)
        self._events = EventBuilder(1024, self._partitions, self._topic_ids)
        epoch = (chosen.lineage.epochs or (-1,))[-1]
        self._result = MetadataRows(
            EVENTS.empty_table(), np.zeros(0, np.int64), self._committed, chosen.lineage.end, epoch,
            before.last_ts, before.records, before.lost, before.unknown,
        )  # fmt: skip
        try:
            self._read_pieces(before.end)
        except Unreadable:
            self._begin()  # what was read is told from the lake's state on, at the next look
            raise
        result = self._result
        if self._events.count:
            result.rows = self._events.table(self._cluster, SOURCE)
            result.offsets = np.array(self._offsets, np.int64)
        return self._with_waiting(result)

    def _with_waiting(self, new: MetadataRows) -> MetadataRows:
        """New rows, behind those that waited and are committed now; the others go on waiting."""
        waiting, late = self._waiting, self._waiting.offsets < self._committed
        rows, offsets = _joined(waiting, ~late, new)
        still = offsets >= self._committed
        self._waiting = replace(new, rows=rows.filter(pa.array(still)), offsets=offsets[still])
        at = waiting.rows.schema.get_field_index("committed")
        known = pa.array(np.ones(waiting.rows.num_rows, np.bool_))
        committed = waiting.rows.set_column(at, waiting.rows.schema.field(at), known)
        new.rows, new.offsets = _joined(replace(waiting, rows=committed), late, new)
        return new

    def _read_pieces(self, known_end: int) -> None:
        """Read the offsets from `known_end` on."""
        parts = pieces(self._nodes)
        if parts and parts[0].start and not known_end:
            self._take_snapshot(parts[0].start)
        for piece in (part for part in parts if part.end > known_end or part.start > known_end):
            if piece.lost and piece.start > known_end:
                self._lose(piece)
            for batch in read_piece(piece._replace(start=max(piece.start, known_end))):
                self._take_batch(batch)

    def _lose(self, piece: Piece) -> None:
        """Note records before a piece that no copy has: the snapshot's state is reported, but not the changes."""
        first = piece.start - piece.lost
        detail = f"{piece.lost} records of the metadata log: offsets {first}..{piece.start - 1} are in no copy given"
        self._result.lost += piece.lost
        self._open = None
        self._events.append("lost", self._result.last_ts, METADATA_LOG, 0, detail=detail)
        self._mark(piece.start - 1)
        self._take_snapshot(piece.start)

    def _take_snapshot(self, at_most: int) -> None:
        found: list[Snapshot] = [snap for node in self._nodes for snap in node.snapshots if snap.end <= at_most]
        if found:
            newest = max(found, key=lambda snap: snap.end)
            for batch in read_snapshot(newest):
                self._take_batch(batch, newest.end - 1)

    def _take_batch(self, batch: BatchContent, offset: int | None = None) -> None:
        """Take the records of a batch; those of a snapshot all count at its last `offset`."""
        started = int.from_bytes(batch.content[_BASE_TIMESTAMP], "big", signed=True)
        self._result.last_ts = max(self._result.last_ts, int(batch.batch["max_ts"]))
        if batch.is_control:
            return
        for record in batch.records():
            self._result.records += 1
            at = record.offset if offset is None else offset
            try:
                if (message := decode(record.value or b"")) is not None:
                    self._take((started, at, *message))
            except (UnknownRecord, Damaged) as error:
                self._result.unknown[str(error)] += 1

    def _take(self, record: Pending) -> None:
        """Take a record; inside a metadata transaction it waits for the end, and is dropped on an abort (3.6-IV1)."""
        name = record[2]
        if name == BEGIN:
            self._open = []
        elif name in (END, ABORT):
            waiting, self._open = self._open or [], None
            for one in waiting if name == END else ():
                self._apply(one, record[1])
        elif self._open is not None:
            self._open.append(record)
        else:
            self._apply(record, record[1])

    def _apply(self, record: Pending, counts_at: int) -> None:
        ts, _, name, data = record
        self._controller.uncommitted = counts_at >= self._committed
        try:
            if unknown := append_rows(self._controller, Line(ts, 0, METADATA_LOG, -1, ""), name, data, self._events):
                self._result.unknown[unknown] += 1
        except (ValueError, KeyError, TypeError) as error:
            self._result.unknown[f"{name}: {error}"] += 1
        self._mark(counts_at)

    def _mark(self, offset: int) -> None:
        self._offsets += [offset] * (self._events.count - len(self._offsets))
