"""What the alert rules look at: narrow Arrow tables, and their schemas."""

from __future__ import annotations

from collections.abc import Collection, Iterable

import pyarrow as pa

from pipelines.verdict.sources import Progress
from schemas import (
    brokers,
    cluster_minute,
    deliveries,
    hw_regressions,
    partition_health,
    partition_hw,
    replica_sync,
    replication_events,
    telemetry_gaps,
)

PLACE = ("cluster", "topic", "topic_id", "partition")


def _columns(schema: pa.Schema, names: Iterable[str]) -> pa.Schema:
    return pa.schema([schema.field(name) for name in names])


REGRESSIONS = _columns(
    hw_regressions.ARROW,
    (*PLACE, "ts", "leader_id", "regression_id", "class", "severity", "leader_id_before", "hw_before", "hw_after",
     "lost_from", "lost_to", "lost_records", "evidence", "proof", "revision"),
)  # fmt: skip
MIN_ISR = _columns(partition_hw.ARROW, (*PLACE, "ts", "leader_id", "kind", "isr", "frozen"))
DISAGREEMENTS = _columns(partition_hw.ARROW, (*PLACE, "ts", "leader_id", "hw", "reported_hw"))
SYNC = _columns(replica_sync.ARROW, (*PLACE, "ts", "leader_epoch", "replica_id", "state", "reason"))
GAPS = _columns(telemetry_gaps.ARROW, ("cluster", "ts", "source_id", "series", "seq_from", "seq_to", "kind"))
HEALTH = _columns(
    partition_health.ARROW,
    (*PLACE, "ar", "isr", "out_of_sync", "under_min_isr", "offline", "last_event_ts"),
)
LEADERSHIPS = _columns(replication_events.ARROW, (*PLACE, "ts", "leader_id", "leader_epoch"))
BROKER_STATES = _columns(replication_events.ARROW, ("cluster", "ts", "replica_id", "broker_epoch", "detail"))
REPORTED = pa.schema([("cluster", pa.string()), ("source_id", pa.string()), ("broker_id", pa.int32()),
                      ("reported_to", pa.timestamp("us", tz="UTC"))])  # fmt: skip
"""Up to when each source has reported everything."""
CLOSED = pa.schema([("cluster", pa.string()), ("closed", pa.timestamp("us", tz="UTC"))])
"""When a drain last closed a cluster."""
CLOCK = pa.schema([("cluster", pa.string()), ("clock", pa.timestamp("us", tz="UTC"))])
"""The present of each cluster in event time, as far as the reconstruction has come."""
BACKLOG = pa.schema([("cluster", pa.string()), ("oldest", pa.timestamp("us", tz="UTC")), ("judged_once", pa.bool_()),
                     ("limit_s", pa.float64())])  # fmt: skip
"""What the job has yet to read of each cluster: since when (wall clock), whether any of it was ever reconstructed, and
after how long it is behind."""
CARRIED = pa.schema([*(hw_regressions.ARROW.field(name) for name in PLACE), ("rule", pa.string()),
                     ("replica", pa.int32()), ("ts", pa.timestamp("us", tz="UTC")), ("rank", pa.int64()),
                     ("missing", pa.list_(pa.int32())), ("reason", pa.string()),
                     ("ended", pa.timestamp("us", tz="UTC"))])  # fmt: skip
"""Lasting states of the alerts that fired at an earlier evaluation, and that began before the rows that are read."""
ENDED = pa.schema([("cluster", pa.string())])
"""Clusters that a drain closed, and of which nothing came for a day of the wall clock."""
BROKERS = _columns(brokers.ARROW, ("cluster", "broker_id", "state", "state_ts", "ts"))
MINUTES = _columns(cluster_minute.ARROW, ("cluster", "minute"))
"""Of the time for which there are rows of silver, and no evidence itself."""
BLIND = pa.schema([("cluster", pa.string()), ("why", pa.string())])
"""Tables that could not be read, by each cluster that is known."""
DELIVERIES = _columns(deliveries.ARROW, ("channel", "alert_id", "episode", "outcome", "sent_at", "error"))

SCHEMAS = {
    "regressions": REGRESSIONS, "min_isr": MIN_ISR, "disagreements": DISAGREEMENTS, "sync": SYNC, "gaps": GAPS,
    "health": HEALTH, "leaderships": LEADERSHIPS, "broker_states": BROKER_STATES, "reported": REPORTED,
    "closed": CLOSED, "clock": CLOCK, "backlog": BACKLOG,
    "deliveries": DELIVERIES, "carried": CARRIED, "ended_recordings": ENDED, "brokers": BROKERS, "blind": BLIND,
}  # fmt: skip


class Evidence(dict[str, pa.Table]):
    """One Arrow table for each name in SCHEMAS."""

    @staticmethod
    def of(**tables: pa.Table) -> Evidence:
        """Evidence with the named tables and the others empty."""
        return Evidence({name: tables.get(name, schema.empty_table()) for name, schema in SCHEMAS.items()})

    def in_microseconds(self) -> dict[str, pa.Table]:
        """The tables with every time as microseconds since 1970, so that arithmetic needs no time zone."""
        return {name: in_microseconds(table) for name, table in self.items()}


def of_sources(found: Progress, clusters: Collection[str]) -> dict[str, pa.Table]:
    """`reported` and `closed` of these clusters."""
    rows = found.rows().items()
    return {
        name: pa.Table.from_pylist([row for row in own if row["cluster"] in clusters], SCHEMAS[name])
        for name, own in rows
    }


def in_microseconds(table: pa.Table) -> pa.Table:
    """The table with every time as microseconds since 1970."""
    for position, column in enumerate(table.schema):
        if pa.types.is_timestamp(column.type):
            table = table.set_column(position, column.name, table.column(position).cast(pa.int64()))
    return table
