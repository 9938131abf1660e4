"""The evidence that a lake holds, read through `deltalake`: few columns, only the rows the rules look at."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from pipelines.alerting.behind import JOB_BEHIND, JobBehindSettings
from pipelines.alerting.conditions import SECOND
from pipelines.alerting.evidence import BACKLOG, BLIND, CARRIED, CLOCK, ENDED, MINUTES, SCHEMAS, Evidence, of_sources
from pipelines.alerting.rules import RULES, AlertRules
from pipelines.alerting.step import Step
from pipelines.lake.lake import Lake
from pipelines.lake.queries import microseconds, moment
from pipelines.streaming.checkpoint.offsets import interval
from pipelines.streaming.reconstruction import reconstruction
from pipelines.streaming.source.unread import Bronze, bronze_of
from pipelines.verdict.judged import REBUILT
from pipelines.verdict.sources import Progress, progress
from schemas import (
    brokers,
    cluster_minute,
    deliveries,
    hw_regressions,
    notes,
    partition_health,
    partition_hw,
    replica_sync,
    replication_events,
    telemetry_gaps,
)

if TYPE_CHECKING:
    from pyarrow.dataset import Expression

    from schemas.declaration import Table

T = TypeVar("T")
OVER = timedelta(days=1)
"""A cluster that was closed, and of which nothing came for so long (wall clock), is not recorded any more."""
FROM_BRONZE = ("reported", "leaderships", "broker_states")
FROM_GOLD = ("minutes", "health", "brokers")
OUT_OF_ORDER_MS = 600_000
"""A file that was written so long before another may be committed after it."""
MADE_ANEW = ("regressions", "min_isr", "disagreements", "sync", "gaps", "health")
"""What is incomplete while silver is made anew."""
RESTARTS = "restarts"
"""The key in a step's clocks of its broker states, which several rules look at."""


@dataclass
class Reading:
    """What an evaluation has to go by, and `after`, what the next one goes on from.

    `clocks`: by cluster up to when (event time, microseconds) facts are final; `blind` has the evidence that could not
    be read, by its name, and why; `kept_from` by cluster since when (event time) there are rows of silver at all;
    `handled` are the rows of `ops/notes` that end something.
    """

    evidence: Evidence
    after: Step
    clocks: Mapping[str, int] = field(default_factory=dict)
    blind: dict[str, str] = field(default_factory=dict)
    kept_from: Mapping[str, datetime] = field(default_factory=dict)
    handled: pa.Table = field(default_factory=notes.ARROW.empty_table)


@dataclass(frozen=True)
class _Tables:
    """The tables of a lake, each read once; `unread` has the evidence that could not be, by its name, and why, `newest`
    by the path of a table when (milliseconds) its last file was written."""

    lake: Lake
    made: bool
    unread: dict[str, str]
    newest: dict[str, int] = field(default_factory=dict)

    def attempt(self, table: Table, names: Iterable[str], read: Callable[[], T], otherwise: T) -> T:
        """What `read` returns, or `otherwise` if it fails, for whatever reason: the other rules go on."""
        try:
            return read()
        except Exception as error:
            why = f"{table.path} cannot be read: {' '.join(str(error).split())[:200]}"
            self.unread.update(dict.fromkeys(names, why))
            return otherwise

    def rows(self, name: str, table: Table, keep: Expression | None = None) -> pa.Table:
        """The rows of a table of the job; one that is missing though the job made it is not one without rows."""
        schema: pa.Schema = MINUTES if name == "minutes" else SCHEMAS[name]
        if self.made and not self.lake.has_table(table):
            self.unread.setdefault(name, f"{table.path} is missing")
        if name in self.unread:
            return schema.empty_table()
        return self.attempt(table, (name,), lambda: self.lake.read(table, schema, keep), schema.empty_table())

    def oldest_new(self, name: str, table: Table, before: Mapping[str, int]) -> datetime | None:
        """The oldest time in the files that were written after the `newest` of an evaluation before, where it had any;
        telemetry that comes late is older than what was read then."""

        def look() -> datetime | None:
            opened = self.lake.find(table)
            files = None if opened is None else pa.table(opened.get_add_actions(flatten=True))
            if not files or "min.ts" not in files.column_names:
                return None
            self.newest[table.path] = pc.max(files["modification_time"]).as_py()
            after = before.get(table.path, 0) - OUT_OF_ORDER_MS
            oldest: datetime | None = pc.min(files.filter(pc.field("modification_time") > after)["min.ts"]).as_py()
            return oldest

        return self.attempt(table, (name,), look, None)


def read(lake: Lake, rules: AlertRules, before: Step, now: datetime, interval_s: float = 0) -> Reading:
    """What the alert rules need of a lake, some time back of where the evaluation `before` had come.

    `interval_s`: how often the job takes what is new, where it has not recorded that itself.
    """
    written_by, history = reconstruction(lake), rules.history
    tables = _Tables(lake, written_by.made, dict.fromkeys(MADE_ANEW, REBUILT) if written_by.rebuilding else {})
    earlier = Bronze(frozenset(cluster for cluster, *_ in before.sources.reported))
    bronze, sources = tables.attempt(
        replication_events.TABLE, FROM_BRONZE, lambda: _sources(lake, before.sources, now), (earlier, before.sources)
    )
    minutes = tables.rows("minutes", cluster_minute.TABLE)
    health, states = tables.rows("health", partition_health.TABLE), tables.rows("brokers", brokers.TABLE)
    closed = _closed(sources)
    clocks = {
        cluster: microseconds(ts) - (0 if cluster in closed else written_by.grace_ms * 1000)
        for cluster, ts in _ends("max", minutes, health, states).items()
    }
    gold = [tables.unread[name] for name in FROM_GOLD if name in tables.unread]
    if any(why is not REBUILT for why in gold):
        clocks = _latest(*before.clocks.values(), clocks)  # time stands still
    anew, kept_from = before.query not in (None, written_by.query), _ends("min", minutes)

    def starts(keys: Iterable[str], seconds: int) -> dict[str, datetime]:
        """From when on rows are read, by cluster; all of one that was not evaluated yet by each of these keys."""
        each = [before.clocks.get(key, {}) for key in keys]
        return {
            cluster: moment(min([at, *(one[cluster] for one in each)]) - seconds * SECOND)
            for cluster, at in clocks.items()
            if all(cluster in one for one in each)
        }

    def asking(name: str) -> list[str]:
        return [rules.key(n) for n, one in rules.settings.items() if one.enabled and name in RULES[n].needs]

    def silver(name: str, table: Table, column: str = "", *values: str) -> pa.Table:
        begins, late = starts(asking(name), history.silver_s), tables.oldest_new(name, table, before.newest)
        begins = {cluster: start if late is None else min(start, late) for cluster, start in begins.items()}
        keep = _window({} if anew else begins)
        return tables.rows(name, table, keep & _one_of(column, *values) if column else keep)

    def events(name: str, begins: Mapping[str, datetime], *types: str) -> pa.Table:
        return tables.rows(name, replication_events.TABLE, _window(begins) & _one_of("event_type", *types))

    recent = {c: moment(at - history.bronze_s * SECOND) for c, at in clocks.items()}
    recent |= starts(asking("leaderships"), history.bronze_s)
    restarts = pa.concat_tables(
        [before.restarts, events("broker_states", starts([RESTARTS], history.bronze_s), "broker_state")]
    )
    restarts = restarts.filter(_window(starts(before.clocks, history.silver_s)))
    restarts = restarts.group_by(restarts.column_names, use_threads=False).aggregate([])
    found = Evidence.of(
        regressions=tables.rows("regressions", hw_regressions.TABLE),
        min_isr=silver("min_isr", partition_hw.TABLE, "kind", "freeze", "thaw", "term_start"),
        disagreements=silver("disagreements", partition_hw.TABLE, "agreement", "disagree"),
        sync=silver("sync", replica_sync.TABLE),
        gaps=silver("gaps", telemetry_gaps.TABLE),
        health=health,
        leaderships=events("leaderships", recent, "leader", "follower", "election"),
        broker_states=restarts,
        clock=pa.Table.from_pylist([{"cluster": c, "clock": moment(ts)} for c, ts in clocks.items()], CLOCK),
        backlog=backlog(lake, bronze, clocks.keys(), rules.of(JOB_BEHIND), interval_s),
        deliveries=_ops(tables, "deliveries", deliveries.TABLE, SCHEMAS["deliveries"]),
        carried=_carried(before.carried, kept_from) if anew else before.carried,
        brokers=states,
    )
    handled = _ops(tables, "notes", notes.TABLE, notes.ARROW)
    known = clocks.keys() | bronze.clusters
    over = [c for c in closed if sources.arrived.get(c, microseconds(now)) <= microseconds(now - OVER)]
    said = sorted({why for why in tables.unread.values() if why is not REBUILT})
    found |= of_sources(sources, known)
    found["ended_recordings"] = pa.Table.from_pylist([{"cluster": c} for c in over], ENDED)
    found["blind"] = pa.Table.from_pylist([{"cluster": c, "why": why} for c in sorted(known) for why in said], BLIND)
    restarted = before.clocks.get(RESTARTS, {}) if "broker_states" in tables.unread else clocks
    query = before.query if tables.unread else written_by.query
    newest = {**tables.newest, **({} if not tables.unread else before.newest)}
    after = replace(
        before, sources=sources, restarts=restarts, query=query, newest=newest, clocks={RESTARTS: restarted}
    )
    return Reading(found, after, clocks, tables.unread, kept_from, handled)


def _sources(lake: Lake, before: Progress, now: datetime) -> tuple[Bronze, Progress]:
    bronze = bronze_of(lake)
    return bronze, progress(lake, before, bronze, now)


def _closed(sources: Progress) -> set[str]:
    """The clusters of which nothing was reported after a drain closed them."""
    last: dict[str, int] = {}
    for (cluster, *_), (ts, _) in sources.reported.items():
        last[cluster] = max(ts, last.get(cluster, ts))
    return {cluster for cluster, ts in sources.closed.items() if last.get(cluster, ts) <= ts}


def _ops(tables: _Tables, name: str, table: Table, schema: pa.Schema) -> pa.Table:
    """The rows of a table that other commands make."""
    return tables.attempt(table, (name,), lambda: tables.lake.read(table, schema), schema.empty_table())


def _ends(which: str, *times: pa.Table) -> dict[str, datetime]:
    """The first or last (min, max) time of each cluster, from tables whose first column is that, the last a time."""
    each = [table.select([0, table.num_columns - 1]).rename_columns(CLOCK.names).cast(CLOCK) for table in times]
    found = pa.concat_tables(each).drop_null().group_by("cluster").aggregate([("clock", which)])
    return dict(zip(found["cluster"].to_pylist(), found[f"clock_{which}"].to_pylist(), strict=True))


def _latest(*clocks: Mapping[str, int]) -> dict[str, int]:
    found: dict[str, int] = {}
    for one in clocks:
        found |= {cluster: max(at, found.get(cluster, at)) for cluster, at in one.items()}
    return found


def _carried(carried: pa.Table, begins: Mapping[str, datetime]) -> pa.Table:
    """The open states that silver, which was made anew, cannot tell: they began before it. Elections are in bronze."""
    rows = [
        row
        for row in carried.to_pylist()
        if row["rule"] == "offline" or row["cluster"] not in begins or row["ts"] < begins[row["cluster"]]
    ]
    return pa.Table.from_pylist(rows, schema=CARRIED)


def backlog(lake: Lake, bronze: Bronze, judged: Any, settings: JobBehindSettings, interval_s: float) -> pa.Table:
    """BACKLOG: the clusters of which the job has yet to read something; those `judged` were read at least once."""
    limit_s = settings.limit_s(max(interval_s, interval(lake) or 0))
    rows = [
        {"cluster": cluster, "oldest": unread.oldest, "judged_once": cluster in judged, "limit_s": limit_s}
        for cluster, unread in sorted((bronze.backlogs or {}).items())
    ]
    return pa.Table.from_pylist(rows, schema=BACKLOG)


def _window(starts: Mapping[str, datetime]) -> Expression:
    """Rows from when on each cluster is looked at; of a cluster that has no such moment, all."""
    import pyarrow.dataset as ds

    cluster, ts = ds.field("cluster"), ds.field("ts")
    keep = ~cluster.isin(pa.array(starts, pa.string()))
    for name, start in starts.items():
        keep = keep | ((cluster == name) & (ts >= pa.scalar(start, pa.timestamp("us", tz="UTC"))))
    return keep


def _one_of(column: str, *values: str) -> Expression:
    import pyarrow.dataset as ds

    return ds.field(column).isin(pa.array(values, pa.string()))
