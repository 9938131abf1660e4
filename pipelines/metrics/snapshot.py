"""The input of a scrape: rows of a lake's gold and ops tables, and the records behind verdicts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from pipelines.lake.lake import Lake
from pipelines.lake.queries import VIEWS, Filter, Row, after, select_rows
from pipelines.lake.records import record
from pipelines.metrics.totals import OPEN, Running, Totals
from pipelines.streaming.reconstruction import EVALUATED, LAST_BATCH, LastBatch
from pipelines.verdict import ClusterRecord, Limits
from pipelines.verdict.collect import survey
from schemas import broker_lag, broker_minute, brokers, minute_stats, partition_health, quality_results

if TYPE_CHECKING:
    import pyarrow as pa


_ALERTS = """
SELECT coalesce(labels['cluster'], '') AS cluster, rule, severity,
  sum(CASE WHEN state = 'firing' THEN 1 ELSE 0 END) AS firing
FROM ({latest}) GROUP BY 1, rule, severity ORDER BY 1, rule, severity
"""
# The last run to judge: one that found nothing new in a table says of it that the expectation held.
_RESULTS = """
SELECT suite, expectation, "table", success, run_ts FROM t
QUALIFY row_number() OVER (PARTITION BY suite, expectation, "table"
  ORDER BY version_from IS NULL AND success, run_ts DESC) = 1
ORDER BY suite, "table", expectation
"""
_CHECKED = "SELECT max(run_ts) AS ts FROM t"
_LATEST = "SELECT * FROM t QUALIFY ts = max(ts) OVER (PARTITION BY cluster) ORDER BY cluster, broker_id"
_BROKERS = "SELECT * FROM t ORDER BY cluster, broker_id"
# The last whole minute of a cluster, or the one that has begun of a broker without such.
_MINUTES = """
SELECT * FROM (SELECT *, max(minute) OVER (PARTITION BY cluster) AS newest FROM t WHERE {recent})
WHERE minute >= newest - INTERVAL '1 minute'
QUALIFY row_number() OVER (PARTITION BY cluster, broker_id ORDER BY minute) = 1 ORDER BY cluster, broker_id
"""


@dataclass(frozen=True)
class Snapshot:
    """One reading of a lake. None and empty: the table is not there, so nothing is known of it.

    `worst` are the partitions in trouble with the largest trouble first; `alerts` count what fires by cluster, rule and
    severity; `checked` and `committed` (wall clock) are when `check` ran and when `run` last wrote.
    """

    records: tuple[ClusterRecord, ...] = ()
    worst: tuple[Row, ...] = ()
    alerts: tuple[Row, ...] = ()
    checked: datetime | None = None
    evaluated: datetime | None = None
    committed: datetime | None = None
    batch: LastBatch | None = None
    results: tuple[Row, ...] = ()
    brokers: tuple[Row, ...] = ()
    lags: tuple[Row, ...] = ()
    minutes: tuple[Row, ...] = ()
    totals: Totals = field(default_factory=Totals)


def read(lake: Lake, limits: Limits, worst: int, running: Running, now: datetime) -> Snapshot:
    """Read a lake at the moment `now` of the wall clock; `worst`: so many partitions by name; `running` goes on.

    Raises what the tables raise that cannot be read.
    """
    seen = survey(lake, Filter(), limits.since, limits, now)
    partitions = seen.partitions(worst, sound=False)[0] if worst else []
    checked = select_rows(lake, quality_results.TABLE, _CHECKED)
    presents = {record.cluster: record.judged_to for record in seen.records if record.judged_to is not None}
    return Snapshot(
        records=seen.records,
        worst=tuple(partitions),
        alerts=tuple(select_rows(lake, VIEWS["alerts"].table, _ALERTS.format(latest=VIEWS["alerts"].select(Filter())))),
        checked=checked[0]["ts"] if checked else None,
        committed=_committed(lake),
        batch=record(lake, LAST_BATCH, LastBatch),
        results=tuple(select_rows(lake, quality_results.TABLE, _RESULTS)),
        brokers=tuple(select_rows(lake, brokers.TABLE, _BROKERS)),
        lags=tuple(select_rows(lake, broker_lag.TABLE, _LATEST)),
        minutes=tuple(select_rows(lake, broker_minute.TABLE, _MINUTES.format(recent=_recent(presents)))),
        totals=running.take(_partials(lake, running, presents)),
    )


def last_evaluation(lake: Lake) -> datetime | None:
    """When (wall clock) the alert rules were last evaluated, by whatever command: when their step was recorded."""
    found: datetime | None = lake.files().get_file_info(EVALUATED).mtime
    return found


def _committed(lake: Lake) -> datetime | None:
    """When (wall clock) the job last committed how brokers or partitions stand; what did not change is not written."""
    found = [table for one in (brokers.TABLE, partition_health.TABLE) if (table := lake.find(one)) is not None]
    commits = [commit["timestamp"] for table in found for commit in table.history(1)]
    return datetime.fromtimestamp(max(commits) / 1000, UTC) if commits else None


def _recent(presents: Mapping[str, datetime]) -> str:
    """SQL: the minutes close to the present of each cluster."""
    return after({cluster: ts - OPEN for cluster, ts in presents.items()}, "minute", "cluster")


def _partials(lake: Lake, running: Running, presents: Mapping[str, datetime]) -> pa.Table:
    """The rows of `silver/minute_stats` that may have changed since the last reading."""
    import pyarrow as pa
    import pyarrow.dataset as ds

    schema = pa.schema([minute_stats.ARROW.field(n) for n in ("cluster", "minute", "counts", "append_to_hw")])
    minute, keep = schema.field("minute").type, ds.scalar(False)
    for cluster, present in presents.items():
        begin = running.begins.get(cluster, (present - OPEN).replace(second=0, microsecond=0))
        keep = keep | ((ds.field("cluster") == cluster) & (ds.field("minute") >= pa.scalar(begin, minute)))
    return lake.read(minute_stats.TABLE, schema, keep)
