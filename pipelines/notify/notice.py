"""The text of a notification: sentences of alerts, the command to type, and where to read on."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from urllib.parse import quote

from pipelines.alerting.incident_title import gravest, weight
from pipelines.alerting.messages import status
from pipelines.alerting.outbox import HANDLED
from pipelines.alerting.rules import RULES
from pipelines.alerting.state import END, WITHDRAWN, AlertState
from pipelines.notify.config import Links
from pipelines.notify.episodes import INCIDENT, Episode
from pipelines.notify.look import Round
from pipelines.notify.runbooks import runbook
from pipelines.printable import printable
from pipelines.verdict import words
from pipelines.verdict.last_copies import BEFORE_START


@dataclass(frozen=True)
class Notice:
    """One message; `weight` is the severity, or `over` for what is resolved, `alert_id` the same for both.

    `ended` are the ids of what ends with it: all that an incident was told as, or a loss that is withdrawn.
    """

    key: str
    alert_id: str
    weight: str
    title: str
    body: str
    ended: tuple[str, ...] = ()


def notice(episode: Episode, links: Links, seen: Round, *, unseen: bool, again: bool) -> Notice:
    """The message for the present state of an episode, as of a round.

    `unseen`: it ended before it was ever sent; `again`: it may have been sent, when a kill cut that off.
    """
    state = episode.last
    if state.rule == INCIDENT:
        title, lines = incident_line(state), incident_lines(state, links, seen, unseen=unseen)
    else:
        named = f"[{status(state)}] {state.severity} {state.rule}: {state.labels.get('cluster') or 'hwmark'}"
        title, lines = f"{named} ({episode.key})", [sentence(state, unseen=unseen), *_lines(state, links, seen)]
    if again:
        lines.append(f"Sent again: hwmark was stopped while sending; you may already have key {episode.key}.")
    body = "\n".join(map(printable, [*lines, f"Key: {episode.key}"]))
    weight, each = _weight(state, unseen), episode.by_severity()
    ids = {f"{state.alert_id}-{one.told_as}" if episode.raised else state.alert_id: one.firing for one in each}
    *_, alert_id = (name for name, fires in ids.items() if fires or not state.firing)
    goes_on = not state.firing and unseen and not _heals(state)
    ended = () if goes_on else tuple(name for name, fires in ids.items() if not fires)
    return Notice(episode.key, alert_id, weight, printable(title), body, ended)


def alerts_of(incident: AlertState, seen: Round) -> list[AlertState]:
    """The last states of the alerts of an incident."""
    return [seen.alerts[one] for one in incident.labels.get("alert_ids", "").split(", ") if one in seen.alerts]


def incident_line(state: AlertState) -> str:
    """The first line of a message about an incident, at most 100 characters: its title, and 20 before that."""
    if WITHDRAWN in state.labels:
        return f"LOSS {state.labels[WITHDRAWN].upper()}, now {state.summary}"
    over = state.labels.get(END, "").upper() or ("ENDED" if _heals(state) else "NO LONGER NOTIFIED")
    return state.summary if state.firing else f"{over} {state.summary}"


def incident_lines(state: AlertState, links: Links, seen: Round, *, unseen: bool = False) -> list[str]:
    """The lines of a message about an incident, without the first."""
    alerts = alerts_of(state, seen)
    since, until = links.clock(state.first_ts), links.clock(state.last_ts)
    over = f"At: {since}" if since == until else f"From {since} to {until}"
    lines = [f"Since: {since}" if state.firing else over]
    lines += ["It was over before it could be sent."] if unseen else []
    lines += [state.labels["stands"].replace("again, ", "Again, ")] if "stands" in state.labels else []
    lines += [
        words.shorten(_as_of_incident(one, state))
        for one in sorted(alerts, key=lambda one: (not one.firing, [-n for n in weight(one)], one.first_ts))[:SENTENCES]
    ]
    lines += [f"and {len(alerts) - SENTENCES:,} alerts more"] if len(alerts) > SENTENCES else []
    lines += dict.fromkeys(words.shorten(f"Handled: {note}") for one in alerts if (note := _parts(one)[1]))
    lines += _copies(alerts, seen)
    if state.firing:
        said = seen.present.get(state.labels.get("cluster", ""), ())
        lines += [words.shorten(f"Now: {text}") for text in said[:SENTENCES]]
    for name, label in (("Owner", "owners"), ("Consumer groups", "groups")):
        lines += [words.shorten(f"{name}: {state.labels[label]}")] if label in state.labels else []
    lines += [f"See also incident {state.labels['linked']}"] if "linked" in state.labels else []
    if alerts:
        head = gravest([one for one in alerts if one.firing] or [one for one in alerts if not one.withdrawn] or alerts)
        lines += [f"Type: {command(head, links.lake)}", f"Runbook: {runbook(links.runbook_url, head.rule)}"]
        lines += [f"Page: {page(head, links, state)}"] if links.page_url else []
    lines += [words.shorten(part) for part in _judged(state, seen.judged, alerts)]
    return [*lines, f"Incident: {state.alert_id}"]


def _as_of_incident(alert: AlertState, incident: AlertState) -> str:
    """The alert's sentence; if the incident's state differs, with `again`, or the time since when the alert is over."""
    if alert.firing and not incident.firing:
        return f"again, in another incident: {alert.summary}"
    alert = replace(alert, summary=_parts(alert)[0])
    return f"{'' if incident.firing else 'was: '}{sentence(alert, over=incident.firing)}"


def _parts(alert: AlertState) -> tuple[str, str]:
    """The sentence of an alert, and the text of the note that ended it, empty without one."""
    head, _, said = alert.summary.partition(f"; {HANDLED}: ")
    return (head, said) if alert.labels.get(END) == HANDLED else (alert.summary, "")


SENTENCES = 5
"""The most sentences of alerts in a message about an incident."""


def sentence(state: AlertState, *, unseen: bool = False, over: bool = False) -> str:
    """The alert's sentence, in the words of the verdicts; of an ended alert with its end, and with `over` its time."""
    if state.firing:
        return state.summary
    lasts = not _heals(state) and END not in state.labels
    lost = "; the records are still lost" if state.rule == "loss" else ""
    ended = f"no more messages come{lost}" if lasts else ""
    since = f"over since {words.clock(state.last_ts)}" if over or unseen else ""
    since += ", before it could be sent" if unseen else ""
    summary = f"{WITHDRAWN.upper()}: {state.summary}" if state.withdrawn else state.summary
    return "; ".join(part for part in (summary, ended, since) if part)


def command(state: AlertState, lake: str) -> str:
    """The command to type first."""
    view = RULES[state.rule].look if state.rule in RULES else "verdict"
    cluster, topic = state.labels.get("cluster"), state.labels.get("topic")
    about = ["--cluster", cluster] if cluster else []
    if view == "loss" and (loss := state.labels.get("loss")):
        about += ["--id", loss]
    elif topic and view != "verdict":
        about += ["--topic", topic]
    return shlex.join(["hwmark", "show", view if cluster else "alerts", *about, "--lake", lake])


def page(alert: AlertState, links: Links, told: AlertState) -> str:
    """The address of the page about an alert; empty if none is set.

    Its time runs from the beginning of `told` (the alert, or its incident) to the writing of that state.
    """
    address, until = links.page_url, max(told.last_ts, told.written_at or told.last_ts)
    until += timedelta(microseconds=-until.microsecond % 1_000_000)
    values = {
        "cluster": alert.labels.get("cluster", ""), "alert_id": alert.alert_id,
        "since": f"{told.first_ts:%Y-%m-%dT%H:%M:%SZ}", "until": f"{until:%Y-%m-%dT%H:%M:%SZ}",
    }  # fmt: skip
    for name, value in values.items():
        address = address.replace(f"{{{name}}}", quote(value, safe=""))
    return address


def _copies(alerts: Iterable[AlertState], seen: Round) -> list[str]:
    """The lines on brokers whose start would cut away what is lost, if a loss fires."""
    clusters = {one.labels.get("cluster", "") for one in alerts if one.firing and one.rule in ("loss", "unproven_loss")}
    return [f"{BEFORE_START}{text}" for cluster in sorted(clusters) for text in seen.copies.get(cluster, ())]


def _lines(state: AlertState, links: Links, seen: Round) -> Iterator[str]:
    yield from _copies([state], seen)
    until = "" if state.firing else f" until {words.clock(state.last_ts)}"
    yield f"Since {words.clock(state.first_ts)}{until}"
    yield f"Type: {command(state, links.lake)}"
    yield f"Runbook: {runbook(links.runbook_url, state.rule)}"
    if address := page(state, links, state):
        yield f"Page: {address}"
    if said := "; ".join(_judged(state, seen.judged, [state])):
        yield said


def _judged(state: AlertState, judged: Mapping[str, str], alerts: Iterable[AlertState]) -> list[str]:
    """The sentences on how well the cluster is judged, but for those that these alerts say."""
    parts = judged.get(state.labels.get("cluster", ""), "").split("; ")
    return [part for part in parts if part and not any(part in one.summary for one in alerts)]


def _heals(state: AlertState) -> bool:
    rule = state.labels.get("cause", "") if state.rule == INCIDENT else state.rule
    return rule not in RULES or RULES[rule].ends == "resolved"


def _weight(state: AlertState, unseen: bool) -> str:
    """The weight of a message; a loss that was never notified keeps its severity, and its end is no good news."""
    if state.firing or (unseen and not _heals(state)):
        return state.severity
    return "over" if _heals(state) and END not in state.labels else "info"
