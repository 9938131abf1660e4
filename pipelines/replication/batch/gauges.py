"""What histories and broker-wide events add to the minutes: gauge moves, ISR changes, regressions, events."""

from __future__ import annotations

from typing import Any, NamedTuple

import pyarrow as pa

from pipelines.replication.batch.minute_stats import MinuteStats
from pipelines.replication.batch.numbering import MINUTE_US
from pipelines.replication.events.columns import int64_column
from pipelines.replication.events.sharding import owner
from pipelines.replication.partition.committed_isr import RETRACTED
from pipelines.replication.state.state import State


class GaugeState(NamedTuple):
    """The leader of a partition, and 0 or 1 for each gauge of that broker in which the partition counts."""

    leader_id: int | None
    partitions_change: int
    under_replicated_change: int
    under_min_isr_change: int


GaugeMove = tuple[int, int, GaugeState, GaugeState]
"""(partition, ts, before, after)"""


def count_gauge_moves(state: State, moves: list[GaugeMove], minutes: MinuteStats) -> None:
    """Moves the gauges of brokers; the lane of a broker that leads no more is marked as deposed."""
    for partition, ts, before, after in moves:
        cluster = state.place(partition)[0]
        for gauges, sign in ((before, -1), (after, 1)):
            for name in GaugeState._fields[1:]:
                if count := getattr(gauges, name):
                    minutes.add(cluster, gauges.leader_id, ts, name, sign * count)
        led = before.leader_id is not None and before.leader_id >= 0
        lane = state.lane_of(partition, before.leader_id) if before.leader_id is not None and led else -1
        if lane >= 0 and state.partitions["leader_id"][partition] != before.leader_id:
            state.lanes["deposed"][lane] = 1


def count_changes(changes: list[Any], regressions: list[Any], minutes: MinuteStats) -> None:
    """Counts ISR changes by cause and regressions by class; a retracted change counts no more."""
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
    """Counts broker-wide events in the bucket that owns their source."""
    if not rows.num_rows:
        return
    minute = pa.array(int64_column(rows["ts"]) // MINUTE_US)
    counted = rows.select(["cluster", "source_id", "broker_id"]).append_column("ts", minute)
    by = ["cluster", "source_id", "broker_id", "ts"]
    groups = counted.group_by(by, use_threads=False).aggregate([([], "count_all")])
    for row in groups.to_pylist():
        if owner(row["source_id"], buckets) == bucket:
            minutes.add(row["cluster"], row["broker_id"], row["ts"] * MINUTE_US, "events", row["count_all"])
