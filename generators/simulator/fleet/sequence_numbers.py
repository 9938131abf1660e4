"""One numbering over the rows of rounds and of single steps, and the next number of each source."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from generators.simulator.cluster.simulation_event import REPLICATION
from generators.simulator.fleet.compiled import I32, I64
from generators.simulator.fleet.partition_catalog import PartitionCatalog
from generators.simulator.telemetry.rows import source_id


@dataclass
class SourceNumbers:
    """Next number of one broker's source, over the rows of both."""

    following: int = 0

    def merge(self, emitted: I64, others: I64) -> tuple[I64, I64]:
        """`source_seq` of the rows of rounds at the times `emitted`, which rise, and of the others, in their order.

        Of two rows of one time that of the rounds comes first; the others keep their order whatever their clock does.
        """
        before = np.searchsorted(emitted, np.maximum.accumulate(others), side="right") if len(others) else others
        here = np.arange(len(emitted))
        first = self.following
        self.following += len(emitted) + len(others)
        return (
            first + here + np.searchsorted(before, here, side="right"),
            first + before + np.arange(len(others)),
        )


class FleetNumbers:
    """Numbers of all sources; `emitted` counts the rows of a partition by broker, [number, position].

    Where a partition is in rounds, its leader's count is kept there.
    """

    def __init__(self, catalog: PartitionCatalog) -> None:
        brokers = catalog.settings.brokers
        self.emitted = np.zeros((len(catalog.topic), len(brokers)), dtype=np.int32)
        self._position = np.full(max(brokers) + 1, -1, dtype=np.int64)
        self._position[list(brokers)] = np.arange(len(brokers))
        self._catalog = catalog
        self._brokers = {source_id(b, REPLICATION): b for b in catalog.settings.brokers}
        self._sources = {b: SourceNumbers() for b in catalog.settings.brokers}
        self._topics = {name: k for k, name in enumerate(catalog.topics)}

    def split(self, rows: pa.Table) -> tuple[dict[int, pa.Table], list[pa.Table]]:
        """Rows of single steps by broker, with their `seq`; and those of other sources, which have numbers already."""
        source = rows["source_id"].combine_chunks().dictionary_encode()
        brokers, others = {}, []
        for code, name in enumerate(source.dictionary.to_pylist()):
            these = rows.filter(pa.array(source.indices.to_numpy() == code))
            if name in self._brokers:
                brokers[self._brokers[name]] = self._counted(these, self._brokers[name])
            else:
                others.append(these)
        return brokers, others

    def number(self, broker: int, emitted: I64, others: pa.Table | None, over: bool) -> tuple[I64, list[pa.Table]]:
        """Numbers of a broker's rows in rounds at the times `emitted`, and its other rows: those numbered, those left.

        Not `over`: more rows of rounds will come; other rows after the last of these are left for later.
        """
        if others is None:
            return self._sources[broker].merge(emitted, np.zeros(0, dtype=np.int64))[0], []
        times = others["ts"].cast(pa.int64()).to_numpy()
        here = (
            len(times)
            if over
            else int(np.searchsorted(np.maximum.accumulate(times), emitted[-1] if len(emitted) else 0))
        )
        mine, theirs = self._sources[broker].merge(emitted, times[:here])
        return mine, [_with(others.slice(0, here), "source_seq", theirs), others.slice(here)]

    def position(self, broker: I32 | int) -> I64:
        """The position of a broker in `emitted`."""
        found: I64 = self._position[broker]
        return found

    def _counted(self, rows: pa.Table, broker: int) -> pa.Table:
        """The rows with a `seq` that continues from all rows of this broker and partition."""
        partition = rows["partition"].to_numpy()
        of = np.flatnonzero(partition >= 0)
        if not len(of):
            return rows
        topics = rows["topic"].combine_chunks().dictionary_encode()
        known = np.array([*(self._topics[t] for t in topics.dictionary.to_pylist()), -1])
        topic = known[topics.indices.fill_null(len(known) - 1).to_numpy()]
        number = self._catalog.first[topic[of]] + partition[of]
        seq = rows["seq"].to_numpy().copy()
        seq[of] = self._next(number, broker)
        return _with(rows, "seq", seq)

    def _next(self, number: I64, broker: int) -> I64:
        """The next number of each partition in turn."""
        order = np.argsort(number, kind="stable")
        there, first, counts = np.unique(number[order], return_index=True, return_counts=True)
        at = self.position(broker)
        made = np.empty(len(number), dtype=np.int64)
        made[order] = np.arange(len(number)) - np.repeat(first, counts) + np.repeat(self.emitted[there, at], counts)
        self.emitted[there, at] += counts.astype(np.int32)
        return made


def _with(rows: pa.Table, column: str, values: I64) -> pa.Table:
    at = rows.schema.get_field_index(column)
    return rows.set_column(at, rows.schema.field(at), pa.array(values, pa.int64()))
