"""Incidents as cards: those that are open, alerts that are in none, and losses that neither tells."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from pipelines.alerting.incident_title import LONGEST, cut, gravest, title
from pipelines.alerting.incidents import LOSSES, standing
from pipelines.alerting.owners import owners_of
from pipelines.alerting.rule import SEVERITIES
from pipelines.alerting.state import AlertState, from_row
from pipelines.lake.queries import VIEWS, Row, instant, text
from pipelines.notify.notice import command
from pipelines.streaming.reconstruction import EVALUATED
from pipelines.verdict import State, sentences
from pipelines.verdict.known import refuse_unknown
from pipelines.verdict.words import brokers, listed
from pipelines.web.answers.common import Sentence, page, pages, rows, sentences_of, surveyed, timed, verdicts
from pipelines.web.asked import Asked
from pipelines.web.runbook import steps
from pipelines.web.snapshot import Reader, reading
from schemas import alerts, hw_regressions, incidents

FEW = 10
"""So many are shown of each kind."""
NAMED = 3
"""The most partitions that a card names."""
LOOKED_AT = 1000
"""So many losses are compared with what alerts tell."""
_STATES = {
    "loss": State.LOST, "unproven_loss": State.LOSS_NOT_EXCLUDED, "loss_not_excluded": State.LOSS_NOT_EXCLUDED,
    "offline": State.OFFLINE, "under_min_isr": State.UNDER_MIN_ISR, "at_risk": State.AT_RISK,
    "out_of_sync": State.AT_RISK, "no_controller": State.AT_RISK, "quorum_no_spare": State.AT_RISK,
    "watcher_cut_off": State.NOT_JUDGED, "job_behind": State.NOT_JUDGED,
}  # fmt: skip
"""The state that an alert rule tells; those of the others are about telemetry: UNKNOWN."""
_STANDS = {
    "loss": "lost offsets", "unproven_loss": "may have lost offsets", "loss_not_excluded": "may have lost offsets",
    "offline": "offline", "under_min_isr": "under min ISR", "at_risk": "at risk", "out_of_sync": "out of sync",
}  # fmt: skip
"""What an alert rule says of each partition that it names."""
_SEARCHED = "lower(concat_ws(' ', incident_id, severity, state, cause, subject, summary))"


@dataclass(frozen=True)
class Card:
    """An incident, an alert or a loss (`kind`): its title, since when, whom it affects, and what to do next.

    `alert_id` is the gravest alert of an incident; `planned` says that a downtime explains all of it; `groups` None:
    nobody asked. `until`: the time of its end, None while it is open; `stands`: how often it returned.
    """

    kind: str
    severity: str
    ts: datetime
    text: str
    cluster: str
    state: str = State.UNKNOWN.value
    rule: str = ""
    until: datetime | None = None
    alert_id: str | None = None
    incident_id: str | None = None
    topic: str | None = None
    partition: int | None = None
    planned: bool = False
    stands: str = ""
    cause: str = ""
    affected: str = ""
    owners: str = ""
    groups: Sequence[str] | None = None
    readers: Mapping[str, str] | None = None
    brokers: Sequence[int] = ()
    next: str = ""
    sentences: Sequence[str] = ()
    command: str = ""


@dataclass(frozen=True)
class Open:
    """The cards that are shown, how many more there are, and the incidents that ended within the last day."""

    shown: Sequence[Card]
    more: int
    ended: int
    last: Card | None
    evaluated: bool


@dataclass(frozen=True)
class Incidents:
    """A page of incidents, the open ones first; `evaluated`: whether alerts ever were."""

    verdict: Sequence[Sentence]
    shown: Sequence[Card]
    open: int
    matching: int
    page: int
    pages: int
    evaluated: bool


def is_evaluated(reader: Reader) -> bool:
    """Whether alerts were ever evaluated; while none fires, that makes no table."""
    with reading(reader.lake.root):
        return reader.snapshot().has_table(alerts.TABLE) or bool(reader.lake.files().get_file_info(EVALUATED).is_file)


def incident_rows(reader: Reader, asked: Asked, found: str = "true") -> list[Row]:
    """Incidents of the cluster asked for as they were at the end of the time asked for, the last one first."""
    view, until = VIEWS["incidents"], asked.until_ts
    where = "true" if asked.cluster is None else f"cluster IN ({text(asked.cluster)}, '')"
    where += f" AND written_at <= {instant(until)}" if until else ""
    latest = f"SELECT * FROM t WHERE {where} QUALIFY row_number() OVER ({view.latest}) = 1"
    return rows(reader, incidents.TABLE, f"SELECT * FROM ({latest}) WHERE {found} ORDER BY {view.first}, incident_id")


def alert_states(reader: Reader, asked: Asked, ids: Iterable[str]) -> list[AlertState]:
    """The latest states of alerts that fire, and of those with these ids."""
    place = f"labels['cluster'] = {text(asked.cluster)}" if asked.cluster is not None else "true"
    latest = VIEWS["alerts"].select(replace(asked.wanted, cluster=None, topic=None, partition=None))
    named = ", ".join(map(text, sorted(ids))) or "''"
    among = f"(({place} AND state = 'firing') OR alert_id IN ({named}))"
    sql = f"SELECT * FROM ({latest}) WHERE {among} ORDER BY last_ts DESC, alert_id"
    return [from_row(row) for row in rows(reader, alerts.TABLE, sql)]


def incident_list(reader: Reader, asked: Asked) -> Incidents:
    """The view at this moment."""
    said = sentences_of(verdicts(reader, asked))
    matches = f"strpos({_SEARCHED}, {text(asked.q.lower())}) > 0" if asked.q else "true"
    with timed(asked, "incidents"):
        found = incident_rows(reader, asked, matches)
        open_ones = [row for row in found if row["state"] != "ended"]
        every = alert_states(reader, asked, {name for row in found for name in row["alert_ids"]})
        grouped = {name for row in open_ones for name in row["alert_ids"]}
        alone = [one for one in every if one.firing and one.alert_id not in grouped and not asked.until]
        alone = [one for one in alone if asked.q.lower() in f"{one.alert_id} {one.rule} {one.summary}".lower()]
    if not found and asked.cluster is not None:
        refuse_unknown(reader.snapshot(), replace(asked.wanted, topic=None, partition=None))
    cards = [*(incident_card(row, every, reader) for row in open_ones), *(alert_card(one, reader) for one in alone)]
    cards.sort(key=_weight)
    opened = len(cards)
    cards += [incident_card(row, every, reader) for row in found if row["state"] == "ended"]
    total = len(cards)
    return Incidents(said, page(asked, cards), opened, total, asked.page, pages(asked, total), is_evaluated(reader))


def open_incidents(reader: Reader, asked: Asked) -> Open:
    """Incidents and alerts of the cluster asked for, then the losses within the time asked for that none of them is."""
    told = incident_rows(reader, asked)
    opened, over = ([row for row in told if (row["state"] == "ended") is ended] for ended in (False, True))
    grouped = {name for row in opened for name in row["alert_ids"]}
    every = alert_states(reader, asked, grouped)
    firing = [] if asked.until else [one for one in every if one.firing]
    alone = [one for one in firing if one.alert_id not in grouped]
    told_of = {
        (one.labels.get("cluster", ""), name): one.first_ts
        for one in sorted(firing, key=lambda one: one.first_ts, reverse=True)
        if one.rule in LOSSES
        for name in one.names
    }
    lost, more_lost = _losses(reader, asked, told_of)
    cards = [incident_card(row, every, reader) for row in opened], [alert_card(one, reader) for one in alone]
    found = [card for kind in (*cards, list(map(_loss, lost))) for card in sorted(kind, key=_weight)[:FEW]]
    more = max(0, len(opened) - FEW) + max(0, len(alone) - FEW) + more_lost
    to = (record.judged_to for record in surveyed(reader, asked).records if record.judged_to)
    present = asked.until_ts or max(to, default=None)
    recent = [row for row in over if present is None or (present - row["last_ts"]).days < 1]
    last = incident_card(over[0], every, reader) if over else None
    return Open(found, more, len(recent), last, is_evaluated(reader))


def _weight(card: Card) -> tuple[int, int, datetime]:
    """The order of cards: the gravest first, then what of it is worst, then what is so for longest."""
    return -SEVERITIES.index(card.severity), State(card.state).rank, card.ts


def _losses(reader: Reader, asked: Asked, told: Mapping[tuple[str, str], datetime]) -> tuple[list[Row], int]:
    """The gravest losses that are not `told`, by (cluster, partition) since when, and how many more there are."""
    view, wanted = VIEWS["serious"], replace(surveyed(reader, asked).wanted, until=asked.until_ts)
    lost = f"SELECT *, count(*) OVER () AS matching FROM ({view.select(wanted)})"
    found = rows(reader, hw_regressions.TABLE, f"{lost} ORDER BY {view.first}, topic, partition LIMIT {LOOKED_AT}")

    def is_told(row: Row) -> bool:
        since = told.get((row["cluster"], f"{row['topic']}-{row['partition']}"))
        return since is not None and row["ts"] >= since

    new = [row for row in found if not is_told(row)]
    untold = found[0]["matching"] - (len(found) - len(new)) if found else 0
    return new[:FEW], untold - len(new[:FEW])


def incident_card(row: Row, every: Iterable[AlertState], reader: Reader) -> Card:
    """An incident as a card; `every`: alerts, its own among them."""
    of = sorted((one for one in every if one.alert_id in row["alert_ids"]), key=lambda one: not one.firing)
    head = gravest([one for one in of if one.firing] or of) if of else None
    first = next((one for one in of if one.alert_id == row["alert_ids"][0]), head)
    rule = head.rule if head else row["cause"]
    return Card(
        "incident", row["severity"], row["first_ts"], row["summary"], row["cluster"], state_of(rule), rule,
        until=row["last_ts"] if row["state"] == "ended" else None, alert_id=head.alert_id if head else None,
        incident_id=row["incident_id"], planned=row["state"] == "planned",
        stands=standing(row["returns"], row["first_ts"], row["planned_until"]), cause=_cause(first) if first else "",
        affected=_extent(row, of), owners=owner_names(row["topics"], reader), groups=row["groups"],
        readers=row.get("readers") or None,
        brokers=row["brokers"], next=next_step(rule, row["brokers"]),
        command=command(head, reader.lake.root) if head else "", sentences=[one.summary for one in of if one.firing],
    )  # fmt: skip


def open_cards(told: Iterable[Row], reader: Reader) -> list[Card]:
    """The open ones of these incidents as cards, without what only their alerts tell."""
    return [incident_card(row, (), reader) for row in told if row["state"] != "ended"]


def _cause(one: AlertState) -> str:
    """The sentence of an alert without cluster and state, which are shown beside it."""
    return one.summary.removeprefix(f"{one.labels.get('cluster', '')}: ").removeprefix(f"{state_of(one.rule)}: ")


def state_of(rule: str) -> str:
    """The state that an alert rule tells."""
    return _STATES.get(rule, State.UNKNOWN).value


def next_step(rule: str, named: Sequence[int] = ()) -> str:
    """The first step of a rule's runbook, in short, with the brokers that it is about."""
    first = re.split(r"[.:] ", next(iter(steps(rule).safe), ""))[0].rstrip(".")
    return first.replace("the brokers that are named", brokers(named)) if named else first


def owner_names(topics: Iterable[str], reader: Reader) -> str:
    """The owners of topics; empty if they have none."""
    return listed([str(one) for one in owners_of(topics, reader.owners)])


def _extent(row: Row, every: Sequence[AlertState]) -> str:
    """`1 partition offline, 69 at risk; topics audit, clicks`: as its alerts count them, those that fire if any do."""
    of = [one for one in every if "partitions" in one.labels]
    by_rule = dict[str, list[AlertState]]()
    for one in sorted([one for one in of if one.firing] or of, key=lambda one: [*_STATES, one.rule].index(one.rule)):
        by_rule.setdefault(_STANDS.get(one.rule, "concerned"), []).append(one)
    said = [f"{_number(alerts)} {words}{_named(alerts)}" for words, alerts in by_rule.items()]
    said = said or ([str(len(row["partitions"]))] if row["partitions"] else [])
    if not said:
        return ""
    first, _, words = said[0].partition(" ")
    thing = "partition" if first == "1" else "partitions"
    topics = f"topic{'s' * (len(row['topics']) > 1)} {listed([*map(cut, row['topics'])])}"
    return f"{', '.join([f'{first} {thing} {words}'.strip(), *said[1:]])}; {topics}"


def _named(alerts: Sequence[AlertState]) -> str:
    """` (audit-1)` if there are so few partitions that all are named."""
    names = sorted({name for one in alerts for name in one.names})
    return f" ({', '.join(map(cut, names))})" if 0 < len(names) <= NAMED and _number(alerts) == f"{len(names)}" else ""


def _number(alerts: Sequence[AlertState]) -> str:
    """The number of partitions of alerts that say the same of them, which may share some that they do not name."""
    names = {name for one in alerts for name in one.names}
    most = max(one.size[0] or len(one.names) for one in alerts)
    return f"{most:,}" if len(alerts) == 1 or most > len(names) else f"{len(names):,}"


def alert_card(one: AlertState, reader: Reader) -> Card:
    """An alert that is in no incident as a card."""
    topics = {name.rpartition("-")[0] for name in one.names if "partitions" in one.labels}
    cluster = one.labels.get("cluster", "")
    return Card(
        "alert", one.severity, one.first_ts, title(cluster, [one]), cluster, state_of(one.rule), one.rule,
        until=None if one.firing else one.last_ts, alert_id=one.alert_id, cause=_cause(one),
        owners=owner_names(topics, reader),
        next=next_step(one.rule), command=command(one, reader.lake.root),
    )  # fmt: skip


def _loss(row: Row) -> Card:
    rule = "loss" if row["severity"] == "critical" else "unproven_loss"
    said = sentences.regression(row)
    return Card(
        "loss", row["severity"], row["ts"], cut(said.split(", ")[0], LONGEST), row["cluster"], state_of(rule), rule,
        cause=said,
        topic=row["topic"], partition=row["partition"], next=next_step(rule),
    )  # fmt: skip
