"""Incidents as notifications: one message if one opens, is raised, loses something or less, grows twofold, or ends."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from pipelines.alerting.incident_title import gravest, weight
from pipelines.alerting.incidents import ENDED, LOSSES, OPEN, Incident, standing
from pipelines.alerting.outbox import HANDLED, NEVER, in_order
from pipelines.alerting.owners import Owners, owners_of
from pipelines.alerting.rule import SEVERITIES
from pipelines.alerting.state import END, FORGOTTEN, LABELLED, RECORDING_ENDED, WITHDRAWN, AlertState
from pipelines.notify.episodes import INCIDENT, LOST, Episode
from pipelines.verdict import words

GROWTH = timedelta(minutes=15)
"""The shortest time between two messages that an incident has doubled (offline partitions or lost offsets)."""

LOST_AS = {"unproven_loss": "unproven", "loss": "true"}
"""The value of the label LOST by rule; what fires last goes by what is proven."""

TRIED = timedelta(days=7)
"""Ends of incidents older than this are not sent any more: those of years would cost seconds at each round."""

NOT_ASKED = "not asked; `hwmark show loss --bootstrap HOST:PORT` asks the cluster"
"""The text for the consumer groups of a loss, or of offline partitions, until they are asked for."""


def incident_episodes(
    rows: Iterable[Incident], states: Iterable[AlertState], owners: Owners, now: datetime
) -> list[Episode]:
    """The incidents that were opened by `now` (wall clock), the oldest first of those that ended, then of the others.

    What a downtime explains to its end is none, nor what ended TRIED ago. `rows` are in the order of their writing,
    `states` those of all alerts.
    """
    history, found = defaultdict[str, list[AlertState]](list), dict[str, list[Incident]]()
    for state in in_order(states):
        history[state.alert_id].append(state)
    alerts = {name: each[-1] for name, each in history.items()}
    for row in rows:
        if row.state == OPEN or row.incident_id in found:
            found.setdefault(row.incident_id, []).append(row)
    recent = [own for own in found.values() if own[-1].state != ENDED or now - own[-1].written_at < TRIED]
    each = [_episode(own, alerts, history, owners, now) for own in recent]
    # The end of what was wrong before what is wrong now, or the last message of a broker that is down would be an end.
    return sorted(each, key=lambda episode: (episode.last.firing, episode.first.first_ts, episode.first.alert_id))


def _episode(
    own: Sequence[Incident],
    alerts: Mapping[str, AlertState],
    history: Mapping[str, Sequence[AlertState]],
    owners: Owners,
    now: datetime,
) -> Episode:
    """The episode of one incident, from its states since it was first open; `history`: all states by alert, `alerts`
    the last. `falls`: where what is or may be lost was first told, and where all of it was withdrawn or handled while
    the incident goes on, or told again, in turn."""
    changes, growths, grown, less = 0, 0, list[int](), False
    raised, before, told, due = [own[0]], own[0], own[0], None
    lost, worst = _losses(own[0], alerts), _weight(own[0], alerts)
    turns, falls = 0, {rule: list(own[: _has(rule, lost, alerts)]) for rule in LOST_AS}
    for row in own[1:]:
        if due is not None and due <= row.written_at:
            growths, told, due = growths + 1, before, None
        if SEVERITIES.index(row.severity) > SEVERITIES.index(before.severity):
            raised.append(row)
        new = _losses(row, alerts) - (lost & _losses(before, alerts))
        by_now = _losses_as_of(row.written_at, before, history)
        gone = {one.alert_id for one in by_now if one.withdrawn and one.written_at == row.written_at}
        gone = gone if row.firing else set()  # the end tells it, if nothing goes on
        lost = (lost | new) - gone
        for rule, each in falls.items() if row.firing else ():
            go_on = _has(rule, lost & (_losses(row, alerts) | _expired(row, alerts)), alerts)
            each.extend([row] if go_on != len(each) % 2 else [])
        turned = (row.state == ENDED) != (before.state == ENDED)
        turns += turned
        if turned or row.severity != before.severity or new or gone or _weight(row, alerts) > worst:
            grown.append(growths)
            changes, growths, told, due = changes + 1, 0, row, None
            less = _gravest(gone, alerts) > _gravest(new, alerts)
        elif due is None and _doubled(row, told, history):
            due = max(row.written_at, told.written_at + GROWTH)
        worst, before = max((-1, 0) if gone else worst, _weight(row, alerts)), row
    if due is not None and due <= now:
        growths += 1
    first, last, *others = (_as_alert(row, alerts, owners) for row in (own[0], own[-1], *raised))
    last = replace(last, labels={**last.labels, WITHDRAWN: WITHDRAWN}) if less and not growths and last.firing else last
    parts = [Episode(each, last, turns) for each in others]
    for rule, each in falls.items():
        if each:
            of_loss, fires = _as_alert(each[0], alerts, owners), len(each) % 2
            over = replace(last, state="resolved", labels={**last.labels, WITHDRAWN: _over(rule, own[-1], alerts)})
            of_loss = replace(of_loss, labels={**of_loss.labels, LOST: LOST_AS[rule]})
            parts.append(Episode(of_loss, last if fires else over, len(each) - 1 + turns * fires))
    return Episode(first, last, changes, growths, tuple(parts), tuple(grown))


def _over(rule: str, row: Incident, alerts: Mapping[str, AlertState]) -> str:
    """Return the word for the end of the losses by a rule, while their incident goes on."""
    ends = {alerts[one].labels.get(END) for one in row.alert_ids if one in alerts and alerts[one].rule == rule}
    return HANDLED if HANDLED in ends else WITHDRAWN


def _has(rule: str, names: Iterable[str], alerts: Mapping[str, AlertState]) -> bool:
    return any(alerts[one].rule == rule for one in names)


def groups_of(row: Incident) -> str:
    """Name the consumer groups that read what an incident lost, or has or had offline, and when they were asked for.

    Empty if it lost nothing and nothing in it is offline.
    """
    if row.groups_asked is None:
        return "" if row.lost_offsets is None and not row.offline else NOT_ASKED
    what = "read what is or was offline" if row.lost_offsets is None else "read what is gone"
    what = what if row.lost_offsets is None or not row.groups else f"have {what}, or what was written in its place"
    return f"{words.listed(row.groups or ()) or 'none'} {what}, asked at {words.clock(row.groups_asked)}"


def _expired(row: Incident, alerts: Mapping[str, AlertState]) -> set[str]:
    """The alerts on losses of which no more messages come, though nobody handled them."""
    own = {one: alerts[one] for one in row.alert_ids if one in alerts and alerts[one].rule in LOST_AS}
    return {name for name, one in own.items() if not one.firing and END not in one.labels}


def _losses(row: Incident, alerts: Mapping[str, AlertState]) -> set[str]:
    """The firing alerts on losses, proven or not: each is notified, whatever was lost before."""
    return {one for one in row.firing if one in alerts and alerts[one].rule in LOST_AS}


def _weight(row: Incident, alerts: Mapping[str, AlertState]) -> tuple[int, int]:
    """The weight of the gravest firing alert; a weight above all earlier ones is notified."""
    return _gravest((one for one in row.firing if one in alerts), alerts)


def _gravest(names: Iterable[str], alerts: Mapping[str, AlertState]) -> tuple[int, int]:
    return max((weight(alerts[one]) for one in names), default=(-1, 0))


def _doubled(row: Incident, told: Incident, history: Mapping[str, Sequence[AlertState]]) -> bool:
    """Whether twice as much is offline or lost, or the number of offsets in a reported loss is known now."""
    (partitions, offsets), (some, few) = _lost(row, history), _lost(told, history)
    pairs = (row.offline, told.offline), (partitions, some), (offsets, few or min(some, 1))
    return any(then and now >= 2 * then for now, then in pairs)


def _lost(row: Incident, history: Mapping[str, Sequence[AlertState]]) -> tuple[int, int]:
    """Count the partitions and offsets of the losses that fire as of a row."""
    sizes = [one.size for one in _losses_as_of(row.written_at, row, history)]
    return sum(size[0] or 0 for size in sizes), sum(size[1] or 0 for size in sizes)


def _losses_as_of(moment: datetime, row: Incident, history: Mapping[str, Sequence[AlertState]]) -> list[AlertState]:
    """The last states by a moment of the losses that fire in a row."""
    losses = (history[one] for one in row.firing if one in history and history[one][0].rule in LOSSES)
    found = ((each, bisect_right(each, moment, key=lambda state: state.written_at or NEVER)) for each in losses)
    return [each[count - 1] for each, count in found if count]


def _unwell(row: Incident, alerts: Iterable[AlertState]) -> str:
    """The end of an incident that is no recovery: its recording ended, a person noted it, its cluster is gone, or it
    was withdrawn; else empty."""
    ends = [one.labels.get(END, "") for one in alerts if not one.firing] if row.state == ENDED else []
    never_was = WITHDRAWN if ends and {*ends} == {WITHDRAWN} else ""
    return next((end for end in ends if end in (RECORDING_ENDED, HANDLED, FORGOTTEN)), never_was)


def _as_alert(row: Incident, alerts: Mapping[str, AlertState], owners: Owners) -> AlertState:
    """An incident in the shape in which channels take alerts."""
    owned = owners_of(row.topics, owners)
    firing = [alerts[one] for one in (row.firing or row.alert_ids) if one in alerts]
    remaining = [one for one in firing if not one.withdrawn] or firing
    if row.state == ENDED:  # that nobody is told any more of what is lost is no good end
        remaining = [one for one in remaining if one.rule in LOST_AS] or remaining
    theirs = [alerts[one] for one in dict.fromkeys((*row.firing, *row.alert_ids)) if one in alerts]
    labels = {
        "cluster": row.cluster,
        "brokers": ", ".join(map(str, row.brokers)),
        "partitions": words.listed(row.partitions, LABELLED),
        "count": str(max([len(row.partitions), *(one.size[0] or 0 for one in firing)])) if row.partitions else "",
        "topics": words.listed(row.topics, LABELLED),
        "groups": groups_of(row),
        "offsets": str(row.lost_offsets) if row.lost_offsets else "",
        "owner": owned[0].team if len(owned) == 1 else "",
        "owners": ", ".join(map(str, owned)),
        "alert_ids": ", ".join(one.alert_id for one in theirs),
        "cause": gravest(remaining).rule if remaining else row.cause,
        "linked": row.linked or "",
        "stands": standing(row.returns, row.first_ts),
        END: _unwell(row, theirs),
    }
    state, named = "resolved" if row.state == ENDED else "firing", {k: v for k, v in labels.items() if v}
    return AlertState(
        row.incident_id, INCIDENT, row.severity, state, row.subject, row.first_ts, row.last_ts, row.summary, named,
        row.written_at,
    )  # fmt: skip
