"""Rounds over several sources: what goes out together never runs ahead of a source still to come."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from generators.brokerlogs.discovery.log_file import Stopped
from generators.brokerlogs.tailing.coalesce import Runs
from generators.brokerlogs.tailing.progress import times
from generators.brokerlogs.tailing.sequence_numbers import Numbering
from generators.brokerlogs.tailing.tailer import Tail


class Given(NamedTuple):
    """Rows of one incarnation of a source, and what numbers them."""

    numbering: Numbering
    rows: pa.Table


@dataclass
class Round:
    """Rows to go out in one commit, by the source they are of."""

    rows: dict[str, list[Given]] = field(default_factory=dict)
    written: dict[str, pa.Table] = field(default_factory=dict)
    """By source the rows of `table`."""
    bytes: int = 0

    def add(self, tail: Tail, tables: list[pa.Table]) -> None:
        if tables:
            given = [Given(tail.numbering, table) for table in tables]
            self.rows.setdefault(tail.source.source_id, []).extend(given)

    def table(self, runs: Runs | None = None) -> pa.Table:
        """All rows merged by time, each source in its own order; without the inside of `runs` of unchanged fetches.

        They get their numbers by it: to be called once.
        """
        parts = [pa.concat_tables(given.rows for given in of) for of in self.rows.values()]
        clock = np.concatenate([np.maximum.accumulate(times(part)) for part in parts])
        told = np.zeros(len(clock), np.int32)
        if runs is not None:
            told = runs.repeats(pa.concat_tables(parts), self._told_by(runs), clock)
        begin = 0
        for source_id, of in self.rows.items():
            numbered = []
            for numbering, rows in of:
                end = begin + rows.num_rows
                numbered.append(numbering.number(_coalesced(rows, told[begin:end]) if runs is not None else rows))
                begin = end
            self.written[source_id] = pa.concat_tables(numbered)
        order = np.argsort(clock[told >= 0], kind="stable")
        return pa.concat_tables(self.written.values()).take(pa.array(order))

    def _told_by(self, runs: Runs) -> np.ndarray:
        """The number of the source incarnation of each row."""
        given = [(runs.source(name, g.numbering.epoch), g.rows.num_rows) for name, of in self.rows.items() for g in of]
        return np.repeat(*np.array(given, np.int32).T)


def _coalesced(rows: pa.Table, repeats: np.ndarray) -> pa.Table:
    """The rows that stay, each with how many went into it."""
    stay = repeats >= 0
    told = pa.array(repeats[stay], pa.int32(), mask=repeats[stay] == 0)
    return rows.filter(pa.array(stay)).append_column("repeats", told)


def step(tails: Sequence[Tail], into: Round, stop: Callable[[], bool] = lambda: False) -> None:
    """Read on where everything is given out, then give out what no source can still fall behind.

    The horizon is the earliest time to which a source that goes on has been told. Nothing more is read once `stop`
    says yes.
    """
    for tail in tails:
        if tail.drained and not tail.finished and not stop():
            try:
                into.bytes += tail.pull()
            except Stopped:
                break
    horizon = min((tail.told for tail in tails), default=0)
    for tail in tails:
        into.add(tail, tail.take(horizon))
        if tail.finished and tail.drained:
            into.add(tail, tail.tell())


def done(tails: Sequence[Tail]) -> bool:
    """Whether everything there was has been given out, for good or until files grow."""
    return all(tail.drained and (tail.finished or tail.reader.at_end) for tail in tails)


def merged(tables: Sequence[pa.Table], schema: pa.Schema) -> pa.Table:
    """Rounds one after the other as one table."""
    return pc.cast(pa.concat_tables(tables), schema) if tables else schema.empty_table()
