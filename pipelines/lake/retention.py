"""Retention: files with only old rows are removed from a table; no file is rewritten for it."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import TYPE_CHECKING
from urllib.parse import unquote

from pipelines.lake.spans import spans
from pipelines.lake.table import RETENTION, dataset, replace_files

if TYPE_CHECKING:
    from deltalake import DeltaTable

    from pipelines.lake.lake import Lake

BRONZE = "replication_events"
LAGS = ("broker_lag", "replica_lag")
TIMELINE_DAYS = {"timeline": 30}
TIMES = {
    BRONZE: "ts",
    "quarantine": "quarantined_at",
    **dict.fromkeys(("partition_hw", "isr_changes", "replica_sync", "replica_hw", "telemetry_gaps", *LAGS), "ts"),
    "coverage": "to_ts",
    "partition_changes": "last_event_ts",
    "timeline": "ts",
    **dict.fromkeys(("minute_stats", "cluster_minute", "broker_minute"), "minute"),
}
"""The tables with retention, each with its time column; losses, results and alerts are kept. A compacted file has the
rows of one day (UTC)."""
GO_ON = ("cluster_minute", "broker_minute")
"""Tables whose file with a cluster's last minute stays: the gauges go on from there after any silence."""


def remove_older(lake: Lake, name: str, oldest: datetime, among: Collection[str] | None = None) -> int:
    """Remove files with no row at or after `oldest`, among paths in Delta's log, in one commit of removals alone.

    Returns the number of removed rows. Raises CommitFailedError if another writer removed one of the files
    meanwhile.
    """
    table, limit_us = lake.open(name), round(oldest.timestamp() * 1_000_000)
    old = [
        span
        for span in spans(table, lake.files(name), TIMES[name])
        if span.ends_before(limit_us) and (among is None or span.file.path in among)
    ]
    if old and name in GO_ON:
        last = _last_of_clusters(table)
        old = [span for span in old if unquote(span.file.path) not in last]
    if old:
        replace_files(table, [span.file for span in old], mark=RETENTION)
    return sum(span.rows for span in old)


def _last_of_clusters(table: DeltaTable) -> set[str]:
    """The files with the last minute of some cluster."""
    rows = dataset(table).to_table(["cluster", "minute", "__filename"])
    ends = rows.group_by(["cluster", "__filename"]).aggregate([("minute", "max")]).sort_by("minute_max")
    return set(dict(zip(ends["cluster"].to_pylist(), ends["__filename"].to_pylist(), strict=True)).values())
