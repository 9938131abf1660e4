"""The latest of `gold/brokers`, `gold/broker_lag` and `gold/replica_lag`, and the last minute of each lag."""

from __future__ import annotations

from datetime import timedelta

from deltalake import DeltaTable

from pipelines.lake.lake import Lake
from pipelines.lake.queries import Filter, Row, instant, query, text
from schemas import brokers, partition_health, replica_lag
from schemas.declaration import Table

WINDOW = timedelta(minutes=1)
BROKER, REPLICA = ("broker_id",), ("topic", "partition", "replica_id")
"""The keys of the rows of one interval of a cluster, in `gold/broker_lag` and `gold/replica_lag`."""
Points = dict[tuple[object, ...], list[Row]]
"""The rows of the last minute by (cluster, what they are about)."""


def not_yet(lake: Lake, table: Table) -> str | None:
    """What to say of a table that a job of an earlier version never wrote; None where it has rows, or nobody ran."""
    opened, health = lake.find(table), lake.find(partition_health.TABLE)
    if health is None or not _any(health) or (opened is not None and _any(opened)):
        return None
    return f"{table.path}: not yet: written by the next `hwmark run`"


def present_brokers(lake: Lake, cluster: str | None = None) -> list[Row]:
    """The rows of `gold/brokers`, by cluster and id."""
    return _rows(lake, brokers.TABLE, f"SELECT * FROM t WHERE {_of(cluster)} ORDER BY cluster, broker_id")


def worst_replicas(lake: Lake, wanted: Filter, limit: int) -> tuple[list[Row], int]:
    """At most `limit` of the replicas furthest behind at the latest interval of each cluster; and how many match."""
    place = [f"topic = {text(wanted.topic)}"] if wanted.topic is not None else []
    place += [f"partition = {wanted.partition}"] if wanted.partition is not None else []
    where = " AND ".join([_since(lake, timedelta(), wanted.cluster), *place])
    order = "lag_records IS NULL DESC, lag_records DESC, lag_ms DESC, cluster, topic, partition, replica_id"
    rows = f"SELECT *, count(*) OVER () AS matching FROM t WHERE {where} ORDER BY {order} LIMIT {limit}"
    found = _rows(lake, replica_lag.TABLE, rows)
    total = found[0]["matching"] if found else 0
    return [{k: v for k, v in row.items() if k != "matching"} for row in found], total


def last_minute(lake: Lake, table: Table, key: tuple[str, ...], cluster: str | None = None) -> Points:
    """The rows of the last minute of each cluster of a lag table, by cluster and `key`, in order of time."""
    found: Points = {}
    for row in _rows(lake, table, f"SELECT * FROM t WHERE {_since(lake, WINDOW, cluster)} ORDER BY ts"):
        found.setdefault((row["cluster"], *(row[name] for name in key)), []).append(row)
    return found


def _since(lake: Lake, window: timedelta, cluster: str | None) -> str:
    """SQL: the rows of each cluster from so long before its latest interval on, which `gold/brokers` has.

    Seven days of lag have millions of rows: only files whose statistics reach so far are read.
    """
    latest = _rows(lake, brokers.TABLE, f"SELECT cluster, max(ts) AS ts FROM t WHERE {_of(cluster)} GROUP BY cluster")
    each = [
        f"(cluster = {text(row['cluster'])} AND ts >= {instant(row['ts'] - window)})" for row in latest if row["ts"]
    ]
    return f"({' OR '.join(each)})" if each else "false"


def _rows(lake: Lake, table: Table, sql: str) -> list[Row]:
    opened = lake.find(table)
    return [] if opened is None else query(opened, sql)


def _of(cluster: str | None) -> str:
    return "true" if cluster is None else f"cluster = {text(cluster)}"


def _any(table: DeltaTable) -> bool:
    return bool(query(table, "SELECT 1 AS one FROM t LIMIT 1"))
