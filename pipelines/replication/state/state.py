"""Everything a Reconstructor remembers between micro-batches."""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable
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
from pipelines.replication.partition.encoded import Packed
from pipelines.replication.partition.events import Note, TermSeen
from pipelines.replication.partition.first_terms import FirstTerms
from pipelines.replication.partition.history import PartitionHistory
from pipelines.replication.telemetry.sources import Sources
from pipelines.replication.term.layout import HW_ROWS, LANES, LINES_READ, PARTITIONS, RECENT, REPLICAS, SERIES, SLOTS
from schemas import replication_events

OrderKey = tuple[int, int, int, str, int, int]
"""Canonical order between sources: time, broker, leader/follower/isr/config first, source, epoch, number."""


STARTING = pa.schema([("number", pa.int64()), ("clock", pa.int64()), *replication_events.ARROW])
"""A leader's start by the number of its partition, and its place in time among what other sources tell."""


class Names:
    """Numbers for names, in the order of their first appearance."""

    def __init__(self, names: list[tuple[Any, ...]] | None = None) -> None:
        self.all = names or []
        self._number = {name: k for k, name in enumerate(self.all)}

    def number(self, *name: Any) -> int:
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
    """Names, sources, numbered series, partitions and lanes, rows that wait, histories."""

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
    carry: Arrays = field(default_factory=lambda: Arrays(HW_ROWS))
    recent: Arrays = field(default_factory=lambda: Arrays(RECENT))
    timeline: Timeline = field(default_factory=Timeline)
    recorded: Arrays = field(default_factory=lambda: Arrays(RECORDED))
    """By (key, ts): one row per partition epoch that a controller told lately."""
    heard: Arrays = field(default_factory=lambda: Arrays(HEARD))
    asked: Arrays = field(default_factory=lambda: Arrays(ASKED))
    clocks_apart: dict[tuple[int, int], int] = field(default_factory=dict)
    """By partition and broker: by how many microseconds its clock is wrong, see clocks."""
    apart: Arrays = field(default_factory=lambda: Arrays(APART))
    """By (key, ts): brokers whose clocks are, or were, apart from the controller's."""
    lines_read: Arrays = field(default_factory=lambda: Arrays(LINES_READ))
    """Rare lines read lately, by which copies of them in other files are known."""
    waiting: pa.Table = field(default_factory=replication_events.ARROW.empty_table)
    """Partition rows that may not be read yet."""
    notes: dict[int, list[tuple[OrderKey, Note]]] = field(default_factory=dict)
    """Rare rows by partition, read by their lane but not yet by the partition's history."""
    ended: dict[tuple[int, int], tuple[int, TermSeen]] = field(default_factory=dict)
    """Terms that are over: (lane, start) -> (end, what was seen of it)."""
    histories: dict[int, PartitionHistory] = field(default_factory=dict)
    packed: Packed = field(default_factory=Packed)
    """Histories that have not been touched since the state was restored."""
    due: dict[int, int] = field(default_factory=dict)
    """Partitions with something undecided, and when it falls due."""
    gaps: dict[int, list[tuple[int, int]]] = field(default_factory=dict)
    """Series with numbers declared lost: what comes of them later is late, not a repeat."""
    holds: dict[tuple[int, int], list[int]] = field(default_factory=dict)
    """(cluster, broker) -> times at which telemetry of it went missing, until every lane has passed them."""
    unread: dict[tuple[int, int], list[int]] = field(default_factory=dict)
    """Those of `holds` at which lines of it were there, and not understood."""
    told_lost: set[tuple[int, int]] = field(default_factory=set)
    assigned: Assignments = field(default_factory=Assignments)
    starting: pa.Table = field(default_factory=STARTING.empty_table)
    """Starts that may become first terms, once everybody has told so far."""
    first_terms: FirstTerms = field(default_factory=FirstTerms)
    """Partitions of which their start is all there is to tell, instead of a history."""

    def place(self, partition: int) -> tuple[str, str, int]:
        """(cluster, topic, partition) of a numbered partition."""
        key = int(self.partition_keys.keys[partition])
        cluster, topic = self.topics.all[key >> 32]
        return str(cluster), str(topic), key & 0xFFFFFFFF

    def hold(self, cluster: int, broker: int, ts: int) -> None:
        """From `ts` on telemetry of a broker is missing."""
        times = self.holds.setdefault((cluster, broker), [])
        if ts not in times:
            insort(times, ts)

    def misread(self, cluster: int, broker: int, ts: int) -> None:
        """From `ts` on lines of a broker are not understood: what they report is missing."""
        self.hold(cluster, broker, ts)
        times = self.unread.setdefault((cluster, broker), [])
        if ts not in times:
            insort(times, ts)

    def partition_of(self, row: dict[str, Any]) -> int:
        """The number of the partition that a fact names."""
        topic = self.topics.number(row["cluster"], row["topic"])
        return self.partition_keys.find((topic << 32) | int(row["partition"]))

    def history(self, partition: int) -> PartitionHistory:
        """The history of a numbered partition, made or unpacked when first touched."""
        if partition not in self.histories:
            self.histories |= self.first_terms.take([partition], self.place)
        if partition not in self.histories:
            packed = self.packed.take(partition)
            fresh: Callable[[], PartitionHistory] = lambda: PartitionHistory(*self.place(partition))  # noqa: E731
            self.histories[partition] = PartitionHistory.from_bytes(packed) if packed else fresh()
        return self.histories[partition]

    def lane_of(self, partition: int, broker: int) -> int:
        """The lane of a broker in a partition, -1 where it has none."""
        return self.lane_keys.find((partition << 32) | (broker & 0xFFFFFFFF))

    def topic_id(self, number: int) -> str | None:
        return None if number < 0 else str(self.topic_ids.all[number][0])

    def carry_from(self) -> I64:
        """Where each lane's carried rows begin."""
        return np.concatenate([[0], np.cumsum(self.lanes["carried"], dtype=np.int64)])
