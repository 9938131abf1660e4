"""silver/partition_hw from the kernel's final rows: a block at a time, while it is in the cache."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pipelines.replication.compiled.decorators import hot, kernel
from pipelines.replication.compiled.hash_index import Keys
from pipelines.replication.compiled.records import Records, shape
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
from pipelines.replication.term.layout import ADVANCE, AGREEMENTS, DISAGREE, HW_ROWS, KINDS, LANES, REPORT

BLOCK = 1 << 15
"""Rows that are written out together."""
MINUTE_US = 60_000_000
WORDS = (*AGREEMENTS, *KINDS)
_AGREEMENTS, _KINDS = Vocabulary.of(AGREEMENTS), Vocabulary.of(KINDS)
ROW, LANE = HW_ROWS.at, LANES.at

STRETCHES = shape(
    lane=-1, first=0, topic=-1, topic_id=-1, leader=NULL32, leader_epoch=NULL32, level=0, place=0, kind=0, agreement=0
)  # fmt: skip
"""Rows side by side that have all this in common, from row `first` on; `place` is a minute of a broker as
`intake.stat_place` reads it."""
OF = STRETCHES.at


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


@kernel
def _unfold(
    rows: Records, L: Records, R: Records, width: int, keys: I64, slots: I64, ids: I32, B: Block, S: Records
) -> tuple[int, bool, bool, bool]:
    """Writes the columns of a block and its stretches; (stretches, whether an HW, a report, a leader's LEO is null)."""
    s, replicas, until, partition, leader, epoch, level = -1, 0, NULL, 0, 0, 0, 0
    hw_null, reported_null, leo_null = False, False, False
    isr, holding, end = np.uint64(0), np.uint64(0), np.uint64(len(rows))
    for k in range(end):
        if s < 0 or not _continues(rows, k, S, s, until):
            if s < 0 or rows[k, ROW.lane] != S[s, OF.lane]:
                replicas = sort_slots(L, R, width, rows[k, ROW.lane], slots, ids)
            s += 1
            until = _begin(rows, k, L, S, s)
            partition, leader = keys[L[rows[k, ROW.lane], LANE.partition]] & 0xFFFFFFFF, S[s, OF.leader]
            epoch, level = S[s, OF.leader_epoch], S[s, OF.level]
        hw, reported, leo = rows[k, ROW.hw], rows[k, ROW.reported], rows[k, ROW.leader_leo]
        hw_null |= hw == NULL
        reported_null |= reported == NULL
        leo_null |= leo == NULL
        B.ts[k], B.partition[k], B.leader[k] = rows[k, ROW.ts], partition, leader
        B.leader_epoch[k], B.level[k] = epoch, level
        B.hw[k], B.reported[k], B.leader_leo[k], B.frozen[k] = hw, reported, leo, rows[k, ROW.frozen] != 0
        B.isr_ends[k], B.holding_ends[k] = isr, holding
        isr = write_list(rows[k, ROW.isr], slots, ids, replicas, B.isr, isr)
        holding = write_list(rows[k, ROW.holding], slots, ids, replicas, B.holding, holding)
    B.isr_ends[end], B.holding_ends[end] = isr, holding
    return s + 1, hw_null, reported_null, leo_null


@hot
def _continues(rows: Records, k: int, S: Records, s: int, until: int) -> bool:
    """Whether a row belongs to a stretch, whose minute ends at `until`."""
    return bool(
        rows[k, ROW.lane] == S[s, OF.lane]
        and rows[k, ROW.kind] == S[s, OF.kind]
        and rows[k, ROW.agreement] == S[s, OF.agreement]
        and until - MINUTE_US <= rows[k, ROW.ts] < until
        and rows[k, ROW.leader_epoch] == S[s, OF.leader_epoch]
        and rows[k, ROW.topic_id] == S[s, OF.topic_id]
        and rows[k, ROW.level] == S[s, OF.level]
    )


@hot
def _begin(rows: Records, k: int, L: Records, S: Records, s: int) -> int:
    """Begins a stretch with this row; the end of its minute."""
    lane, minute = rows[k, ROW.lane], rows[k, ROW.ts] // MINUTE_US
    S[s, OF.lane], S[s, OF.first], S[s, OF.topic] = lane, np.int64(k), L[lane, LANE.topic]
    S[s, OF.topic_id], S[s, OF.leader_epoch] = rows[k, ROW.topic_id], rows[k, ROW.leader_epoch]
    S[s, OF.leader], S[s, OF.level] = L[lane, LANE.broker], rows[k, ROW.level]
    S[s, OF.kind], S[s, OF.agreement] = rows[k, ROW.kind], rows[k, ROW.agreement]
    S[s, OF.place] = (minute << 36) | (L[lane, LANE.cluster] << 24) | ((L[lane, LANE.broker] + 1) & 0xFFFFFF)
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
        lanes, replicas, keys = self._state.lanes.data, self._state.replicas, self._state.partition_keys.keys
        width, stretches = replicas.width, np.empty((len(rows), len(OF)), dtype=np.int64)
        slots, ids = np.empty(width, dtype=np.int64), np.empty(width, dtype=np.int32)
        block = Block.blank(len(rows), width)
        count, *nulls = _unfold(rows, lanes, replicas.data, width, keys, slots, ids, block, stretches)
        common = np.ascontiguousarray(stretches[:count].T)
        size = np.append(common[OF.first, 1:], len(rows)) - common[OF.first]
        self._blocks.append((common[OF.lane], size, block))
        self._tables.append(self._table(common, size, block, *nulls))
        self._count(common, size)

    def _table(self, common: Records, size: I64, block: Block, hw: bool, reported: bool, leader_leo: bool) -> pa.Table:
        made = {
            **self._naming.columns(common[OF.topic], common[OF.topic_id], size),
            "partition": pa.array(block.partition),
            "leader_id": ints(block.leader, bool((common[OF.leader] == NULL32).any())),
            "ts": times(block.ts, False),
            "leader_epoch": ints(block.leader_epoch, bool((common[OF.leader_epoch] == NULL32).any())),
            "kind": words(common[OF.kind], _KINDS, size),
            "hw": bigints(block.hw, hw),
            "reported_hw": bigints(block.reported, reported),
            "leader_leo": bigints(block.leader_leo, leader_leo),
            "isr": lists(block.isr_ends, block.isr),
            "holding_replicas": lists(block.holding_ends, block.holding),
            "frozen": pa.array(block.frozen),
            "agreement": words(common[OF.agreement], _AGREEMENTS, size),
            "level": pa.array(block.level),
        }
        return table(SCHEMAS["partition_hw"], made)

    def _count(self, common: Records, size: I64) -> None:
        place, kind, agreement = self._places.number(common[OF.place]), common[OF.kind], common[OF.agreement]
        told_as = (kind == ADVANCE) | ((agreement == DISAGREE) & (kind == REPORT))
        word = np.where(told_as, agreement, len(AGREEMENTS) + kind)
        room = self._places.count * len(WORDS)
        counted = np.bincount(place * len(WORDS) + word, size, room).astype(np.int64).reshape(-1, len(WORDS))
        counted[: len(self._counts)] += self._counts
        self._counts = counted

    def counts(self) -> list[tuple[int, str, int]]:
        """(place as `intake.stat_place` reads it, word, how many rows) for all that were taken."""
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
