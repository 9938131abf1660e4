"""Tiles: many partitions made of few simulated ones, each tile a copy with a phase, offsets and leaders of its own.

Broker-wide rows are there once, and stand between the rows of every tile where they stood between those of the
simulated partitions: so each tile is a history by itself, of which only times between two such rows have moved.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from random import Random
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from generators.simulator.cluster.settings import MS, NEVER, SECOND
from generators.simulator.telemetry.rows import Drained, source_id
from schemas import replication_events

PHASE = SECOND // 2
"""A row of a tile is less than so many microseconds late."""
OFFSETS = 100
"""The logs of a tile have fewer records at first."""
ROWS = 1 << 18
"""About so many in one table."""
_WORDS = ("cluster", "source_id", "event_type", "topic", "topic_id", "detail")
_OFFSETS = ("leo", "leader_leo", "hw", "hw_before")

I64 = npt.NDArray[np.int64]


class _Base(NamedTuple):
    """Simulated rows in the order in which they were reported, and what their copies are made by."""

    rows: pa.Table
    at: I64
    """When they were reported, never falling."""
    clock: I64
    latest: I64
    """When the next broker-wide row was reported, which no copy comes after."""
    wide: npt.NDArray[np.bool_]

    def among(self, first: int, last: int) -> _Base:
        part = slice(first, last)
        rows = self.rows.slice(first, last - first)
        return _Base(rows, self.at[part], self.clock[part], self.latest[part], self.wide[part])


class Tiles:
    """`count` tiles: partition p of tile t is partition `p * count + t` of its topic, where that has so many.

    `partitions` are the sizes of the topics. `alike` are brokers of which nothing broker-wide tells one from the other:
    each tile has them in another order. The first tile is what was simulated.
    """

    def __init__(
        self,
        count: int,
        partitions: Mapping[str, int],
        alike: Sequence[int] = (),
        seed: int = 0,
        offsets: int = OFFSETS,
    ) -> None:
        random = Random(f"{seed}/tiles")
        self._count, self._partitions = count, partitions
        self._phase = np.array([0, *(random.randrange(0, PHASE, MS) for _ in range(1, count))])
        self._offset = np.array([0, *(random.randrange(offsets) for _ in range(1, count))])
        self._alike = np.array(alike, dtype=np.int64)
        self._epochs: dict[int, int] = {}
        """By id: the incarnation of a broker."""
        self._waiting: Drained | None = None
        self._done = 0
        self._numbers: dict[str, int] = {}
        """The next `source_seq` of each source."""

    def copies(self, drained: Drained, until: int) -> Iterator[pa.Table]:
        """The rows of all tiles before `until` (NEVER: all that are left), made of all that was drained until then."""
        drained = drained._replace(at=np.maximum(drained.at, self._done))
        if self._waiting is not None:
            drained = Drained(
                pa.concat_tables([self._waiting.rows, drained.rows]),
                np.append(self._waiting.at, drained.at),
                np.append(self._waiting.clock, drained.clock),
            )
        base = self._base(drained, until)
        for end in self._ends(base.at, until):
            made = self._between(base, end)
            if len(made):
                yield made
            self._done = end
        waiting = slice(np.searchsorted(base.at, until - PHASE), None)
        self._waiting = Drained(drained.rows.slice(waiting.start), *(column[waiting] for column in drained[1:]))

    def _base(self, drained: Drained, until: int) -> _Base:
        rows = drained.rows.combine_chunks()
        at = np.maximum.accumulate(drained.at)
        wide = rows["partition"].to_numpy() < 0
        progress = pc.equal(rows["event_type"], "progress").to_numpy()
        ended = (at >= self._done) if until == NEVER else np.zeros(len(at), dtype=np.bool_)
        fixed = np.flatnonzero(wide & (~progress | ended))
        latest = np.append(at[fixed], NEVER)[np.searchsorted(fixed, np.arange(len(at)), side="right")]
        epochs = rows.select(["replica_id", "broker_epoch"]).filter(pc.is_valid(rows["broker_epoch"]))
        known = epochs.group_by(epochs.column_names).aggregate([])
        self._epochs |= dict(zip(*(column.to_pylist() for column in known.columns), strict=True))
        for name in _WORDS:
            rows = rows.set_column(rows.schema.get_field_index(name), name, rows[name].dictionary_encode())
        return _Base(rows, at, drained.clock, latest, wide)

    def _ends(self, at: I64, until: int) -> list[int]:
        """Times that cut what comes before `until` into tables of about ROWS."""
        at = at[(at >= self._done) & (at < until)]
        step = max(1, ROWS // self._count)
        return [*np.unique(at[step::step]).tolist(), until]

    def _between(self, base: _Base, end: int) -> pa.Table:
        """The rows of all tiles from where the last table ended to `end`."""
        base = base.among(*np.searchsorted(base.at, [self._done - PHASE, end]))
        when = np.minimum(base.at[:, None] + np.where(base.wide[:, None], 0, self._phase), base.latest[:, None])
        partition = base.rows["partition"].to_numpy()[:, None] * self._count + np.arange(self._count)
        there = (self._done <= when) & (when < end) & (partition < self._sizes(base.rows["topic"])[:, None])
        there[base.wide, 1:] = False
        row, tile = np.nonzero(there)
        when, partition = when[row, tile], np.where(base.wide[row], -1, partition[row, tile])
        tile = np.where(base.wide[row], 0, tile)
        source = self._sources(base.rows, row, tile)
        order = np.lexsort((tile, row, when, source.indices.to_numpy()))
        row, tile = row[order], tile[order]
        ts = (base.clock[row] + when[order] - base.at[row]) // MS * MS
        source = source.take(pa.array(order))
        changed = {"source_id": source, "source_seq": self._numbered(source), "ts": ts, "partition": partition[order]}
        return self._copied(base.rows.take(pa.array(row)).combine_chunks(), tile, changed)

    def _sources(self, rows: pa.Table, row: I64, tile: I64) -> pa.DictionaryArray:
        """The source of each copy: one of the same kind of its broker."""
        source = _chunk(rows["source_id"])
        kinds = [name.partition("/")[2].removesuffix(".log") for name in source.dictionary.to_pylist()]
        kind = np.array([kinds.index(kind) for kind in kinds])[source.indices.to_numpy()]
        made = self._other(rows["broker_id"].to_numpy()[row], tile) * len(kinds) + kind[row]
        found, codes = np.unique(made, return_inverse=True)
        names = [source_id(number // len(kinds), kinds[number % len(kinds)]) for number in found.tolist()]
        return pa.DictionaryArray.from_arrays(pa.array(codes, pa.int32()), pa.array(names, pa.string()))

    def _sizes(self, topic: pa.ChunkedArray) -> I64:
        """The number of partitions of each row's topic; unlimited if it has as many as there are copies."""
        (chunk,) = topic.chunks
        sizes = [self._partitions.get(name, NEVER) for name in chunk.dictionary.to_pylist()]
        by_code: I64 = np.array([*sizes, NEVER])
        found: I64 = by_code[pc.fill_null(chunk.indices, len(sizes)).to_numpy()]
        return found

    def _copied(self, rows: pa.Table, tile: I64, changed: dict[str, Any]) -> pa.Table:
        """Rows as their tiles have them."""
        for name in _OFFSETS:
            changed[name] = pc.add(rows[name], pa.array(self._offset[tile]))
        if len(self._alike):
            changed |= self._led_by_others(rows, tile)
        for name, values in changed.items():
            rows = rows.set_column(rows.schema.get_field_index(name), name, pa.chunked_array([_chunk(values)]))
        return rows.cast(replication_events.ARROW)

    def _other(self, ids: I64, tile: I64) -> I64:
        """The brokers that a tile has in place of these; those that are not alike stay."""
        place = np.full(max(self._alike.max(initial=0), ids.max(initial=0)) + 1, -1)
        place[self._alike] = np.arange(len(self._alike))
        at = np.where(ids < 0, -1, place[ids])
        return np.where(at < 0, ids, self._alike[(at + tile) % len(self._alike)]) if len(self._alike) else ids

    def _led_by_others(self, rows: pa.Table, tile: I64) -> dict[str, Any]:
        """The other columns that name brokers."""
        changed: dict[str, Any] = {}
        for name in ("broker_id", "leader_id", "replica_id"):
            ids = _chunk(rows[name])
            others = self._other(pc.fill_null(ids, -1).to_numpy(), tile)
            changed[name] = pa.array(others, mask=ids.is_null().to_numpy(False))
        for name in ("isr", "replicas"):
            lists = _chunk(rows[name])
            values = self._other(lists.flatten().to_numpy(), tile[pc.list_parent_indices(lists).to_numpy()])
            ends = np.append(0, np.cumsum(pc.fill_null(pc.list_value_length(lists), 0).to_numpy()))
            made = pa.ListArray.from_arrays(pa.array(ends, pa.int32()), pa.array(values, pa.int32()))
            changed[name] = pc.if_else(lists.is_valid(), made, None)
        known = np.full(max(self._epochs, default=0) + 1, -1)
        known[list(self._epochs)] = list(self._epochs.values())
        before, after = (pc.fill_null(ids, -1).to_numpy() for ids in (rows["replica_id"], changed["replica_id"]))
        epochs = np.where(before == after, pc.fill_null(rows["broker_epoch"], -1).to_numpy(), known[after])
        changed["broker_epoch"] = pa.array(epochs, mask=rows["broker_epoch"].is_null().to_numpy())
        return changed

    def _numbered(self, source: pa.DictionaryArray) -> I64:
        """The next numbers of each source, whose rows stand together."""
        names, counts = source.dictionary.to_pylist(), np.bincount(source.indices.to_numpy())
        begin = np.array([self._numbers.get(name, 0) for name in names], dtype=np.int64)
        self._numbers |= dict(zip(names, (begin + counts).tolist(), strict=True))
        numbers: I64 = np.arange(len(source)) + np.repeat(begin - counts.cumsum() + counts, counts)
        return numbers


def _chunk(values: Any) -> pa.Array:
    """The values as one array."""
    if isinstance(values, pa.ChunkedArray):
        return values.combine_chunks()
    return pa.array(values) if isinstance(values, np.ndarray) else values
