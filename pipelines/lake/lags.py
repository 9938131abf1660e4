"""The latest of `gold/brokers`, `gold/broker_lag` and `gold/replica_lag`, and the last minute of each lag."""

from __future__ import annotations

from datetime import timedelta

from pipelines.lake.lake import Lake
from pipelines.lake.queries import Filter, Row, instant, select_first, select_rows, text
from schemas import brokers, partition_health, replica_lag
from schemas.declaration import Table

WINDOW = timedelta(minutes=1)
BROKER, REPLICA = ("broker_id",), ("topic", "partition", "replica_id")
"""The keys of the rows of one interval of a cluster, in `gold/broker_lag` and `gold/replica_lag`."""
Points = dict[tuple[object, ...], list[Row]]
"""The rows of the last minute by (cluster, what they are about)."""


def not_yet(lake: Lake, table: Table) -> str | None:
    """The sentence about a table that an earlier version's job never wrote; None if it has rows, or no job ran."""
    written, judged = (
        select_rows(lake, one, "SELECT 1 AS one FROM t LIMIT 1") for one in (table, partition_health.TABLE)
    )
    return f"{table.path}: not yet: written by the next `hwmark run`" if judged and not written else None


def present_brokers(lake: Lake, cluster: str | None = None) -> list[Row]:
    """The rows of `gold/brokers`, by cluster and id; columns that an older lake lacks are null."""
    columns = ", ".join(column.name for column in brokers.TABLE.columns)
    return select_rows(lake, brokers.TABLE, f"SELECT {columns} FROM t WHERE {_of(cluster)} ORDER BY cluster, broker_id")


def worst_replicas(lake: Lake, wanted: Filter, limit: int) -> tuple[list[Row], int]:
    """At most `limit` replicas, the furthest behind in the latest interval of each cluster, and the number of all."""
    place = [f"topic = {text(wanted.topic)}"] if wanted.topic is not None else []
    place += [f"partition = {wanted.partition}"] if wanted.partition is not None else []
    where = " AND ".join([_since(lake, timedelta(), wanted.cluster), *place])
    order = "lag_records IS NULL DESC, lag_records DESC, lag_ms DESC, cluster, topic, partition, replica_id"
    return select_first(lake, replica_lag.TABLE, f"SELECT * FROM t WHERE {where}", order, limit)


def last_minute(lake: Lake, table: Table, key: tuple[str, ...], cluster: str | None = None) -> Points:
    """The rows of the last minute of each cluster of a lag table, by cluster and `key`, in order of time."""
    found: Points = {}
    for row in select_rows(lake, table, f"SELECT * FROM t WHERE {_since(lake, WINDOW, cluster)} ORDER BY ts"):
        found.setdefault((row["cluster"], *(row[name] for name in key)), []).append(row)
    return found


def _since(lake: Lake, window: timedelta, cluster: str | None) -> str:
    """SQL for the rows of each cluster since some time before its latest interval, which is in `gold/brokers`.

    Seven days of lag are millions of rows: only files with statistics in that range are read.
    """
    newest = f"SELECT cluster, max(ts) AS ts FROM t WHERE {_of(cluster)} GROUP BY cluster"
    latest = select_rows(lake, brokers.TABLE, newest)
    each = [
        f"(cluster = {text(row['cluster'])} AND ts >= {instant(row['ts'] - window)})" for row in latest if row["ts"]
    ]
    return f"({' OR '.join(each)})" if each else "false"


def _of(cluster: str | None) -> str:
    return "true" if cluster is None else f"cluster = {text(cluster)}"
