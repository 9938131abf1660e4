"""Counts of a cluster by minute: those in gold, partitions without coverage, and offsets lost by then."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime, timedelta

from pipelines.lake.queries import VIEWS, Filter, Row, instant, text
from pipelines.web.answers.common import rows
from pipelines.web.snapshot import Reader
from schemas import broker_minute, cluster_minute, coverage, hw_regressions

MINUTE = timedelta(minutes=1)
SETTLED = 2 * MINUTE
"""A covered span that goes on gets a row each minute; a span with a younger last row goes on."""
GOLD = ("offline", "under_min_isr", "under_replicated", "held_back")
Values = list[int | None]


def minutes(reader: Reader, cluster: str, since: datetime, until: datetime) -> dict[str, Values]:
    """By count, its worst value in each minute, and its seconds (`…_s`), in order of time; None if not known."""
    columns = ", ".join(f"{name}, {name}_max, CAST(round({name}_s) AS BIGINT) AS {name}_s" for name in GOLD)
    where = f"cluster = {text(cluster)} AND minute >= {instant(floor(since))} AND minute <= {instant(floor(until))}"
    found = rows(reader, cluster_minute.TABLE, f"SELECT minute, {columns} FROM t WHERE {where}")
    values = {name: [(row["minute"], _worst(row, name)) for row in found] for name in GOLD}
    values |= {f"{name}_s": [(row["minute"], row[f"{name}_s"]) for row in found] for name in GOLD}
    return {name: _placed(since, until, each) for name, each in values.items()}


def more_minutes(reader: Reader, cluster: str, since: datetime, until: datetime, lost: int | None) -> dict[str, Values]:
    """Partitions not known and offsets lost by then, minute by minute; `lost` is the last of these."""
    within = f"cluster = {text(cluster)} AND {{0}} >= {instant(floor(since))} AND {{0}} <= {instant(until)}"
    by_broker = "SELECT minute, broker_id, partitions FROM t WHERE broker_id >= 0 AND "
    led = rows(reader, broker_minute.TABLE, by_broker + within.format("minute"))
    seen = f"cluster = {text(cluster)} AND kind = '{coverage.TERMS}' AND to_ts >= {instant(since)}"
    spans = f"SELECT broker_id, from_ts, max(to_ts) AS to_ts FROM t WHERE {seen} GROUP BY broker_id, from_ts"
    critical = f"SELECT * FROM ({VIEWS['serious'].select(Filter(cluster, since=since, until=until))})"
    gone = rows(reader, hw_regressions.TABLE, f"{critical} WHERE severity = 'critical' ORDER BY ts")
    return {
        "not known": not_covered(since, until, led, rows(reader, coverage.TABLE, spans)),
        "lost offsets": [] if lost is None else lost_by_then(since, until, gone, lost),
    }


def not_covered(since: datetime, until: datetime, led: Iterable[Row], spans: Iterable[Row]) -> Values:
    """Partitions, by minute, of brokers without coverage of all of it; None before a broker is known to lead."""
    covered, leads = defaultdict[int, list[Row]](list), defaultdict[int, list[Row]](list)
    for row in spans:
        covered[row["broker_id"]].append(row)
    for row in led:
        leads[row["broker_id"]].append(row)
    total: Values = [None] * len(_placed(since, until, ()))
    for broker, told in leads.items():
        now = None
        for place, value in enumerate(_placed(since, until, [(row["minute"], row["partitions"]) for row in told])):
            now = now if value is None else value
            if now is not None:
                begun = floor(since) + place * MINUTE
                begun, ends = min(begun, until - timedelta(seconds=1)), min(begun + MINUTE, until)
                sure = _is_covered(covered[broker], begun, ends, until)
                total[place] = (total[place] or 0) + (0 if sure else now)
    return total


def _is_covered(spans: Iterable[Row], since: datetime, until: datetime, now: datetime) -> bool:
    """Whether stretches, which may overlap, leave nothing out between two moments."""
    for row in sorted(spans, key=lambda row: row["from_ts"]):
        if row["from_ts"] <= since:
            since = max(since, now if row["to_ts"] >= now - SETTLED else row["to_ts"])
    return since >= until


def lost_by_then(since: datetime, until: datetime, gone: Iterable[Row], lost: int) -> Values:
    """Offsets lost by the end of each minute, `lost` by that of the last; `gone`: losses between the moments."""
    by_minute = defaultdict[int, int](int)
    for row in gone:
        by_minute[(row["ts"] - floor(since)) // MINUTE] += row["lost_records"] or 0
    now, values = lost - sum(by_minute.values()), Values()
    for place in range(len(_placed(since, until, ()))):
        now += by_minute[place]
        values.append(now)
    return values


def _worst(row: Row, name: str) -> int | None:
    most: int | None = row[f"{name}_max"]
    return row[name] if most is None else most


def floor(ts: datetime) -> datetime:
    return ts.replace(second=0, microsecond=0)


def _placed(since: datetime, until: datetime, found: Iterable[tuple[datetime, int | None]]) -> Values:
    """The last value of each minute."""
    of = {(ts - floor(since)) // MINUTE: value for ts, value in found}
    return [of.get(place) for place in range((until - floor(since)) // MINUTE + 1)]
