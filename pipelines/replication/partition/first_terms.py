"""Partitions with a single rare event, the start of their first term: rows of a table instead of histories.

Most partitions of a cluster begin so, all at once, and stay so for long. Such a history is a function of that one
start, and is made when another event of its partition arrives.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.replication.compiled.types import I64
from pipelines.replication.partition.events import EVENT_COLUMNS, PartitionEvent, TermLookup, partition_events
from pipelines.replication.partition.history import PartitionHistory
from schemas import replication_events

STARTS = pa.schema([
    pa.field("number", pa.int64()),
    pa.field("due", pa.int64()),
    pa.field("decided", pa.bool_()),
    *(replication_events.ARROW.field(name) for name in EVENT_COLUMNS),
])  # fmt: skip
"""A start by the number of its partition; `due` is when it is decided, in microseconds."""


class FirstTerms:
    """The starts by partition number; `take` removes those whose histories it makes."""

    def __init__(self, starts: pa.Table | None = None) -> None:
        self._starts = STARTS.empty_table() if starts is None else starts
        self._row: dict[int, int] = {}
        self._due = self._starts["due"].to_numpy().copy()
        self.decided = self._starts["decided"].to_numpy(zero_copy_only=False).copy()
        """By row whether the start is decided; one that was taken is."""
        self._index(0)

    def _index(self, first: int) -> None:
        numbers = self._starts["number"].to_numpy()[first:].tolist()
        self._row.update(zip(numbers, range(first, first + len(numbers)), strict=True))

    def add(self, partitions: I64, events: pa.Table, due: I64) -> None:
        """Add the starts of these partitions, a row of `events` each."""
        known = self._starts.num_rows
        columns = [pa.array(partitions), pa.array(due), pa.array(np.zeros(len(due), dtype=np.bool_))]
        columns += [events[name].cast(STARTS.field(name).type) for name in EVENT_COLUMNS]
        self._starts = pa.concat_tables([self._starts, pa.table(columns, schema=STARTS)])
        self._due = np.concatenate([self._due, due])
        self.decided = np.concatenate([self.decided, np.zeros(len(due), dtype=np.bool_)])
        self._index(known)

    def undecided(self) -> tuple[I64, I64, I64]:
        """(rows, partitions, when due) of starts that are still to be decided."""
        rows: I64 = np.flatnonzero(~self.decided)
        return rows, self._starts["number"].to_numpy()[rows], self._due[rows]

    def decide(self, rows: I64) -> None:
        """Mark starts as decided: nothing came before them to measure them against."""
        self.decided[rows] = True

    def take(self, numbers: Iterable[int], place: Callable[[int], tuple[str, str, int]]) -> dict[int, PartitionHistory]:
        """Remove the starts of these partitions, if there are some, and return their histories."""
        present = [n for n in numbers if n in self._row]
        rows = [self._row.pop(n) for n in present]
        starts = partition_events(self._starts.take(pa.array(rows, pa.int64()))) if rows else []
        made = (self._history(row, start, place(n)) for n, row, start in zip(present, rows, starts, strict=True))
        return dict(zip(present, made, strict=True))

    def _history(self, row: int, event: PartitionEvent, place: tuple[str, str, int]) -> PartitionHistory:
        due = int(self._due[row])
        history, lookup = PartitionHistory(*place), cast(TermLookup, _FirstStartLookup(due - event.ts))
        history.apply(event, lookup)
        if self.decided[row]:
            history.settle(due + 1, lookup)
        self.decided[row] = True
        return history

    def table(self) -> pa.Table:
        """The starts that were not taken, for a snapshot."""
        starts = self._starts.set_column(STARTS.get_field_index("decided"), "decided", pa.array(self.decided))
        if len(self._row) == starts.num_rows:
            return starts
        return starts.filter(pc.is_in(starts["number"], pa.array(self._row, pa.int64())))


@dataclass(frozen=True)
class _FirstStartLookup:
    """The TermLookup of a first start, which asks for the race window and nothing else."""

    race_window_us: int

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"the first start of a partition asked for {name}")
