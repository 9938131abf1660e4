"""Rounds over several sources: the rows of a commit are never ahead of a source that is still to be read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from generators.brokerlogs.discovery.codecs import Stopped
from generators.brokerlogs.tailing.coalesce import FetchRuns
from generators.brokerlogs.tailing.progress import times
from generators.brokerlogs.tailing.sequence_numbers import Numbering
from generators.brokerlogs.tailing.tailer import Tailer


class IncarnationRows(NamedTuple):
    """Rows of one incarnation of a source, with the object that numbers them."""

    numbering: Numbering
    rows: pa.Table


@dataclass
class Round:
    """Rows of one commit, by source."""

    rows: dict[str, list[IncarnationRows]] = field(default_factory=dict)
    written: dict[str, pa.Table] = field(default_factory=dict)
    """By source the numbered rows of `table`."""
    bytes: int = 0

    def add(self, tailer: Tailer, tables: list[pa.Table]) -> None:
        if tables:
            rows = [IncarnationRows(tailer.numbering, table) for table in tables]
            self.rows.setdefault(tailer.source.source_id, []).extend(rows)

    def table(self, runs: FetchRuns | None = None) -> pa.Table:
        """All rows merged by time, each source in its own order, without the rows inside `runs` of unchanged fetches.

        Numbers the rows: to be called once.
        """
        parts = [pa.concat_tables(one.rows for one in incarnations) for incarnations in self.rows.values()]
        clock = np.concatenate([np.maximum.accumulate(times(part)) for part in parts])
        repeats = np.zeros(len(clock), np.int32)
        if runs is not None:
            repeats = runs.repeats(pa.concat_tables(parts), self._source_numbers(runs), clock)
        begin = 0
        for source_id, incarnations in self.rows.items():
            numbered = []
            for numbering, rows in incarnations:
                end = begin + rows.num_rows
                numbered.append(numbering.number(_coalesced(rows, repeats[begin:end]) if runs is not None else rows))
                begin = end
            self.written[source_id] = pa.concat_tables(numbered)
        order = np.argsort(clock[repeats >= 0], kind="stable")
        return pa.concat_tables(self.written.values()).take(pa.array(order))

    def _source_numbers(self, runs: FetchRuns) -> np.ndarray:
        """The number of the source incarnation of each row."""
        numbers = [
            (runs.source(source_id, one.numbering.epoch), one.rows.num_rows)
            for source_id, incarnations in self.rows.items()
            for one in incarnations
        ]
        return np.repeat(*np.array(numbers, np.int32).T)


def _coalesced(rows: pa.Table, repeats: np.ndarray) -> pa.Table:
    """The rows that remain, each with the number of rows left out before it."""
    stay = repeats >= 0
    counts = pa.array(repeats[stay], pa.int32(), mask=repeats[stay] == 0)
    return rows.filter(pa.array(stay)).append_column("repeats", counts)


def step(
    tailers: Sequence[Tailer],
    into: Round,
    stop: Callable[[], bool] = lambda: False,
    add_found: Callable[[], None] = lambda: None,
) -> None:
    """Read further where all rows were taken, then take the rows that no source can still precede.

    The horizon is the least low watermark of all sources, those included that `add_found` adds to the tailers, for what
    was come upon. Nothing more is read once `stop` returns True.
    """
    for tailer in tailers:
        if tailer.drained and not tailer.finished and not stop():
            try:
                into.bytes += tailer.pull()
            except Stopped:
                break
    add_found()
    horizon = min((tailer.low_watermark for tailer in tailers), default=0)
    for tailer in tailers:
        into.add(tailer, tailer.take(horizon))
        if tailer.finished and tailer.drained:
            into.add(tailer, tailer.progress_rows())


def done(tailers: Sequence[Tailer]) -> bool:
    """Whether all rows there are have been taken, for good or until files grow."""
    return all(tailer.drained and tailer.reader.at_end for tailer in tailers)
