"""The present of brokers, racks, and the replicas that are furthest behind, for `hwmark show`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pipelines.commands.show import tables
from pipelines.errors import UsageError
from pipelines.lake import lags
from pipelines.lake.lake import Lake
from pipelines.lake.queries import Filter
from pipelines.verdict.brokers import ESTIMATE, SUMS, estimated, racks
from schemas import broker_lag, brokers, replica_lag
from schemas.declaration import Table

Row = dict[str, Any]

COLUMNS = {
    "brokers": "cluster broker_id rack state restarting_since level led followed outside_isr out_of_sync holds_back "
    "sole_isr at_min_isr lag_records catch_up last_reported_ts",
    "racks": "cluster rack brokers led followed outside_isr out_of_sync holds_back holds_back_of restarting",
    "replicas": "as_of cluster topic_partition replica_id leader_id state in_isr lag_records lag_ms catch_up level",
}
"""What the table of each view shows; JSON and CSV carry every column."""
_SOURCES: dict[str, Table] = {"brokers": brokers.TABLE, "racks": brokers.TABLE, "replicas": replica_lag.TABLE}
_RACK = ("cluster", "rack", "brokers", "restarting", *SUMS, "holds_back_of", "last_reported_ts")


def table(lake: Lake, view: str, wanted: Filter, limit: int) -> Iterator[str]:
    """The view as text; what is not there yet is said."""
    refuse_places(view, wanted)
    if missing := _not_yet(lake, view):
        yield missing
        return
    rows, matching = found(lake, view, wanted, limit)
    if rows:
        yield tables.as_table([_shown(row) for row in rows], COLUMNS[view].split())
    elif view == "replicas":
        yield "No replica is known to be behind. At level 0 none ever is; `hwmark show brokers` counts what is unknown."
    else:
        yield f"{lake.root} has no row in {_SOURCES[view].path}."
    if matching > len(rows):
        yield f"({matching - len(rows)} more; --limit {matching} shows all)"


def data(lake: Lake, view: str, wanted: Filter, limit: int) -> tuple[list[Row], tuple[str, ...]]:
    """The rows of a view with all their columns. Raises UsageError for what is not there yet."""
    refuse_places(view, wanted)
    if missing := _not_yet(lake, view):
        raise UsageError(missing)
    rows, _ = found(lake, view, wanted, limit)
    return rows, columns(view)


def columns(view: str) -> tuple[str, ...]:
    """The columns of a view as data."""
    return _RACK if view == "racks" else (*_SOURCES[view].arrow().names, *ESTIMATE)


def found(lake: Lake, view: str, wanted: Filter, limit: int) -> tuple[list[Row], int]:
    """At most `limit` rows of a view, and how many there are."""
    if view == "replicas":
        rows, matching = lags.worst_replicas(lake, wanted, limit)
        minutes = lags.last_minute(lake, replica_lag.TABLE, lags.REPLICA, wanted.cluster)
        return [_estimated(row, minutes, lags.REPLICA, "as_of") for row in rows], matching
    known = lags.present_brokers(lake, wanted.cluster)
    if view == "racks":
        rows = racks(known)
    else:
        minutes = lags.last_minute(lake, broker_lag.TABLE, lags.BROKER, wanted.cluster)
        rows = [_estimated(row, minutes, lags.BROKER, "ts") for row in known]
    return rows[:limit], len(rows)


def refuse_places(view: str, wanted: Filter) -> None:
    """Raise UsageError where a topic or partition is named for what is about whole brokers."""
    if view != "replicas" and (wanted.topic is not None or wanted.partition is not None):
        raise UsageError(f"show {view} is about whole brokers: leave --topic and --partition out, or show replicas")


def _not_yet(lake: Lake, view: str) -> str | None:
    # Of replicas none may be behind: the table of brokers shows whether the job writes these tables.
    return lags.not_yet(lake, brokers.TABLE)


def _estimated(row: Row, minutes: lags.Points, key: tuple[str, ...], time: str) -> Row:
    return estimated(row, minutes.get((row["cluster"], *(row[name] for name in key)), []), time)


def _shown(row: Row) -> Row:
    """The row as the table has it: what is not known in words, maps as `1: 3`."""
    shown = dict(row)
    if "rack" in row and row["rack"] is None:
        shown["rack"] = "not known"
    if "holds_back_of" in row:
        of = dict(row["holds_back_of"] or ())
        shown["holds_back_of"] = ", ".join(f"{leader}: {count}" for leader, count in of.items())
    if "broker_id" in row and not row["followed"]:
        return shown | {"lag_records": "-", "catch_up": "follows nobody"}
    unknown = [name for name in ("state", "out_of_sync", "holds_back", "lag_records") if name in row]
    return shown | {name: "not known" for name in unknown if row[name] is None}
