"""`gold/timeline`: for which times it has all lines that come of events, and these lines."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pyarrow.compute as pc

from pipelines.lake.changes import Change, rows_of, since
from pipelines.lake.lake import Lake
from pipelines.lake.queries import Filter, Row, View, instant, query, text
from pipelines.lake.records import record
from pipelines.lake.table import has_declared
from pipelines.streaming.checkpoint.offsets import FOLDER
from pipelines.streaming.reconstruction import reconstruction
from pipelines.timeline.line import Happening
from schemas import timeline
from schemas.declaration import Table

WRITTEN = f"{FOLDER}/timeline.json"
MARGIN = timedelta(minutes=5)
"""A new row may tell of so long before it, as the present of a partition does of when its replicas were assigned."""
NEVER = datetime(2200, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Written:
    """The record of the last write: the query that made silver, the version of each table, by its path, up to which
    the rows of it were read, and the clusters that had any."""

    query: str | None = None
    versions: Mapping[str, int] = field(default_factory=dict)
    clusters: Collection[str] = ()


def last_write(lake: Lake) -> Written | None:
    """The last write; None if silver was made anew since, or if the record is gone or damaged."""
    found, query = record(lake, WRITTEN, Written, Written()), reconstruction(lake).query
    return found if found is not None and query is not None and found.query == query else None


def unwritten(lake: Lake, sources: Collection[Table], before: Written) -> tuple[dict[str, int], dict[str, datetime]]:
    """The versions of these tables, and by cluster from when on lines are to be written anew; NEVER if none is."""
    versions, begins = dict[str, int](), dict.fromkeys(before.clusters, NEVER)
    for table in sources:
        if (opened := lake.find(table)) is None:
            continue
        versions[table.path] = opened.version()
        change = since(opened, before.versions.get(table.path), lake.storage_options)
        if change is None:
            continue
        whole = "SELECT cluster, min(ts) AS ts FROM t GROUP BY cluster"
        for row in query(opened, whole) if change.files is None else _first_rows(lake, table, change):
            begin = (row["ts"] - MARGIN).replace(second=0, microsecond=0)
            begins[row["cluster"]] = min(begin, begins.get(row["cluster"], begin))
    return versions, begins


def _first_rows(lake: Lake, table: Table, change: Change) -> Iterator[Row]:
    declared = has_declared(lake.open(table), table.arrow())
    for batch in rows_of(lake, table, change, has_declared=declared).to_batches(columns=["cluster", "ts"]):
        least = pa.table(batch).group_by("cluster").aggregate([("ts", "min")])
        yield from least.rename_columns(["cluster", "ts"]).to_pylist()


def stored_lines(
    lake: Lake, wanted: Filter, kinds: Collection[str], begins: Mapping[str, datetime]
) -> list[Happening] | None:
    """Lines of these kinds before what is `unwritten`; None if the table does not go back so far."""
    opened = lake.find(timeline.TABLE)
    asked = [wanted.since] if isinstance(wanted.since, datetime) else [*(wanted.since or {}).values()]
    files = None if opened is None else pa.table(opened.get_add_actions(flatten=True))
    if opened is None or not files or not asked or min(asked) < pc.min(files["min.ts"]).as_py():
        return None
    late = " OR ".join(f"(cluster = {text(name)} AND ts >= {instant(ts)})" for name, ts in begins.items())
    named = f"kind IN ({', '.join(map(text, kinds))}) AND NOT ({late})"
    rows = query(opened, f"{View(timeline.TABLE, 'ts', '', only=named).select(wanted)} ORDER BY ts")
    return [
        Happening(
            row["ts"], row["cluster"], row["kind"], row["severity"], row["summary"], row["partitions"],
            tuple(row["examples"] or ()), row["until"], row["broker_id"], row["incident_id"], whole=True,
        )
        for row in rows
    ]  # fmt: skip
