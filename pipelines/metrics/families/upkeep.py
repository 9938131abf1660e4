"""Metrics of hwmark itself: readability of the lake, last times of `run` and `check`, firing alerts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from typing import TYPE_CHECKING

from pipelines.metrics.families.family import counter, gauge, seconds
from pipelines.metrics.snapshot import Snapshot

if TYPE_CHECKING:
    from prometheus_client import Metric


@dataclass(frozen=True)
class Reading:
    """The number of the exporter's readings of the lake, and the duration of the last one."""

    readings: int = 0
    seconds: float = 0


def unreadable() -> Iterator[Metric]:
    """All there is where the tables cannot be read."""
    yield _build()
    yield _up(readable=False)


def upkeep(snapshot: Snapshot, reading: Reading) -> Iterator[Metric]:
    """The exporter, the job and the checks."""
    batch = snapshot.batch
    yield _build()
    yield _up(readable=True)
    yield counter("lake_readings", "How often the exporter has read the lake's tables", (), [((), reading.readings)])
    for name, words, value in (
        ("lake_reading_seconds", "How long its last reading took", reading.seconds),
        (
            "run_committed_timestamp_seconds",
            "When (wall clock) `hwmark run` last committed how partitions stand",
            seconds(snapshot.committed),
        ),
        ("run_batch", "The number of the last micro-batch of `hwmark run`", None if batch is None else batch.batch_id),
        ("run_batch_events", "Events of bronze in it", None if batch is None else batch.events),
        ("run_batch_seconds", "How long it took", None if batch is None else batch.seconds),
        ("run_state_bytes", "What the state store held after it", None if batch is None else batch.state_bytes),
        (
            "check_timestamp_seconds",
            "When (wall clock) `hwmark check` last ran; absent: it never did",
            seconds(snapshot.checked),
        ),
        (
            "alerts_evaluated_timestamp_seconds",
            "When (wall clock) `hwmark check`, `notify` or `run` last evaluated the alert rules; absent: none ever did",
            seconds(snapshot.evaluated),
        ),
    ):
        yield gauge(name, words, (), [((), value)])
    yield gauge(
        "expectation_met",
        "Whether an expectation of `hwmark check` held when it last had something to judge",
        ("suite", "table", "expectation"),
        (((row["suite"], row["table"], row["expectation"]), row["success"]) for row in snapshot.results),
    )


def alerts(snapshot: Snapshot, severities: Mapping[str, str]) -> Metric:
    """The firing alerts of `ops/alerts`; if rules were evaluated, each enabled one has a value for each cluster."""
    found: dict[tuple[str, str, str], int] = {}
    if snapshot.checked is not None or snapshot.alerts:
        for record in snapshot.records:
            found |= {(record.cluster, rule, severity): 0 for rule, severity in severities.items()}
    found |= {(row["cluster"], row["rule"], row["severity"]): row["firing"] for row in snapshot.alerts}
    words = "Alerts that fire, as `hwmark check` last found them; absent: it never ran"
    return gauge("alerts_firing", words, ("cluster", "rule", "severity"), found.items())


def _build() -> Metric:
    return gauge("build_info", "The version of hwmark", ("version",), [((version("hwmark"),), 1)])


def _up(*, readable: bool) -> Metric:
    return gauge("lake_up", "Whether the tables of the lake could be read at this scrape", (), [((), readable)])
