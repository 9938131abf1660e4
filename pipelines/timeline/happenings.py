"""The events of a period in order of time; those of one cause, moment after moment, are one line."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from pipelines.lake.lake import Lake
from pipelines.lake.queries import VIEWS, Filter, Row, View, select_rows, text
from pipelines.timeline.line import Happening
from pipelines.timeline.said import said
from pipelines.timeline.stored import last_write, stored_lines, unwritten
from pipelines.verdict import words
from pipelines.verdict.losses import NOT_EXCLUDED, how
from schemas import (
    hw_regressions,
    isr_changes,
    partition_health,
    partition_hw,
    replica_sync,
    replication_events,
    telemetry_gaps,
)
from schemas.declaration import Table
from schemas.event_types import FIRST_ROUND, POSITION, TOPIC_DELETED, TOPIC_GONE
from schemas.replication_events import WATCHER

_PLACE = "concat(topic, '-', partition)"
CREATED_WITHIN_S = 10
"""Seconds after the begin of a topic; partitions that begin later were added to it."""
APART_S = 1
"""Rows of one cause and minute less than so many seconds apart are one line: minutes are written by themselves."""


Rows = Callable[[Filter], str]
"""The SQL for the rows of a filter."""


def _of(name: str) -> Rows:
    """Rows of a view: the latest revision of each."""
    return VIEWS[name].select


def _all(table: Table) -> Rows:
    return View(table, "ts", "").select


def _of_present_leaders(wanted: Filter) -> str:
    """Changes of replicas as the leader of that time told them: one that wakes in its old epoch knows no better."""
    newest = "max(leader_epoch) OVER (PARTITION BY cluster, topic, topic_id, partition ORDER BY ts) AS newest"
    rows = f"SELECT *, {newest} FROM ({VIEWS['sync'].select(wanted)})"
    return f"SELECT * FROM ({rows}) WHERE coalesce(leader_epoch >= newest, true)"


@dataclass(frozen=True)
class Kind:
    """One kind of line: its rows in SQL, by what they are grouped, and the words for a group.

    `wide`: its rows concern a cluster, whatever of it is wanted; `place` is SQL for the partition of a row, or null.
    """

    name: str
    table: Table
    rows: Rows
    keys: str
    sentence: Callable[[Row], str]
    weigh: Callable[[Row], str]
    only: str = "true"
    sums: str = ""
    wide: bool = False
    place: str = _PLACE
    about: str = ""
    """SQL: whether a row is about the broker `{broker}`; empty: none of this kind is about a broker."""

    def sql(self, wanted: Filter, limit: int, broker: int | None = None, *, newest: bool = False) -> str:
        """The groups in order of time, or the newest first, at most `limit` of them, and how many there are."""
        if self.wide:
            wanted = replace(wanted, topic=None, partition=None)
        asked = "true" if broker is None else self.about.format(broker=broker)
        rows = f"SELECT * FROM ({self.rows(wanted)}) WHERE ({self.only}) AND ({asked})"
        series = f"PARTITION BY cluster, {self.keys} ORDER BY ts"
        near = f"ts < lag(ts) OVER ({series}) + INTERVAL '{APART_S} seconds'"
        same = f"date_trunc('minute', ts) = date_trunc('minute', lag(ts) OVER ({series}))"
        begins = f"CASE WHEN {near} AND {same} THEN 0 ELSE 1 END"
        marked = f"SELECT *, {begins} AS begins FROM ({rows})"
        bursts = f"SELECT *, sum(begins) OVER ({series} ROWS UNBOUNDED PRECEDING) AS burst FROM ({marked})"
        values = (
            f"count(DISTINCT {self.place}) AS partitions, min(ts) AS first, max(ts) AS last{self.sums}, "
            f"array_slice(array_agg(DISTINCT {self.place} ORDER BY {self.place}), 1, {words.NAMED}) AS examples"
        )
        groups = f"SELECT cluster, {self.keys}, burst, {values} FROM ({bursts}) GROUP BY cluster, burst, {self.keys}"
        order = "first DESC" if newest else "first"
        return f"SELECT *, count(*) OVER () AS matching FROM ({groups}) ORDER BY {order} LIMIT {limit}"


@dataclass(frozen=True)
class Timeline:
    """Lines in order of time, and how many are left out."""

    lines: tuple[Happening, ...]
    left_out: int = 0


def timeline(
    lake: Lake,
    wanted: Filter,
    limit: int,
    kinds: Sequence[Kind] | None = None,
    broker: int | None = None,
    *,
    newest: bool = False,
) -> Timeline:
    """The events that match, about one broker if one is given: the earliest `limit` lines of each kind, or the `newest`
    `limit` of all kinds together."""
    asked = KINDS if kinds is None else kinds
    lines, rest = _stored(lake, wanted, asked) if broker is None and wanted.topic is None else ([], wanted)
    left_out = 0
    for kind in asked:
        if broker is not None and not kind.about:
            continue
        found, matching = event_lines(lake, kind, rest, limit, broker, newest=newest)
        lines += found
        left_out += matching - len(found)
    lines += said(lake, wanted, broker)
    lines.sort(key=lambda line: (line.ts, line.kind, line.summary))
    kept = lines[-limit:] if newest else lines
    return Timeline(tuple(kept), left_out + len(lines) - len(kept))


def event_lines(
    lake: Lake, kind: Kind, wanted: Filter, limit: int, broker: int | None = None, *, newest: bool = False
) -> tuple[list[Happening], int]:
    """At most `limit` lines of one kind, and how many there are."""
    found = select_rows(lake, kind.table, kind.sql(wanted, limit, broker, newest=newest))
    return [_line(kind, row) for row in found], found[0]["matching"] if found else 0


def _stored(lake: Lake, wanted: Filter, kinds: Sequence[Kind]) -> tuple[list[Happening], Filter]:
    """The lines that `gold/timeline` has of what is wanted, and what is still to be read."""
    if (before := last_write(lake)) is None:
        return [], wanted
    _, begins = unwritten(lake, SOURCES, before)
    lines = stored_lines(lake, wanted, {kind.name for kind in kinds}, begins)
    if lines is None:
        return [], wanted
    since = wanted.since
    firsts = dict.fromkeys(begins, since) if isinstance(since, datetime) else since or {}
    return lines, replace(wanted, since={name: max(at, firsts.get(name, at)) for name, at in begins.items()})


def _line(kind: Kind, row: Row) -> Happening:
    examples = tuple(example for example in row["examples"] or () if example)
    members = [*(row.get("removed") or ()), *(row.get("added") or ())]
    broker = row.get("replica_id", row.get("leader_id")) if "removed" not in row else None
    return Happening(
        row["first"], row["cluster"], kind.name, kind.weigh(row), kind.sentence(row), row["partitions"], examples,
        row["last"], members[0] if len(members) == 1 else broker,
    )  # fmt: skip


def _isr(row: Row) -> str:
    removed, added, cause = row["removed"], row["added"], words.isr_cause(row["cause"])
    if row["change"] == "retracted":
        return "an ISR change is retracted: it was never committed"
    left = f"{words.brokers(removed)} left the ISR" if removed else ""
    came = f"{words.brokers(added)} joined the ISR" if added else ""
    return f"{', '.join(filter(None, (left, came)))} ({cause})"


def _isr_weight(row: Row) -> str:
    return "warning" if row["removed"] or row["under_min_isr"] else "info"


def _fall(row: Row) -> str:
    who = how(row["class"], row["leader_id"], row["leader_id_before"])
    if row["class"] == NOT_EXCLUDED:
        return f"{who}: a loss is not excluded"
    lost = "offsets below an earlier HW" if row["lost_records"] is None else words.count(row["lost_records"], "offset")
    proof = "" if row["proof"] == "proven" else f", {row['proof']}"
    return f"{lost} {'lost' if row['severity'] == 'critical' else 'may be lost'}{proof}: {who}"


def _fall_weight(row: Row) -> str:
    return "warning" if row["class"] == NOT_EXCLUDED else str(row["severity"])


def _term(row: Row) -> str:
    return f"{words.brokers((row['leader_id'],))} began leading"


def _frozen(row: Row) -> str:
    return "the HW stands: under min ISR" if row["kind"] == "freeze" else "the HW may advance again"


def _sync(row: Row) -> str:
    replica = words.brokers((row["replica_id"],))
    said = {"out_of_sync": "out of sync", "in_sync": "in sync again"}[row["state"]]
    return f"{replica} {said}" + (f" ({row['reason'].replace('_', ' ')})" if row["reason"] else "")


def _gap(row: Row) -> str:
    detail = f": {row['detail']}" if row["detail"] else ""
    return f"telemetry of {row['source_id']}, {row['kind']}{detail}"


_SERIOUS = f"severity <> 'info' OR class = '{NOT_EXCLUDED}'"
_LOST = ", sum(lost_records) AS lost_records"
_OUT_OR_BACK = "state = 'out_of_sync' OR (state = 'in_sync' AND previous_state = 'out_of_sync')"

_LEADS = "leader_id = {broker}"
_FOLLOWS = "replica_id = {broker}"

SILVER = (
    Kind("ISR", isr_changes.TABLE, _of("isr"), "change, cause, removed, added, under_min_isr", _isr, _isr_weight,
         about="array_has(removed, {broker}) OR array_has(added, {broker})"),
    Kind("loss", hw_regressions.TABLE, _of("regressions"), "class, severity, proof, leader_id, leader_id_before", _fall,
         _fall_weight, _SERIOUS, _LOST, about=f"{_LEADS} OR leader_id_before = {{broker}}"),
    Kind("term", partition_hw.TABLE, _all(partition_hw.TABLE), "leader_id", _term, lambda _: "info",
         "kind = 'term_start'", about=_LEADS),
    Kind("HW", partition_hw.TABLE, _all(partition_hw.TABLE), "kind", _frozen,
         lambda row: "warning" if row["kind"] == "freeze" else "info", "kind IN ('freeze', 'thaw')", about=_LEADS),
    Kind("sync", replica_sync.TABLE, _of_present_leaders, "replica_id, state, reason", _sync,
         lambda row: "warning" if row["state"] == "out_of_sync" else "info", _OUT_OR_BACK, about=_FOLLOWS),
    Kind("telemetry", telemetry_gaps.TABLE, _all(telemetry_gaps.TABLE), "source_id, kind, detail", _gap,
         lambda _: "warning", wide=True, place=f"CASE WHEN topic IS NOT NULL THEN {_PLACE} END",
         about="source_id LIKE '%broker-{broker}/%' OR source_id LIKE '%broker-{broker}'"),
    Kind("topic", hw_regressions.TABLE, _of("regressions"), "topic",
         lambda row: f"topic {row['topic']} was created anew", lambda _: "info", "class = 'topic_recreated'"),
)  # fmt: skip
"""Kinds of lines that silver has rows for; of a partition the page shows these, LEADERLESS and LED alone."""

# A controller that restarts repeats old states with new times: the earliest time of one counts. A watcher repeats what
# it sees each round, without an epoch: the first of the same word in a row counts, and what it found as it began is no
# change unless something was wrong then.
_STATES = """
WITH states AS (
  SELECT cluster, replica_id, detail, broker_epoch, min(ts) AS ts FROM t
  WHERE {cluster} AND event_type = 'broker_state' AND detail IS NOT NULL
  GROUP BY cluster, replica_id, detail, broker_epoch, CASE WHEN broker_epoch IS NULL THEN ts END
), told AS (
  SELECT *, CASE WHEN detail LIKE 'quorum%' THEN detail ELSE split_part(detail, ':', 1) END AS word,
    CASE WHEN detail LIKE 'quorum%' THEN 1 WHEN detail LIKE '%answer%' THEN 2 ELSE 3 END AS series FROM states
), changes AS (
  SELECT *, lag(word) OVER (PARTITION BY cluster, replica_id, series ORDER BY ts) AS before FROM told
)
SELECT * FROM changes WHERE {rest} AND (series = 3 OR word <> before
  OR (before IS NULL AND (word LIKE 'no_answer%' OR word LIKE 'quorum: no%')))
"""

# Each source tells its own settings: a change is one from what the same source told before.
_SETTINGS = """
WITH told AS (
  SELECT cluster, topic, replica_id, ts, regexp_replace(source_id, '/broker-[0-9]+$', '') AS source, {name} AS name,
    {value} AS value FROM t WHERE {cluster} AND event_type = 'config' AND {given}
), changes AS (
  SELECT *, lag(value) OVER (PARTITION BY cluster, topic, replica_id, name, source ORDER BY ts) AS before FROM told
)
SELECT * FROM changes WHERE {rest} AND value <> before
"""
_DELETIONS = """
WITH told AS (
  SELECT cluster, topic, min(ts) AS ts FROM t WHERE {cluster} AND event_type = 'config' AND detail = '{deleted}'
  AND committed
  GROUP BY cluster, topic, coalesce(topic_id, CAST(ts AS VARCHAR))
)
SELECT * FROM told WHERE {rest}
"""
# A topic begins with the first term of partition 0, and may get more partitions later. What a watcher finds in its
# first round was there before, and what has records as a broker prints its start, too.
_BEGUN = """
WITH told AS (
  SELECT cluster, topic, partition, ts, event_type, source_id, leader_epoch, leo,
    min(CASE WHEN event_type = 'progress' THEN ts END) OVER (PARTITION BY cluster, source_id) AS found,
    min(ts) OVER (PARTITION BY cluster, topic) AS begun,
    row_number() OVER (PARTITION BY cluster, topic, partition ORDER BY ts) AS nth
  FROM t WHERE {cluster} AND (event_type = 'leader' OR event_type = 'progress' AND starts_with(detail, '{first_round}'))
)
SELECT * FROM told WHERE event_type = 'leader' AND nth = 1 AND leader_epoch = 0 AND {which}
  AND CASE WHEN starts_with(source_id, '{watcher}') THEN ts > found ELSE leo = 0 END AND {rest}
"""
_ASSIGNED = """
WITH told AS (
  SELECT cluster, topic, partition, one['since'] AS ts, one['replicas'] AS ar FROM (
    SELECT cluster, topic, partition, unnest(assignments) AS one FROM t WHERE {place})
), changes AS (
  SELECT *, lag(ar) OVER (PARTITION BY cluster, topic, partition ORDER BY ts) AS before FROM told
)
SELECT * FROM changes WHERE before IS NOT NULL AND {rest}
"""
# Several sources tell the same election, at other times: the earliest of each epoch counts.
_LEADERLESS = """
WITH told AS (
  SELECT cluster, topic, partition, min(ts) AS ts FROM t
  WHERE {place} AND (event_type = 'election' OR event_type = 'isr' AND detail = 'metadata') AND leader_id < 0
  GROUP BY cluster, topic, partition, leader_epoch, CASE WHEN leader_epoch IS NULL THEN ts END
)
SELECT * FROM told WHERE {rest}
"""
# By metadata alone, as a watcher sees it: silver has the starts of terms that logs tell.
_LED = """
WITH told AS (
  SELECT cluster, topic, partition, ts, leader_id, leader_epoch, event_type,
    lag(leader_epoch) OVER (PARTITION BY cluster, topic, partition, event_type ORDER BY ts) AS before,
    max(CASE WHEN event_type = 'leader' AND NOT starts_with(source_id, '{watcher}') THEN 1 ELSE 0 END)
      OVER (PARTITION BY cluster, topic, partition) AS logged
  FROM t WHERE {place} AND (event_type = 'leader' OR event_type = 'isr' AND detail = 'metadata')
)
SELECT * FROM told WHERE event_type = 'isr' AND leader_epoch > before AND leader_id >= 0 AND logged = 0 AND {rest}
"""
_EVENTS = View(replication_events.TABLE, "ts", "")


def _ever(sql: str, wanted: Filter, **parts: str) -> str:
    """SQL over all events of a cluster, of which the wanted time is kept last: what was before says what changed."""
    cluster, rest = Filter(wanted.cluster), replace(wanted, cluster=None, topic=None, partition=None)
    return sql.format(cluster=cluster.where(_EVENTS), rest=rest.where(_EVENTS), **parts)


def _settings(name: str, value: str, given: str) -> Rows:
    def rows(wanted: Filter) -> str:
        topic = "" if wanted.topic is None else f" AND (topic IS NULL OR {Filter(topic=wanted.topic).where(_EVENTS)})"
        return _ever(_SETTINGS, wanted, name=name, value=f"CAST({value} AS VARCHAR)", given=given + topic)

    return rows


def _deletions(wanted: Filter) -> str:
    return _ever(_DELETIONS, wanted, deleted=TOPIC_DELETED) + f" AND {Filter(topic=wanted.topic).where(_EVENTS)}"


def _begun(which: str) -> Rows:
    def rows(wanted: Filter) -> str:
        begun = _ever(_BEGUN, wanted, watcher=WATCHER, first_round=FIRST_ROUND, which=which)
        return f"{begun} AND {Filter(topic=wanted.topic).where(_EVENTS)}"

    return rows


def _by_metadata(sql: str) -> Rows:
    def rows(wanted: Filter) -> str:
        place = replace(wanted, since=None, until=None)
        return sql.format(place=place.where(_EVENTS), rest=wanted.where(_EVENTS), watcher=WATCHER)

    return rows


def _reassignments(wanted: Filter) -> str:
    place = replace(wanted, since=None, until=None)
    return _ASSIGNED.format(place=place.where(VIEWS["health"]), rest=wanted.where(_EVENTS))


def _broker(row: Row) -> str:
    return f"{words.brokers((row['replica_id'],))}: {row['detail'].replace('_', ' ')}"


def _broker_weight(row: Row) -> str:
    bad = ("fenced", "unregistered", "log_dir_offline", "no_answer", "quorum: no")
    return "warning" if row["detail"].startswith(bad) else "info"


def _ids(replicas: Sequence[int]) -> str:
    return ", ".join(map(str, replicas))


def _setting(row: Row) -> str:
    whose = row["topic"] or ("the cluster" if row["replica_id"] is None else words.brokers((row["replica_id"],)))
    return f"{row['name']} of {whose}: {row['before']} to {row['value']}"


_OF_CONSUMER = f"coalesce(starts_with(detail, {text(POSITION)}), false)"
_NOWHERE = "CAST(NULL AS string)"
_TOLD = (
    ("'min.insync.replicas'", "min_isr", "min_isr IS NOT NULL"),
    ("'replica.lag.time.max.ms'", "lag_max_ms", "lag_max_ms IS NOT NULL"),
    ("split_part(detail, '=', 1)", "split_part(detail, '=', 2)", "regexp_like(detail, '^(rack|kafka|metadata)=')"),
)
"""What `config` events tell: its name and value in SQL, and which events have it."""

LEADERLESS = Kind(
    "term", replication_events.TABLE, _by_metadata(_LEADERLESS), "'nobody'", lambda _: "nobody leads",
    lambda _: "critical",
)  # fmt: skip
LED = Kind("term", replication_events.TABLE, _by_metadata(_LED), "leader_id", _term, lambda _: "info", about=_LEADS)
EVENTS = (
    Kind("broker", replication_events.TABLE, lambda wanted: _ever(_STATES, wanted), "replica_id, detail", _broker,
         _broker_weight, wide=True, place=_NOWHERE, about=_FOLLOWS),
    LEADERLESS,
    LED,
    *(Kind("config", replication_events.TABLE, _settings(*told), "name, topic, replica_id, before, value", _setting,
           lambda _: "info", place=_NOWHERE, about=_FOLLOWS) for told in _TOLD),
    Kind("truncation", replication_events.TABLE, _all(replication_events.TABLE), "replica_id",
         lambda row: f"{words.brokers((row['replica_id'],))} cut its log back", lambda _: "info",
         f"event_type = 'truncate' AND NOT {_OF_CONSUMER}", about=_FOLLOWS),
    Kind("truncation", replication_events.TABLE, _all(replication_events.TABLE), "topic",
         lambda _: "a consumer found that what it had read is gone", lambda _: "warning",
         f"event_type = 'truncate' AND {_OF_CONSUMER}"),
    Kind("topic", replication_events.TABLE, _begun("partition = 0"), "topic",
         lambda row: f"topic {row['topic']} was created", lambda _: "info", place=_NOWHERE),
    Kind("topic", replication_events.TABLE, _begun(f"ts > begun + INTERVAL '{CREATED_WITHIN_S} seconds'"), "topic",
         lambda row: f"topic {row['topic']} has more partitions", lambda _: "info"),
    Kind("reassignment", partition_health.TABLE, _reassignments, "before, ar",
         lambda row: f"replicas from {_ids(row['before'])} to {_ids(row['ar'])}", lambda _: "info",
         about="array_has(before, {broker}) <> array_has(ar, {broker})"),
    Kind("topic", replication_events.TABLE, _deletions, "topic", lambda row: f"topic {row['topic']} was deleted",
         lambda _: "info", place=_NOWHERE),
    Kind("topic", replication_events.TABLE, _all(replication_events.TABLE), "topic",
         lambda row: f"topic {row['topic']} is in the metadata no more", lambda _: "info",
         f"event_type = 'lost' AND topic IS NOT NULL AND starts_with(detail, {text(TOPIC_GONE)})"),
)  # fmt: skip
"""Kinds of lines that only bronze has, or the present state of partitions."""
KINDS = (*SILVER, *EVENTS)
SOURCES = tuple({kind.table.path: kind.table for kind in KINDS if kind.table is not partition_health.TABLE}.values())
"""The tables whose new rows make lines; the present of partitions follows from them."""
