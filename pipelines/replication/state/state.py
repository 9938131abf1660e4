"""Everything a Reconstructor keeps between micro-batches."""

from __future__ import annotations

from bisect import insort
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from pipelines.replication.compiled.hash_index import Keys
from pipelines.replication.compiled.records import Arrays
from pipelines.replication.compiled.types import I64
from pipelines.replication.metadata.assignments import Assignments
from pipelines.replication.metadata.brokers_and_configs import Timeline
from pipelines.replication.metadata.layout import APART, ASKED, HEARD, RECORDED
from pipelines.replication.partition.encoded import EncodedHistories
from pipelines.replication.partition.events import PartitionEvent, TermSummary
from pipelines.replication.partition.first_terms import FirstTerms
from pipelines.replication.partition.history import PartitionHistory
from pipelines.replication.telemetry.sources import Sources
from pipelines.replication.term.layout import HW_ROWS, LANES, LINES_READ, PARTITIONS, RECENT, REPLICAS, SERIES, SLOTS
from schemas import replication_events

OrderKey = tuple[int, int, int, str, int, int]
"""The canonical order of events of different sources: time; broker; 0 for leader, follower, isr and config, else 1;
source id; source epoch; sequence number."""


PENDING_STARTS = pa.schema([("number", pa.int64()), ("clock", pa.int64()), *replication_events.ARROW])
"""A leader's start by the number of its partition; `clock` is its time in the canonical order."""


class Names:
    """Numbers for names, in the order of their first appearance."""

    def __init__(self, names: list[tuple[Any, ...]] | None = None) -> None:
        self.all = names or []
        self._number = {name: k for k, name in enumerate(self.all)}

    def number(self, *name: Any) -> int:
        """The number of a name; a new name gets the next one."""
        known = self._number.get(name)
        if known is None:
            known = self._number[name] = len(self.all)
            self.all.append(name)
        return known

    def find(self, *name: Any) -> int:
        """The number of a name, -1 where it has none."""
        return self._number.get(name, -1)


@dataclass
class State:
    """Names and their numbers, sources, series, partitions, lanes, pending rows, histories."""

    sources: Sources
    clusters: Names = field(default_factory=Names)
    topics: Names = field(default_factory=Names)
    """(cluster, topic)"""
    topic_ids: Names = field(default_factory=Names)
    source_names: Names = field(default_factory=Names)
    """(cluster, source_id, source_epoch)"""
    series_keys: Keys = field(default_factory=Keys)
    partition_keys: Keys = field(default_factory=Keys)
    lane_keys: Keys = field(default_factory=Keys)
    series: Arrays = field(default_factory=lambda: Arrays(SERIES))
    partitions: Arrays = field(default_factory=lambda: Arrays(PARTITIONS))
    lanes: Arrays = field(default_factory=lambda: Arrays(LANES))
    replicas: Arrays = field(default_factory=lambda: Arrays(REPLICAS, SLOTS))
    pending_rows: Arrays = field(default_factory=lambda: Arrays(HW_ROWS))
    """HW rows that are not final, in the order of their lanes."""
    recent_hws: Arrays = field(default_factory=lambda: Arrays(RECENT))
    """HWs of lanes that a history may still ask for, in the order of their lanes."""
    timeline: Timeline = field(default_factory=Timeline)
    recorded_epochs: Arrays = field(default_factory=lambda: Arrays(RECORDED))
    """Partition epochs that a controller recorded lately, sorted by (key, ts)."""
    reported_epochs: Arrays = field(default_factory=lambda: Arrays(HEARD))
    """Partition epochs that a broker reported and no controller has yet."""
    requested_epochs: Arrays = field(default_factory=lambda: Arrays(ASKED))
    """ISRs that a leader asked for, by the partition epoch that they would get; not answered yet."""
    wrong_clocks: dict[tuple[int, int], int] = field(default_factory=dict)
    """By partition and broker: by how many microseconds its clock is wrong, see batch.clock_offsets."""
    clock_offsets: Arrays = field(default_factory=lambda: Arrays(APART))
    """Brokers whose clocks differ, or did, from the controller's, sorted by (key, ts)."""
    lines_read: Arrays = field(default_factory=lambda: Arrays(LINES_READ))
    """Rare lines read lately, by which their copies in other files are recognised."""
    waiting: pa.Table = field(default_factory=replication_events.ARROW.empty_table)
    """Partition rows that may not be read yet."""
    queued_events: dict[int, list[tuple[OrderKey, PartitionEvent]]] = field(default_factory=dict)
    """Rare events by partition that its history has not applied yet."""
    ended_terms: dict[tuple[int, int], tuple[int, TermSummary]] = field(default_factory=dict)
    """Terms that are over: (lane, start) -> (end, summary)."""
    histories: dict[int, PartitionHistory] = field(default_factory=dict)
    encoded_histories: EncodedHistories = field(default_factory=EncodedHistories)
    """Histories that have not been touched since the state was restored."""
    due: dict[int, int] = field(default_factory=dict)
    """Partitions with something undecided, and when it falls due."""
    lost_numbers: dict[int, list[tuple[int, int]]] = field(default_factory=dict)
    """Series with numbers declared lost: a row with one of them is late, not a repeat."""
    gap_times: dict[tuple[int, int], list[int]] = field(default_factory=dict)
    """(cluster, broker) -> times from which on telemetry of it was missing, until every lane has passed them."""
    misread_times: dict[tuple[int, int], list[int]] = field(default_factory=dict)
    """Those of `gap_times` at which lines were there and not understood."""
    reported_losses: set[tuple[int, int]] = field(default_factory=set)
    """(source, number) of the `lost` rows read."""
    assignments: Assignments = field(default_factory=Assignments)
    pending_starts: pa.Table = field(default_factory=PENDING_STARTS.empty_table)
    """Starts that may become first terms, once the low watermark has passed them."""
    first_terms: FirstTerms = field(default_factory=FirstTerms)
    """Partitions whose only rare event is their start, instead of a history."""

    def place(self, partition: int) -> tuple[str, str, int]:
        """(cluster, topic, partition) of a numbered partition."""
        key = int(self.partition_keys.keys[partition])
        cluster, topic = self.topics.all[key >> 32]
        return str(cluster), str(topic), key & 0xFFFFFFFF

    def record_gap(self, cluster: int, broker: int, ts: int) -> None:
        """From `ts` on telemetry of a broker is missing."""
        times = self.gap_times.setdefault((cluster, broker), [])
        if ts not in times:
            insort(times, ts)

    def record_misread(self, cluster: int, broker: int, ts: int) -> None:
        """From `ts` on lines of a broker were not understood: what they report is missing."""
        self.record_gap(cluster, broker, ts)
        times = self.misread_times.setdefault((cluster, broker), [])
        if ts not in times:
            insort(times, ts)

    def history(self, partition: int) -> PartitionHistory:
        """The history of a numbered partition, made or decoded on first use."""
        if partition not in self.histories:
            self.histories |= self.first_terms.take([partition], self.place)
        if partition not in self.histories:
            blob = self.encoded_histories.take(partition)
            history = PartitionHistory.from_bytes(blob) if blob else PartitionHistory(*self.place(partition))
            self.histories[partition] = history
        return self.histories[partition]

    def lane_of(self, partition: int, broker: int) -> int:
        """The lane of a broker in a partition, -1 where it has none."""
        return self.lane_keys.find((partition << 32) | (broker & 0xFFFFFFFF))

    def pending_from(self) -> I64:
        """Where the pending rows of each lane begin."""
        return np.concatenate([[0], np.cumsum(self.lanes["carried"], dtype=np.int64)])
