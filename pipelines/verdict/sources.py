"""The reports of a lake's sources, however long ago, and the brokers that are down."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import groupby
from typing import TYPE_CHECKING

from pipelines.lake.changes import Change, rows_of, since
from pipelines.lake.lake import Lake
from pipelines.lake.queries import Row, instant, microseconds, moment, query, select_rows
from pipelines.lake.records import record
from pipelines.lake.table import has_declared
from pipelines.replication.metadata.broker_states import CONTROLLERS, SILENT_STATES, Answer, add_answer
from pipelines.streaming.reconstruction import EVALUATED
from pipelines.streaming.source.closings import closings
from pipelines.streaming.source.unread import Bronze
from pipelines.verdict.heard import quorum_now, states_now
from pipelines.verdict.records import Source, Unheard, Wait
from schemas import brokers, replication_events
from schemas.event_types import QUORUM, by_watcher, holds_s
from schemas.replication_events import CLOSED, DRAIN, FIRST, LAST, WATCHER

if TYPE_CHECKING:
    from deltalake import DeltaTable

AHEAD = timedelta(minutes=1)
"""Clocks of hosts may be so far ahead."""
DOWN = ("stopping", "fenced", "unregistered", "controlled_shutdown")
"""States, as logs tell them, in which a broker leads nothing for long; the last one is of lakes of before."""
STATES = ("cluster", "broker_id", "state", "state_ts", "since", "reason", "witness", "quorum", "quorum_since")
"""The columns of gold/brokers that tell how brokers and controllers are."""
LEADERSHIPS = ("leader", "follower", "election", "config")
"""Events that say who leads a partition, or that its topic is deleted."""
HEARD_S = 600
"""The age up to which rows of watchers are read from bronze: a job that is further behind judges nothing."""


@dataclass(frozen=True)
class Reported:
    """Up to when (microseconds) a source has reported everything, and at which level."""

    cluster: str
    source_id: str
    broker_id: int
    reported_to: int
    level: int | None = None
    holds_s: int | None = None
    """The longest time that a claim of the present may rest on a watcher's round; None if the source does not say."""
    ahead: int = 0
    """By how many microseconds its time was yet to come, by the wall clock, when it was read."""


@dataclass(frozen=True)
class Heard:
    """A watcher's last word on a broker, or on the controllers (CONTROLLERS), with its time (microseconds)."""

    cluster: str
    broker_id: int
    answers: tuple[Answer, ...]


@dataclass(frozen=True)
class Progress:
    """The progress of all sources at a version of bronze, in `bronze` with its table's id. Times are microseconds.

    `closed`: when a drain last closed a cluster; `arrived`: when (wall clock) its last rows came.
    """

    reported: Sequence[Reported] = ()
    closed: Mapping[str, int] = field(default_factory=dict)
    arrived: Mapping[str, int] = field(default_factory=dict)
    bronze: tuple[str, int] | None = None
    heard: Sequence[Heard] = ()
    """Of the last HEARD_S seconds, which `run` may not have read yet."""
    led: Mapping[str, int] = field(default_factory=dict)
    """By cluster when the oldest change of a leader was that came with this version: a log may come days late. What is
    recorded is not judged yet."""


def progress(lake: Lake, before: Progress, bronze: Bronze, now: datetime) -> Progress:
    """The progress of every source by `now` (wall clock), to the second.

    Only rows since `before` are read, unless bronze is another table now, or its log does not go back as far. A time in
    the future comes from a wrong clock and counts as the moment at which it was read.
    """
    table = lake.find(replication_events.TABLE)
    if table is None:
        return before
    table_id = lake.table_id(replication_events.TABLE)
    same = before.bronze is not None and before.bronze[0] == table_id
    change = since(table, before.bronze[1] if same and before.bronze else None, lake.storage_options)
    kept = before if same and (change is None or change.files is not None) else Progress()
    reported, closed = {_key(one): one for one in kept.reported}, dict(kept.closed)
    found, led = ([], {}) if change is None else _last(lake, table, change, now)
    news = {row["cluster"] for row in found if row["source_id"] != DRAIN}
    heard = {(one.cluster, one.broker_id): list(one.answers) for one in kept.heard}
    for row in (*closings(lake), *found):
        cluster, source = row["cluster"], row["source_id"]
        ts, ahead = microseconds(row["ts"]), 0
        if row["ts"] > now + AHEAD:
            ts, ahead = microseconds(now), ts - microseconds(now)
        if row.get("event_type") == "broker_state":
            about = CONTROLLERS if row["detail"].startswith(QUORUM) else row["broker_id"]
            add_answer(heard.setdefault((cluster, about), []), (ts, row["detail"]))
        elif source != DRAIN:
            new = Reported(cluster, source, row["broker_id"], ts, row["level"], holds_s(row["detail"]), ahead)
            reported[_key(new)] = max(new, reported.get(_key(new), new), key=lambda one: one.reported_to)
        elif row["detail"] == CLOSED:
            closed[cluster] = max(ts, closed.get(cluster, ts))
    arrived = {
        c: kept.arrived[c] if c in kept.arrived and c not in news else microseconds(at)
        for c, at in bronze.arrived.items()
    }
    oldest = microseconds(now) - HEARD_S * 1_000_000
    recent = [Heard(*key, tuple(a for a in answers if a[0] >= oldest)) for key, answers in heard.items()]
    bronze_at = table_id, table.version()
    return Progress(list(reported.values()), closed, arrived, bronze_at, [one for one in recent if one.answers], led)


def _key(one: Reported) -> tuple[str, str, int]:
    return one.cluster, one.source_id, one.broker_id


# What has no cluster, no source, or a time outside is in quarantine.
_VALID = f"""
cluster IS NOT NULL AND source_id IS NOT NULL AND broker_id IS NOT NULL AND ts >= {instant(FIRST)}
  AND ts <= {instant(LAST)}
"""
_LAST = f"""
SELECT cluster, source_id, broker_id, detail, max(ts) AS ts, last_value(level ORDER BY ts) AS level
FROM t WHERE event_type = 'progress' AND {_VALID} GROUP BY cluster, source_id, broker_id, detail
"""
_STATED = f"""
SELECT cluster, source_id, broker_id, detail, ts, event_type
FROM t WHERE event_type = 'broker_state' AND {_VALID} AND ts >= {{since}}
"""


def _last(lake: Lake, table: DeltaTable, change: Change, now: datetime) -> tuple[list[Row], dict[str, int]]:
    """Return the last progress row of each source and recent broker states from watchers; also `Progress.led`.

    They are read from the files of `change`, or from the whole table if it names no files.
    """
    names = ["cluster", "source_id", "broker_id", "detail"]
    if change.files is None:
        stated = query(table, _STATED.format(since=instant(now - timedelta(seconds=HEARD_S))))
        last_rows = query(table, _LAST)
        led = dict.fromkeys((row["cluster"] for row in last_rows), 0)
        return [*last_rows, *(row for row in stated if by_watcher(row["detail"]))], led
    import pyarrow.dataset as ds  # which takes a while: it has pandas imported

    every = rows_of(lake, replication_events.TABLE, change, has_declared=has_declared(table, replication_events.ARROW))
    valid = (ds.field("ts") >= FIRST) & (ds.field("ts") <= LAST)
    for name in names[:3]:
        valid &= ds.field(name).is_valid()
    kinds = ds.field("event_type").isin(("progress", "broker_state", *LEADERSHIPS))
    rows = every.to_table(["event_type", *names, "ts", "level"], filter=valid & kinds).sort_by("ts")
    progress, stated = (rows.filter(ds.field("event_type") == kind) for kind in ("progress", "broker_state"))
    led = (
        rows.filter(ds.field("event_type").isin(LEADERSHIPS)).group_by("cluster").aggregate([("ts", "min")]).to_pylist()
    )
    last = progress.group_by(names, use_threads=False).aggregate([("ts", "last"), ("level", "last")])
    found: list[Row] = last.rename_columns([*names, "ts", "level"]).to_pylist()
    found += [row for row in stated.to_pylist() if by_watcher(row["detail"])]
    return found, {row["cluster"]: microseconds(row["ts_min"]) for row in led}


@dataclass(frozen=True)
class _Recorded:
    sources: Progress = field(default_factory=Progress)
    waits: Sequence[Wait] = ()
    unread: Mapping[str, int] = field(default_factory=dict)


_seen: dict[str, Progress] = {}
"""Of each lake that this process has looked at."""


def _recorded(lake: Lake) -> _Recorded:
    return record(lake, EVALUATED, _Recorded) or _Recorded()


def found_unread(lake: Lake) -> Collection[str]:
    """The tables that the last evaluation of the alerts could not read, by their paths."""
    return _recorded(lake).unread.keys()


def progress_now(lake: Lake, bronze: Bronze, now: datetime) -> Progress:
    """The progress of every source by now, starting from what this process or the last evaluation has read."""
    before = _seen.get(lake.root) or _recorded(lake).sources
    _seen[lake.root] = progress(lake, before, bronze, now)
    return _seen[lake.root]


def clocks_ahead(seen: Progress) -> dict[str, tuple[datetime, dict[int, timedelta]]]:
    """Return the clusters of which some brokers' clocks are ahead: up to when the others tell, and by how much.

    Where all that report are ahead it is the clock of this host that is behind.
    """
    found: dict[str, tuple[datetime, dict[int, timedelta]]] = {}
    for cluster in {one.cluster for one in seen.reported if one.ahead}:
        sources = [one for one in seen.reported if one.cluster == cluster]
        right = max((one.reported_to for one in sources if not one.ahead), default=0)
        if moment(right) + AHEAD >= moment(max(one.reported_to for one in sources)):
            by = sorted((one.ahead, one.broker_id) for one in sources if one.ahead)
            found[cluster] = moment(right), {broker: timedelta(microseconds=ahead) for ahead, broker in by}
    return found


@dataclass
class Reports:
    """The reports of one cluster: sources, the time of a closing drain, and brokers that are down or do not answer."""

    sources: list[Source] = field(default_factory=list)
    closed: datetime | None = None
    down: dict[int, datetime] = field(default_factory=dict)
    unheard: dict[int, Unheard] = field(default_factory=dict)
    quorum: tuple[str | None, datetime | None] = None, None
    """What a watcher was told of the controllers, and since when."""
    waits: dict[str, Wait] = field(default_factory=dict)
    """By alert rule, the states that are pending."""
    ahead: Mapping[int, timedelta] = field(default_factory=dict)
    """By how much the clocks of brokers are ahead."""


def reports(lake: Lake, clusters: Collection[str], bronze: Bronze, now: datetime) -> dict[str, Reports]:
    """The reports of these clusters by `now` (wall clock)."""
    found = reports_of(_broker_rows(lake), clusters, progress_now(lake, bronze, now))
    for wait in _recorded(lake).waits:
        if wait.cluster in found:
            found[wait.cluster].waits[wait.rule] = wait
    return found


def reports_of(broker_rows: Iterable[Row], clusters: Collection[str], seen: Progress) -> dict[str, Reports]:
    """Reports of these clusters; `broker_rows`: those of gold/brokers in the order of clusters.

    Who was unregistered after its last report is no source any more.
    """
    found: dict[str, Reports] = defaultdict(Reports)
    gone: dict[tuple[str, int], int] = {}
    for cluster, of in groupby(broker_rows, key=lambda row: str(row["cluster"])):
        rows, answers = list(of), {one.broker_id: one.answers for one in seen.heard if one.cluster == cluster}
        for row in rows:
            if row["state"] in DOWN and row["state_ts"] is not None:
                found[cluster].down[row["broker_id"]] = row["state_ts"]
            if row["state"] == "unregistered" and row["state_ts"] is not None:
                gone[cluster, row["broker_id"]] = microseconds(row["state_ts"])
        quorum = quorum_now(rows, answers.pop(CONTROLLERS, ()))
        watched = (one for one in seen.reported if one.cluster == cluster and one.source_id.startswith(WATCHER))
        states = states_now(rows, answers, {one.broker_id: one.reported_to for one in watched}, quorum)
        found[cluster].unheard = {
            broker: Unheard(one.state, moment(one.since) if one.since else None, one.reason)
            for broker, one in states.items()
            if one.state in SILENT_STATES and (one.witness or "").startswith("watcher")
        }
        found[cluster].quorum = quorum[0], moment(quorum[1]) if quorum[1] else None
    for one in sorted(seen.reported, key=_key):
        if gone.get((one.cluster, one.broker_id), -1) < one.reported_to:
            source = Source(one.source_id, one.broker_id, moment(one.reported_to), one.level, one.holds_s)
            found[one.cluster].sources.append(source)
    for cluster, ts in seen.closed.items():
        found[cluster].closed = moment(ts)
    for cluster, (_, ahead) in clocks_ahead(seen).items():
        found[cluster].ahead = ahead
    return defaultdict(Reports, {name: found[name] for name in clusters})


def _broker_rows(lake: Lake) -> list[Row]:
    """The brokers as `run` has them, in the order of clusters; columns that a lake of before lacks are null."""
    return select_rows(lake, brokers.TABLE, f"SELECT {', '.join(STATES)} FROM t ORDER BY cluster, broker_id")
