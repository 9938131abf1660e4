"""Alertmanager's v2 API, as Prometheus uses it: every round sends firing alerts, and ended ones until accepted.

Labels identify an alert and never change while it fires, or silences and acknowledgements would be lost: they are those
of the episode's first state. Everything that changes is an annotation.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from pipelines.alerting.incident_title import gravest
from pipelines.alerting.state import WITHDRAWN, AlertState
from pipelines.notify.channel import Post
from pipelines.notify.config import Links
from pipelines.notify.episodes import INCIDENT, LOST, Episode
from pipelines.notify.http import NotAccepted
from pipelines.notify.ledger import Delivery, Outcome
from pipelines.notify.look import Round
from pipelines.notify.notice import alerts_of, command, incident_line, incident_lines, page, sentence
from pipelines.notify.runbooks import WATCHDOG, runbook
from pipelines.printable import printable
from pipelines.verdict import words

Alert = dict[str, Any]
Send = Callable[[Sequence[Alert]], None]

RESENT = timedelta(minutes=15)
"""An Alertmanager keeps alerts in memory alone: one that restarts is sent again what ended lately, as by Prometheus."""
TEST = "HwmarkTest"
TEST_LASTS = timedelta(minutes=5)
_LONGEST = 2_000
_SUBJECT = re.compile(r"(broker|rack) (\S+)")
_BROKERS = re.compile(r"brokers? ([\d, ]+)")
_COPIED = ("count", "partitions", "topic", "topics", "range", "ranges", "sources", "channel", "cause",
           "over", "over_count")  # fmt: skip


def alertname(rule: str) -> str:
    """`HwmarkUnderMinIsr` of `under_min_isr`."""
    return "Hwmark" + "".join(word.capitalize() for word in rule.split("_"))


def labels(first: AlertState, fixed: Mapping[str, str]) -> dict[str, str]:
    """The labels that identify an alert, from the first state of its episode."""
    if first.rule == INCIDENT:
        named = {**fixed, "alertname": alertname(INCIDENT), "incident": first.alert_id, "severity": first.severity}
        named |= {name: printable(first.labels.get(name, "")) for name in ("cluster", "owner")}
        named |= {LOST: first.labels[LOST]} if LOST in first.labels else {}
        return {name: value for name, value in named.items() if value}
    found = {
        **fixed,
        "alertname": alertname(first.rule),
        "cluster": printable(first.labels.get("cluster", "")),
        "alert_id": first.alert_id,
        "severity": first.severity,
    }
    if subject := _SUBJECT.fullmatch(first.subject):
        found[subject[1]] = subject[2]
    return {name: value for name, value in found.items() if value}


def described(state: AlertState, links: Links, seen: Round, *, unseen: bool = False) -> dict[str, str]:
    """The annotations of an alert, which may change while it fires."""
    found, head, lines = {"summary": sentence(state, unseen=unseen)}, state, list[str]()
    if state.rule == INCIDENT:
        found["summary"], lines = incident_line(state), incident_lines(state, links, seen, unseen=unseen)
        alerts = alerts_of(state, seen)
        head = gravest(alerts) if alerts else state
    found |= {
        "since": words.clock(state.first_ts),
        "judged": seen.judged.get(state.labels.get("cluster", ""), ""),
        "command": command(head, links.lake),
        "runbook_url": runbook(links.runbook_url, head.rule),
        "page": page(head, links, state),
        **{name: state.labels.get(name, "") for name in _COPIED},
    }
    if brokers := _BROKERS.fullmatch(state.subject):
        found["brokers"] = brokers[1]
    said = {name: printable(value) for name, value in found.items()} | {"description": "\n".join(map(printable, lines))}
    return {name: _short(value) for name, value in said.items() if value}


class Alertmanager:
    """One Alertmanager; `send` posts alerts or raises NotAccepted."""

    def __init__(self, post: Post, links: Links, send: Send) -> None:
        self.name, self._post, self._links, self._send = post.name, post, links, send
        self._started = post.clock()

    def deliver(self, seen: Round) -> bool:
        """Post firing alerts, ended ones and the watchdog; return whether they were accepted."""
        self._post.begin(seen)
        now, news = self._post.clock(), list[Delivery]()
        by_labels: dict[tuple[tuple[str, str], ...], Alert] = {}
        # An alert that fires again has the labels of the episode that ended: what fires goes over it.
        each = [one for episode in seen.episodes for one in episode.by_severity()]
        for episode in sorted(each, key=lambda e: e.firing):
            for alert in self._alert(episode, seen, now, news):
                by_labels[tuple(sorted(alert["labels"].items()))] = alert
        alerts = [*self._watchdog(seen), *by_labels.values()]
        if not alerts:
            return True
        try:
            self._send(alerts)
        except NotAccepted as error:
            self._post.failed(error)
            return False
        for row in news:
            self._post.say(f"{self.name}: {row.rule} {row.state} accepted ({row.key})")
        self._post.worked(*news)
        return True

    def test(self) -> None:
        """Post an alert that ends by itself. Raises NotAccepted."""
        now, fixed = self._post.clock(), self._links.labels
        text = {
            "summary": "hwmark: a test, nothing is wrong",
            "runbook_url": runbook(self._links.runbook_url, WATCHDOG),
        }
        self._send([_alert({**fixed, "alertname": TEST, "severity": "none"}, text, now, now + TEST_LASTS)])

    def _watchdog(self, seen: Round) -> Iterator[Alert]:
        """The watchdog, which holds for a few rounds after the moment when everything was judged and fresh."""
        if seen.fresh:
            text = {
                "summary": f"hwmark judges every cluster of {self._links.lake}, and no source is silent",
                "judged": _short(printable("; ".join(seen.judged.values()))),
                "runbook_url": runbook(self._links.runbook_url, WATCHDOG),
            }
            named = {**self._links.labels, "alertname": WATCHDOG, "severity": "none"}
            yield _alert(named, text, min(self._started, seen.now), seen.now + self._post.timing.watchdog)

    def _alert(self, episode: Episode, seen: Round, now: datetime, news: list[Delivery]) -> Iterator[Alert]:
        ledger, key = self._post.ledger, episode.key
        sent, earlier = ledger.sent(self.name, key), [ledger.sent(self.name, one) for one in episode.earlier]
        unseen = not episode.firing and not any(earlier)
        if episode.firing:
            ends = now + self._post.timing.hold
        elif sent is None and (ledger.done(self.name, key) or (unseen and WITHDRAWN in episode.last.labels)):
            return
        else:  # one that ended before it was ever accepted fires for once, so that it is notified at all
            ends = (sent.sent_at if sent else now) + (self._post.timing.hold if unseen else timedelta())
            if now > ends + RESENT:
                return
        if sent is None:
            news.append(self._post.row(episode, Outcome.SENT, 1, now))
        text = described(episode.last, self._links, seen, unseen=unseen)
        # The time of the first delivery, as with Prometheus; `since` has when the episode began. An Alertmanager
        # notifies at once of an alert older than group_wait, and may leave out the other alerts of the same post.
        begun = min(*(one.sent_at for one in (*earlier, sent) if one), now, ends)
        yield _alert(labels(episode.first, self._links.labels), text, begun, ends)


def _alert(labels: Mapping[str, str], annotations: Mapping[str, str], begun: datetime, ends: datetime) -> Alert:
    found: Alert = {
        "labels": dict(labels),
        "annotations": dict(annotations),
        "startsAt": begun.isoformat(),
        "endsAt": ends.isoformat(),
    }
    return {**found, "generatorURL": annotations["page"]} if annotations.get("page") else found


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
