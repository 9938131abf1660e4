"""All sampled partitions, as the kernel reads and writes them, and as tables of a state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pipelines.replication.compiled.records import Arrays, RecordLayout, Records, as_records
from pipelines.replication.compiled.types import I64, MOST_REPLICAS, NULL
from pipelines.replication.samples.bundles import LEAST_ROOM, Heap, Store
from pipelines.replication.samples.layout import CHILDREN, KEPT_ISRS, KEPT_STEPS, KEPT_TERMS, SAMPLED, SPAN

_LAYOUTS = {"sampled": SAMPLED} | {f"sampled_{name}": layout for name, layout in CHILDREN.items()}
_LATER = frozenset({"hw_ts", "hw_source", "held", "held_back"})
"""Columns that the first states lack."""
TABLES = tuple(_LAYOUTS)
"""The tables of a state that has sampled partitions: one of these, and those of its CHILDREN one after the other."""


class SampledEpoch(NamedTuple):
    """The samples of one leader epoch: the largest HW with its time, the leader's last LEO, and the replicas that had
    records of that epoch."""

    hw: int | None
    leo: int | None
    fetchers: frozenset[int]
    hw_ts: int


class _Ragged:
    """Records of one kind, those of a partition side by side with room for more."""

    def __init__(self, layout: RecordLayout) -> None:
        self.layout, self.spans = layout, Arrays(SPAN)
        self.rows: Records = np.empty((0, len(layout.defaults)), dtype=np.int64)
        self.used = np.zeros(1, dtype=np.int64)

    def heap(self) -> Heap:
        return Heap(self.spans.records[: self.spans.count], as_records(self.layout, self.rows), self.used)

    def grow(self, more: int) -> None:
        """Make room for so many records more, and for half of what there are."""
        if self.used[0] + more <= len(self.rows):
            return
        grown = np.empty((self.used[0] + more + len(self.rows) // 2, len(self.layout.defaults)), dtype=np.int64)
        grown[: self.used[0]] = self.rows[: self.used[0]]
        self.rows = grown

    def of(self, partitions: I64, counts: I64) -> Records:
        """The records of these partitions, one after the other."""
        return self.rows[_spread(self.spans["at"][partitions], counts)]

    def append(self, rows: Records, counts: I64) -> None:
        """Add partitions with their records."""
        first, used = self.spans.count, int(self.used[0])
        self.spans.grow(first + len(counts))
        self.spans["at"][first:], self.spans["room"][first:] = used + np.cumsum(counts) - counts, counts
        self.grow(len(rows))
        self.rows[used : used + len(rows)] = rows
        self.used[0] += len(rows)


class SampledPartitions:
    """Records of SAMPLED, each with its CHILDREN."""

    def __init__(self) -> None:
        self.records = Arrays(SAMPLED)
        self._children = {name: _Ragged(layout) for name, layout in CHILDREN.items()}
        self._record_of = np.full(0, -1, dtype=np.int64)

    def __bool__(self) -> bool:
        return self.records.count > 0

    def find(self, numbers: I64) -> I64:
        """The record of each of these partitions, -1 if it has none."""
        known = numbers < len(self._record_of)
        found = np.full(len(numbers), -1, dtype=np.int64)
        found[known] = self._record_of[numbers[known]]
        return found

    def add(self, tables: Mapping[str, Records]) -> None:
        """Add partitions as `rows` returns them."""
        records, first = tables["sampled"], self.records.count
        self.records.grow(first + len(records))
        self.records.data[first : self.records.count] = records
        for name, child in self._children.items():
            child.append(tables[f"sampled_{name}"], records[:, getattr(SAMPLED.at, name)])
        numbers = records[:, SAMPLED.at.number]
        more = int(numbers.max(initial=-1)) + 1 - len(self._record_of)
        if more > 0:
            self._record_of = np.concatenate([self._record_of, np.full(more + len(self._record_of), -1)])
        self._record_of[numbers] = np.arange(first, self.records.count)

    def rows(self, partitions: I64) -> dict[str, Records]:
        """The records of these partitions by place, a table of each kind."""
        found = {"sampled": self.records.data[partitions]}
        for name, child in self._children.items():
            found[f"sampled_{name}"] = child.of(partitions, self.records[name][partitions])
        return found

    def store(self) -> Store:
        """All of it, to be read and written by the kernel."""
        heaps = {name: child.heap() for name, child in self._children.items()}
        return Store(records=self.records.records[: self.records.count], **heaps)

    def make_room(self, rows: int) -> None:
        """Make room for what so many rows of one partition may add."""
        most = {"members": MOST_REPLICAS, "steps": KEPT_STEPS + 1, "terms": KEPT_TERMS, "isrs": KEPT_ISRS}
        for name, child in self._children.items():
            child.grow(2 * max(most.get(name, rows), rows) + 2 * LEAST_ROOM + 2 * most.get(name, 0))

    def epoch(self, number: int, broker: int, epoch: int, topic_id: int | None, as_of: int) -> SampledEpoch | None:
        """The samples of a leader epoch of a partition; `topic_id` None: of any topic id."""
        record = self.find(np.array([number]))
        if record[0] < 0:
            return None
        tables = {name: as_records(_LAYOUTS[name], rows) for name, rows in self.rows(record).items()}
        for term in tables["sampled_terms"][::-1]:
            if term["broker"] == broker and term["epoch"] == epoch and topic_id in (None, term["topic_id"]):
                rose = tables["sampled_hws"][tables["sampled_hws"]["term"] == term["number"]]
                hws = [(term["first_ts"], term["first_hw"]), *zip(rose["ts"], rose["hw"], strict=True)]
                hw, hw_ts = max(((int(hw), int(ts)) for ts, hw in hws if NULL < ts <= as_of), default=(None, 0))
                brokers = tables["sampled_members"]["broker"].tolist()
                fetchers = frozenset(b for k, b in enumerate(brokers) if term["fetchers"] >> k & 1)
                return SampledEpoch(hw, None if term["leo"] == NULL else int(term["leo"]), fetchers, hw_ts)
        return None

    def gone(self) -> I64:
        """The partitions whose topics a watcher saw go."""
        gone: I64 = self.records["number"][self.records["gone"] == 1]
        return gone

    def tables(self) -> dict[str, pa.Table]:
        """Everything, as columns."""
        rows = self.rows(np.arange(self.records.count))
        return {
            name: pa.table({column: np.ascontiguousarray(rows[name][:, k]) for k, column in enumerate(layout.names)})
            for name, layout in _LAYOUTS.items()
        }

    @classmethod
    def from_tables(cls, tables: Mapping[str, pa.Table]) -> SampledPartitions:
        """The inverse of `tables`. Raises ValueError with the name of an unknown or missing column."""
        made = cls()
        read = {name: Arrays.from_table(layout, tables[name], later=_LATER) for name, layout in _LAYOUTS.items()}
        made.add({name: arrays.data[: arrays.count] for name, arrays in read.items()})
        return made


def _spread(begins: I64, counts: npt.NDArray[np.int64]) -> I64:
    """begins[k], begins[k] + 1, ... counts[k] of them, for each k."""
    found: I64 = np.repeat(begins - (np.cumsum(counts) - counts), counts) + np.arange(int(counts.sum()))
    return found
