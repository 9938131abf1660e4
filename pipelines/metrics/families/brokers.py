"""Metrics of brokers: led partitions, lag and append times; and of the worst partitions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from pipelines.lake.queries import Row
from pipelines.metrics.families.family import from_ms, gauge

if TYPE_CHECKING:
    from prometheus_client import Metric

BROKER = ("cluster", "broker")
_COUNTS: Mapping[str, tuple[str, str]] = {
    "sole_isr": ("broker_sole_isr_partitions", "Partitions with the broker alone in the ISR and other replicas behind"),
    "at_min_isr": ("broker_at_min_isr_partitions", "Partitions that the failure of the broker leaves under min ISR"),
    "outside_isr": ("broker_outside_isr_replicas", "Replicas of the broker outside the ISR"),
    "leo_unknown": ("broker_leo_unknown_replicas", "Replicas of the broker that follow and whose LEO is not known"),
}
_LAG_COLUMNS = {
    "lag_records": (
        "broker_lag_records",
        "Largest lag of a replica of the broker behind its leader; absent: none is known",
    ),
    "lag_ms": ("broker_lag_seconds", "Longest time since a replica of the broker was caught up; absent: none is known"),
    "behind": ("broker_replicas_behind", "Replicas of the broker below their leader's LEO"),
}
_WORST_COLUMNS = {
    "stalled_ms": (
        "worst_partition_stalled_seconds",
        "How long the HW of one of these has stood below the leader's LEO; absent: not known",
    ),
    "lag_records": ("worst_partition_lag_records", "Largest lag of a replica of one of these; absent: not known"),
}
_QUANTILES = (("0.5", "append_to_hw_p50_ms"), ("0.95", "append_to_hw_p95_ms"), ("0.99", "append_to_hw_p99_ms"))
_LAGS = (("0.95", "p95_lag_records"), ("1", "max_lag_records"))


def brokers(rows: Sequence[Row]) -> Iterator[Metric]:
    """The metrics from `gold/brokers`."""
    yield gauge(
        "broker_info",
        "The broker's rack, and the last state that was reported of it",
        (*BROKER, "rack", "state"),
        (((*_who(row), row["rack"], row["state"]), 1) for row in rows),
    )
    yield gauge(
        "broker_replicas",
        "Replicas of the broker, by whether it leads their partition",
        (*BROKER, "role"),
        (
            ((*_who(row), role), row[name])
            for row in rows
            for role, name in (("leader", "led"), ("follower", "followed"))
        ),
    )
    for column, (name, words) in _COUNTS.items():
        yield gauge(name, words, BROKER, ((_who(row), row[column]) for row in rows))


def lags(rows: Sequence[Row]) -> Iterator[Metric]:
    """The metrics from the last interval of `gold/broker_lag`."""
    for column, (name, words) in _LAG_COLUMNS.items():
        yield gauge(name, words, BROKER, ((_who(row), _value(row, column)) for row in rows))


def minutes(rows: Sequence[Row]) -> Iterator[Metric]:
    """The metrics of each leading broker's last minute."""
    yield gauge(
        "broker_append_to_hw_seconds",
        "Time from an append to its HW on the leading broker, in the last whole minute judged: upper bound of a bucket",
        (*BROKER, "quantile"),
        (((*_who(row), q), from_ms(row[name])) for row in rows for q, name in _QUANTILES),
    )
    yield gauge(
        "broker_fetch_lag_records",
        "Records that followers of the leading broker were behind at their fetches, in the last whole minute judged",
        (*BROKER, "quantile"),
        (((*_who(row), q), row[name]) for row in rows for q, name in _LAGS),
    )


def worst(rows: Sequence[Row]) -> Iterator[Metric]:
    """The partitions in trouble, no more than the settings want: the only metrics that name partitions."""
    labels = ("cluster", "topic", "partition", "condition")
    yield gauge("worst_partition_info", "One of the partitions in trouble", labels, ((_place(row), 1) for row in rows))
    for column, (name, words) in _WORST_COLUMNS.items():
        yield gauge(name, words, labels, ((_place(row), _value(row, column)) for row in rows))


def _value(row: Row, column: str) -> float | int | None:
    """The number of a column, milliseconds in seconds."""
    return from_ms(row[column]) if column.endswith("_ms") else row[column]


def _who(row: Row) -> tuple[object, ...]:
    return row["cluster"], row["broker_id"]


def _place(row: Row) -> tuple[object, ...]:
    condition = "unknown" if row["unknown"] else row["condition"].lower()
    return row["cluster"], row["topic"], row["partition"], condition
