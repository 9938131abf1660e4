"""The limit: Parquet decoded by pyarrow and one compiled loop over its columns; no engine, nothing written."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pipelines.bench.engines.answer import ISR_CHANGES, OUT_OF_SYNC, ordered
from pipelines.bench.engines.engine import ASKED, Asked, parquet_files
from pipelines.bench.engines.limit_loop import KINDS, Events, LoopState, loop
from pipelines.bench.engines.turns import turns
from pipelines.bench.workloads.workload import RULES
from pipelines.replication.compiled.types import I64

COLUMNS = ["event_type", "topic", "partition", "ts", "replica_id", "leo", "leader_leo", "isr"]


class Limit:
    """What no engine can do better than on this machine: one core, as the load needs it and no more."""

    NAME = "limit"
    COUNTED = "bronze's Parquet files to the rows of the three questions in memory, names as numbers, one core"

    def __init__(self, lake: str, folder: str, asked: Asked = ASKED) -> None:
        self._files, self._asked = parquet_files(lake), asked
        self._partitions, self._width = _size(self._files)
        self._topics: dict[str, int] = {}

    def prepare(self) -> None:
        self._topics = {}

    def run(self) -> None:
        self._state = state = LoopState(self._partitions, self._asked.resolution_us, RULES.lag_max_ms * 1000)
        for path in self._files:
            for rare, others, before in turns(path, COLUMNS):
                self._read(rare, others, before)
        state.end()

    def _read(self, rare: pa.Table, others: pa.RecordBatch, before: I64) -> None:
        """Both in the order in which they were reported: `before` says ahead of which other each of `rare` comes."""
        room = self._state.grown(len(rare) + len(others))
        columns = self._columns(others)
        aside = self._columns(rare.unify_dictionaries().combine_chunks().to_batches()[0]) if len(rare) else columns
        starts = np.flatnonzero(np.diff(before, prepend=-1))
        at = 0
        for first, last in pairwise([*starts.tolist(), len(before)]):
            loop(_rows(columns, at, before[first]), room)
            loop(_rows(aside, first, last), room)
            at = before[first]
        loop(_rows(columns, at, len(others)), room)

    def _columns(self, batch: pa.RecordBatch) -> Events:
        """What the loop reads of these rows."""
        isr = batch["isr"]
        return Events(
            self._kinds(batch["event_type"]), self._series(batch), _raw(batch["ts"], np.int64),
            _raw(batch["replica_id"], np.int32), _raw(batch["leo"], np.int64), _raw(batch["leader_leo"], np.int64),
            isr.offsets.to_numpy(), isr.values.to_numpy(),
        )  # fmt: skip

    def _kinds(self, words: pa.DictionaryArray) -> np.ndarray:
        numbers = np.array([KINDS.get(w, -1) for w in words.dictionary.to_pylist()], dtype=np.int64)
        kinds: np.ndarray = numbers[_raw(words.indices, np.int32)]
        return kinds

    def _series(self, batch: pa.RecordBatch) -> np.ndarray:
        """The number of each row's partition; -1 for broker-wide rows."""
        topics = batch["topic"].dictionary.to_pylist()
        numbers = np.array([self._topics.setdefault(t, len(self._topics)) for t in topics] or [0], dtype=np.int64)
        partition = _raw(batch["partition"], np.int32)
        return np.where(partition < 0, -1, numbers[_raw(batch["topic"].indices, np.int32)] * self._width + partition)

    def answer(self) -> pa.Table:
        return self.answers()["HWs"]

    def answers(self) -> dict[str, pa.Table]:
        state = self._state
        return {
            "HWs": ordered(self._named(state.hws, ["us", "hw"])),
            "ISR changes": ordered(self._changes(), ISR_CHANGES),
            "stretches out of sync": ordered(
                self._named(state.stretches, ["replica_id", "since", "until"]), OUT_OF_SYNC
            ),
        }

    def written(self) -> int:
        return 0

    def parts(self) -> dict[str, float]:
        return {}

    def close(self) -> None:
        pass

    def _named(self, rows: np.ndarray, names: list[str]) -> pa.Table:
        topic, partition = np.divmod(rows[:, 0], self._width)
        columns = {"topic": pa.array(list(self._topics), pa.string()).take(pa.array(topic)), "partition": partition}
        return pa.table(columns | {n: rows[:, k + 1] for k, n in enumerate(names)})

    def _changes(self) -> pa.Table:
        """The loop gives an ISR as bits over the partition's replicas."""
        rows, replicas = self._state.changes, self._state.replicas
        lists = {
            name: [[int(replicas[p, k]) for k in range(3) if mask >> k & 1] for p, mask in rows[:, [0, column]]]
            for name, column in (("isr_before", 2), ("isr_after", 3))
        }
        made = self._named(rows, ["us"])
        for name, values in lists.items():
            made = made.append_column(name, pa.array(values, ISR_CHANGES.field(name).type))
        return made


def _size(files: list[str]) -> tuple[int, int]:
    """(room for all partitions, the largest number of partitions of a topic)."""
    read = pq.read_table(files, columns=["topic", "partition"], read_dictionary=["topic"])
    width = pc.max(read["partition"]).as_py() + 1
    return len(pc.unique(read["topic"])) * width, width


def _rows(columns: Events, first: int, last: int) -> Events:
    *values, ends, members = columns
    return Events._make([*(column[first:last] for column in values), ends[first : last + 1], members])


def _raw(column: pa.Array, kind: type) -> np.ndarray:
    """The values as they lie in memory; what is null is whatever lies there."""
    width = np.dtype(kind).itemsize
    return np.frombuffer(column.buffers()[1], kind, len(column), column.offset * width)
