"""The events of a lake that an estimate needs, in shares that fit into memory, and of what telemetry is missing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from functools import reduce
from operator import or_
from typing import NamedTuple

import pyarrow as pa
import pyarrow.dataset as ds

from pipelines.lake.lake import Lake
from pipelines.lake.queries import Filter, instant, select_rows, text
from pipelines.lake.table import dataset
from pipelines.whatif.compare import Place, place_of
from pipelines.whatif.tables import renumbered
from schemas import replication_events, telemetry_gaps

MOST = 5_000_000
"""Events that are read at once."""
RARE = ("leader", "follower", "election", "isr", "isr_proposed", "isr_rejected", "config", "broker_state", "truncate")
"""What began before the window and still holds in it."""


class Share(NamedTuple):
    """Some partitions of one cluster, with their events renumbered: rows of others are left out, which is no gap."""

    places: tuple[Place, ...]
    events: pa.Table
    gaps: dict[Place, str]


def shares(lake: Lake, wanted: Filter, cluster: str, begin: datetime, most: int = MOST) -> Iterator[Share]:
    """The partitions that are `wanted`, a share of at most `most` events at a time.

    A partition that has more on its own comes without events, and with that as what is missing.
    """
    for places, count in _groups(_counts(lake, wanted, cluster, begin), most):
        if count > most:
            why = f"not known: {count:,} events, and at most {most:,} are read: ask for less time with --since"
            yield Share(places, replication_events.ARROW.empty_table(), dict.fromkeys(places, why))
            continue
        events = _events(lake, places, begin)
        yield Share(places, renumbered(events), _gaps(lake, places, events, begin))


def _counts(lake: Lake, wanted: Filter, cluster: str, begin: datetime) -> list[tuple[Place, int]]:
    where = [f"cluster = {text(cluster)}", "partition >= 0"]
    where += [f"topic = {text(wanted.topic)}"] if wanted.topic is not None else []
    where += [f"partition = {wanted.partition}"] if wanted.partition is not None else []
    rare = ", ".join(map(text, RARE))
    where.append(f"(ts >= {instant(begin)} OR event_type IN ({rare}))")
    keys = "cluster, topic, partition"
    sql = f"SELECT {keys}, count(*) AS n FROM t WHERE {' AND '.join(where)} GROUP BY {keys} ORDER BY {keys}"
    return [(place_of(row), row["n"]) for row in select_rows(lake, replication_events.TABLE, sql)]


def _groups(counts: Sequence[tuple[Place, int]], most: int) -> Iterator[tuple[tuple[Place, ...], int]]:
    """Partitions together as long as their events are at most so many."""
    together: list[Place] = []
    total = 0
    for place, count in counts:
        if together and total + count > most:
            yield tuple(together), total
            together, total = [], 0
        together.append(place)
        total += count
    if together:
        yield tuple(together), total


def _events(lake: Lake, places: Sequence[Place], begin: datetime) -> pa.Table:
    """The events of these partitions of one cluster, and the broker-wide ones."""
    field = ds.field
    by_topic: dict[str, list[int]] = {}
    for _, topic, partition in places:
        by_topic.setdefault(topic, []).append(partition)
    theirs = [(field("topic") == topic) & field("partition").isin(those) for topic, those in by_topic.items()]
    in_time = (field("ts") >= pa.scalar(begin, pa.timestamp("us", tz="UTC"))) | field("event_type").isin(RARE)
    keep = (field("cluster") == places[0][0]) & in_time & reduce(or_, theirs, field("partition") == -1)
    return dataset(lake.open(replication_events.TABLE), replication_events.ARROW).to_table(filter=keep)


def _gaps(lake: Lake, places: Sequence[Place], events: pa.Table, begin: datetime) -> dict[Place, str]:
    """The partitions of whose telemetry something is missing since `begin`: of their own series, or of a source."""
    where = f"cluster = {text(places[0][0])} AND kind IN ('gap', 'reset') AND ts >= {instant(begin)}"
    sql = f"SELECT cluster, topic, partition, source_id FROM t WHERE {where}"
    rows = select_rows(lake, telemetry_gaps.TABLE, sql)
    sources = {row["source_id"] for row in rows if row["partition"] < 0}
    missing = {place_of(row) for row in rows if row["partition"] >= 0}
    reported = events.group_by(["cluster", "topic", "partition", "source_id"]).aggregate([]).to_pylist()
    missing |= {place_of(row) for row in reported if row["source_id"] in sources and row["partition"] >= 0}
    return {place: "not known: telemetry is missing" for place in places if place in missing}
