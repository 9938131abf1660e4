"""What a notification says: the alert's own sentence, what to type, and where to read on."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from urllib.parse import quote

from pipelines.alerting.messages import status
from pipelines.alerting.rules import RULES
from pipelines.alerting.state import AlertState
from pipelines.notify.config import Links
from pipelines.notify.episodes import Episode
from pipelines.notify.runbooks import runbook
from pipelines.printable import printable
from pipelines.verdict import words


@dataclass(frozen=True)
class Notice:
    """One message; `weight` is the severity, or `over` for what is resolved, `alert_id` the same for both."""

    key: str
    alert_id: str
    weight: str
    title: str
    body: str


def notice(episode: Episode, links: Links, judged: Mapping[str, str], *, unseen: bool, again: bool) -> Notice:
    """The message for the present state of an episode.

    `judged` has by cluster how well it is judged. `unseen`: it ended before it was ever sent; `again`: it may have been
    sent, when a kill cut that off.
    """
    state = episode.last
    lines = [sentence(state, unseen=unseen), *_lines(state, links, judged)]
    if again:
        lines.append(f"Sent again, because hwmark was stopped while sending: key {episode.key} may be there already.")
    title = f"[{status(state)}] {state.severity} {state.rule}: {state.labels.get('cluster') or 'hwmark'}"
    body = "\n".join(map(printable, [*lines, f"Key: {episode.key}"]))
    return Notice(episode.key, state.alert_id, _weight(state, unseen), printable(f"{title} ({episode.key})"), body)


def sentence(state: AlertState, *, unseen: bool = False) -> str:
    """The alert's sentence, in the words of the verdicts; of one that fires no more how it ended."""
    if state.firing:
        return state.summary
    over = f"over since {words.clock(state.last_ts)}, before it could be sent" if unseen else ""
    ended = "" if _heals(state) else "no longer notified, and no less true"
    return "; ".join(part for part in (state.summary, ended, over) if part)


def command(state: AlertState, lake: str) -> str:
    """What to type first."""
    view = RULES[state.rule].look if state.rule in RULES else "verdict"
    cluster, topic = state.labels.get("cluster"), state.labels.get("topic")
    about = ["--cluster", cluster] if cluster else []
    if view == "loss" and (loss := state.labels.get("loss")):
        about += ["--id", loss]
    elif topic and view != "verdict":
        about += ["--topic", topic]
    return shlex.join(["hwmark", "show", view if cluster else "alerts", *about, "--lake", lake])


def page(state: AlertState, links: Links) -> str:
    """The address of the page about an alert; empty where none is set."""
    cluster = quote(state.labels.get("cluster", ""), safe="")
    return links.page_url.replace("{cluster}", cluster).replace("{alert_id}", state.alert_id)


def _lines(state: AlertState, links: Links, judged: Mapping[str, str]) -> Iterator[str]:
    until = "" if state.firing else f" until {words.clock(state.last_ts)}"
    yield f"Since {words.clock(state.first_ts)}{until}"
    yield f"Type: {command(state, links.lake)}"
    yield f"Runbook: {runbook(links.runbook_url, state.rule)}"
    if address := page(state, links):
        yield f"Page: {address}"
    if said := judged.get(state.labels.get("cluster", "")):
        yield said


def _heals(state: AlertState) -> bool:
    return state.rule not in RULES or RULES[state.rule].ends == "resolved"


def _weight(state: AlertState, unseen: bool) -> str:
    """A loss that nobody was notified of weighs what it did; its end is no good news, either."""
    if state.firing or (unseen and not _heals(state)):
        return state.severity
    return "over" if _heals(state) else "info"
