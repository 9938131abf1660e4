"""The events of a benchmark: steady telemetry of many partitions, in the bronze table of a lake of its own."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from generators.lake import append_events
from generators.load import rounds
from pipelines.replication.rules import Rules

PARTITIONS = 10_000
LEAST_SECONDS = 20
PER_SECOND = 3
RULES = Rules(hw_resolution_ms=1000)


@dataclass(frozen=True)
class Load:
    """What was written, and where."""

    lake: str
    events: int
    partitions: int
    seconds: int


def write(lake: str, events: int) -> Load:
    """About so many events into a new lake, as one commit; fewer partitions where `events` are few."""
    partitions = max(1, min(PARTITIONS, events // (PER_SECOND * LEAST_SECONDS)))
    seconds = -(-events // (PER_SECOND * partitions))
    made = pa.concat_tables(rounds(partitions, seconds))
    append_events(lake, made, app_id="bench", version=0)
    return Load(lake, len(made), partitions, seconds)
