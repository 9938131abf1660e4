"""What happened in a period, in order of time: what came of one cause within a second is one line."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from pipelines.lake.lake import Lake
from pipelines.lake.queries import VIEWS, Filter, Row, View, query
from pipelines.verdict import words
from pipelines.verdict.losses import NOT_EXCLUDED, how
from schemas import alerts, hw_regressions, isr_changes, partition_hw, replica_sync, replication_events, telemetry_gaps
from schemas.declaration import Table

_PLACE = "concat(topic, '-', partition)"
_SECOND = "date_trunc('second', ts)"


@dataclass(frozen=True)
class Happening:
    """One line of a timeline: `weight` is critical, warning or info, `partitions` how many it concerns (0: none)."""

    ts: datetime
    cluster: str
    kind: str
    weight: str
    text: str
    partitions: int = 0
    examples: tuple[str, ...] = ()


Rows = Callable[[Filter], str]
"""The SQL for the rows of a filter."""


def _of(name: str) -> Rows:
    """Rows of a view: the latest revision of each."""
    return VIEWS[name].select


def _all(table: Table) -> Rows:
    return View(table, "ts", "").select


def _broker_states(wanted: Filter) -> str:
    """A controller that restarts repeats old states with new times: the earliest time of one counts."""
    anew = "CASE WHEN broker_epoch IS NULL THEN ts END"
    states = (
        f"SELECT cluster, replica_id, detail, min(ts) AS ts FROM t WHERE {Filter(wanted.cluster).where(_EVENTS)} AND "
        f"event_type = 'broker_state' AND detail IS NOT NULL GROUP BY cluster, replica_id, detail, broker_epoch, {anew}"
    )
    return f"SELECT * FROM ({states}) WHERE {replace(wanted, cluster=None).where(_EVENTS)}"


_EVENTS = View(replication_events.TABLE, "ts", "")


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

    def sql(self, wanted: Filter, limit: int) -> str:
        """The groups in order of time, at most `limit` of them, and how many there are."""
        if self.wide:
            wanted = replace(wanted, topic=None, partition=None)
        rows = f"SELECT * FROM ({self.rows(wanted)}) WHERE {self.only}"
        values = (
            f"count(DISTINCT {self.place}) AS partitions, min(ts) AS first{self.sums}, "
            f"array_slice(array_agg(DISTINCT {self.place} ORDER BY {self.place}), 1, {words.NAMED}) AS examples"
        )
        groups = (
            f"SELECT cluster, {self.keys}, {_SECOND} AS at, {values} FROM ({rows}) GROUP BY cluster, at, {self.keys}"
        )
        return f"SELECT *, count(*) OVER () AS matching FROM ({groups}) ORDER BY first LIMIT {limit}"


@dataclass(frozen=True)
class Timeline:
    """Lines in order of time, and how many are left out."""

    lines: tuple[Happening, ...]
    left_out: int = 0


def timeline(lake: Lake, wanted: Filter, limit: int, kinds: Sequence[Kind] | None = None) -> Timeline:
    """What happened where and when it is wanted; of each kind at most `limit` lines, the earliest."""
    lines: list[Happening] = []
    left_out = 0
    for kind in KINDS if kinds is None else kinds:
        table = lake.find(kind.table)
        found = query(table, kind.sql(wanted, limit)) if table else []
        lines += [_line(kind, row) for row in found]
        left_out += found[0]["matching"] - len(found) if found else 0
    lines += _alerts(lake, wanted)
    return Timeline(tuple(sorted(lines, key=lambda line: (line.ts, line.kind, line.text))), left_out)


def _line(kind: Kind, row: Row) -> Happening:
    examples = tuple(example for example in row["examples"] or () if example)
    return Happening(
        row["first"], row["cluster"], kind.name, kind.weigh(row), kind.sentence(row), row["partitions"], examples
    )


def _alerts(lake: Lake, wanted: Filter) -> Iterator[Happening]:
    """When alerts began; their labels name partitions, so an alert counts as one line."""
    table = lake.find(alerts.TABLE)
    if table is None:
        return
    view = VIEWS["alerts"]
    for row in query(table, f"SELECT * FROM ({view.select(wanted)}) ORDER BY first_ts"):
        labels = dict(row["labels"] or ())
        text = f"alert {row['rule']} ({row['alert_id']}), now {row['state']}: {row['summary']}"
        yield Happening(row["first_ts"], labels.get("cluster", ""), "alert", row["severity"], text)


def _isr(row: Row) -> str:
    removed, added, cause = row["removed"], row["added"], row["cause"].replace("_", " ")
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


def _broker(row: Row) -> str:
    return f"{words.brokers((row['replica_id'],))}: {row['detail'].replace('_', ' ')}"


def _broker_weight(row: Row) -> str:
    return "warning" if row["detail"] in ("fenced", "unregistered", "log_dir_offline") else "info"


_SERIOUS = f"severity <> 'info' OR class = '{NOT_EXCLUDED}'"
_LOST = ", sum(lost_records) AS lost_records"
_OUT_OR_BACK = "state = 'out_of_sync' OR (state = 'in_sync' AND previous_state = 'out_of_sync')"
_NOWHERE = "CAST(NULL AS string)"

SILVER = (
    Kind("ISR", isr_changes.TABLE, _of("isr"), "change, cause, removed, added, under_min_isr", _isr, _isr_weight),
    Kind("loss", hw_regressions.TABLE, _of("regressions"), "class, severity, proof, leader_id, leader_id_before", _fall,
         _fall_weight, _SERIOUS, _LOST),
    Kind("term", partition_hw.TABLE, _all(partition_hw.TABLE), "leader_id", _term, lambda _: "info",
         "kind = 'term_start'"),
    Kind("HW", partition_hw.TABLE, _all(partition_hw.TABLE), "kind", _frozen,
         lambda row: "warning" if row["kind"] == "freeze" else "info", "kind IN ('freeze', 'thaw')"),
    Kind("sync", replica_sync.TABLE, _all(replica_sync.TABLE), "replica_id, state, reason", _sync,
         lambda row: "warning" if row["state"] == "out_of_sync" else "info", _OUT_OR_BACK),
    Kind("telemetry", telemetry_gaps.TABLE, _all(telemetry_gaps.TABLE), "source_id, kind, detail", _gap,
         lambda _: "warning", wide=True, place=f"CASE WHEN topic IS NOT NULL THEN {_PLACE} END"),
)  # fmt: skip
"""Kinds of lines that silver has: what the page shows."""
BROKERS = Kind("broker", replication_events.TABLE, _broker_states, "replica_id, detail", _broker, _broker_weight,
               wide=True, place=_NOWHERE)  # fmt: skip
KINDS = (*SILVER, BROKERS)
