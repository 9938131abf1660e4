"""Queries of a lake without Spark: filtered rows of one table, the latest revisions only, newest last."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from deltalake import DeltaTable, QueryBuilder

from pipelines.lake.lake import Lake
from pipelines.lake.table import reopening
from schemas import (
    alerts,
    brokers,
    cluster_minute,
    hw_regressions,
    incidents,
    isr_changes,
    partition_health,
    partition_hw,
    replica_sync,
    tables,
)
from schemas.declaration import Column, Table
from schemas.replication_events import FIRST, LAST

Row = dict[str, Any]


@dataclass(frozen=True)
class View:
    """A view: its table and time column, its order (weightiest and newest first) and the key of a revision as SQL."""

    table: Table
    time: str
    first: str
    latest: str = ""
    only: str = "true"
    written_by: str = "run --once"
    goes_on: str = ""
    """SQL for rows that are shown whenever they began; their latest state says what they are about."""

    def place(self, name: str) -> str:
        """The SQL for the cluster, topic or partition of a row."""
        return f"labels['{name}']" if self.table is alerts.TABLE else name

    def select(self, wanted: Filter) -> str:
        """The query for the latest rows that match."""
        latest = f"QUALIFY row_number() OVER ({self.latest}) = 1" if self.latest else ""
        before, after = wanted.where(self), self.only
        if self.goes_on:  # an alert's topics change: those of its latest state count
            before, after = after, before
        return f"SELECT * FROM (SELECT * FROM t WHERE {before} {latest}) WHERE {after}"


_REGRESSIONS = View(
    hw_regressions.TABLE,
    "ts",
    first="CASE severity WHEN 'critical' THEN 0 WHEN 'warning' THEN 1 ELSE 2 END, ts DESC, cluster, topic, partition",
    latest="PARTITION BY cluster, regression_id ORDER BY revision DESC",
)

VIEWS = {
    "hw": View(partition_hw.TABLE, "ts", first="ts DESC"),
    "isr": View(
        isr_changes.TABLE,
        "ts",
        first="ts DESC",
        latest="PARTITION BY cluster, topic, topic_id, partition, coalesce(partition_epoch, -1), "
        "CASE WHEN partition_epoch IS NULL THEN ts END ORDER BY revision DESC, change = 'retracted'",
        only="cardinality(removed) > 0 OR cardinality(added) > 0 OR change = 'retracted'",
    ),
    "sync": View(replica_sync.TABLE, "ts", first="ts DESC"),
    "regressions": _REGRESSIONS,
    "serious": replace(_REGRESSIONS, only="severity <> 'info' AND class <> 'loss_not_excluded'"),
    "harmless": replace(_REGRESSIONS, only="severity = 'info' AND class <> 'loss_not_excluded'"),
    "alerts": View(
        alerts.TABLE,
        "last_ts",
        first="CASE state WHEN 'firing' THEN 0 ELSE 1 END, last_ts DESC",
        # by time of writing: a verdict that is withdrawn and restored fires again with the time that it had before
        latest="PARTITION BY alert_id, first_ts ORDER BY written_at DESC NULLS LAST, last_ts DESC, state DESC",
        written_by="check",
        goes_on="state = 'firing'",
    ),
    "incidents": View(
        incidents.TABLE,
        "last_ts",
        first="CASE state WHEN 'open' THEN 0 WHEN 'planned' THEN 1 ELSE 2 END, last_ts DESC",
        latest="PARTITION BY incident_id ORDER BY written_at DESC",
        written_by="check",
        goes_on="state <> 'ended'",
    ),
    "health": View(partition_health.TABLE, "last_event_ts", first="cluster DESC, topic DESC, partition DESC"),
}


@dataclass(frozen=True)
class Filter:
    """A filter of rows; None is no condition. `since` is one moment or one by cluster; `until` is inclusive."""

    cluster: str | None = None
    topic: str | None = None
    partition: int | None = None
    since: datetime | Mapping[str, datetime] | None = None
    until: datetime | None = None

    def where(self, view: View) -> str:
        """The filter as SQL over the view's table."""
        parts = [f"{view.place('cluster')} = {text(self.cluster)}"] if self.cluster is not None else []
        parts += {"alerts": self._of_alerts, "incidents": self._of_incidents}.get(
            view.table.path.rpartition("/")[2], self._of_partitions
        )()
        if self.since is not None:
            recent = after(self.since, view.time, view.place("cluster"))
            parts.append(f"({view.goes_on} OR {recent})" if view.goes_on else recent)
        if self.until is not None:
            parts.append(f"{view.time} <= {instant(self.until)}")
        return " AND ".join(parts) or "true"

    def _of_partitions(self) -> list[str]:
        topic = [f"topic = {text(self.topic)}"] if self.topic is not None else []
        return topic + ([f"partition = {self.partition}"] if self.partition is not None else [])

    def _of_incidents(self) -> list[str]:
        """SQL for incidents, which have several partitions and topics."""
        topic = [f"array_has(topics, {text(self.topic)})"] if self.topic is not None else []
        if self.partition is None:
            return topic
        name = f"-{self.partition}," if self.topic is None else f", {self.topic}-{self.partition},"
        return [*topic, f"strpos(concat(', ', array_to_string(partitions, ', '), ','), {text(name)}) > 0"]

    def _of_alerts(self) -> list[str]:
        """SQL for alerts, which have several partitions and topics; one with too many to list may be about any."""
        parts = []
        if self.topic is not None:
            parts.append(f"(labels['topic'] = {text(self.topic)} OR {_among('topics', f', {self.topic},')})")
        if self.partition is not None:
            name = f"-{self.partition}," if self.topic is None else f", {self.topic}-{self.partition},"
            parts.append(_among("partitions", name))
        return parts


_SQL_TYPES = {"string": "VARCHAR", "int": "INT", "bigint": "BIGINT", "double": "DOUBLE", "boolean": "BOOLEAN"}
_ARROW_TYPES = {
    "array": "List", "struct": "Struct", "string": "Utf8", "int": "Int32", "bigint": "Int64", "double": "Float64",
    "boolean": "Boolean", "timestamp": 'Timestamp(µs, "UTC")', "<": "(", ">": ")",
}  # fmt: skip
"""DataFusion's names of the parts of a declared list type."""


def query(table: DeltaTable, sql: str) -> list[Row]:
    """The rows of an SQL query over table `t`; maps are dictionaries.

    A column of the query that an earlier version did not write is null. If a file is gone, the table is opened again.
    """
    if later := _later(table, sql):
        table_name, sql = "stored", f"WITH t AS (SELECT *, {later} FROM stored) {sql}"
    else:
        table_name = "t"

    found = reopening(table, lambda: QueryBuilder().register(table_name, table).execute(sql).read_all())
    columns = [_values(found.column(name)) for name in found.column_names]
    return [dict(zip(found.column_names, values, strict=True)) for values in zip(*columns, strict=True)]


def select_rows(lake: Lake, table: Table, sql: str) -> list[Row]:
    """Return the rows of a `query` to a table of a lake; none if it was never written."""
    opened = lake.find(table)
    return [] if opened is None else query(opened, sql)


def select_first(lake: Lake, table: Table, sql: str, order: str, limit: int) -> tuple[list[Row], int]:
    """Return at most `limit` rows of a query, the first in this order, and how many there are."""
    numbered = f"SELECT *, count(*) OVER () AS matching FROM ({sql}) ORDER BY {order} LIMIT {limit}"
    found = select_rows(lake, table, numbered)
    matching = found[0]["matching"] if found else 0
    return [{name: value for name, value in row.items() if name != "matching"} for row in found], matching


def _later(table: DeltaTable, sql: str) -> str:
    """SQL for columns of the declared schema that a query names and the table lacks."""
    place = table.table_uri.rstrip("/")
    columns = next((one.columns for one in tables().values() if place.endswith(f"/{one.path}")), ())
    named = [column for column in columns if column.name in sql]
    fields = table.schema().fields if named else []
    there = {field.name for field in fields}
    lacking = [column for column in named if column.name not in there]
    words = min((field.name for field in fields if field.type.type == "string"), default="NULL") if lacking else ""
    return ", ".join(f"{_unknown(column, words)} AS {column.name}" for column in lacking)


def _unknown(column: Column, words: str) -> str:
    """SQL for a null of a column's type, cast from a column of strings.

    It is no constant, since DataFusion mistakes a constant in a grouping for another column.
    """
    if column.type.startswith("array<"):  # unnest refuses a null of no type
        kind = re.sub(
            r"(\w+):|\w+|[<>]", lambda part: f'"{part[1]}": ' if part[1] else _ARROW_TYPES[part[0]], column.type
        )
        return f"arrow_cast(NULL, '{kind}')"
    kind = _SQL_TYPES.get(column.type, "")
    return f"CAST(NULLIF({words}, {words}) AS {kind})" if kind else "NULL"


def _values(column: Any) -> list[Any]:
    """The values of a column, maps as dictionaries; pyarrow itself would import pandas for times."""
    values: list[Any] = column.to_pylist()
    if not type(column.type).is_map(column.type):
        return values
    return [None if one is None else dict(one) for one in values]


def after(since: datetime | Mapping[str, datetime], time: str, cluster: str) -> str:
    """SQL for `time` at or after a moment, or after that of its cluster if there is one for each."""
    if isinstance(since, datetime):
        return f"{time} >= {instant(since)}"
    if not since:
        return "true"
    each = [f"({cluster} = {text(name)} AND {time} >= {instant(ts)})" for name, ts in since.items()]
    others = f"{cluster} NOT IN ({', '.join(map(text, since))})"
    return f"({' OR '.join([*each, others])})"


def presents(lake: Lake) -> dict[str, datetime]:
    """The event time that the reconstruction of each cluster has reached; later rows of bronze are not judged yet.

    Only `brokers.ts` advances with all that was read: while brokers report that nothing happens, partitions have
    no event, and minutes end one by one. Lakes of earlier versions have only the other columns.
    """
    found: dict[str, datetime] = {}
    columns = ((brokers.TABLE, "ts"), (partition_health.TABLE, "last_event_ts"), (cluster_minute.TABLE, "minute"))
    for table, column in columns:
        for row in select_rows(lake, table, f"SELECT cluster, max({column}) AS ts FROM t {_of_events(column)}"):
            if row["ts"] is not None:
                found[row["cluster"]] = max(row["ts"], found.get(row["cluster"], row["ts"]))
    return found


def beginnings(lake: Lake) -> dict[str, datetime]:
    """The event time of each cluster's first report: the first HW of its first minute, or that minute."""
    minutes = f"SELECT cluster, min(minute) AS ts FROM t {_of_events('minute')}"
    found = {row["cluster"]: row["ts"] for row in select_rows(lake, cluster_minute.TABLE, minutes)}
    within = [
        f"(cluster = {text(name)} AND ts >= {instant(ts)} AND ts < {instant(ts + timedelta(minutes=1))})"
        for name, ts in found.items()
    ]
    if within:
        hws = f"SELECT cluster, min(ts) AS ts FROM t WHERE {' OR '.join(within)} GROUP BY cluster"
        found |= {row["cluster"]: row["ts"] for row in select_rows(lake, partition_hw.TABLE, hws)}
    return found


def _of_events(time: str) -> str:
    """SQL without times that no event can have: quarantined rows count in their own minutes."""
    return f"WHERE {time} BETWEEN {instant(FIRST)} AND {instant(LAST)} GROUP BY cluster"


def rows(lake: Lake, name: str, wanted: Filter, limit: int) -> tuple[list[Row], int]:
    """At most `limit` rows of a view, the weightiest and newest, in ascending order, and the number that match."""
    view = VIEWS[name]
    found, matching = select_first(lake, view.table, view.select(wanted), view.first, limit)
    return found[::-1], matching


def tally(lake: Lake, name: str, wanted: Filter, key: str) -> list[Row]:
    """The number of a view's `rows` by value of `key`."""
    return _grouped(lake, name, wanted, key, "count(*) AS rows")


def newest(lake: Lake, name: str, wanted: Filter) -> datetime | None:
    """The time of the newest row of a view, whatever `wanted.since` says."""
    found = _grouped(lake, name, replace(wanted, since=None), "true", f"max({VIEWS[name].time}) AS newest")
    return found[0]["newest"] if found else None


def _grouped(lake: Lake, name: str, wanted: Filter, key: str, values: str) -> list[Row]:
    view = VIEWS[name]
    sql = f"SELECT {key}, {values} FROM ({view.select(wanted)}) GROUP BY {key} ORDER BY {key}"
    return select_rows(lake, view.table, sql)


def _among(label: str, name: str) -> str:
    """SQL for `name` in a label that lists names, with commas around it, or possibly among its `N more`."""
    listed = f"labels['{label}']"
    return f"(strpos(concat(', ', {listed}, ','), {text(name)}) > 0 OR {listed} LIKE '% more')"


def text(value: str) -> str:
    """A string as SQL."""
    return "'" + value.replace("'", "''") + "'"


def microseconds(time: datetime) -> int:
    """An aware time as microseconds since 1970."""
    return (time - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


def moment(microseconds: int) -> datetime:
    """The inverse of `microseconds`."""
    return datetime.fromtimestamp(microseconds // 1_000_000, UTC).replace(microsecond=microseconds % 1_000_000)


def instant(ts: datetime) -> str:
    """A moment as SQL."""
    return f"timestamp '{ts.astimezone(UTC).isoformat()}'"
