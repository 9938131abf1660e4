"""Looking into a lake without Spark: rows of one table, filtered, the latest revision only, newest last."""

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
    """One thing to look at: its table, its time, and in SQL the weightiest and newest first, the latest of a key."""

    table: Table
    time: str
    first: str
    latest: str = ""
    only: str = "true"
    written_by: str = "run --once"
    goes_on: str = ""
    """In SQL what is shown whenever it began; of such a thing the latest state is asked what it is about."""

    def place(self, name: str) -> str:
        """The SQL that names the cluster, topic or partition of a row."""
        return f"labels['{name}']" if self.table is alerts.TABLE else name

    def select(self, wanted: Filter) -> str:
        """The query for the latest rows wanted."""
        latest = f"QUALIFY row_number() OVER ({self.latest}) = 1" if self.latest else ""
        before, after = wanted.where(self), self.only
        if self.goes_on:  # what an alert is about changes: its latest state is asked
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
        # As it was written: a verdict that is withdrawn and restored fires again, at the time it had before.
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
    """Which rows; None means all. `since` is a moment, or one for each cluster; rows of `until` itself are in."""

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
        """An incident is about several partitions and topics."""
        topic = [f"array_has(topics, {text(self.topic)})"] if self.topic is not None else []
        if self.partition is None:
            return topic
        name = f"-{self.partition}," if self.topic is None else f", {self.topic}-{self.partition},"
        return [*topic, f"strpos(concat(', ', array_to_string(partitions, ', '), ','), {text(name)}) > 0"]

    def _of_alerts(self) -> list[str]:
        """An alert is about several partitions and topics, and may name too many to list: then it may be about any."""
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
"""The parts of a declared type of lists as DataFusion names them."""


def query(table: DeltaTable, sql: str) -> list[Row]:
    """Rows of a query in SQL, which calls the table `t`; maps are dictionaries.

    A column that the query names and an earlier version did not write is null. Where a file is gone, the table is read
    as it is by then.
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
    """The columns that a table lacks, of those that its schema has now and a query names, as SQL."""
    place = table.table_uri.rstrip("/")
    columns = next((one.columns for one in tables().values() if place.endswith(f"/{one.path}")), ())
    named = [column for column in columns if column.name in sql]
    fields = table.schema().fields if named else []
    there = {field.name for field in fields}
    lacking = [column for column in named if column.name not in there]
    words = min((field.name for field in fields if field.type.type == "string"), default="NULL") if lacking else ""
    return ", ".join(f"{_unknown(column, words)} AS {column.name}" for column in lacking)


def _unknown(column: Column, words: str) -> str:
    """SQL: null of a column's type, made of a column of strings, which cast to every type.

    A constant in a grouping is one that DataFusion mistakes for another column.
    """
    if column.type.startswith("array<"):  # unnest refuses a null of no type
        kind = re.sub(
            r"(\w+):|\w+|[<>]", lambda part: f'"{part[1]}": ' if part[1] else _ARROW_TYPES[part[0]], column.type
        )
        return f"arrow_cast(NULL, '{kind}')"
    kind = _SQL_TYPES.get(column.type, "")
    return f"CAST(NULLIF({words}, {words}) AS {kind})" if kind else "NULL"


def _values(column: Any) -> list[Any]:
    """The values of a column. pyarrow would make dictionaries of maps by itself, and import pandas for times."""
    values: list[Any] = column.to_pylist()
    if not type(column.type).is_map(column.type):
        return values
    return [None if one is None else dict(one) for one in values]


def after(since: datetime | Mapping[str, datetime], time: str, cluster: str) -> str:
    """SQL: whether `time` is not before a moment, or before that of its cluster, where it has one."""
    if isinstance(since, datetime):
        return f"{time} >= {instant(since)}"
    if not since:
        return "true"
    each = [f"({cluster} = {text(name)} AND {time} >= {instant(ts)})" for name, ts in since.items()]
    others = f"{cluster} NOT IN ({', '.join(map(text, since))})"
    return f"({' OR '.join([*each, others])})"


def presents(lake: Lake) -> dict[str, datetime]:
    """Up to when (event time) the reconstruction of each cluster has come: what bronze holds beyond is not yet judged.

    `brokers.ts` counts whatever was read, as does no other column: while the brokers report only that nothing happens,
    partitions have no event, and minutes end one by one. Lakes of earlier versions have the others alone.
    """
    found: dict[str, datetime] = {}
    columns = ((brokers.TABLE, "ts"), (partition_health.TABLE, "last_event_ts"), (cluster_minute.TABLE, "minute"))
    for table, column in columns:
        for row in select_rows(lake, table, f"SELECT cluster, max({column}) AS ts FROM t {_of_events(column)}"):
            if row["ts"] is not None:
                found[row["cluster"]] = max(row["ts"], found.get(row["cluster"], row["ts"]))
    return found


def beginnings(lake: Lake) -> dict[str, datetime]:
    """When (event time) each cluster first reported anything: the first HW of its first minute, or that minute."""
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
    """Leaves out times that no event has: rows set aside for theirs count in their own minutes."""
    return f"WHERE {time} BETWEEN {instant(FIRST)} AND {instant(LAST)} GROUP BY cluster"


def rows(lake: Lake, name: str, wanted: Filter, limit: int) -> tuple[list[Row], int]:
    """At most `limit` rows of a view, the weightiest and newest, in ascending order; and how many match in all."""
    view = VIEWS[name]
    found, matching = select_first(lake, view.table, view.select(wanted), view.first, limit)
    return found[::-1], matching


def tally(lake: Lake, name: str, wanted: Filter, key: str) -> list[Row]:
    """How many `rows` of a view each value of `key` has."""
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
    """SQL: whether `name`, with the commas around it, is in a label that lists names, or may be among `N more`."""
    listed = f"labels['{label}']"
    return f"(strpos(concat(', ', {listed}, ','), {text(name)}) > 0 OR {listed} LIKE '% more')"


def text(value: str) -> str:
    """A string in SQL."""
    return "'" + value.replace("'", "''") + "'"


def microseconds(time: datetime) -> int:
    """An aware time as microseconds since 1970."""
    return (time - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


def moment(microseconds: int) -> datetime:
    """The inverse of `microseconds`."""
    return datetime.fromtimestamp(microseconds // 1_000_000, UTC).replace(microsecond=microseconds % 1_000_000)


def instant(ts: datetime) -> str:
    """A moment in SQL."""
    return f"timestamp '{ts.astimezone(UTC).isoformat()}'"
