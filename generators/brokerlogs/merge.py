"""Rounds over several sources: what goes out together never runs ahead of a source still to come."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from generators.brokerlogs.progress import times
from generators.brokerlogs.tail import Tail


@dataclass
class Round:
    """Rows to go out in one commit, by the source they are of."""

    rows: dict[str, list[pa.Table]] = field(default_factory=dict)
    bytes: int = 0

    def add(self, source_id: str, tables: list[pa.Table]) -> None:
        if tables:
            self.rows.setdefault(source_id, []).extend(tables)

    def table(self) -> pa.Table:
        """All rows merged by time, each source in its own order."""
        parts = [pa.concat_tables(tables) for tables in self.rows.values()]
        keys = np.concatenate([np.maximum.accumulate(times(part)) for part in parts])
        return pa.concat_tables(parts).take(pa.array(np.argsort(keys, kind="stable")))


def step(tails: Sequence[Tail], into: Round) -> None:
    """Read on where everything is given out, then give out what no source can still fall behind.

    The horizon is the earliest time to which a source that goes on has been told.
    """
    for tail in tails:
        if tail.drained and not tail.finished:
            into.bytes += tail.pull()
    horizon = min((tail.told for tail in tails), default=0)
    for tail in tails:
        into.add(tail.source.source_id, tail.take(horizon))
        if tail.finished and tail.drained:
            into.add(tail.source.source_id, tail.tell())


def done(tails: Sequence[Tail]) -> bool:
    """Whether everything there was has been given out, for good or until files grow."""
    return all(tail.drained and (tail.finished or tail.reader.at_end) for tail in tails)


def merged(tables: Sequence[pa.Table], schema: pa.Schema) -> pa.Table:
    """Rounds one after the other as one table."""
    return pc.cast(pa.concat_tables(tables), schema) if tables else schema.empty_table()
