"""One incident, or alert: how it came, whom it affects, what is known and not, what to do, and what was sent."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from pipelines.alerting.lookup import alert as stored
from pipelines.alerting.state import AlertState, from_row
from pipelines.charts.steps import step_path
from pipelines.errors import UsageError
from pipelines.lake.queries import VIEWS, Filter, Row, text
from pipelines.notify.sent import Sent, sent
from pipelines.timeline.happenings import KINDS, Timeline, timeline
from pipelines.timeline.line import Happening
from pipelines.verdict import State
from pipelines.verdict.known import UnknownNameError, refuse_unknown
from pipelines.verdict.loss_rows import Incident, incident
from pipelines.web.answers.common import Sentence, plain, rows, sentences_of, standings, surveyed, timed, verdicts
from pipelines.web.answers.incidents import (
    Card,
    alert_card,
    alert_states,
    incident_card,
    incident_rows,
    owner_names,
    state_of,
)
from pipelines.web.answers.last_hour import GOLD, MINUTE, floor, minutes
from pipelines.web.answers.quality import lacking
from pipelines.web.asked import Asked
from pipelines.web.runbook import Steps, steps
from pipelines.web.snapshot import Reader
from schemas import hw_regressions, notes

PARTITIONS, LINES, FEW = 200, 60, 12
NONE_LOST = "none known"
AROUND = timedelta(minutes=5)
SPARE = timedelta(minutes=1)
CHARTED = GOLD[:3]


@dataclass(frozen=True)
class Affected:
    """One partition of an incident: its state now, what was lost of it, and whose it is."""

    topic: str
    partition: int
    state: str
    lost: str
    proof: str
    owner: str
    read_by: str | None


@dataclass(frozen=True)
class Series:
    """One line of the chart: its most of all, path data of SVG, and by minute its most and the seconds with any."""

    name: str
    most: int
    path: str
    values: Sequence[int | None]
    seconds: Sequence[int | None]


@dataclass(frozen=True)
class IncidentAnswer:
    """The whole view; `loss` is how its loss came about, None where it is on none, or that loss is known no more."""

    verdict: Sequence[Sentence]
    card: Card
    alerts: Sequence[Row]
    since: datetime
    until: datetime
    steps: Steps
    lines: Timeline
    loss: Incident | None
    partitions: Sequence[Affected]
    more_partitions: int
    topics: Sequence[tuple[str, int]]
    minutes: int
    series: Sequence[Series]
    sent: Sent
    notes: Sequence[Row]
    lacking: Sequence[str]

    @property
    def came(self) -> list[Happening]:
        """The links of its loss among all that happened, in order of time; what a link tells stands there once."""
        cluster = self.card.cluster
        steps = self.loss.steps if self.loss else ()
        links = [Happening(one.ts, cluster, one.name, "info", one.text) for one in steps if one.ts]
        others = (line for line in self.lines.lines if not links or line.kind != "loss")
        return sorted([*links, *others], key=lambda line: line.ts)

    @property
    def chart_period(self) -> tuple[datetime, datetime]:
        """Beginning and end of the chart, which has whole minutes, and a day at most."""
        since = floor(self.since)
        return since, since + self.minutes * MINUTE

    @property
    def foremost(self) -> int:
        """The number of partitions that stand before the folded ones: those as bad as the first, if they are FEW."""
        if len(self.partitions) <= FEW:
            return len(self.partitions)
        kinds = [(one.lost == NONE_LOST, one.state) for one in self.partitions]
        number = kinds.count(kinds[0])
        return number if number <= FEW else 0


def incident_view(reader: Reader, asked: Asked, *, every: bool = False) -> IncidentAnswer:
    """The incident `asked.incident_id`, or that of the alert `asked.alert_id`, with `every` of its partitions.

    Raises UnknownNameError.
    """
    with timed(asked, "incident"):
        card, alerts, named = _found(reader, asked)
    asked = replace(asked, cluster=card.cluster or None, topic=None, partition=None)
    since, until = card.ts - AROUND, (card.until or reader.now()) + AROUND
    until = min(until, max(asked.until_ts or reader.now(), card.ts + AROUND))
    goes_on = card.until is None and asked.until is None  # a query without "now" is asked once a version
    wanted = Filter(asked.cluster, None, None, since, None if goes_on else until)
    ids = [one.alert_id for one in alerts]
    with timed(asked, "timeline"):
        lines = reader.answer(("incident", wanted), lambda lake: timeline(lake, wanted, LINES, KINDS, newest=True))
    with timed(asked, "partitions"):
        affected = _affected(reader, asked, named, card)
    with timed(asked, "sent"):
        told = [_sent(reader, name) for name in (card.incident_id or "", *ids)]
    happened = tuple(line for line in lines.lines if line.kind != "alert")
    shown = affected[: None if every else PARTITIONS]
    length, series = _series(reader, card.cluster, since, until)
    return IncidentAnswer(
        sentences_of(verdicts(reader, asked)), card,
        [plain(vars(one)) | {"shown": state_of(one.rule) if one.firing else "ended"} for one in alerts], since, until,
        steps(card.rule), Timeline(happened, lines.left_out), _loss(reader, alerts),
        shown, len(affected) - len(shown),
        Counter(one.topic for one in affected).most_common(8), length, series,
        Sent(sorted((row for one in told for row in one.rows), key=lambda row: row["sent_at"]),
             sum(one.left_out for one in told), told[0].notified), _notes(reader, card, ids),
        _lacking(reader, asked, card),
    )  # fmt: skip


def _lacking(reader: Reader, asked: Asked, card: Card) -> list[str]:
    """Evidence that an open incident lacks; empty if its cluster is not judged, as the verdict says so."""
    if asked.cluster is None or card.until or asked.until or card.state == State.NOT_JUDGED.value:
        return []
    return [why for record in surveyed(reader, asked).records for why in lacking(reader, record)]


def _found(reader: Reader, asked: Asked) -> tuple[Card, list[AlertState], list[str]]:
    """Its card, its alerts, and its partitions by name."""
    if asked.incident_id is None and asked.alert_id is None:
        raise UsageError("no incident is named: say incident_id or alert_id in the URL; /incidents has them")
    refuse_unknown(reader.snapshot(), asked.wanted)
    wide = replace(asked, cluster=None)
    is_it = (
        f"incident_id = {text(asked.incident_id)}"
        if asked.incident_id
        else f"array_has(alert_ids, {text(asked.alert_id or '')})"
    )
    found = incident_rows(reader, wide, is_it)
    if found:
        row = found[0]
        every = [one for one in alert_states(reader, wide, row["alert_ids"]) if one.alert_id in row["alert_ids"]]
        return incident_card(row, every, reader), every, list(row["partitions"])
    if asked.alert_id is None:
        raise UnknownNameError(f"{reader.lake.root} knows no incident {asked.incident_id}; /incidents has them")
    name = asked.alert_id
    one = from_row(reader.answer(("alert", name), lambda lake: stored(lake, name)))
    return alert_card(one, reader), [one], sorted(one.names) if "partitions" in one.labels else []


def _loss(reader: Reader, every: Sequence[AlertState]) -> Incident | None:
    """The chain of the first loss that the alerts name; one that was found harmless is none any more."""
    for one in every:
        if name := one.labels.get("loss"):
            wanted = Filter(one.labels.get("cluster"))
            with suppress(UsageError):
                return _chain(reader, wanted, name)
    return None


def _chain(reader: Reader, wanted: Filter, loss: str) -> Incident | None:
    return reader.answer(("chain", wanted, loss), lambda lake: incident(lake, wanted, loss))


def _sent(reader: Reader, name: str) -> Sent:
    return reader.answer(("sent", name), lambda lake: sent(lake, name))


def _affected(reader: Reader, asked: Asked, named: Sequence[str], card: Card) -> list[Affected]:
    """The partitions of the incident, those that lost or are not well first."""
    if not named or asked.cluster is None:
        return []
    places = ", ".join(map(text, named))
    named_ones = among = f"concat(topic, '-', partition) IN ({places})"
    if card.until is None and not asked.until:  # alerts name a hundred at most
        mine = " OR ".join(f"array_has(string_to_array(who, ','), '{one}')" for one in card.brokers) or "false"
        among = f"({among} OR (rank < 4 AND ({mine})))"
    view = VIEWS["serious"]
    since = card.ts - SPARE
    sql = f"SELECT * FROM ({view.select(Filter(asked.cluster, since=since))}) WHERE {named_ones} ORDER BY {view.first}"
    lost = {(row["topic"], row["partition"]): row for row in reversed(rows(reader, hw_regressions.TABLE, sql))}
    found = standings(reader, asked, "topic, partition, condition, unknown, rank", among, "ORDER BY topic, partition")
    found.sort(key=lambda row: ((row["topic"], row["partition"]) not in lost, row["rank"]))
    owners = {topic: owner_names([topic], reader) for topic in {row["topic"] for row in found}}
    return [_partition(row, lost.get((row["topic"], row["partition"])), owners[row["topic"]], card) for row in found]


def _partition(row: Row, loss: Row | None, owner: str, card: Card) -> Affected:
    lost = NONE_LOST
    if loss is not None:
        first, end = loss["lost_from"], loss["lost_to"]
        lost = "range not known" if first is None or end is None else f"{first}..{end - 1}"
    name, proof = f"{row['topic']}-{row['partition']}", loss["proof"] if loss else ""
    read_by = card.readers[name] or "nobody" if card.readers and name in card.readers else None if loss else ""
    return Affected(row["topic"], row["partition"], row["state"], lost, proof, owner, read_by)


def _series(reader: Reader, cluster: str, since: datetime, until: datetime) -> tuple[int, list[Series]]:
    """Minutes of the chart, and its lines over one scale; none where nothing was counted."""
    found = minutes(reader, cluster, since, min(until, since + timedelta(days=1)))
    most = max((value or 0 for name in CHARTED for value in found[name]), default=0)
    if not any(value is not None for name in CHARTED for value in found[name]):
        return 0, []
    series = [
        Series(words, max(value or 0 for value in found[name]), step_path(found[name], most, 100), found[name],
               found[f"{name}_s"])
        for name, words in zip(CHARTED, ("offline", "under min ISR", "under-replicated"), strict=True)
    ]  # fmt: skip
    return len(found[CHARTED[0]]), series


def _notes(reader: Reader, card: Card, ids: Sequence[str]) -> list[Row]:
    about = ", ".join(map(text, filter(None, [card.incident_id, *ids]))) or "''"
    where = f"incident_id IN ({about}) OR (incident_id IS NULL AND cluster = {text(card.cluster)})"
    found: list[Any] = rows(reader, notes.TABLE, f"SELECT * FROM t WHERE {where} ORDER BY written_at")
    return [row for row in found if row["incident_id"] or row["written_at"] >= card.ts]
