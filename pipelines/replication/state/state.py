"""Everything a Reconstructor keeps between micro-batches."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Set
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pipelines.replication.compiled.hash_index import Keys
from pipelines.replication.compiled.records import Arrays
from pipelines.replication.compiled.types import I64, NEVER
from pipelines.replication.metadata.assignments import Assignments
from pipelines.replication.metadata.brokers_and_configs import Timeline
from pipelines.replication.metadata.layout import CLOCK_OFFSETS, RECORDED_EPOCHS, REPORTED_EPOCHS, REQUESTED_EPOCHS
from pipelines.replication.partition.encoded import EncodedHistories
from pipelines.replication.partition.events import PartitionEvent, TermSummary
from pipelines.replication.partition.first_terms import FirstTerms
from pipelines.replication.partition.history import PartitionHistory
from pipelines.replication.samples.layout import HELD_HWS
from pipelines.replication.samples.partitions import SampledPartitions
from pipelines.replication.samples.watched import Watched
from pipelines.replication.telemetry.closings import NOTHING_HELD, Closings, Held
from pipelines.replication.telemetry.coverage import CLOCK_JUMP_US
from pipelines.replication.telemetry.sources import Sources
from pipelines.replication.term.layout import (
    EARLIER,
    HW_ROWS,
    LANES,
    LINES_READ,
    PARTITIONS,
    RECENT,
    REPLICAS,
    SERIES,
    SLOTS,
    SYNC_ROWS,
)
from schemas import replication_events
from schemas.replication_events import WATCHER

OrderKey = tuple[int, int, int, str, int, int]
"""The canonical order of events of different sources: time; broker; 0 for leader, follower, isr and config, else 1;
source id; source epoch; sequence number."""
SAMPLED = 1 << 31
"""In the key of a lane beside the broker: samples fill it. A broker's log may fill another one meanwhile."""

KEPT_TERMS = 1024
"""The most ended terms that are kept without a look at their age."""
ENDED_TERM_GRACES, GAP_GRACES = 6, 60
"""For how many graces ended terms and the times of gaps are kept behind the low watermark."""
HELD_US = 4 * CLOCK_JUMP_US
"""For how long what samples show is held at most, and more, where the grace is shorter than seconds."""
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
    """(topic << 32 | partition, source); a state that is stored has them in `series`."""
    partition_keys: Keys = field(default_factory=Keys)
    """topic << 32 | partition"""
    lane_keys: Keys = field(default_factory=Keys)
    """number of the partition << 32 | broker, with SAMPLED where samples fill the lane"""
    series: Arrays = field(default_factory=lambda: Arrays(SERIES))
    partitions: Arrays = field(default_factory=lambda: Arrays(PARTITIONS))
    lanes: Arrays = field(default_factory=lambda: Arrays(LANES))
    replicas: Arrays = field(default_factory=lambda: Arrays(REPLICAS, SLOTS))
    pending_rows: Arrays = field(default_factory=lambda: Arrays(HW_ROWS))
    """HW rows that are not final, in the order of their lanes."""
    recent_hws: Arrays = field(default_factory=lambda: Arrays(RECENT))
    """HWs of lanes that a history may still ask for, in the order of their lanes."""
    timeline: Timeline = field(default_factory=Timeline)
    recorded_epochs: Arrays = field(default_factory=lambda: Arrays(RECORDED_EPOCHS))
    """Partition epochs that a controller recorded lately, sorted by (key, ts)."""
    reported_epochs: Arrays = field(default_factory=lambda: Arrays(REPORTED_EPOCHS))
    """Partition epochs that a broker reported and no controller has yet."""
    requested_epochs: Arrays = field(default_factory=lambda: Arrays(REQUESTED_EPOCHS))
    """ISRs that a leader asked for, by the partition epoch that they would get; not answered yet."""
    wrong_clocks: dict[tuple[int, int], int] = field(default_factory=dict)
    """By partition and broker: by how many microseconds its clock is wrong, see batch.clock_offsets."""
    clock_offsets: Arrays = field(default_factory=lambda: Arrays(CLOCK_OFFSETS))
    """Brokers whose clocks differ, or did, from the controller's, sorted by (key, ts)."""
    lines_read: Arrays = field(default_factory=lambda: Arrays(LINES_READ))
    """Rare lines read lately, by which their copies in other files are recognised."""
    waiting: pa.Table = field(default_factory=replication_events.ARROW.empty_table)
    """Partition rows that may not be read yet."""
    closings: Closings = field(default_factory=Closings)
    """Closing rows that wait for what they name, or took effect."""
    held: Held = NOTHING_HELD
    """What came from behind a closing row that waits."""
    queued_events: dict[int, list[tuple[OrderKey, PartitionEvent]]] = field(default_factory=dict)
    """Rare events by partition that its history has not applied yet."""
    ended_terms: dict[tuple[int, int], tuple[int, TermSummary]] = field(default_factory=dict)
    """Terms that are over: (lane, start) -> (end, summary)."""
    earlier_terms: Arrays = field(default_factory=lambda: Arrays(EARLIER))
    """How terms were, as far as a history may still ask for it."""
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
    last_gaps: dict[tuple[int, int], int] = field(default_factory=dict)
    """(cluster, broker) -> the newest gap that `gap_times` has no more: nobody asks of a time before it, so that it
    answers for all older ones, however long a term lasts."""
    last_misreads: dict[tuple[int, int], int] = field(default_factory=dict)
    """The same of `misread_times`."""
    reported_losses: set[tuple[int, int]] = field(default_factory=set)
    """(source, number) of the `lost` rows read."""
    assignments: Assignments = field(default_factory=Assignments)
    pending_starts: pa.Table = field(default_factory=PENDING_STARTS.empty_table)
    """Starts that may become first terms, once the low watermark has passed them."""
    first_terms: FirstTerms = field(default_factory=FirstTerms)
    """Partitions whose only rare event is their start, instead of a history."""
    watched: Watched = field(default_factory=Watched)
    """When brokers answered watchers."""
    sampled: SampledPartitions = field(default_factory=SampledPartitions)
    """What watchers have sampled; what they see leading has lanes of its own, see `sampled_lanes`."""
    held_hws: Arrays = field(default_factory=lambda: Arrays(HELD_HWS))
    """HW rows of samples until it is known whether the leader's log tells of that time."""
    held_changes: Arrays = field(default_factory=lambda: Arrays(SYNC_ROWS))
    """Likewise what samples show of replicas in and out of sync."""
    _watchers: list[bool] = field(default_factory=list, repr=False)
    _watched_series: npt.NDArray[np.bool_] = field(default_factory=lambda: np.empty(0, dtype=np.bool_), repr=False)

    def number_series(self) -> None:
        """Make the index over `series`."""
        keys, source = self.partition_keys.keys[self.series["partition"]], self.series["source"]
        self.series_keys = Keys(keys, source)

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

    def gaps(self, cluster: int, broker: int) -> list[int]:
        """The times from which on telemetry of a broker was missing; of old ones the newest."""
        place = cluster, broker
        old = [self.last_gaps[place]] if place in self.last_gaps else []
        return [*old, *self.gap_times.get(place, ())]

    def misreads(self, cluster: int, broker: int) -> list[int]:
        """Those of `gaps` at which lines were there and not understood."""
        place = cluster, broker
        old = [self.last_misreads[place]] if place in self.last_misreads else []
        return [*old, *self.misread_times.get(place, ())]

    @property
    def forgets(self) -> bool:
        """Whether there is something that `forget` may drop."""
        silences = any(len(source.told) > 1 for source in self.sources.known.values())
        return len(self.ended_terms) > KEPT_TERMS or bool(self.gap_times) or silences

    def forget(self, asked_from: I64, grace_us: int) -> None:
        """Drop ended terms and gaps that no history can tell apart any more; `asked_from`: by partition since when it
        may, which is long before the low watermark of its cluster where rows behind a gap hold it back."""
        if len(self.ended_terms) > KEPT_TERMS:
            partition, kept_us = self.lanes["partition"], ENDED_TERM_GRACES * grace_us
            self.ended_terms = {
                key: term
                for key, term in self.ended_terms.items()
                if term[0] >= asked_from[partition[key[0]]] - kept_us
            }
        if not len(asked_from):  # no partition has come yet: those that will ask of times before
            return
        oldest = int(asked_from.min()) - GAP_GRACES * grace_us
        for source in self.sources.known.values():
            source.forget(oldest - HELD_US)
        for known, last in ((self.gap_times, self.last_gaps), (self.misread_times, self.last_misreads)):
            for broker in [broker for broker, times in known.items() if times[0] <= oldest]:
                times = known.pop(broker)
                old = bisect_right(times, oldest)
                last[broker] = times[old - 1]
                if old < len(times):
                    known[broker] = times[old:]

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

    @property
    def histories_wait(self) -> bool:
        """Whether a history has something to do, now or once the low watermark is past it: an event queued, a decision
        that falls due, a first term undecided, HWs of a leader that was deposed."""
        undecided = self.first_terms.decided.size and not self.first_terms.decided.all()
        return bool(self.queued_events or self.due or undecided or (self.lanes["deposed"] == 1).any())

    def watchers(self) -> npt.NDArray[np.bool_]:
        """By source number whether it is a watcher."""
        new = self.source_names.all[len(self._watchers) :]
        self._watchers += [str(name[1]).startswith(WATCHER) for name in new]
        return np.array(self._watchers, dtype=np.bool_)

    @property
    def has_watcher(self) -> bool:
        """Whether any source is a watcher."""
        return bool(self.watchers().any())

    def watched_series(self) -> npt.NDArray[np.bool_] | None:
        """By series whether a watcher reports it; None where no watcher reports anything."""
        if not self.has_watcher:
            return None
        known = len(self._watched_series)
        if known < self.series.count:
            new = self.watchers()[self.series["source"][known:]]
            self._watched_series = np.concatenate([self._watched_series, new])
        return self._watched_series

    def sampled_lanes(self) -> npt.NDArray[np.bool_]:
        """By lane whether samples fill it instead of the kernel."""
        sampled: npt.NDArray[np.bool_] = (self.lane_keys.keys & SAMPLED != 0) & (self.lanes["broker"] >= 0)
        return sampled

    def pending_from(self) -> I64:
        """The index of each lane's first pending row."""
        return np.concatenate([[0], np.cumsum(self.lanes["pending"], dtype=np.int64)])

    def low_watermarks(self) -> I64:
        """The low watermark of each source by number, -1 where it has none."""
        known, names = self.sources.known, self.source_names.all
        return np.array([known[name].low_watermark if name in known else -1 for name in names], dtype=np.int64)

    def beside_others(self) -> npt.NDArray[np.bool_]:
        """By number of the source whether another incarnation of it may still write."""
        beside = self.sources.beside_others()
        return np.array([name in beside for name in self.source_names.all], dtype=np.bool_)

    def cluster_low_watermarks(self, closed: Set[str]) -> dict[int, int]:
        """By number of the cluster the last time of which all has come; all that these `closed` ones have told is
        complete. A row of the very moment of the low watermark may follow, and is not late."""
        return {
            number: NEVER if name[0] in closed else self.sources.cluster_low_watermark(str(name[0])) - 1
            for number, name in enumerate(self.clusters.all)
        }
