"""One look at a lake: the alerts, how well each cluster is judged, and what keeps the watchdog from being sent."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from pipelines.alerting.evaluate import evaluate_all
from pipelines.alerting.incidents import PLANNED, Incident
from pipelines.alerting.outbox import NEVER, handled_sources, in_order
from pipelines.alerting.owners import Owners
from pipelines.alerting.rules import load
from pipelines.alerting.silence import WATCHER_CUT_OFF
from pipelines.alerting.state import AlertState
from pipelines.lake.lake import Lake
from pipelines.lake.queries import Filter
from pipelines.notify.episodes import INCIDENT, Episode, episodes
from pipelines.notify.incidents import incident_episodes
from pipelines.verdict import Limits, Verdict, verdict
from pipelines.verdict.collect import survey
from pipelines.verdict.judged import silence
from pipelines.verdict.records import State


@dataclass(frozen=True)
class Round:
    """The state of a lake at the moment `now` of the wall clock.

    `episodes` are those of incidents where `per` is INCIDENT, else of alerts; `alerts` has each alert's last state by
    its id, `judged` a sentence for each cluster; `wrong` names what is not judged or not fresh.
    """

    now: datetime
    episodes: tuple[Episode, ...] = ()
    judged: Mapping[str, str] = field(default_factory=dict)
    wrong: tuple[str, ...] = ()
    per: str | None = None
    alerts: Mapping[str, AlertState] = field(default_factory=dict)
    present: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """By cluster, sentences on present faults, notified or not."""
    copies: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """By cluster, sentences on absent brokers that still hold lost records."""

    @property
    def fresh(self) -> bool:
        """Whether every cluster is judged, and every source reports."""
        return not self.wrong


def look(
    lake: Lake,
    limits: Limits,
    rules_file: str,
    interval_s: float,
    now: datetime,
    *,
    per: str | None = None,
    owners: Owners | None = None,
    write: bool = True,
) -> Round:
    """Evaluates the alert rules and reads what they and the verdicts say; without `write` the lake stays as it is.

    `per`: INCIDENT where incidents are told, whose topics have these owners; else each alert is.
    """
    found, rows, why = evaluate_all(lake, load(rules_file or None), now, interval_s, write=write)
    states = found.stored + found.new
    alerts = {state.alert_id: state for state in in_order(states)}
    unread = (why,) if why and per == INCIDENT else ()
    if per == INCIDENT:
        told = (*incident_episodes(rows, states, owners or {}, now), *episodes(left_out(states, rows), now))
    else:
        told = tuple(episodes(states, now))
    seen = Round(now, told, per=per, alerts=alerts)
    try:
        records = survey(lake, Filter(), limits.since, limits, now).records
    except Exception as error:
        return replace(seen, wrong=(unreadable(error), *unread))
    verdicts = [verdict(record, limits, now) for record in records]
    judged = {one.cluster: f"{one.cluster}: {one.judged.text}" for one in verdicts}
    copies = {record.cluster: record.copies for record in records}
    present = {one.cluster: list(troubles(one)) for one in verdicts}
    seen = replace(seen, judged=judged, present=present, copies=copies)
    last = {row.incident_id: row for row in rows}.values()
    planned = [alerts[one] for row in last if row.state == PLANNED for one in row.firing]
    away = {(one.labels.get("cluster", ""), source): now for one in planned for source in one.names}
    down = {one.labels.get("cluster", "") for one in planned if one.rule == WATCHER_CUT_OFF.name}
    return replace(seen, wrong=(*not_fresh(verdicts, handled_sources(states) | away, down), *unread))


def troubles(verdict: Verdict) -> Iterator[str]:
    """The sentences on the present state of a cluster, except those in state OK."""
    return (line.text for line in verdict.lines if line.part == "present" and line.state is not State.OK)


def left_out(states: Iterable[AlertState], rows: Iterable[Incident]) -> list[AlertState]:
    """The states of firing alerts that are in no incident, which should not happen: they are notified alone."""
    there = {alert for row in {row.incident_id: row for row in rows}.values() for alert in row.firing}
    ordered = in_order(states)
    fire = {state.alert_id for state in {one.episode: one for one in ordered}.values() if state.firing}
    return [state for state in ordered if state.alert_id in fire - there]


def unreadable(error: Exception) -> str:
    """A sentence on a lake that cannot be read, so that nothing counts as judged or fresh."""
    return f"the lake cannot be read: {type(error).__name__}: {' '.join(str(error).split())[:300]}"


BRIEFLY = timedelta(minutes=1)
"""A shorter pause of a watcher, or difference of hosts' clocks, is no reason to wake a person."""


def not_fresh(
    verdicts: Iterable[Verdict],
    handled: Mapping[tuple[str, str], datetime] | None = None,
    down: Collection[str] = (),
) -> Iterator[str]:
    """Yield a sentence for each cluster that is not judged or not fresh, and one if there is no cluster.

    `handled`: (cluster, source) of sources that may be silent, with the time up to which each reported. `down`:
    clusters with watchers that may see nothing; in others that counts after BRIEFLY.
    """
    none = True
    for one in verdicts:
        none = False
        if one.judged.blind is not None and (one.judged.blind < BRIEFLY or one.cluster in down):
            continue
        if one.judged.state is State.NOT_JUDGED or one.judged.to is None:
            yield f"{one.cluster}: {one.judged.text}"
            continue
        quiet = one.judged.silent
        up_to = handled or {}
        if left := [s for s in quiet if s.reported_to > up_to.get((one.cluster, s.source_id), NEVER)]:
            yield f"{one.cluster}: {silence(left)}"
    if none:
        yield "the lake holds no cluster: nothing is judged"


def unseen(before: Round, why: str, now: datetime) -> Round:
    """A round in which the lake could not be read: what fired is still notified, and nothing is fresh."""
    return replace(before, now=now, wrong=(why,))
