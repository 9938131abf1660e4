"""silver/partition_hw from the kernel's final rows: a block at a time, while it is in the cache."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pipelines.replication.compiled.decorators import hot, kernel
from pipelines.replication.compiled.hash_index import Keys
from pipelines.replication.compiled.records import Record, RecordArray, Records, as_records, record_layout
from pipelines.replication.compiled.types import I32, I64, NULL, NULL32
from pipelines.replication.facts.columns import (
    Naming,
    Vocabulary,
    bigints,
    ints,
    lists,
    sort_slots,
    times,
    words,
    write_list,
)
from pipelines.replication.facts.tables import EMPTY, SCHEMAS, table
from pipelines.replication.state.state import State
from pipelines.replication.term.layout import ADVANCE, AGREEMENTS, DISAGREE, HW_ROWS, KINDS, REPORT

BLOCK = 1 << 15
"""Rows that are written out together."""
MINUTE_US = 60_000_000
WORDS = (*AGREEMENTS, *KINDS)
_AGREEMENTS, _KINDS = Vocabulary.of(AGREEMENTS), Vocabulary.of(KINDS)
STRETCHES = record_layout(
    lane=-1, first=0, topic=-1, topic_id=-1, leader=NULL32, leader_epoch=NULL32, level=0, place=0, kind=0, agreement=0
)  # fmt: skip
"""Rows side by side that have all this in common, from row `first` on; `place` is a minute of a broker as
`read.stat_place` reads it."""
STRETCH = STRETCHES.at


class Block(NamedTuple):
    """A block's rows as Arrow has its columns; a list's ids stand from its number of `ends` to the next."""

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
        """Columns of `count` rows, to be written; lists name up to `width` replicas each."""
        sizes = [*[count] * 8, *(count + 1, count * width + 1) * 2, count]
        kinds = [*[np.int64] * 4, *[np.int32] * 8, np.bool_]
        columns: list[Any] = [np.empty(size, kind) for size, kind in zip(sizes, kinds, strict=True)]
        return cls(*columns)


class Lanes(NamedTuple):
    """What the lanes of rows are, with room for one lane's replicas in order: their `slots` and `ids`."""

    lanes: RecordArray
    flat_lanes: Records
    replicas: Records
    width: int
    partition_keys: I64
    slots: I64
    ids: I32

    @classmethod
    def of_state(cls, state: State) -> Lanes:
        width = state.replicas.width
        slots, ids = np.empty(width, dtype=np.int64), np.empty(width, dtype=np.int32)
        lanes = state.lanes
        return cls(lanes.records, lanes.data, state.replicas.data, width, state.partition_keys.keys, slots, ids)


@kernel
def _unfold(rows: RecordArray, known: Lanes, block: Block, stretches: RecordArray) -> tuple[int, bool, bool, bool]:
    """Writes the columns of a block and its stretches; (stretches, whether an HW, a report, a leader's LEO is null)."""
    s, replicas, until, partition = -1, 0, NULL, 0
    hw_null, reported_null, leo_null = False, False, False
    isr, holding, end = np.uint64(0), np.uint64(0), np.uint64(len(rows))
    stretch = stretches[0]
    for k in range(end):
        row = rows[k]
        if s < 0 or not _continues(row, stretch, until):
            if s < 0 or row.lane != stretch.lane:
                replicas = sort_slots(
                    known.flat_lanes, known.replicas, known.width, row.lane, known.slots, known.ids
                )  # fmt: skip
            s += 1
            stretch, lane = stretches[s], known.lanes[row.lane]
            until = _begin(stretch, int(np.int64(k)), row, lane)
            partition = known.partition_keys[lane.partition] & 0xFFFFFFFF
        hw_null |= row.hw == NULL
        reported_null |= row.reported == NULL
        leo_null |= row.leader_leo == NULL
        block.ts[k], block.partition[k], block.leader[k] = row.ts, partition, stretch.leader
        block.leader_epoch[k], block.level[k] = stretch.leader_epoch, stretch.level
        block.hw[k], block.reported[k], block.leader_leo[k] = row.hw, row.reported, row.leader_leo
        block.frozen[k] = row.frozen != 0
        block.isr_ends[k], block.holding_ends[k] = isr, holding
        isr = write_list(row.isr, known.slots, known.ids, replicas, block.isr, isr)
        holding = write_list(row.holding, known.slots, known.ids, replicas, block.holding, holding)
    block.isr_ends[end], block.holding_ends[end] = isr, holding
    return s + 1, hw_null, reported_null, leo_null


@hot
def _continues(row: Record, stretch: Record, until: int) -> bool:
    """Whether a row belongs to a stretch, whose minute ends at `until`."""
    return bool(
        row.lane == stretch.lane
        and row.kind == stretch.kind
        and row.agreement == stretch.agreement
        and until - MINUTE_US <= row.ts < until
        and row.leader_epoch == stretch.leader_epoch
        and row.topic_id == stretch.topic_id
        and row.level == stretch.level
    )


@hot
def _begin(stretch: Record, first: int, row: Record, lane: Record) -> int:
    """Begins a stretch with this row; the end of its minute."""
    minute = row.ts // MINUTE_US
    stretch.lane, stretch.first, stretch.topic = row.lane, first, lane.topic
    stretch.topic_id, stretch.leader_epoch = row.topic_id, row.leader_epoch
    stretch.leader, stretch.level = lane.broker, row.level
    stretch.kind, stretch.agreement = row.kind, row.agreement
    stretch.place = (minute << 36) | (lane.cluster << 24) | ((lane.broker + 1) & 0xFFFFFF)
    return int((minute + 1) * MINUTE_US)


class HwRows:
    """What one run of the lanes made final of their HWs."""

    def __init__(self, state: State) -> None:
        self._state, self._naming = state, Naming(state)
        self._blocks, self._tables = list[tuple[I64, I64, Block]](), list[pa.Table]()
        self._places, self._counts = Keys(), np.zeros((0, len(WORDS)), dtype=np.int64)

    def take(self, rows: Records) -> None:
        """Takes rows of the kernel over: what they stand in may be written again."""
        if not len(rows):
            return
        known, stretches = Lanes.of_state(self._state), np.empty((len(rows), len(STRETCH)), dtype=np.int64)
        block = Block.blank(len(rows), known.width)
        count, *nulls = _unfold(as_records(HW_ROWS, rows), known, block, as_records(STRETCHES, stretches))
        common = np.ascontiguousarray(stretches[:count].T)
        size = np.append(common[STRETCH.first, 1:], len(rows)) - common[STRETCH.first]
        self._blocks.append((common[STRETCH.lane], size, block))
        self._tables.append(self._table(common, size, block, *nulls))
        self._count(common, size)

    def _table(self, common: Records, size: I64, block: Block, hw: bool, reported: bool, leader_leo: bool) -> pa.Table:
        made = {
            **self._naming.columns(common[STRETCH.topic], common[STRETCH.topic_id], size),
            "partition": pa.array(block.partition),
            "leader_id": ints(block.leader, bool((common[STRETCH.leader] == NULL32).any())),
            "ts": times(block.ts, False),
            "leader_epoch": ints(block.leader_epoch, bool((common[STRETCH.leader_epoch] == NULL32).any())),
            "kind": words(common[STRETCH.kind], _KINDS, size),
            "hw": bigints(block.hw, hw),
            "reported_hw": bigints(block.reported, reported),
            "leader_leo": bigints(block.leader_leo, leader_leo),
            "isr": lists(block.isr_ends, block.isr),
            "holding_replicas": lists(block.holding_ends, block.holding),
            "frozen": pa.array(block.frozen),
            "agreement": words(common[STRETCH.agreement], _AGREEMENTS, size),
            "level": pa.array(block.level),
        }
        return table(SCHEMAS["partition_hw"], made)

    def _count(self, common: Records, size: I64) -> None:
        place, kind, agreement = (
            self._places.number(common[STRETCH.place]),
            common[STRETCH.kind],
            common[STRETCH.agreement],
        )
        has_agreement = (kind == ADVANCE) | ((agreement == DISAGREE) & (kind == REPORT))
        word = np.where(has_agreement, agreement, len(AGREEMENTS) + kind)
        room = self._places.count * len(WORDS)
        counted = np.bincount(place * len(WORDS) + word, size, room).astype(np.int64).reshape(-1, len(WORDS))
        counted[: len(self._counts)] += self._counts
        self._counts = counted

    def counts(self) -> list[tuple[int, str, int]]:
        """(place as `read.stat_place` reads it, word, how many rows) for all that were taken."""
        keys = self._places.keys.tolist()
        return [(keys[p], WORDS[w], int(self._counts[p, w])) for p, w in zip(*np.nonzero(self._counts), strict=True)]

    def lanes(self) -> I64:
        """The lanes that have rows, side by side."""
        of: I64 = np.concatenate([np.empty(0, np.int64), *(lane for lane, _, _ in self._blocks)])
        return of

    def parts(self) -> list[tuple[I64, I64, I64]]:
        """`lane`, `ts` and `hw` of the rows of each block."""
        return [(np.repeat(lane, size), block.ts, block.hw) for lane, size, block in self._blocks]

    def table(self) -> pa.Table:
        """silver/partition_hw."""
        return pa.concat_tables(self._tables) if self._tables else EMPTY["partition_hw"]
