"""Evidence of the alert rules: narrow Arrow tables, their schemas, and which rows of a lake they are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import ModuleType
from typing import Any, NamedTuple

import pyarrow as pa

from pipelines.verdict.sources import LEADERSHIPS, STATES
from schemas import (
    brokers,
    cluster_minute,
    deliveries,
    hw_regressions,
    isr_changes,
    partition_health,
    partition_hw,
    replica_sync,
    replication_events,
    telemetry_gaps,
)

PLACE = ("cluster", "topic", "topic_id", "partition")
_CLUSTER, _TIME = ("cluster", pa.string()), pa.timestamp("us", tz="UTC")


class Part(NamedTuple):
    """One kind of evidence, and the table that it is read from: its rows with one of these values in a column."""

    schema: pa.Schema
    table: Any = None
    column: str = ""
    values: tuple[str, ...] = ()


def _rows(module: ModuleType, names: Iterable[str], column: str = "", *values: str) -> Part:
    return Part(pa.schema([module.ARROW.field(name) for name in names]), module.TABLE, column, values)


PARTS = {
    "regressions": _rows(hw_regressions, (
        *PLACE, "ts", "leader_id", "regression_id", "class", "severity", "leader_id_before", "hw_before", "hw_after",
        "lost_from", "lost_to", "lost_records", "evidence", "proof", "revision", "level",
    )),
    "min_isr": _rows(
        partition_hw, (*PLACE, "ts", "leader_id", "leader_epoch", "kind", "isr", "frozen"),
        "kind", "freeze", "thaw", "term_start",
    ),
    "disagreements": _rows(
        partition_hw, (*PLACE, "ts", "leader_id", "hw", "reported_hw"), "agreement", "disagree"
    ),
    "isr": _rows(isr_changes, (*PLACE, "ts", "partition_epoch", "isr_before", "isr_after", "revision")),
    "sync": _rows(replica_sync, (*PLACE, "ts", "leader_epoch", "replica_id", "state", "reason")),
    "gaps": _rows(telemetry_gaps, ("cluster", "ts", "source_id", "series", "seq_from", "seq_to", "kind", "detail")),
    "health": _rows(
        partition_health, (
            *PLACE, "ar", "assignments", "isr", "out_of_sync", "under_min_isr", "offline", "level", "last_event_ts",
        )
    ),
    "brokers": _rows(brokers, (*STATES, "ts")),
    # For how long there are rows of silver.
    "minutes": _rows(cluster_minute, ("cluster", "minute")),
    "leaderships": _rows(
        replication_events, (*PLACE, "ts", "leader_id", "leader_epoch", "detail", "committed"), "event_type",
        *LEADERSHIPS,
    ),
    "broker_states": _rows(
        replication_events, ("cluster", "ts", "replica_id", "broker_epoch", "detail"), "event_type", "broker_state"
    ),
    "deliveries": _rows(deliveries, ("channel", "alert_id", "episode", "outcome", "sent_at", "error")),
    # Up to when each source has reported everything.
    "reported": Part(pa.schema([
        _CLUSTER, ("source_id", pa.string()), ("broker_id", pa.int32()), ("reported_to", _TIME), ("holds_s", pa.int32())
    ])),
    # Since when (event time) the watchers of a cluster see nothing of it, and why.
    "blind_watchers": Part(pa.schema([_CLUSTER, ("since", _TIME), ("words", pa.string())])),
    # Clusters that a drain closed and of which nothing was reported since.
    "closed": Part(pa.schema([_CLUSTER])),
    # The alerts that fire as stored, the sources that they are of (null: any), and up to when these had reported.
    "fired": Part(pa.schema([
        _CLUSTER, ("rule", pa.string()), ("cause", pa.string()), ("source_id", pa.string()), ("last", _TIME)
    ])),
    # The present of each cluster in event time, as far as it is reconstructed.
    "clock": Part(pa.schema([_CLUSTER, ("clock", _TIME)])),
    # Since when (wall clock) the job has something to read of a cluster, whether any of it was ever reconstructed, and
    # after how long the job is behind.
    "backlog": Part(pa.schema([
        _CLUSTER, ("oldest", _TIME), ("judged_once", pa.bool_()), ("limit_s", pa.float64())
    ])),
    # Lasting states of the alerts that fired at an earlier evaluation, and that began before the rows that are read;
    # `lasting`: the least time (microseconds) after which an evaluator told them.
    "carried": Part(pa.schema([
        *(hw_regressions.ARROW.field(name) for name in PLACE), ("rule", pa.string()), ("replica", pa.int32()),
        ("ts", _TIME), ("rank", pa.int64()), ("missing", pa.list_(pa.int32())), ("reason", pa.string()),
        ("ended", _TIME), ("lasting", pa.int64()),
    ])),
    # Clusters that a drain closed, and of which nothing came for a day of the wall clock.
    "ended_recordings": Part(pa.schema([_CLUSTER])),
    # Tables that could not be read, by each cluster that is known.
    "blind": Part(pa.schema([_CLUSTER, ("why", pa.string()), ("since", _TIME)])),
}  # fmt: skip
SCHEMAS = {name: part.schema for name, part in PARTS.items()}

Evidence = dict[str, pa.Table]
"""One Arrow table for each name in SCHEMAS."""


def evidence_of(**given: pa.Table | Sequence[Mapping[str, Any]]) -> Evidence:
    """Return evidence with the given tables, each an Arrow table or a list of rows; all other tables are empty."""
    return {
        name: given[name]
        if isinstance(given.get(name), pa.Table)
        else pa.Table.from_pylist([*given.get(name, ())], schema)
        for name, schema in SCHEMAS.items()
    }


def in_microseconds(table: pa.Table) -> pa.Table:
    """The table with every time as microseconds since 1970, so that arithmetic needs no time zone."""
    for position, column in enumerate(table.schema):
        if pa.types.is_timestamp(column.type):
            table = table.set_column(position, column.name, table.column(position).cast(pa.int64()))
    return table
