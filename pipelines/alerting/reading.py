"""The evidence that a lake holds, read through `deltalake`: few columns, only the rows the rules look at."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from pipelines.alerting.behind import JOB_BEHIND, JobBehindSettings
from pipelines.alerting.conditions import SECOND
from pipelines.alerting.evidence import BACKLOG, BLIND, CARRIED, CLOCK, ENDED, SCHEMAS, Evidence, of_sources
from pipelines.alerting.rules import AlertRules
from pipelines.alerting.step import Step
from pipelines.lake.lake import Lake
from pipelines.lake.queries import beginnings, microseconds, moment, presents
from pipelines.streaming.checkpoint.offsets import interval
from pipelines.streaming.reconstruction import reconstruction
from pipelines.streaming.source.unread import Bronze, bronze_of
from pipelines.verdict.judged import REBUILT
from pipelines.verdict.sources import progress
from schemas import (
    brokers,
    deliveries,
    hw_regressions,
    partition_health,
    partition_hw,
    replica_sync,
    replication_events,
    telemetry_gaps,
)

if TYPE_CHECKING:
    from pyarrow.dataset import Expression

    from schemas.declaration import Table

OVER = timedelta(days=1)
"""A cluster that was closed, and of which nothing came for so long (wall clock), is not recorded any more."""


@dataclass
class Reading:
    """What an evaluation has to go by, and `after`, what the next one goes on from.

    `blind` has the evidence that could not be read, by its name, and why; `kept_from` by cluster since when (event
    time) there are rows of silver at all.
    """

    evidence: Evidence
    after: Step
    blind: dict[str, str] = field(default_factory=dict)
    kept_from: Mapping[str, datetime] = field(default_factory=dict)


def read(lake: Lake, rules: AlertRules, before: Step, now: datetime, interval_s: float = 0) -> Reading:
    """What the alert rules need of a lake, some time back of where the evaluation `before` had come.

    `interval_s`: how often the job takes what is new, where it has not recorded that itself. What is not there though
    the job made it, or cannot be read, is said: it is not the same as a table without rows.
    """
    written_by, bronze, blind = reconstruction(lake), bronze_of(lake), dict[str, str]()
    sources = progress(lake, before.sources, bronze)
    last: dict[str, int] = {}
    for (cluster, *_), (ts, _) in sources.reported.items():
        last[cluster] = max(ts, last.get(cluster, ts))
    closed = {cluster for cluster, ts in sources.closed.items() if last.get(cluster, ts) <= ts}
    decided = {
        cluster: ts if cluster in closed else ts - timedelta(milliseconds=written_by.grace_ms)
        for cluster, ts in presents(lake).items()
    }
    clocks = {cluster: microseconds(ts) for cluster, ts in decided.items()}
    begins = {c: min(clocks[c], at) for c, at in before.clocks.items() if c in clocks}
    silver = {c: moment(at - rules.history.silver_s * SECOND) for c, at in begins.items()}
    recent = {c: moment(begins.get(c, at) - rules.history.bronze_s * SECOND) for c, at in clocks.items()}
    kept_from = beginnings(lake)

    def facts(name: str, table: Table, keep: Expression | None = None, starts: Any = silver) -> pa.Table:
        where = None if starts is None else _window(starts)
        both = where if keep is None or where is None else where & keep
        return _read(lake, name, table, both if where is not None else keep, written_by.made, blind)

    def events(name: str, keep: Expression) -> pa.Table:
        return facts(name, replication_events.TABLE, keep, recent)

    if written_by.rebuilding:
        blind |= dict.fromkeys(("regressions", "min_isr", "disagreements", "sync", "gaps", "health"), REBUILT)
    clusters = sorted(clocks.keys() | bronze.clusters)
    over = [c for c in closed if sources.arrived.get(c, microseconds(now)) <= microseconds(now - OVER)]
    found = Evidence.of(
        regressions=facts("regressions", hw_regressions.TABLE, starts=None),
        min_isr=facts("min_isr", partition_hw.TABLE, _one_of("kind", "freeze", "thaw", "term_start")),
        disagreements=facts("disagreements", partition_hw.TABLE, _one_of("agreement", "disagree")),
        sync=facts("sync", replica_sync.TABLE),
        gaps=facts("gaps", telemetry_gaps.TABLE),
        health=facts("health", partition_health.TABLE, starts=None),
        leaderships=events("leaderships", _one_of("event_type", "leader", "follower", "election")),
        broker_states=events("broker_states", _one_of("event_type", "broker_state")),
        **of_sources(sources, clusters),
        clock=pa.Table.from_pylist([{"cluster": c, "clock": ts} for c, ts in decided.items()], CLOCK),
        backlog=backlog(lake, bronze, clocks.keys(), rules.of(JOB_BEHIND), interval_s),
        deliveries=lake.read(deliveries.TABLE, SCHEMAS["deliveries"]),
        carried=_carried(before.carried, {c: max(ts, silver.get(c, ts)) for c, ts in kept_from.items()}),
        ended_recordings=pa.Table.from_pylist([{"cluster": c} for c in over], ENDED),
        brokers=facts("brokers", brokers.TABLE, starts=None),
    )
    said = sorted({why for why in blind.values() if why is not REBUILT})
    missing = [{"cluster": cluster, "why": why} for cluster in clusters for why in said]
    clocks = {**before.clocks, **clocks} if blind else clocks
    found["blind"] = pa.Table.from_pylist(missing, BLIND)
    return Reading(found, replace(before, sources=sources, clocks=clocks), blind, kept_from)


def _read(lake: Lake, name: str, table: Table, keep: Expression | None, made: bool, blind: dict[str, str]) -> pa.Table:
    """The rows of a table; none where it is missing or cannot be read, which `blind` then has."""
    schema: pa.Schema = SCHEMAS[name]
    if name in blind:
        return schema.empty_table()
    try:
        if made and not lake.has_table(table):
            blind[name] = f"{table.path} is missing"
            return schema.empty_table()
        return lake.read(table, schema, keep)
    except Exception as error:  # of pyarrow, of deltalake, of an object store: whatever it is, the other rules go on
        blind[name] = f"{table.path} cannot be read: {' '.join(str(error).split())[:200]}"
        return schema.empty_table()


def _carried(carried: pa.Table, begins: Mapping[str, datetime]) -> pa.Table:
    """The open states that began before the rows that are read, by cluster; of elections, which are in bronze, all."""
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
