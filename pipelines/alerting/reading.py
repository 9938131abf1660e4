"""The evidence that a lake holds, read through `deltalake`: few columns, only the rows the rules look at."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from pipelines.alerting.behind import JOB_BEHIND, JobBehindSettings
from pipelines.alerting.evidence import BACKLOG, CLOCK, CLOSED, REPORTED, SCHEMAS, Evidence
from pipelines.alerting.rules import AlertRules
from pipelines.lake.lake import Lake
from pipelines.lake.queries import presents
from pipelines.streaming.checkpoint.offsets import interval
from pipelines.streaming.source.closings import closings
from pipelines.streaming.source.unread import bronze_of
from schemas import (
    deliveries,
    hw_regressions,
    partition_health,
    partition_hw,
    replica_sync,
    replication_events,
    telemetry_gaps,
)
from schemas.replication_events import DRAIN

if TYPE_CHECKING:
    from pyarrow.dataset import Expression

    from schemas.declaration import Table


def evidence(
    lake: Lake,
    rules: AlertRules,
    since: Mapping[str, datetime],
    interval_s: float = 0,
) -> Evidence:
    """What the alert rules need of a lake: the history before each cluster's present, and back to `since`.

    `interval_s`: how often the job takes what is new, where it has not recorded that itself.
    """
    restart = timedelta(seconds=rules.controlled_restart.limit_s)
    clock = pa.Table.from_pylist([{"cluster": name, "clock": ts} for name, ts in presents(lake).items()], CLOCK)
    silver = _window(clock, rules.history.silver_s, since)
    # A restart may have begun before what it excuses.
    bronze = _window(clock, rules.history.bronze_s, {name: ts - restart for name, ts in since.items()})

    def facts(name: str, table: Table, keep: Expression | None = None) -> pa.Table:
        return lake.read(table, SCHEMAS[name], silver if keep is None else silver & keep)

    def events(name: str, keep: Expression) -> pa.Table:
        return lake.read(replication_events.TABLE, SCHEMAS[name], bronze & keep)

    reported, closed = sources(lake, bronze)
    return Evidence(
        regressions=facts("regressions", hw_regressions.TABLE),
        min_isr=facts("min_isr", partition_hw.TABLE, _one_of("kind", "freeze", "thaw", "term_start")),
        disagreements=facts("disagreements", partition_hw.TABLE, _one_of("agreement", "disagree")),
        sync=facts("sync", replica_sync.TABLE),
        gaps=facts("gaps", telemetry_gaps.TABLE),
        health=lake.read(partition_health.TABLE, SCHEMAS["health"]),
        leaderships=events("leaderships", _one_of("event_type", "leader", "follower", "election")),
        broker_states=events("broker_states", _one_of("event_type", "broker_state")),
        reported=reported,
        closed=closed,
        clock=clock,
        backlog=backlog(lake, clock, rules.of(JOB_BEHIND), interval_s),
        deliveries=lake.read(deliveries.TABLE, SCHEMAS["deliveries"]),
    )


def backlog(lake: Lake, clock: pa.Table, settings: JobBehindSettings, interval_s: float) -> pa.Table:
    """BACKLOG: the clusters of which the job has yet to read something."""
    known = set(clock["cluster"].to_pylist())
    limit_s = settings.limit_s(max(interval_s, interval(lake) or 0))
    rows = [
        {"cluster": cluster, "oldest": unread.oldest, "judged_once": cluster in known, "limit_s": limit_s}
        for cluster, unread in sorted((bronze_of(lake).backlogs or {}).items())
    ]
    return pa.Table.from_pylist(rows, schema=BACKLOG)


def sources(lake: Lake, keep: Expression | None = None) -> tuple[pa.Table, pa.Table]:
    """REPORTED and CLOSED, from the `progress` rows of bronze: every source has one for each second of its time."""
    import pyarrow.compute as pc

    progress = _one_of("event_type", "progress")
    rows = lake.read(replication_events.TABLE, _PROGRESS, progress if keep is None else keep & progress)
    is_drain = pc.equal(rows["source_id"], DRAIN)
    reported = (
        rows.filter(pc.invert(is_drain)).group_by(["cluster", "source_id", "broker_id"]).aggregate([("ts", "max")])
    )
    closing = pc.and_kleene(is_drain, pc.equal(rows["detail"], "closed"))
    beside = pa.Table.from_pylist(closings(lake), _PROGRESS).select(["cluster", "ts"])
    closed = pa.concat_tables([rows.filter(closing).select(["cluster", "ts"]), beside])
    closed = closed.group_by(["cluster"]).aggregate([("ts", "max")])
    return reported.rename_columns(REPORTED.names).cast(REPORTED), closed.rename_columns(CLOSED.names).cast(CLOSED)


_PROGRESS = pa.schema(
    [replication_events.ARROW.field(n) for n in ("cluster", "source_id", "broker_id", "ts", "detail")]
)


def _window(clock: pa.Table, seconds: int, since: Mapping[str, datetime]) -> Expression:
    """Rows of the last `seconds` before each cluster's present; of a cluster without one, all."""
    import pyarrow.dataset as ds

    cluster, ts = ds.field("cluster"), ds.field("ts")
    keep = ~cluster.isin(pa.array(clock["cluster"].to_pylist(), pa.string()))
    for row in clock.to_pylist():
        keep = keep | ((cluster == row["cluster"]) & (ts >= _start(row, seconds, since)))
    return keep


def _start(row: Mapping[str, Any], seconds: int, since: Mapping[str, datetime]) -> pa.Scalar:
    start = row["clock"] - timedelta(seconds=seconds)
    return pa.scalar(min(start, since.get(row["cluster"], start)), pa.timestamp("us", tz="UTC"))


def _one_of(column: str, *values: str) -> Expression:
    import pyarrow.dataset as ds

    return ds.field(column).isin(list(values))
