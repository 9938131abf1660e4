"""Quality: sources and what they cover, what is missing or not understood, and the expectations of the last check."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from pipelines.lake.queries import Row, View, instant, text
from pipelines.verdict import ClusterRecord
from pipelines.verdict.words import brokers, clock, count
from pipelines.web.answers.common import Sentence, bounds, rows, sentences_of, surveyed, timed, verdicts
from pipelines.web.answers.overview import SourceLine, source_lines
from pipelines.web.asked import Asked
from pipelines.web.snapshot import Reader
from schemas import coverage, quality_results, quarantine, telemetry_gaps

SHOWN, BARS = 200, 50


@dataclass(frozen=True)
class Covered:
    """The stretches in which one kind of evidence could be seen on a broker, as parts of 1000 of the time shown."""

    cluster: str
    broker_id: int
    kind: str
    bars: Sequence[tuple[int, int]]


@dataclass(frozen=True)
class Quality:
    """The whole view; `checked_at` is None where `hwmark check` never ran."""

    verdict: Sequence[Sentence]
    checked_at: datetime | None
    expectations: Sequence[Row]
    gaps: Sequence[Row]
    quarantined: Sequence[Row]
    sources: Sequence[SourceLine]
    unread: Sequence[str]
    missing: Sequence[str]
    coverage: Sequence[Covered]
    since: datetime | None
    until: datetime | None
    begun: Mapping[int, datetime]


def quality(reader: Reader, asked: Asked) -> Quality:
    """The view at this moment."""
    said = sentences_of(verdicts(reader, asked))
    with timed(asked, "expectations"):
        expectations = _expectations(reader)
    with timed(asked, "gaps"):
        gaps = _gaps(reader, asked)
    with timed(asked, "quarantine"):
        quarantined = _quarantined(reader, asked)
    checked = expectations[0]["run_ts"] if expectations else None
    records = surveyed(reader, asked).records
    sources = [line for record in records for line in source_lines(reader, record)]
    with timed(asked, "coverage"):
        covered, since, until = _coverage(reader, asked, records)
        begun = _begun(reader, records)
    return Quality(
        said, checked, expectations, gaps, quarantined,
        sources[:SHOWN],
        [f"{record.cluster}: {why}" for record in records for why in (*record.unread, *_odd(record))],
        [f"{one.cluster}: {why}" for one in records for why in lacking(reader, one)],
        covered, since, until, begun,
    )  # fmt: skip


def _odd(record: ClusterRecord) -> list[str]:
    return [
        f'{count(one.lines, "line")} of {one.source_id} not understood, such as "{one.shape}"'
        for one in record.not_understood
    ]


def lacking(reader: Reader, record: ClusterRecord) -> list[str]:
    """Sentences on missing evidence, with the logs that would show it."""
    by_time: dict[datetime, list[int]] = {}
    for one in source_lines(reader, record):
        if one.silent and one.broker_id >= 0:
            by_time.setdefault(one.reported_to, []).append(one.broker_id)
    since = [
        f"nothing of {brokers(ids)} after {clock(ts)}: {'its log' if len({*ids}) == 1 else 'their logs'} would tell"
        for ts, ids in by_time.items()
    ]
    unread = (
        [f"nothing has been reported by {brokers(record.unread_brokers)}: ingest logs"] if record.unread_brokers else []
    )
    return [*since, *unread, *dict.fromkeys(why for group in record.falls for why in group.missing)]


def _begun(reader: Reader, records: Sequence[ClusterRecord]) -> dict[int, datetime]:
    """By broker, the begin of its first covered span; empty unless there is one cluster."""
    if len(records) != 1:
        return {}
    where = f"cluster = {text(records[0].cluster)}"
    sql = f"SELECT broker_id, min(from_ts) AS ts FROM t WHERE {where} GROUP BY broker_id"
    return {row["broker_id"]: row["ts"] for row in rows(reader, coverage.TABLE, sql)}


def _coverage(
    reader: Reader, asked: Asked, records: Sequence[ClusterRecord]
) -> tuple[list[Covered], datetime | None, datetime | None]:
    """The covered spans of one cluster, by broker and kind, and the begin and end of the time shown."""
    of_one = replace(asked, cluster=records[0].cluster) if len(records) == 1 else None
    within = bounds(reader, of_one) if of_one else None
    if within is None:
        return [], None, None
    since, until = within
    keys = "broker_id, kind, from_ts"
    where = f"cluster = {text(records[0].cluster)} AND to_ts >= {instant(since)}"
    where += f" AND from_ts <= {instant(until)}" if asked.until else ""
    found = rows(
        reader,
        coverage.TABLE,
        f"SELECT {keys}, max(to_ts) AS to_ts FROM t WHERE {where} GROUP BY {keys} ORDER BY {keys}",
    )
    span, of = max((until - since) / timedelta(seconds=1), 1), dict[tuple[int, str], list[tuple[int, int]]]()
    for row in found:
        left = int(1000 * max(0.0, (row["from_ts"] - since).total_seconds()) / span)
        right = int(1000 * min(span, (row["to_ts"] - since).total_seconds()) / span)
        bars = of.setdefault((row["broker_id"], row["kind"]), [])
        covered = sum(bars[-1]) if bars else -1  # what several sources show counts once
        if right > covered:
            left = max(left, covered)
            bars.append((left, max(2, right - left)))
    return [Covered(records[0].cluster, *key, bars[:BARS]) for key, bars in of.items()][:SHOWN], since, until


def _expectations(reader: Reader) -> list[Row]:
    """Expectations of the last run, the failed ones first."""
    order = "ORDER BY success, suite, expectation"
    last = "SELECT max(run_ts) FROM t"
    return rows(reader, quality_results.TABLE, f"SELECT * FROM t WHERE run_ts = ({last}) {order} LIMIT {SHOWN}")


def _gaps(reader: Reader, asked: Asked) -> list[Row]:
    """Kinds of gaps by source: times within the time asked for, the last one, and an example."""
    where = surveyed(reader, asked).wanted.where(View(telemetry_gaps.TABLE, "ts", ""))
    keys = "cluster, source_id, kind"
    values = "count(*) AS times, max(ts) AS last, min(detail) AS detail"
    sql = f"SELECT {keys}, {values} FROM t WHERE {where} GROUP BY {keys} ORDER BY times DESC, {keys} LIMIT {SHOWN}"
    return rows(reader, telemetry_gaps.TABLE, sql)


def _quarantined(reader: Reader, asked: Asked) -> list[Row]:
    """Reasons by cluster for which events broke the contract: their number, and the time of the last."""
    where = f"cluster = {text(asked.cluster)}" if asked.cluster is not None else "true"
    each = f"SELECT cluster, unnest(reasons) AS reason, quarantined_at FROM t WHERE {where}"
    values = "count(*) AS events, max(quarantined_at) AS last"
    sql = f"SELECT cluster, reason, {values} FROM ({each}) GROUP BY cluster, reason ORDER BY events DESC, reason"
    return rows(reader, quarantine.TABLE, f"{sql} LIMIT {SHOWN}")
