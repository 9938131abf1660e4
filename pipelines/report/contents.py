"""The contents of a report: verdict, events, courses of partitions, evidence, and what was not judged."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from pipelines.alerting.lookup import incident_or_alert
from pipelines.charts.partition import partition_chart
from pipelines.charts.svg import svg
from pipelines.lake.lake import Lake
from pipelines.lake.queries import VIEWS, Filter, Row, View, select_rows
from pipelines.report.evidence import Fall, falls
from pipelines.timeline.happenings import Timeline, timeline
from pipelines.timeline.partition import partition_past
from pipelines.verdict import Limits, Line, lines, sentences, verdict
from pipelines.verdict.collect import Survey, survey
from pipelines.verdict.disk_findings import standing_findings
from pipelines.verdict.judged import ended
from pipelines.verdict.known import refuse_unknown
from pipelines.verdict.losses import NOT_EXCLUDED, unjudged
from pipelines.verdict.since import Since
from pipelines.verdict.words import clock, count
from schemas import audits, isr_changes, quality_results

MARGIN = timedelta(minutes=2)
"""Around an alert; of a long one a tenth of its length."""
LINES, PARTITIONS, PLOTS = 200, 40, 4
"""At most so many lines of a timeline of each kind, partitions in trouble, and plots."""

_AUDITS = View(audits.TABLE, "audited_at", "")


@dataclass(frozen=True)
class Asked:
    """The subject of a report: filter of rows, period, and the alert, if it is about one."""

    wanted: Filter
    since: Since
    until: datetime | None = None
    alert: Row | None = None


@dataclass(frozen=True)
class Plot:
    """The chart of one partition."""

    title: str
    svg: str


@dataclass(frozen=True)
class Report:
    """All that a report says."""

    lake: str
    written_at: datetime
    subject: str
    period: str
    alert: Row | None
    verdict: Sequence[Line]
    timeline: Timeline
    plots: Sequence[Plot]
    falls: Sequence[Fall]
    more_falls: int
    partitions: Sequence[str]
    more_partitions: int
    not_judged: Sequence[str]
    checks: Sequence[Row]
    disks: Sequence[Row]
    commands: Sequence[str]

    @property
    def clusters(self) -> int:
        return len({line.cluster for line in self.verdict})


def on_alert(lake: Lake, alert_id: str) -> Asked:
    """The subject of a report on one alert or incident. Raises UnknownNameError with the nearest id."""
    row = incident_or_alert(lake, alert_id)
    if "incident_id" in row:
        row |= {"alert_id": alert_id, "rule": row["cause"], "labels": {"cluster": row["cluster"] or None}}
    margin = max(MARGIN, (row["last_ts"] - row["first_ts"]) / 10)
    labels = dict(row["labels"] or ())
    return Asked(Filter(labels.get("cluster")), row["first_ts"] - margin, row["last_ts"] + margin, row)


def report(lake: Lake, asked: Asked, limits: Limits, now: datetime) -> Report:
    """The report at `now` of the wall clock. Raises UsageError for what the lake does not know."""
    seen = survey(lake, asked.wanted, asked.since, replace(limits, since=asked.since), now)
    if not seen.records:
        refuse_unknown(lake, asked.wanted)
    period = replace(seen.wanted, until=asked.until)
    found, more = falls(lake, period)
    partitions, matching = seen.partitions(PARTITIONS, sound=asked.wanted.partition is not None)
    over = {record.cluster for record in seen.records if ended(record)}
    bounds = replace(limits, since=asked.since)
    return Report(
        lake=lake.root,
        written_at=now,
        subject=_subject(asked),
        period=_period(period),
        alert=asked.alert,
        verdict=lines(verdict(record, bounds, now) for record in seen.records),
        timeline=timeline(lake, period, LINES),
        plots=list(_plots(lake, period, found)),
        falls=found,
        more_falls=more,
        partitions=[sentences.partition(row, ended=row["cluster"] in over) for row in partitions],
        more_partitions=matching - len(partitions),
        not_judged=list(_not_judged(seen)),
        checks=_failed_checks(lake),
        disks=_audit_findings(lake, asked.wanted),
        commands=list(_commands(lake, asked, found)),
    )


def _subject(asked: Asked) -> str:
    if asked.alert is not None:
        return f"{asked.alert['rule']}, {asked.alert['subject']}"
    wanted = asked.wanted
    place = wanted.topic if wanted.partition is None else f"{wanted.topic or '*'}-{wanted.partition}"
    return "/".join(filter(None, (wanted.cluster, place))) or "all clusters"


def _period(period: Filter) -> str:
    if isinstance(period.since, datetime) or period.since is None:
        first = clock(period.since) if period.since else "the beginning"
    else:
        first = clock(min(period.since.values())) if period.since else "the beginning"
    return f"{first} to {clock(period.until) if period.until else 'the present of each cluster'}"


def _plots(lake: Lake, period: Filter, found: Sequence[Fall]) -> Iterator[Plot]:
    """The partitions that lost most, else those whose ISR shrank most often, else the one asked for."""
    places = [(fall.row["cluster"], fall.row["topic"], fall.row["partition"]) for fall in found]
    if period.topic is not None and period.partition is not None and period.cluster is not None:
        places = [(period.cluster, period.topic, period.partition)]
    for number, (cluster, topic, partition) in enumerate([*dict.fromkeys(places or _shrunk(lake, period))][:PLOTS]):
        since = period.since
        moment = since if since is None or isinstance(since, datetime) else since.get(cluster)
        past = partition_past(lake, Filter(cluster, topic, partition, moment, period.until))
        if past is not None:
            title = f"{cluster}/{topic}-{partition}"
            label = f"{title}: log end offset of each replica and high watermark, and the ISR over time"
            yield Plot(title, svg(partition_chart(past), f"plot{number}", label))


def _shrunk(lake: Lake, period: Filter) -> list[tuple[str, str, int]]:
    rows = f"SELECT * FROM ({VIEWS['isr'].select(period)}) WHERE cardinality(removed) > 0"
    keys = "cluster, topic, partition"
    most = f"SELECT {keys} FROM ({rows}) GROUP BY {keys} ORDER BY count(*) DESC, {keys} LIMIT {PLOTS}"
    found = select_rows(lake, isr_changes.TABLE, most)
    return [(row["cluster"], row["topic"], row["partition"]) for row in found]


def _not_judged(seen: Survey) -> Iterator[str]:
    """Starts of terms of which nobody can say whether they lost anything."""
    for record in seen.records:
        for group in record.falls:
            if group.name == NOT_EXCLUDED:
                yield f"{record.cluster}{record.scope}: loss not excluded: {unjudged(group)}"


def _failed_checks(lake: Lake) -> list[Row]:
    """The expectations that failed in the last run of `hwmark check`."""
    failed = "run_ts = (SELECT max(run_ts) FROM t) AND NOT success"
    return select_rows(lake, quality_results.TABLE, f"SELECT * FROM t WHERE {failed} ORDER BY suite, expectation")


def _audit_findings(lake: Lake, wanted: Filter) -> list[Row]:
    """Findings of audits of disks that still stand and are critical or unknown."""
    found = standing_findings(Filter(wanted.cluster, wanted.topic, wanted.partition).where(_AUDITS))
    return select_rows(lake, audits.TABLE, f"{found} ORDER BY cluster, severity, topic, partition LIMIT {PARTITIONS}")


def _commands(lake: Lake, asked: Asked, found: Sequence[Fall]) -> Iterator[str]:
    """The commands that show the same again."""
    place = ["--lake", lake.root]
    cluster = asked.wanted.cluster
    where = [*place, *(["--cluster", cluster] if cluster else [])]
    since = asked.since
    moment = since if isinstance(since, datetime) else None
    when = ["--since", moment.isoformat()] if moment else []
    yield shlex.join(["hwmark", "show", "verdict", *where, *when])
    for view in ("regressions", "isr", "health"):
        yield shlex.join(["hwmark", "show", view, *where, *(when if view != "health" else [])])
    for fall in found[:2]:
        row = fall.row
        one = ["--cluster", row["cluster"], "--topic", row["topic"], "--partition", str(row["partition"])]
        yield shlex.join(["hwmark", "show", "loss", *place, "--cluster", row["cluster"], "--id", row["regression_id"]])
        after = ["--since", (row["ts"] - MARGIN).isoformat()]
        yield shlex.join(["hwmark", "show", "hw", *place, *one, *after])
        yield shlex.join(["hwmark", "show", "sync", *place, *one, *after])


def left_out(found: Timeline) -> str:
    """A sentence about the lines that a timeline leaves out; empty if it shows all."""
    return f"{count(found.left_out, 'line')} of this period left out" if found.left_out else ""
