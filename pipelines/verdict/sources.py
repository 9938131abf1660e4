"""What the sources of a lake's clusters have reported, however long ago, and which brokers are down."""

from __future__ import annotations

import json
import logging
from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from pipelines.lake.changes import rows_of, since
from pipelines.lake.lake import Lake
from pipelines.lake.table import has_declared
from pipelines.streaming.source.closings import closings
from pipelines.streaming.source.unread import Bronze
from pipelines.verdict.records import Source
from schemas import brokers, replication_events
from schemas.replication_events import DRAIN

DOWN = ("controlled_shutdown", "fenced", "unregistered")
RECORD = "_alerts/step.json"
"""What the last evaluation of the alerts has found, so that its sources need not be read again."""

_UTC = pa.timestamp("us", tz="UTC")
REPORTED = pa.schema([("cluster", pa.string()), ("source_id", pa.string()), ("broker_id", pa.int32()),
                      ("level", pa.int32()), ("reported_to", _UTC)])  # fmt: skip
"""Up to when each source has reported everything, and the level at which it does."""
CLOSED = pa.schema([("cluster", pa.string()), ("closed", _UTC)])
"""When a drain closed a cluster, the last time."""
_PROGRESS = pa.schema(
    [replication_events.ARROW.field(n) for n in ("cluster", "source_id", "broker_id", "ts", "level", "detail")]
)
_log = logging.getLogger("hwmark.verdict")


@dataclass(frozen=True)
class Progress:
    """What bronze has of its sources at a version: `bronze` is its table's id and that.

    `arrived` has by cluster when (wall clock, microseconds since 1970) something last came of it.
    """

    reported: pa.Table = field(default_factory=REPORTED.empty_table)
    closed: pa.Table = field(default_factory=CLOSED.empty_table)
    arrived: Mapping[str, int] = field(default_factory=dict)
    bronze: tuple[str, int] | None = None


def progress(lake: Lake, before: Progress, bronze: Bronze) -> Progress:
    """What every source has reported by now: a row of bronze for each second of its time.

    Only what came since is read, unless bronze is another table now, or its log does not go back as far.
    """
    import pyarrow.compute as pc
    import pyarrow.dataset as ds

    table = lake.find(replication_events.TABLE)
    if table is None:
        return before
    table_id = lake.table_id(replication_events.TABLE)
    same = before.bronze is not None and before.bronze[0] == table_id
    change = since(table, before.bronze[1] if same and before.bronze else None, lake.storage_options)
    kept = before if same and (change is None or change.files is not None) else Progress()
    rows = _PROGRESS.empty_table()
    if change is not None:
        declared = has_declared(table, replication_events.ARROW)
        every = rows_of(lake, replication_events.TABLE, change, has_declared=declared)
        rows = every.to_table(_PROGRESS.names, filter=ds.field("event_type") == "progress").cast(_PROGRESS)
    is_drain = pc.equal(rows["source_id"], DRAIN)
    reported = rows.filter(pc.invert(is_drain)).rename_columns({"ts": "reported_to"}).select(REPORTED.names)
    closing = rows.filter(pc.and_kleene(is_drain, pc.equal(rows["detail"], "closed"))).select(["cluster", "ts"])
    beside = pa.Table.from_pylist(closings(lake), _PROGRESS).select(["cluster", "ts"])
    closed = pa.concat_tables([closing, beside]).rename_columns(CLOSED.names)
    news = set(rows["cluster"].to_pylist())
    arrived = {
        c: kept.arrived[c] if c in kept.arrived and c not in news else round(at.timestamp() * 1_000_000)
        for c, at in bronze.arrived.items()
    }
    return Progress(
        _latest(kept.reported, reported, ["cluster", "source_id", "broker_id"]),
        _latest(kept.closed, closed, ["cluster"]),
        arrived,
        (table_id, table.version()),
    )


def _latest(before: pa.Table, now: pa.Table, keys: list[str]) -> pa.Table:
    """The last row for each value of the keys; the last column is the time."""
    *others, time = (name for name in before.column_names if name not in keys)
    rows = pa.concat_tables([before, now.cast(before.schema)]).sort_by(time)
    found = rows.group_by(keys, use_threads=False).aggregate([(name, "last") for name in (*others, time)])
    return found.rename_columns([*keys, *others, time]).cast(before.schema)


def record(lake: Lake) -> dict[str, Any] | None:
    """What the last evaluation of the alerts recorded; None where that is not there, or damaged."""
    try:
        with lake.files().open_input_stream(RECORD) as stream:
            found = json.loads(stream.read())
        return found if isinstance(found, dict) else None
    except FileNotFoundError:
        return None
    except ValueError as damaged:
        _log.warning("%s/%s is damaged (%s): what it is of is read anew", lake.root, RECORD, damaged)
        return None


def recorded(found: Mapping[str, Any] | None) -> Progress:
    """The sources of a `record`; none where there are none in it."""
    if found is None:
        return Progress()
    try:
        table_id, version = found["bronze"]
        reported, closed = (pa.Table.from_pylist(found[n], s) for n, s in (("reported", REPORTED), ("closed", CLOSED)))
        return Progress(reported, closed, found["arrived"], (table_id, version))
    except (KeyError, TypeError, ValueError):
        return Progress()


_seen: dict[str, Progress] = {}
"""Of each lake that this process has looked at."""


def progress_now(lake: Lake, bronze: Bronze) -> Progress:
    """What every source has reported by now, on top of what this process or the last evaluation has read."""
    before = _seen.get(lake.root)
    _seen[lake.root] = progress(lake, recorded(record(lake)) if before is None else before, bronze)
    return _seen[lake.root]


@dataclass
class Reports:
    """Of one cluster: its sources, when a drain closed it, and since when which brokers are down."""

    sources: list[Source] = field(default_factory=list)
    closed: datetime | None = None
    down: dict[int, datetime] = field(default_factory=dict)


def reports(lake: Lake, clusters: Collection[str], bronze: Bronze) -> dict[str, Reports]:
    """What was reported of these clusters. Who was unregistered after its last report is no source any more."""
    found: dict[str, Reports] = defaultdict(Reports)
    seen, gone = progress_now(lake, bronze), dict[tuple[str, int], datetime]()
    for row in lake.read(brokers.TABLE, _STATES).to_pylist():
        if row["state"] in DOWN and row["state_ts"] is not None:
            found[row["cluster"]].down[row["broker_id"]] = row["state_ts"]
            gone |= {(row["cluster"], row["broker_id"]): row["state_ts"]} if row["state"] == "unregistered" else {}
    never = datetime.min.replace(tzinfo=UTC)
    for row in seen.reported.sort_by([("cluster", "ascending"), ("source_id", "ascending")]).to_pylist():
        if gone.get((row["cluster"], row["broker_id"]), never) < row["reported_to"]:
            source = Source(row["source_id"], row["broker_id"], row["reported_to"], row["level"])
            found[row["cluster"]].sources.append(source)
    for row in seen.closed.to_pylist():
        found[row["cluster"]].closed = row["closed"]
    return defaultdict(Reports, {name: found[name] for name in clusters})


_STATES = pa.schema([brokers.ARROW.field(name) for name in ("cluster", "broker_id", "state", "state_ts")])
