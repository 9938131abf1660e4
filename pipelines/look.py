"""Looking into a lake without Spark: rows of one table, filtered, the latest revision only, newest last."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from deltalake import DeltaTable, QueryBuilder

from pipelines.errors import UsageError, nearest
from schemas import alerts, hw_regressions, isr_changes, partition_health, partition_hw, replica_sync
from schemas.declaration import Table

Row = dict[str, Any]

_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}

STALLED_MS = 10_000
"""A HW that stands below the leader's log end for longer is worth a word."""

_TROUBLE = f"offline OR under_min_isr OR under_replicated OR cardinality(out_of_sync) > 0 OR stalled_ms > {STALLED_MS}"


@dataclass(frozen=True)
class View:
    """One thing to look at: its table, its time, and in SQL the weightiest and newest first, the latest of a key."""

    table: Table
    time: str
    first: str
    latest: str = ""
    only: str = "true"
    written_by: str = "run --once"

    def place(self, name: str) -> str:
        """The SQL that names the cluster, topic or partition of a row."""
        return f"labels['{name}']" if self.table is alerts.TABLE else name

    def select(self, wanted: Filter) -> str:
        """The query for the latest rows wanted."""
        latest = f"QUALIFY row_number() OVER ({self.latest}) = 1" if self.latest else ""
        before, after = wanted.where(self), self.only
        if self.table is alerts.TABLE:  # what an alert is about changes: its latest state is asked
            before, after = after, before
        return f"SELECT * FROM (SELECT * FROM t WHERE {before} {latest}) WHERE {after}"


_REGRESSIONS = View(
    hw_regressions.TABLE,
    "ts",
    first="CASE severity WHEN 'critical' THEN 0 WHEN 'warning' THEN 1 ELSE 2 END, ts DESC",
    latest="PARTITION BY cluster, regression_id ORDER BY revision DESC",
)
_HEALTH = View(
    partition_health.TABLE,
    "last_event_ts",
    first=f"CASE WHEN {_TROUBLE} THEN 0 ELSE 1 END, cluster DESC, topic DESC, partition DESC",
)

VIEWS = {
    "hw": View(partition_hw.TABLE, "ts", first="ts DESC"),
    "isr": View(
        isr_changes.TABLE,
        "ts",
        first="ts DESC",
        latest="PARTITION BY cluster, topic, topic_id, partition, coalesce(partition_epoch, -1), "
        "CASE WHEN partition_epoch IS NULL THEN ts END ORDER BY revision DESC",
        only="cardinality(removed) > 0 OR cardinality(added) > 0",
    ),
    "sync": View(replica_sync.TABLE, "ts", first="ts DESC"),
    "regressions": _REGRESSIONS,
    "serious": replace(_REGRESSIONS, only="severity <> 'info'"),
    "alerts": View(
        alerts.TABLE,
        "last_ts",
        first="CASE state WHEN 'firing' THEN 0 ELSE 1 END, last_ts DESC",
        latest="PARTITION BY alert_id ORDER BY last_ts DESC, state DESC",
        written_by="check",
    ),
    "health": _HEALTH,
    "trouble": replace(_HEALTH, only=_TROUBLE),
}


@dataclass(frozen=True)
class Filter:
    """Which rows; None means all."""

    cluster: str | None = None
    topic: str | None = None
    partition: int | None = None
    since: datetime | None = None

    def where(self, view: View) -> str:
        """The filter as SQL over the view's table."""
        parts = [f"{view.place('cluster')} = {_text(self.cluster)}"] if self.cluster is not None else []
        parts += self._of_alerts() if view.table is alerts.TABLE else self._of_partitions()
        if self.since is not None:
            parts.append(f"{view.time} >= timestamp '{self.since.astimezone(UTC).isoformat()}'")
        return " AND ".join(parts) or "true"

    def _of_partitions(self) -> list[str]:
        topic = [f"topic = {_text(self.topic)}"] if self.topic is not None else []
        return topic + ([f"partition = {self.partition}"] if self.partition is not None else [])

    def _of_alerts(self) -> list[str]:
        """An alert is about several partitions and topics, and may name too many to list: then it may be about any."""
        parts = []
        if self.topic is not None:
            parts.append(f"(labels['topic'] = {_text(self.topic)} OR {_among('topics', f', {self.topic},')})")
        if self.partition is not None:
            name = f"-{self.partition}," if self.topic is None else f", {self.topic}-{self.partition},"
            parts.append(_among("partitions", name))
        return parts


@dataclass(frozen=True)
class Lake:
    """A lake to read from, by path or URI."""

    path: str
    storage_options: Mapping[str, str] = field(default_factory=dict)

    def open(self, table: Table) -> DeltaTable | None:
        """The table, or None where it was never written."""
        uri, options = f"{self.path.rstrip('/')}/{table.path}", dict(self.storage_options)
        return DeltaTable(uri, storage_options=options) if DeltaTable.is_deltatable(uri, options) else None

    def query(self, table: DeltaTable, sql: str) -> list[Row]:
        """Rows of a query over the table `t`."""
        found: Any = QueryBuilder().register("t", table).execute(sql).read_all()
        columns = [found.column(name).to_pylist() for name in found.column_names]
        return [dict(zip(found.column_names, values, strict=True)) for values in zip(*columns, strict=True)]


def moment(text: str, now: datetime) -> datetime:
    """The moment meant by `15m`, `2h`, `3d` (before `now`) or an ISO time (UTC unless it says otherwise)."""
    if match := re.fullmatch(r"(\d+)([smhd])", text):
        return now - timedelta(**{_UNITS[match[2]]: int(match[1])})
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(f"--since {text} is no time; say 15m, 2h, 3d or 2026-11-21T09:20:00") from None
    return at if at.tzinfo else at.replace(tzinfo=UTC)


def rows(lake: Lake, name: str, wanted: Filter, limit: int) -> tuple[list[Row], int]:
    """At most `limit` rows of a view, the weightiest and newest, in ascending order; and how many match in all.

    Raises UsageError for a lake without that table, or a cluster or topic it does not know.
    """
    view = VIEWS[name]
    table = lake.open(view.table)
    if table is None:
        _refuse_unwritten(lake, view)
        return [], 0
    numbered = f"SELECT *, count(*) OVER () AS matching FROM ({view.select(wanted)})"
    found = lake.query(table, f"{numbered} ORDER BY {view.first} LIMIT {limit}")
    if not found:
        _refuse_unknown(lake, table, view, wanted)
        return [], 0
    total = found[0]["matching"]
    return [{k: v for k, v in row.items() if k != "matching"} for row in reversed(found)], total


def clusters(lake: Lake, wanted: Filter) -> list[Row]:
    """One row per cluster: partitions, those in trouble by kind, and when it was last heard of."""
    counts = ", ".join(
        f"count(*) FILTER (WHERE {name}) AS {name}" for name in ("under_replicated", "under_min_isr", "offline")
    )
    return _grouped(lake, "health", wanted, "cluster", f"count(*) AS partitions, max(last_event_ts) AS heard, {counts}")


def findings(lake: Lake, wanted: Filter) -> list[Row]:
    """One row per cluster, severity and class of HW regressions: how many, in how many partitions, offsets lost."""
    places = "count(DISTINCT concat(topic, '-', partition)) AS partitions"
    sums = f"count(*) AS findings, {places}, coalesce(sum(lost_records), 0) AS lost_records"
    return _grouped(lake, "regressions", wanted, "cluster, severity, class", sums)


def tally(lake: Lake, name: str, wanted: Filter, key: str) -> list[Row]:
    """How many `rows` of a view each value of `key` has."""
    return _grouped(lake, name, wanted, key, "count(*) AS rows")


def newest(lake: Lake, name: str, wanted: Filter) -> datetime | None:
    """The time of the newest row of a view, whatever `wanted.since` says."""
    found = _grouped(lake, name, replace(wanted, since=None), "true", f"max({VIEWS[name].time}) AS newest")
    return found[0]["newest"] if found else None


def _grouped(lake: Lake, name: str, wanted: Filter, key: str, values: str) -> list[Row]:
    view = VIEWS[name]
    table = lake.open(view.table)
    if table is None:
        return []
    return lake.query(table, f"SELECT {key}, {values} FROM ({view.select(wanted)}) GROUP BY {key} ORDER BY {key}")


def _among(label: str, name: str) -> str:
    """SQL: whether `name`, with the commas around it, is in a label that lists names, or may be among `N more`."""
    listed = f"labels['{label}']"
    return f"(strpos(concat(', ', {listed}, ','), {_text(name)}) > 0 OR {listed} LIKE '% more')"


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def _refuse_unwritten(lake: Lake, view: View) -> None:
    """An absent table is empty where its writer has been, and a mistake where not."""
    from schemas import quality_results

    witness = quality_results.TABLE if view.written_by == "check" else partition_health.TABLE
    if view.table is witness or lake.open(witness) is None:
        raise UsageError(
            f"there is no {view.table.path} in {lake.path} yet; `hwmark {view.written_by} --lake {lake.path}` writes it"
        )


def _refuse_unknown(lake: Lake, table: DeltaTable, view: View, wanted: Filter) -> None:
    """Names the nearest cluster or topic where the one asked for is unknown to the lake."""
    health = lake.open(partition_health.TABLE)
    source, place = (health, VIEWS["health"]) if health else (table, view)
    for name in ("cluster", "topic"):
        asked = getattr(wanted, name)
        if asked is None:
            continue
        known = [row["name"] for row in lake.query(source, f"SELECT DISTINCT {place.place(name)} AS name FROM t")]
        if asked not in known:
            raise UsageError(f"{lake.path} knows no {name} {asked}; {nearest(asked, [k for k in known if k])}")
