"""Closing rows of `hwmark run --drain`: which rows of their cluster stand before one, and when it takes effect.

A closing row makes final what its cluster has told up to the rows that it names, whatever came when: rows behind them
are held until those have come.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct, field

from pipelines.replication.compiled.types import NEVER
from pipelines.replication.events.columns import int64_column, with_dictionaries
from pipelines.replication.events.row_rules import split
from pipelines.replication.telemetry.coverage import COVERAGE, SourcedRows
from pipelines.replication.telemetry.sources import Sources
from schemas import replication_events
from schemas.replication_events import DRAIN

ROWS = pa.schema([column.with_nullable(True) for column in replication_events.ARROW])
"""Rows as they came: a null where the schema has none is found when they are read."""


class Closing(Struct, order=True):
    """One closing row; `closes`: by source the last (source_epoch, source_seq) before it.

    Where `closes` is None, as earlier versions wrote it, all that came before it or with it stands before it.
    """

    number: int
    ts: int
    closes: dict[str, tuple[int, int]] | None = None

    def limit(self, source_id: str, epoch: int) -> int:
        """The last number of a source that stands before it, -1: none."""
        if self.closes is None or source_id == DRAIN:
            return NEVER
        last_epoch, last = self.closes.get(source_id, (-1, -1))
        return NEVER if epoch < last_epoch else last if epoch == last_epoch else -1


class Held(NamedTuple):
    """Events, and what they cover: COVERAGE."""

    events: pa.Table
    runs: pa.Table


NOTHING_HELD = Held(ROWS.empty_table(), COVERAGE.empty_table())


class Closings(Struct):
    """The closing rows of all clusters that came: those that wait, and the number of the last one in effect."""

    waiting: dict[str, list[Closing]] = field(default_factory=dict)
    last: dict[str, int] = field(default_factory=dict)

    def add(self, events: pa.Table) -> pa.Table:
        """Add the closing rows among these events; returns the events without those that are repeats."""
        of_drain = pc.and_(pc.equal(events["source_id"], DRAIN), pc.equal(events["event_type"], "progress"))
        at = np.flatnonzero(pc.fill_null(of_drain, False).to_numpy())
        rows = events.take(pa.array(at))
        good, _ = split(rows)
        if good is not None:
            rows, at = rows.filter(good), at[good.to_numpy(zero_copy_only=False)]
        keep = np.ones(len(events), dtype=np.bool_)
        for row, place, ts in zip(rows.to_pylist(), at, int64_column(rows["ts"]).tolist(), strict=True):
            keep[place] = self._add(row["cluster"], Closing(row["source_seq"], ts, _named(row["closes"])))
        return events if keep.all() else events.filter(pa.array(keep))

    def _add(self, cluster: str, new: Closing) -> bool:
        waiting = self.waiting.setdefault(cluster, [])
        if new.number <= self.last.get(cluster, -1) or any(new.number == one.number for one in waiting):
            return False
        waiting.append(new)
        waiting.sort()
        return True

    def part(self, rows: SourcedRows, runs: pa.Table) -> tuple[Held, Held]:
        """(what stands before the next closing row of its cluster, or has none to come; what stands behind it)."""
        limits = np.array([self._limit(*name) for name in rows.names], dtype=np.int64)
        behind = np.zeros(len(rows.events), dtype=np.bool_)
        for part, source in zip(rows.slices, rows.source_of, strict=True):
            behind[part.rows] = part.int64("source_seq") > limits[source]
        for name in ("cluster", "source_id", "source_epoch", "source_seq"):
            behind &= rows.events[name].is_valid().to_numpy()
        before, after = _part_runs(runs, self._limit)
        mask = pa.array(behind)
        return Held(rows.events.filter(pc.invert(mask)), before), Held(rows.events.filter(mask), after)

    def _limit(self, cluster: str, source_id: str, epoch: int) -> int:
        waiting = self.waiting.get(cluster)
        return waiting[0].limit(source_id, epoch) if waiting else NEVER

    def take(self, sources: Sources, behind: pa.Table, everything: bool = False) -> frozenset[str]:
        """Clusters whose next closing row takes effect now: all that it names has come, or will not come.

        `behind`: what the rows cover that stand behind it. `everything`: all of them take effect.
        """
        runs = behind.to_pylist()
        found = frozenset(
            cluster
            for cluster, waiting in self.waiting.items()
            if waiting and (everything or _in_effect(cluster, waiting, sources, runs))
        )
        for cluster in found:
            self.last[cluster] = self.waiting[cluster].pop(0).number
        return found


def _named(closes: Iterable[Mapping[str, Any] | None] | None) -> dict[str, tuple[int, int]] | None:
    """Its column `closes` as a dictionary; entries without a value are passed over."""
    if closes is None:
        return None
    complete = [entry for entry in closes if entry is not None and None not in entry.values()]
    return {entry["source_id"]: (entry["source_epoch"], entry["source_seq"]) for entry in complete}


def _in_effect(cluster: str, waiting: list[Closing], sources: Sources, runs: list[dict[str, Any]]) -> bool:
    """Whether the first of these closing rows has all that it names, or no longer has to wait for it: for longer than
    the grace others have gone on, or a later closing row has all that it names."""
    of_cluster = [run for run in runs if run["cluster"] == cluster]
    if max((run["latest"] for run in of_cluster), default=-1) >= waiting[0].ts + sources.grace_us:
        return True
    came = sources.furthest(cluster)
    if _has_come(waiting[0], came):
        return True
    for run in of_cluster:
        source_id, last = run["source_id"], (run["source_epoch"], run["seq_to"])
        came[source_id] = max(came.get(source_id, last), last)
    return any(_has_come(closing, came) for closing in waiting[1:])


def _has_come(closing: Closing, came: Mapping[str, tuple[int, int]]) -> bool:
    return all(last <= came.get(source_id, (-1, -1)) for source_id, last in (closing.closes or {}).items())


def _part_runs(runs: pa.Table, limit: Any) -> tuple[pa.Table, pa.Table]:
    """(runs up to the limits of their sources, runs behind these). When the cut was in the middle of one nobody says:
    both parts have the time at which it began, and the second its latest."""
    before, behind = [], []
    for run in runs.to_pylist():
        last = limit(run["cluster"], run["source_id"], run["source_epoch"])
        if run["seq_to"] <= last:
            before.append(run)
        elif run["seq_from"] > last:
            behind.append(run)
        else:
            before.append(run | {"seq_to": last, "latest": run["since"]})
            behind.append(run | {"seq_from": last + 1})
    return pa.Table.from_pylist(before, COVERAGE), pa.Table.from_pylist(behind, COVERAGE)


def hold(behind: Held) -> Held:
    """The rows behind a waiting closing row, packed to be kept."""
    return Held(behind.events.select(ROWS.names).cast(ROWS), behind.runs)


def joined(held: Held, events: pa.Table, runs: pa.Table) -> Held:
    """The held rows with those that came since."""
    if not len(held.events) and not len(held.runs):
        return Held(events, runs)
    earlier = with_dictionaries(held.events)
    new = with_dictionaries(events).select(earlier.column_names).cast(earlier.schema)
    return Held(pa.concat_tables([earlier, new]), pa.concat_tables([held.runs, runs]))
