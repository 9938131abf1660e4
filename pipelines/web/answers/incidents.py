"""Incidents that are open, alerts that fire and are in none of them, and losses that neither tells."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from pipelines.alerting.incident_title import gravest
from pipelines.alerting.incidents import LOSSES
from pipelines.alerting.state import AlertState, from_row
from pipelines.lake.queries import VIEWS, Row, text
from pipelines.notify.notice import command
from pipelines.verdict import sentences
from pipelines.verdict.words import count
from pipelines.web.answers.common import rows, surveyed
from pipelines.web.asked import Asked
from pipelines.web.snapshot import Reader
from schemas import alerts, hw_regressions, incidents

FEW = 10
"""So many are shown of each kind."""
LOOKED_AT = 1000
"""So many losses are compared with what alerts tell."""


@dataclass(frozen=True)
class Incident:
    """An incident, an alert or a loss (`kind`): its title, since when, what it is about, and what to type next.

    `alert_id` is the gravest alert of an incident; `planned` says that a downtime explains all of it.
    """

    kind: str
    severity: str
    ts: datetime
    text: str
    cluster: str
    alert_id: str | None = None
    topic: str | None = None
    partition: int | None = None
    planned: bool = False
    affected: str = ""
    sentences: Sequence[str] = ()
    command: str = ""


@dataclass(frozen=True)
class Open:
    """The incidents that are shown, how many more there are, and the one that ended last."""

    shown: Sequence[Incident]
    more: int
    last: Row | None


def open_incidents(reader: Reader, asked: Asked) -> Open:
    """Incidents and alerts of the cluster asked for, then the losses within the time asked for that none of them is."""
    wanted = replace(asked.wanted, topic=None, partition=None)
    told = rows(reader, incidents.TABLE, f"SELECT * FROM ({VIEWS['incidents'].select(wanted)}) ORDER BY last_ts DESC")
    opened = [row for row in told if row["state"] != "ended"]
    last = next((row for row in told if row["state"] == "ended"), None)
    place = f"labels['cluster'] = {text(asked.cluster)}" if asked.cluster is not None else "true"
    latest = VIEWS["alerts"].select(replace(wanted, cluster=None))
    grouped = {name for row in opened for name in row["alert_ids"]}
    ids = ", ".join(map(text, sorted(grouped))) or "''"
    among = f"(state = 'firing' OR alert_id IN ({ids}))"
    asking = f"SELECT * FROM ({latest}) WHERE {place} AND {among} ORDER BY last_ts DESC"
    every = [from_row(row) for row in rows(reader, alerts.TABLE, asking)]
    firing = [one for one in every if one.firing]
    alone = [one for one in firing if one.alert_id not in grouped]
    told_of = {
        (one.labels.get("cluster", ""), name): one.first_ts
        for one in sorted(firing, key=lambda one: one.first_ts, reverse=True)
        if one.rule in LOSSES
        for name in one.names
    }
    lost, more_lost = _losses(reader, asked, told_of)
    found = [
        *(_incident(row, every, reader) for row in opened[:FEW]),
        *(_alert(one, reader) for one in alone[:FEW]),
        *map(_loss, lost),
    ]
    more = max(0, len(opened) - FEW) + max(0, len(alone) - FEW) + more_lost
    return Open(found, more, last)


def _losses(reader: Reader, asked: Asked, told: Mapping[tuple[str, str], datetime]) -> tuple[list[Row], int]:
    """The gravest losses that are not `told`, by (cluster, partition) since when, and how many more there are."""
    view = VIEWS["serious"]
    lost = f"SELECT *, count(*) OVER () AS matching FROM ({view.select(surveyed(reader, asked).wanted)})"
    found = rows(reader, hw_regressions.TABLE, f"{lost} ORDER BY {view.first}, topic, partition LIMIT {LOOKED_AT}")

    def is_told(row: Row) -> bool:
        since = told.get((row["cluster"], f"{row['topic']}-{row['partition']}"))
        return since is not None and row["ts"] >= since

    new = [row for row in found if not is_told(row)]
    untold = found[0]["matching"] - (len(found) - len(new)) if found else 0
    return new[:FEW], untold - len(new[:FEW])


def _incident(row: Row, every: Iterable[AlertState], reader: Reader) -> Incident:
    of = sorted((one for one in every if one.alert_id in row["alert_ids"]), key=lambda one: not one.firing)
    head = gravest([one for one in of if one.firing] or of) if of else None
    return Incident(
        "incident",
        row["severity"],
        row["first_ts"],
        row["summary"],
        row["cluster"],
        head.alert_id if head else None,
        planned=row["state"] == "planned",
        affected=_extent(row),
        sentences=[one.summary for one in of if one.firing],
        command=command(head, reader.lake.root) if head else "",
    )


def _extent(row: Row) -> str:
    """`3 partitions of clicks; read by billing`, as far as it is known; empty where it is about no partition."""
    if not row["partitions"]:
        return ""
    topics = row["topics"][0] if len(row["topics"]) == 1 else count(len(row["topics"]), "topic")
    groups = f"; read by {', '.join(row['groups'])}" if row["groups"] else ""
    return f"{count(len(row['partitions']), 'partition')} of {topics}{groups}"


def _alert(one: AlertState, reader: Reader) -> Incident:
    cluster, first = one.labels.get("cluster", ""), command(one, reader.lake.root)
    return Incident("alert", one.severity, one.first_ts, one.summary, cluster, one.alert_id, command=first)


def _loss(row: Row) -> Incident:
    said = sentences.regression(row)
    return Incident("loss", row["severity"], row["ts"], said, row["cluster"], None, row["topic"], row["partition"])
