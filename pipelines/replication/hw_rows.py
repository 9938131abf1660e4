"""silver/partition_hw from the kernel's final rows: a block at a time, while it is in the cache."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pipelines.replication.arrays import Records
from pipelines.replication.columns import I8, I32, I64
from pipelines.replication.compiled import kernel
from pipelines.replication.facts import EMPTY, SCHEMAS, table
from pipelines.replication.keys import Keys
from pipelines.replication.lanes import ADVANCE, AGREEMENTS, DISAGREE, HW_ROWS, KINDS, LANES, REPORT
from pipelines.replication.output import Naming, Vocabulary, bigints, ints, members, times, words
from pipelines.replication.state import State

BLOCK = 1 << 15
"""Rows that are written out together."""
MINUTE_US = 60_000_000
WORDS = (*AGREEMENTS, *KINDS)
_AGREEMENTS, _KINDS = Vocabulary.of(AGREEMENTS), Vocabulary.of(KINDS)
ROW, LANE = HW_ROWS.at, LANES.at


class Block(NamedTuple):
    """A block's rows as columns; `place` and `word` say what minute counts them as what."""

    lane: I64
    ts: I64
    hw: I64
    reported: I64
    leader_leo: I64
    isr: I64
    holding: I64
    place: I64
    partition: I32
    topic: I32
    broker: I32
    leader_epoch: I32
    topic_id: I32
    level: I32
    kind: I8
    agreement: I8
    word: I8
    frozen: npt.NDArray[np.bool_]

    @classmethod
    def blank(cls, count: int) -> Block:
        """Columns of `count` rows, to be written."""
        kinds = [np.int64] * 8 + [np.int32] * 6 + [np.int8] * 3 + [np.bool_]
        columns: list[Any] = [np.empty(count, dtype=kind) for kind in kinds]
        return cls(*columns)


@kernel
def _unfold(rows: Records, L: Records, keys: I64, B: Block) -> None:
    for k in range(len(rows)):
        lane, kind, agreement = rows[k, ROW.lane], rows[k, ROW.kind], rows[k, ROW.agreement]
        B.lane[k] = lane
        B.ts[k] = rows[k, ROW.ts]
        B.hw[k] = rows[k, ROW.hw]
        B.reported[k] = rows[k, ROW.reported]
        B.leader_leo[k] = rows[k, ROW.leader_leo]
        B.isr[k] = rows[k, ROW.isr]
        B.holding[k] = rows[k, ROW.holding]
        B.leader_epoch[k] = rows[k, ROW.leader_epoch]
        B.topic_id[k] = rows[k, ROW.topic_id]
        B.level[k] = rows[k, ROW.level]
        B.kind[k] = kind
        B.agreement[k] = agreement
        B.frozen[k] = rows[k, ROW.frozen] != 0
        told_as = agreement == DISAGREE and kind == REPORT
        B.word[k] = agreement if kind == ADVANCE or told_as else len(AGREEMENTS) + kind
        B.partition[k] = keys[L[lane, LANE.partition]] & 0xFFFFFFFF
        B.topic[k] = L[lane, LANE.topic]
        B.broker[k] = L[lane, LANE.broker]
        of = (L[lane, LANE.cluster] << 24) | ((L[lane, LANE.broker] + 1) & 0xFFFFFF)
        B.place[k] = ((rows[k, ROW.ts] // MINUTE_US) << 36) | of


class HwRows:
    """What one run of the lanes made final of their HWs."""

    def __init__(self, state: State) -> None:
        self._state, self._blocks, self._tables = state, list[Block](), list[pa.Table]()
        self._naming = Naming(state)
        self._places, self._counts = Keys(), np.zeros((0, len(WORDS)), dtype=np.int64)

    def take(self, rows: Records) -> None:
        """Takes rows of the kernel over: what they stand in may be written again."""
        block = Block.blank(len(rows))
        _unfold(rows, self._state.lanes.data, self._state.partition_keys.keys, block)
        self._blocks.append(block)
        self._tables.append(_table(self._state, self._naming, block))
        self._count(block)

    def _count(self, block: Block) -> None:
        place = self._places.number(block.place)
        size = self._places.count * len(WORDS)
        counted = np.bincount(place * len(WORDS) + block.word, minlength=size).reshape(-1, len(WORDS))
        counted[: len(self._counts)] += self._counts
        self._counts = counted

    def counts(self) -> list[tuple[int, str, int]]:
        """(place as `intake.stat_place` reads it, word, how many rows) for all that were taken."""
        keys = self._places.keys.tolist()
        return [(keys[p], WORDS[w], int(self._counts[p, w])) for p, w in zip(*np.nonzero(self._counts), strict=True)]

    def __getitem__(self, name: str) -> I64:
        """The column `lane`, `ts` or `hw` of all rows."""
        empty = Block.blank(0)
        return np.concatenate([getattr(block, name) for block in self._blocks or [empty]])

    def parts(self) -> list[tuple[I64, I64, I64]]:
        """`lane`, `ts` and `hw` of the rows of each block."""
        return [(block.lane, block.ts, block.hw) for block in self._blocks]

    def table(self) -> pa.Table:
        """silver/partition_hw."""
        return pa.concat_tables(self._tables) if self._tables else EMPTY["partition_hw"]


def _table(state: State, naming: Naming, block: Block) -> pa.Table:
    made = {
        **naming.columns(block.topic, block.topic_id),
        "partition": pa.array(block.partition),
        "leader_id": ints(block.broker),
        "ts": times(block.ts),
        "leader_epoch": ints(block.leader_epoch),
        "kind": words(block.kind, _KINDS),
        "hw": bigints(block.hw),
        "reported_hw": bigints(block.reported),
        "leader_leo": bigints(block.leader_leo),
        "isr": members(state, block.isr, block.lane),
        "holding_replicas": members(state, block.holding, block.lane),
        "frozen": pa.array(block.frozen),
        "agreement": words(block.agreement, _AGREEMENTS),
        "level": pa.array(block.level),
    }
    return table(SCHEMAS["partition_hw"], made)
