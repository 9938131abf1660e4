"""The events of a benchmark: steady telemetry of many partitions, in the bronze table of a lake of its own."""

from __future__ import annotations

from dataclasses import dataclass

from pipelines.bench.workloads.load import rounds
from pipelines.bench.workloads.stalls import EPOCH_S, LAG_MAX_MS
from pipelines.lake.bronze import append_events
from pipelines.replication.rules import Rules

PARTITIONS = 10_000
LEAST_SECONDS = 20
PER_APPEND = 3
DENSE, SPARSE = 1, 7
"""Appends of a partition in a second: an HW per 3 events, or per 21, at a resolution of one second."""
STALLED = 0.002
"""Share of partitions of which a follower falls out of sync, in each epoch of the load."""
ROWS_OF_A_COMMIT = 2_000_000
RULES = Rules(hw_resolution_ms=1000, lag_max_ms=LAG_MAX_MS)


@dataclass(frozen=True)
class Load:
    """What was written, and where."""

    lake: str
    events: int
    partitions: int
    seconds: int


def write(lake: str, events: int, partitions: int | None = None, appends: int = DENSE) -> Load:
    """About so many events into a new lake.

    `partitions`: by default PARTITIONS, fewer where `events` are few; where they are named there may be more events
    than asked for, so that a follower has the time to fall out of sync.
    """
    per_second = PER_APPEND * appends
    chosen = partitions or max(1, min(PARTITIONS, events // (per_second * LEAST_SECONDS)))
    seconds = max(-(-events // (per_second * chosen)), EPOCH_S)
    made = 0
    step = max(1, ROWS_OF_A_COMMIT // (per_second * chosen))
    tables = rounds(chosen, seconds, appends=appends, stalled=STALLED, step=step)
    for version, table in enumerate(tables):
        append_events(lake, table, app_id="bench", version=version)
        made += len(table)
    return Load(lake, made, chosen, seconds)
