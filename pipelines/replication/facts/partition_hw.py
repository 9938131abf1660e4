"""silver/partition_hw from the kernel's final rows, a block at a time while it is in the cache."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pipelines.replication.compiled.decorators import hot, kernel
from pipelines.replication.compiled.hash_index import Keys
from pipelines.replication.compiled.records import Record, RecordArray, Records, as_records, record_layout
from pipelines.replication.compiled.types import I32, I64, LOW, MINUTE_US, NULL, NULL32
from pipelines.replication.facts.columns import (
    LaneReplicas,
    NameColumns,
    Vocabulary,
    bigints,
    ints,
    lane_replicas,
    list_array,
    sort_slots,
    times,
    word_column,
    write_list,
)
from pipelines.replication.facts.tables import EMPTY, SCHEMAS, table
from pipelines.replication.state.state import State
from pipelines.replication.term.layout import (
    ADVANCE,
    AGREEMENTS,
    DISAGREE,
    HW_ROWS,
    KINDS,
    NONE_YET,
    REPORT,
    TERM_START,
)

BLOCK = 1 << 15
"""Rows that are written together."""
WORDS = (*AGREEMENTS, *KINDS)
_AGREEMENTS, _KINDS = Vocabulary.from_words(AGREEMENTS), Vocabulary.from_words(KINDS)
HW_RUNS = record_layout(
    lane=-1, first=0, topic=-1, topic_id=-1, leader=NULL32, leader_epoch=NULL32, level=0, minute=0, kind=0, agreement=0
)  # fmt: skip
"""Consecutive rows, from `first` on, that have all these values in common."""
RUN = HW_RUNS.at


class Block(NamedTuple):
    """A block's rows in Arrow's layout; the ids of list k stand from ends[k] to ends[k + 1]."""

    ts: I64
    hw: I64
    reported: I64
    leader_leo: I64
    partition: I32
    leader: I32
    leader_epoch: I32
    level: I32
    isr_ends: I32
    isr: I32
    holding_ends: I32
    holding: I32
    frozen: npt.NDArray[np.bool_]

    @classmethod
    def blank(cls, count: int, width: int) -> Block:
        """Columns of `count` rows, to be written; each list has up to `width` replicas."""
        sizes = [*[count] * 8, *(count + 1, count * width + 1) * 2, count]
        kinds = [*[np.int64] * 4, *[np.int32] * 8, np.bool_]
        columns: list[Any] = [np.empty(size, kind) for size, kind in zip(sizes, kinds, strict=True)]
        return cls(*columns)


class BlockSource(NamedTuple):
    """The arrays to which a block's rows refer, with room for one lane's replicas in order: their `slots` and `ids`."""

    lanes: RecordArray
    replicas: LaneReplicas
    partition_keys: I64
    slots: I64
    ids: I32

    @classmethod
    def from_state(cls, state: State) -> BlockSource:
        """Views of the arrays in `state`."""
        width = state.replicas.width
        slots, ids = np.empty(width, dtype=np.int64), np.empty(width, dtype=np.int32)
        return cls(state.lanes.records, lane_replicas(state), state.partition_keys.keys, slots, ids)


@kernel
def _fill_block(
    rows: RecordArray, source: BlockSource, block: Block, runs: RecordArray
) -> tuple[int, bool, bool, bool]:
    """(number of runs, whether an HW, a report, a leader's LEO is null): writes the columns of a block and its runs."""
    s, replicas, until, partition = -1, 0, NULL, 0
    hw_null, reported_null, leo_null = False, False, False
    isr, holding, end = np.uint64(0), np.uint64(0), np.uint64(len(rows))
    run = runs[0]
    for k in range(end):
        row = rows[k]
        if s < 0 or not _continues(row, run, until):
            if s < 0 or row.lane != run.lane:
                replicas = sort_slots(source.replicas, row.lane, source.slots, source.ids)
            s += 1
            run, lane = runs[s], source.lanes[row.lane]
            until = _begin_run(run, int(np.int64(k)), row, lane)
            partition = source.partition_keys[lane.partition] & 0xFFFFFFFF
        hw_null |= row.hw == NULL
        reported_null |= row.reported == NULL
        leo_null |= row.leader_leo == NULL
        block.ts[k], block.partition[k], block.leader[k] = row.ts, partition, run.leader
        block.leader_epoch[k], block.level[k] = run.leader_epoch, run.level
        block.hw[k], block.reported[k], block.leader_leo[k] = row.hw, row.reported, row.leader_leo
        block.frozen[k] = row.frozen != 0
        block.isr_ends[k], block.holding_ends[k] = isr, holding
        isr = write_list(row.isr, source.slots, source.ids, replicas, block.isr, isr)
        holding = write_list(row.holding, source.slots, source.ids, replicas, block.holding, holding)
    block.isr_ends[end], block.holding_ends[end] = isr, holding
    return s + 1, hw_null, reported_null, leo_null


@hot
def _continues(row: Record, run: Record, until: int) -> bool:
    """Whether a row belongs to a run, whose minute ends at `until`."""
    return bool(
        row.lane == run.lane
        and row.kind == run.kind
        and row.agreement == run.agreement
        and until - MINUTE_US <= row.ts < until
        and row.leader_epoch == run.leader_epoch
        and row.topic_id == run.topic_id
        and row.level == run.level
    )


@hot
def _begin_run(run: Record, first: int, row: Record, lane: Record) -> int:
    """Begin a run with a row; returns the end of its minute."""
    run.minute = row.ts // MINUTE_US
    run.lane, run.first, run.topic = row.lane, first, lane.topic
    run.topic_id, run.leader_epoch = row.topic_id, row.leader_epoch
    run.leader, run.level = lane.broker, row.level
    run.kind, run.agreement = row.kind, row.agreement
    return int((run.minute + 1) * MINUTE_US)


def counted_reports(kind: I64, reported: I64) -> I64:
    """The reports that rows of these kinds count, see RECENT."""
    return np.where(kind == ADVANCE, reported, np.where(kind == TERM_START, NONE_YET, NULL))


@dataclass
class HwRows:
    """The final HW rows of one micro-batch, as Arrow tables and as numbers."""

    state: State
    blocks: list[tuple[I64, I64, I64, Block]] = field(default_factory=list)
    """Blocks of rows: the lanes of its runs, their kinds, their sizes, its columns."""
    _tables: list[pa.Table] = field(default_factory=list)
    _leaders: Keys = field(default_factory=Keys)
    """cluster << 32 | broker"""
    _places: Keys = field(default_factory=Keys)
    """number of the leader << 32 | minute"""
    _columns: NameColumns | None = None
    _counts: npt.NDArray[np.int64] | None = None
    """By place and word."""

    def _names(self) -> NameColumns:
        """Anew where samples have brought topic ids since."""
        if self._columns is None or self._columns.known != len(self.state.topic_ids.all):
            self._columns = NameColumns(self.state)
        return self._columns

    def add(self, rows: Records) -> None:
        """Add rows of the kernel; it may overwrite them afterwards."""
        if not len(rows):
            return
        source, runs = BlockSource.from_state(self.state), np.empty((len(rows), len(RUN)), dtype=np.int64)
        block = Block.blank(len(rows), source.replicas.width)
        count, *nulls = _fill_block(as_records(HW_ROWS, rows), source, block, as_records(HW_RUNS, runs))
        columns = np.ascontiguousarray(runs[:count].T)
        sizes = np.append(columns[RUN.first, 1:], len(rows)) - columns[RUN.first]
        self.blocks.append((columns[RUN.lane], columns[RUN.kind], sizes, block))
        self._tables.append(self._table(columns, sizes, block, *nulls))
        self._count(columns, sizes)

    def _table(self, runs: Records, sizes: I64, block: Block, hw: bool, reported: bool, leader_leo: bool) -> pa.Table:
        """`runs` has a row per column of HW_RUNS; the last three say whether a column has nulls."""
        made = {
            **self._names().columns(runs[RUN.topic], runs[RUN.topic_id], sizes),
            "partition": pa.array(block.partition),
            "leader_id": ints(block.leader, bool((runs[RUN.leader] == NULL32).any())),
            "ts": times(block.ts, False),
            "leader_epoch": ints(block.leader_epoch, bool((runs[RUN.leader_epoch] == NULL32).any())),
            "kind": word_column(runs[RUN.kind], _KINDS, sizes),
            "hw": bigints(block.hw, hw),
            "reported_hw": bigints(block.reported, reported),
            "leader_leo": bigints(block.leader_leo, leader_leo),
            "isr": list_array(block.isr_ends, block.isr),
            "holding_replicas": list_array(block.holding_ends, block.holding),
            "frozen": pa.array(block.frozen),
            "agreement": word_column(runs[RUN.agreement], _AGREEMENTS, sizes),
            "level": pa.array(block.level),
        }
        return table(SCHEMAS["partition_hw"], made)

    def _count(self, runs: Records, sizes: I64) -> None:
        """Count a row by its agreement where it has a meaningful one, else by its kind."""
        kind, agreement, cluster = runs[RUN.kind], runs[RUN.agreement], self.state.lanes["cluster"][runs[RUN.lane]]
        leader = self._leaders.number(cluster << 32 | runs[RUN.leader] & LOW)
        place = self._places.number(leader.astype(np.int64) << 32 | runs[RUN.minute])
        by_agreement = (kind == ADVANCE) | ((agreement == DISAGREE) & (kind == REPORT))
        word = np.where(by_agreement, agreement, len(AGREEMENTS) + kind)
        cells = self._places.count * len(WORDS)
        counts = np.bincount(place * len(WORDS) + word, sizes, cells).astype(np.int64).reshape(-1, len(WORDS))
        if self._counts is not None:
            counts[: len(self._counts)] += self._counts
        self._counts = counts

    def counts(self) -> list[tuple[int, int, int, str, int]]:
        """(cluster number, broker, minute in microseconds, word, number of rows) of all rows added."""
        if self._counts is None:
            return []
        place, word = np.nonzero(self._counts)
        leader, minute = self._leaders.keys[self._places.keys[place] >> 32], self._places.keys[place] & LOW
        found = leader >> 32, leader << 32 >> 32, minute * MINUTE_US, word, self._counts[place, word]
        return [(c, b, m, WORDS[w], n) for c, b, m, w, n in zip(*(v.tolist() for v in found), strict=True)]

    def lanes(self) -> I64:
        """The lanes that have rows; one may come several times."""
        lanes: I64 = np.concatenate([np.empty(0, np.int64), *(lane for lane, *_ in self.blocks)])
        return lanes

    def parts(self) -> list[tuple[I64, I64, I64, I64]]:
        """The columns of RECENT of the rows of each block."""
        return [
            (np.repeat(lane, sizes), block.ts, block.hw, counted_reports(np.repeat(kind, sizes), block.reported))
            for lane, kind, sizes, block in self.blocks
        ]

    def table(self) -> pa.Table:
        """silver/partition_hw."""
        return pa.concat_tables(self._tables) if self._tables else EMPTY["partition_hw"]
