"""Output of a stretch of time: rows of the kernels and those of single steps, in one numbering."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from queue import Queue
from typing import Any

import numpy as np
import pyarrow as pa

from generators.simulator.fleet.columns import SCHEMA, Block, Names, table
from generators.simulator.fleet.compiled import I64
from generators.simulator.fleet.event_rows import Rows
from schemas import replication_events

NO_ROWS = replication_events.ARROW.empty_table()


@dataclass(frozen=True)
class Part:
    """Rows in arrays that are reused once it is `done`. `complete`: no rows before its end will follow."""

    rows: Rows
    count: int
    blocks: Sequence[Block]
    names: Names
    others: pa.Table
    """In the bronze schema."""
    complete: bool
    _give_back: Callable[[Rows], None]

    def __len__(self) -> int:
        return self.count + len(self.others)

    def tables(self) -> Iterator[pa.Table]:
        """All rows as SCHEMA; they must not be used after `done`."""
        if self.count:
            yield table(self.rows, self.count, self.blocks, self.names)
        if len(self.others):
            yield self.others.cast(SCHEMA)

    def copied(self) -> pa.Table:
        """A copy of all rows as bronze; the part is done."""
        made = pa.concat_tables([NO_ROWS, *(t.cast(replication_events.ARROW) for t in self.tables())])
        copy = made.take(pa.array(np.arange(len(made))))
        self.done()
        return copy

    def done(self) -> None:
        self._give_back(self.rows)


def empty_rows(most: int) -> Rows:
    return Rows(*(np.zeros(most, dtype=_KINDS[name]) for name in Rows._fields))


_KINDS: dict[str, Any] = dict.fromkeys(Rows._fields, np.int64) | {
    "kind": np.int8,
    "partition": np.int32,
    "replica": np.int32,
}


class OutputBuffers:
    """The part being filled. There are `count` sets of arrays: filling waits until one is given back."""

    def __init__(self, count: int, most: int) -> None:
        self._free: Queue[Rows] = Queue()
        for _ in range(count):
            self._free.put(empty_rows(most))
        self._begin()

    def _begin(self) -> None:
        self.rows: Rows = self._free.get()
        self.filled = 0
        self._blocks: list[Block] = []
        self._others: list[pa.Table] = []

    def add(self, broker: int, last: int, source_seq: I64) -> None:
        """Add the rows up to `last`, which the kernels have written."""
        self._blocks.append(Block(broker, self.filled, last, source_seq))
        self.filled = last

    def add_table(self, rows: pa.Table) -> None:
        self._others.append(rows)

    def part(self, names: Names, complete: bool) -> Part:
        """The part filled so far; continues with other arrays."""
        others = pa.concat_tables([NO_ROWS, *self._others])
        made = Part(self.rows, self.filled, self._blocks, names, others, complete, self._free.put)
        self._begin()
        return made
