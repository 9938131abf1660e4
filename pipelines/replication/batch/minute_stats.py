"""silver/minute_stats: what one micro-batch adds to each broker's minutes, mergeable by addition.

The kernel counts events and latencies; histories add gauge moves, ISR changes and regressions.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from pipelines.replication.batch.read import Batch
from pipelines.replication.batch.run_terms import TermResults
from pipelines.replication.compiled.types import I32, I64, LOW, MINUTE_US, NULL32
from pipelines.replication.events.columns import int64_column
from pipelines.replication.events.sharding import owner
from pipelines.replication.facts.partition_hw import HwRows
from pipelines.replication.facts.tables import SCHEMAS
from pipelines.replication.partition.committed_isr import RETRACTED
from pipelines.replication.state.state import State
from schemas.minute_stats import BOUNDS_MS, BOUNDS_RECORDS, SPANS

MS_US = 1000
MINUTE_MS = MINUTE_US // MS_US
TO_THE_MS = frozenset(SPANS.values())
Place = tuple[str, int, int]
"""(cluster, broker, minute in microseconds)"""


@dataclass
class MinuteStats:
    """Counts and histograms by place."""

    counts: dict[Place, Counter[str]] = field(default_factory=dict)
    append_to_hw: dict[Place, I64] = field(default_factory=dict)
    lag: dict[Place, I64] = field(default_factory=dict)

    def add(self, cluster: str, broker: int | None, ts: int, name: str, count: int = 1) -> None:
        """Add to one named count of the minute of `ts` (microseconds), and of its millisecond if it is kept so."""
        place = (cluster, -1 if broker is None else broker, ts // MINUTE_US * MINUTE_US)
        counts = self.counts.get(place)
        if counts is None:
            counts = self.counts[place] = Counter()
        counts[name] += count
        if name in TO_THE_MS:
            counts[f"{name}@{ts // MS_US % MINUTE_MS}"] += count

    def add_results(self, state: State, batch: Batch, results: TermResults) -> None:
        """Add the events and histograms that the kernel counted."""
        for row, (cluster, broker, minute) in enumerate(zip(*(v.tolist() for v in batch.minutes), strict=True)):
            place = (str(state.clusters.all[cluster][0]), broker, minute)
            counter = self.counts.setdefault(place, Counter())
            counter["events"] += int(results.stats.events[row])
            self.append_to_hw[place] = self.append_to_hw.get(place, 0) + results.stats.append_to_hw[row]
            self.lag[place] = self.lag.get(place, 0) + results.stats.lag[row]

    def take_back(self, state: State, batch: Batch, rare: I64) -> None:
        """Subtract the events of these rare rows: their lines counted in an earlier micro-batch, from another file."""
        source = state.series["source"][batch.series[batch.rare[rare]]]
        for number, broker, ts in zip(source, batch.columns.broker[rare], batch.columns.ts[rare], strict=True):
            self.add(str(state.source_names.all[number][0]), int(broker), int(ts), "events", -1)

    def add_hw(self, state: State, rows: HwRows) -> None:
        """Add the rows of silver/partition_hw by agreement."""
        for cluster, broker, minute, word, count in rows.counts():
            self.add(str(state.clusters.all[cluster][0]), broker, minute, word, count)

    def add_at(self, state: State, cluster: I32, broker: I32, ts: I64, name: str) -> None:
        """Add 1 to one named count of the minute of each `ts`."""
        unit_us = MS_US if name in TO_THE_MS else MINUTE_US
        units, at = np.unique(ts // unit_us, return_inverse=True)
        places, of = np.unique(cluster.astype(np.int64) << 32 | broker.astype(np.int64) & LOW, return_inverse=True)
        keys, counts = np.unique(of << 32 | at, return_counts=True)
        place = places[keys >> 32]
        found = place >> 32, place << 32 >> 32, units[keys & LOW] * unit_us, counts
        for number, broker_id, since, count in zip(*(values.tolist() for values in found), strict=True):
            self.add(str(state.clusters.all[number][0]), broker_id, since, name, count)

    def table(self, batch_id: int) -> pa.Table:
        """silver/minute_stats; a place at which everything is 0 has no row."""
        rows = []
        for place in sorted(set(self.counts) | set(self.append_to_hw)):
            counts = {k: v for k, v in self.counts.get(place, Counter()).items() if v}
            append_to_hw, lag = self.append_to_hw.get(place), self.lag.get(place)
            if counts or (append_to_hw is not None and append_to_hw.any()):
                rows.append({
                    "cluster": place[0], "broker_id": place[1], "minute": place[2], "batch_id": batch_id,
                    "counts": sorted(counts.items()),
                    "append_to_hw": _histogram(append_to_hw, len(BOUNDS_MS) + 1),
                    "lag": _histogram(lag, len(BOUNDS_RECORDS) + 1),
                })  # fmt: skip
        return pa.Table.from_pylist(rows, schema=SCHEMAS["minute_stats"])


def _histogram(counts: I64 | None, size: int) -> list[int]:
    buckets: list[int] = (np.zeros(size, int) if counts is None else counts).tolist()
    return buckets


class GaugeState(NamedTuple):
    """The leader of a partition, and the partition's share in each gauge of that broker."""

    leader_id: int | None
    partitions_change: int
    under_replicated_change: int
    under_min_isr_change: int
    offline_change: int
    out_of_sync_change: int
    held_back_change: int


GaugeMove = tuple[int, int, GaugeState, GaugeState]
"""(partition, ts, before, after)"""


def count_gauge_moves(state: State, moves: list[GaugeMove], minutes: MinuteStats) -> None:
    """Move the gauges of brokers, and mark the lane of a broker that no longer leads as deposed."""
    moved: Counter[tuple[str, int | None, int, str]] = Counter()
    leader_ids, deposed = state.partitions["leader_id"], state.lanes["deposed"]
    for partition, ts, before, after in moves:
        cluster = state.place(partition)[0]
        for name, was, now in zip(GaugeState._fields[1:], before[1:], after[1:], strict=True):
            if was:
                moved[cluster, before.leader_id, ts, name] -= was
            if now:
                moved[cluster, after.leader_id, ts, name] += now
        led = before.leader_id
        if led is None or led < 0 or leader_ids[partition] in (led, NULL32):
            continue
        if (lane := state.lane_of(partition, led)) >= 0:
            deposed[lane] = 1
    for (cluster, leader, ts, name), count in moved.items():
        minutes.add(cluster, leader, ts, name, count)


def count_changes(changes: list[Any], regressions: list[Any], minutes: MinuteStats) -> None:
    """Count ISR changes by cause and regressions by class; a retracted change counts no more."""
    for row in changes:
        retracted = row["change"] == RETRACTED
        change = row.get("was") if retracted else row["change"]
        if change in ("shrink", "expand") and (retracted or row["news"]):
            name = f"{change}:{row['cause']}"
            minutes.add(row["cluster"], row["leader_id"], row["ts"], name, -1 if retracted else 1)
    for row in regressions:
        if row["revision"] == 1:
            minutes.add(row["cluster"], row["leader_id"], row["ts"], f"regression:{row['class']}")


def count_broker_wide(bucket: int, buckets: int, rows: pa.Table, minutes: MinuteStats) -> None:
    """Count broker-wide events in the bucket that owns their source."""
    if not rows.num_rows:
        return
    minute = pa.array(int64_column(rows["ts"]) // MINUTE_US)
    counted = rows.select(["cluster", "source_id", "broker_id"]).append_column("ts", minute)
    by = ["cluster", "source_id", "broker_id", "ts"]
    groups = counted.group_by(by, use_threads=False).aggregate([([], "count_all")])
    for row in groups.to_pylist():
        if owner(row["source_id"], buckets) == bucket:
            minutes.add(row["cluster"], row["broker_id"], row["ts"] * MINUTE_US, "events", row["count_all"])
