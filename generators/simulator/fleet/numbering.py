"""One numbering over what rounds and single steps tell, and where each source is in it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from generators.simulator.fleet.columns import source_id
from generators.simulator.fleet.compiled import I32, I64
from generators.simulator.fleet.roster import Roster


@dataclass
class SourceNumbers:
    """Numbers of one broker's source, over the rows of both."""

    following: int = 0

    def merge(self, told: I64, others: I64) -> tuple[I64, I64]:
        """`source_seq` for rows told by the rounds at these times, which rise, and for the others, in their order.

        Of two rows of one time that of the rounds comes first; the others keep their order whatever their clock does.
        """
        before = np.searchsorted(told, np.maximum.accumulate(others), side="right") if len(others) else others
        here = np.arange(len(told))
        first = self.following
        self.following += len(told) + len(others)
        return (
            first + here + np.searchsorted(before, here, side="right"),
            first + before + np.arange(len(others)),
        )


class Numbering:
    """Numbers of all sources; `told` counts the rows of a partition told by each broker, [number, position].

    Where a partition is in rounds, its leader's count is kept there.
    """

    def __init__(self, roster: Roster) -> None:
        brokers = roster.settings.brokers
        self.told = np.zeros((len(roster.topic), len(brokers)), dtype=np.int32)
        self._position = np.full(max(brokers) + 1, -1, dtype=np.int64)
        self._position[list(brokers)] = np.arange(len(brokers))
        self._roster = roster
        self._brokers = {source_id(b): b for b in roster.settings.brokers}
        self._sources = {b: SourceNumbers() for b in roster.settings.brokers}
        self._topics = {name: k for k, name in enumerate(roster.topics)}

    def split(self, rows: pa.Table) -> tuple[dict[int, pa.Table], list[pa.Table]]:
        """Rows of single steps by broker, with their `seq`; and those of other sources, which are numbered already."""
        source = rows["source_id"].combine_chunks().dictionary_encode()
        brokers, others = {}, []
        for code, name in enumerate(source.dictionary.to_pylist()):
            these = rows.filter(pa.array(source.indices.to_numpy() == code))
            if name in self._brokers:
                brokers[self._brokers[name]] = self._counted(these, self._brokers[name])
            else:
                others.append(these)
        return brokers, others

    def number(self, broker: int, told: I64, others: pa.Table | None, over: bool) -> tuple[I64, list[pa.Table]]:
        """Numbers for a broker's rows told in rounds at these times, and its other rows: those numbered, those left.

        Not `over`: more will be told in rounds; what comes after the last of these is left for later.
        """
        if others is None:
            return self._sources[broker].merge(told, np.zeros(0, dtype=np.int64))[0], []
        times = others["ts"].cast(pa.int64()).to_numpy()
        here = len(times) if over else int(np.searchsorted(np.maximum.accumulate(times), told[-1] if len(told) else 0))
        mine, theirs = self._sources[broker].merge(told, times[:here])
        return mine, [_with(others.slice(0, here), "source_seq", theirs), others.slice(here)]

    def position(self, broker: I32 | int) -> I64:
        """The position of a broker in `told`."""
        found: I64 = self._position[broker]
        return found

    def _counted(self, rows: pa.Table, broker: int) -> pa.Table:
        """`seq` goes on from all that this broker has told of a partition."""
        partition = rows["partition"].to_numpy()
        of = np.flatnonzero(partition >= 0)
        if not len(of):
            return rows
        topics = rows["topic"].combine_chunks().dictionary_encode()
        known = np.array([*(self._topics[t] for t in topics.dictionary.to_pylist()), -1])
        topic = known[topics.indices.fill_null(len(known) - 1).to_numpy()]
        number = self._roster.first[topic[of]] + partition[of]
        seq = rows["seq"].to_numpy().copy()
        seq[of] = self._next(number, broker)
        return _with(rows, "seq", seq)

    def _next(self, number: I64, broker: int) -> I64:
        """The next number of each partition in turn."""
        order = np.argsort(number, kind="stable")
        there, first, counts = np.unique(number[order], return_index=True, return_counts=True)
        at = self.position(broker)
        made = np.empty(len(number), dtype=np.int64)
        made[order] = np.arange(len(number)) - np.repeat(first, counts) + np.repeat(self.told[there, at], counts)
        self.told[there, at] += counts.astype(np.int32)
        return made


def _with(rows: pa.Table, column: str, values: I64) -> pa.Table:
    at = rows.schema.get_field_index(column)
    return rows.set_column(at, rows.schema.field(at), pa.array(values, pa.int64()))
