"""Rows of bronze out of the metadata log: ISR changes, elections, configurations, states of brokers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from generators.brokerlogs.events.event_builder import EventBuilder, TopicIds
from generators.brokerlogs.events.event_rows import EVENTS
from generators.brokerlogs.events.source_state import PartitionStates
from generators.brokerlogs.messages.broker_state import BrokerLogState, Line
from generators.brokerlogs.messages.controller_state import METADATA_LOG, ControllerLogState
from generators.brokerlogs.messages.metadata_records import append_rows
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


def read_rows(nodes: Sequence[NodeLog], cluster: str) -> MetadataRows:
    """All rows of the log that these nodes have copies of. Raises Unreadable."""
    return _Replay(nodes).run(cluster)


class _Replay:
    """The state of the replay: registrations (epochs come from them), and an open metadata transaction."""

    def __init__(self, nodes: Sequence[NodeLog]) -> None:
        self._nodes, self._chosen = nodes, longest(nodes)
        self._committed = committed_end(nodes)
        partitions, topic_ids = PartitionStates(True), TopicIds()
        self._controller = ControllerLogState(BrokerLogState(partitions))
        self._events = EventBuilder(1024, partitions, topic_ids)
        self._offsets: list[int] = []
        self._open: list[Pending] | None = None
        lineage = self._chosen.lineage
        self._result = MetadataRows(
            EVENTS.empty_table(), np.zeros(0, np.int64), self._committed, lineage.end, (lineage.epochs or (-1,))[-1]
        )

    def run(self, cluster: str) -> MetadataRows:
        parts = pieces(self._nodes)
        if parts and parts[0].start:
            self._take_snapshot(parts[0].start)
        for piece in parts:
            if piece.lost:
                self._lose(piece)
            for batch in read_piece(piece):
                self._take_batch(batch)
        result = self._result
        if self._events.count:
            result.rows, result.offsets = self._events.table(cluster, SOURCE), np.array(self._offsets, np.int64)
        return result

    def _lose(self, piece: Piece) -> None:
        """No copy has the records before a piece: the snapshot's state is told as state, not what came in between."""
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
        """The records of a batch; those of a snapshot all count at its last `offset`."""
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
        """A record; inside a metadata transaction it waits for the end, and an aborted one is none (3.6-IV1)."""
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
