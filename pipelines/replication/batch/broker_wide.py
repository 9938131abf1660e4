"""Broker-wide events: broker states, configurations, versions and lost telemetry. Every bucket reads them all."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.replication.batch.gaps import GapRows, gap_row, source_gap
from pipelines.replication.events.columns import int64_column, take_rows
from pipelines.replication.events.sharding import owner
from pipelines.replication.events.sources_of_rows import SourcedRows
from pipelines.replication.kafka_versions import reported_rules
from pipelines.replication.metadata.brokers_and_configs import CLUSTER_WIDE
from pipelines.replication.state.state import State
from pipelines.replication.telemetry.sources import DRAIN, Gap
from schemas.telemetry_gaps import NOT_UNDERSTOOD

READ_COLUMNS = (
    "cluster", "source_id", "source_epoch", "source_seq", "ts", "broker_id", "event_type", "topic", "topic_id",
    "partition", "leader_id", "leader_epoch", "replica_id", "broker_epoch", "min_isr", "lag_max_ms", "level", "detail",
)  # fmt: skip
"""The columns of a broker-wide event that are read."""
_APPLIED = pa.array(["broker_state", "config", "lost"])


def broker_wide_rows(rows: SourcedRows) -> pa.Table:
    """The broker-wide rows, READ_COLUMNS only."""
    found = [part.first + np.flatnonzero(part.int32("partition") < 0) for part in rows.slices]
    return take_rows(rows.events.select(READ_COLUMNS), np.concatenate([np.empty(0, dtype=np.int64), *found]))


def own_rejected(rejected: pa.Table, bucket: int, buckets: int) -> pa.Table:
    """The rejected rows that this bucket emits: broker-wide ones, which all buckets have, only as their owner."""
    if buckets == 1 or not rejected.num_rows:
        return rejected
    on_partitions = pc.greater_equal(pc.fill_null(rejected["partition"], -1), 0)
    return rejected.filter(pc.or_(on_partitions, _owned(rejected["source_id"], bucket, buckets)))


def relevant_broker_wide(rows: pa.Table, bucket: int, buckets: int) -> pa.Table:
    """Broker-wide events without the `progress` of sources of other buckets: coverage has what those report."""
    if buckets == 1 or not rows.num_rows:
        return rows
    owned = _owned(rows["source_id"], bucket, buckets)
    return rows.filter(pc.or_(owned, pc.not_equal(rows["event_type"], "progress")))


def _owned(source: pa.ChunkedArray, bucket: int, buckets: int) -> pa.ChunkedArray:
    """Whether this bucket owns each of these sources."""
    names = pc.fill_null(source.cast(pa.string()), "")
    own = [name for name in pc.unique(names).to_pylist() if owner(name, buckets) == bucket]
    return pc.is_in(names, value_set=pa.array(own, pa.string()))


def closes_history(events: pa.Table, runs: pa.Table) -> bool:
    """Whether these events, which `runs` cover, contain the closing row of `hwmark run --drain`."""
    if not pc.any(pc.equal(runs["source_id"], DRAIN)).as_py():
        return False
    closing = pc.and_(pc.equal(events["partition"], -1), pc.equal(events["source_id"], DRAIN))
    return bool(pc.any(pc.fill_null(closing, False)).as_py())


def first_seen(state: State, rows: pa.Table) -> pa.Table:
    """Broker-wide events without repeats: each number of a source counts once. Called before the sources advance."""
    if not rows.num_rows:
        return rows
    sourced, seq = SourcedRows(rows), int64_column(rows["source_seq"])
    source = np.concatenate(sourced.source_of)
    numbers = zip(source.tolist(), seq.tolist(), strict=True)
    received = np.array([state.sources.received(sourced.names[of], number) for of, number in numbers])
    order = np.lexsort((seq, source))
    repeated = np.zeros(len(seq), dtype=np.bool_)
    repeated[order[1:]] = (np.diff(source[order]) == 0) & (np.diff(seq[order]) == 0)
    return rows.filter(pa.array(~received & ~repeated))


def apply_broker_wide(state: State, rows: pa.Table, gaps: list[Gap], settled: dict[str, int]) -> GapRows:
    """Applies broker-wide events, and the gaps of sources; returns the rows of silver/telemetry_gaps about them.

    `settled`: by cluster the time up to which everything has been decided; events before it are late.
    """
    found = GapRows()
    applied = rows.filter(pc.is_in(rows["event_type"], value_set=_APPLIED))
    times = int64_column(applied["ts"]) if applied.num_rows else np.empty(0, dtype=np.int64)
    for row, ts in zip(applied.to_pylist(), times.tolist(), strict=True):
        _apply(state, found, row, ts)
        if ts <= settled.get(row["cluster"], -1):
            found.of_sources.append(gap_row(row, ts, "source", row["source_seq"], row["source_seq"], "late"))
    for gap in gaps:
        source_gap(state, found, gap)
    return found


def _apply(state: State, found: GapRows, row: dict[str, Any], ts: int) -> None:
    cluster = state.clusters.number(row["cluster"])
    if row["event_type"] == "broker_state":
        reported_by = str(row["source_id"]), int(row["source_epoch"]), int(row["source_seq"])
        states = row["detail"], row["broker_epoch"], reported_by
        state.timeline.record_broker_state(cluster, row["replica_id"], ts, *states)
    elif row["event_type"] == "config":
        _apply_config(state, cluster, row, ts)
    else:
        _apply_lost(state, found, cluster, row, ts)


def _apply_config(state: State, cluster: int, row: dict[str, Any], ts: int) -> None:
    if version := reported_rules(row["detail"]):
        state.timeline.record_version(cluster, row["broker_id"], ts, *version)
    if row["min_isr"] is None and row["lag_max_ms"] is None:
        return
    topic = CLUSTER_WIDE if row["topic"] is None else state.topics.number(row["cluster"], row["topic"])
    topic_id = -1 if row["topic_id"] is None else state.topic_ids.number(row["topic_id"])
    state.timeline.record_config(cluster, topic, ts, row["min_isr"], row["lag_max_ms"], topic_id)


def _apply_lost(state: State, found: GapRows, cluster: int, row: dict[str, Any], ts: int) -> None:
    """A source reports that rows of it were lost, or lines not understood."""
    seq = row["source_seq"]
    key = (state.source_names.number(row["cluster"], row["source_id"], row["source_epoch"]), seq)
    if key in state.reported_losses:
        return
    state.reported_losses.add(key)
    misread = (row["detail"] or "").startswith(NOT_UNDERSTOOD)
    (state.record_misread if misread else state.record_gap)(cluster, row["broker_id"], ts)
    found.of_sources.append(gap_row(row, ts, "source", seq, seq, "gap", row["detail"]))
