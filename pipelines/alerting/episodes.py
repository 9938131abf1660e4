"""Conditions of one incident put together: one alert for a broker gone, or for a power failure, not one a partition."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from math import inf
from typing import NamedTuple

from pipelines.alerting.conditions import SECOND, Condition, items
from pipelines.alerting.messages import labels, subject, summary
from pipelines.alerting.rule import About
from pipelines.alerting.rules import RULES
from pipelines.alerting.state import AlertState, alert_id
from pipelines.lake.queries import microseconds, moment


class Episode(NamedTuple):
    """Conditions of one alert, and its reported state, if there is one; the alert keeps the name of that state."""

    conditions: list[Condition]
    told: AlertState | None = None


_Run = tuple[int, list[Condition], AlertState | None]
"""The begin of overlapping conditions of one alert (microseconds), these, and their reported state."""
_Mark = tuple[tuple[str, str, str], int, list[Condition], AlertState | None]
"""The kind of incident, its begin (microseconds), the conditions, and their reported state."""


def episodes(
    conditions: Iterable[Condition], group_s: Mapping[str, int], told: Iterable[AlertState] = ()
) -> Iterator[Episode]:
    """Group the conditions by episode of an alert; `told` has the last state of each reported episode.

    `group_s`: by rule, the most seconds between the begins of episodes of one cluster that are one incident. A reported
    episode is never merged with another one: later conditions join the one before them, or else the one after.
    """
    names, marks = defaultdict[str, dict[int, AlertState]](dict), list[_Mark]()
    for state in told:
        names[state.alert_id][microseconds(state.first_ts)] = state
    for key, same in groupby(sorted(conditions, key=lambda c: (_key(c), c.fires, c.first, c.item)), _key):
        own = names[alert_id(*key)]
        runs = [
            (min(c.first for c in run), run, next((own.pop(c.first) for c in run if c.first in own), None))
            for run in list(_overlapping(same, own))
        ]
        marks += [(_kin(*key[:3]), *one) for one in _with_moved(runs)]
    for first, state in (item for own in names.values() for item in own.items()):
        if state.rule in RULES and (state.firing or RULES[state.rule].from_told):
            of = state.labels.get("cluster", ""), state.labels.get("cause", "")
            marks.append((_kin(state.rule, *of), first, [], state))
    firing = [mark for mark in marks if mark[3] and mark[3].firing]
    marks = [mark if mark[3] else _with_told(mark, firing) for mark in marks]
    for (rule, *_), kin in groupby(sorted(marks, key=lambda mark: (*mark[:2], not mark[3])), lambda mark: mark[0]):
        yield from _incidents(kin, group_s.get(rule, 0) * SECOND)


def states(found: Iterable[Episode], severities: Mapping[str, str]) -> list[AlertState]:
    """One state for each episode, in order of time."""
    each = [_state(*episode, severities) for episode in found]
    return sorted(each, key=lambda s: (s.first_ts, s.rule, s.labels["cluster"], s.subject))


def _key(condition: Condition) -> tuple[str, str, str, str]:
    return condition.rule, condition.cluster, condition.cause, condition.subject


def _kin(rule: str, cluster: str, cause: str) -> tuple[str, str, str]:
    """The kind of incident that a condition may be part of; sources share an incident only with the same fault."""
    return rule, cluster, cause if RULES[rule].about is About.SOURCES else ""


def _overlapping(conditions: Iterable[Condition], told: Mapping[int, AlertState]) -> Iterator[list[Condition]]:
    """Yield runs of conditions that overlap in time or were reported as one.

    Args:
        conditions: of one alert, sorted by `fires`.
        told: the states told of the alert, by when they began. Telemetry that comes late may show another beginning or
            end. A condition that was told as over begins its own run, unless the one before it was told with it; one
            that was told as firing does if the run has what was told by itself.
    """
    run, until = list[Condition](), 0.0
    for condition in conditions:
        before = told.get(condition.first)
        own = before if before and run and condition.first > run[0].first else None
        of_another = own and (
            any(c.first in told for c in run) or not (own.firing or own.covers({c.item for c in run}))
        )
        if run and (condition.fires > until or of_another):
            yield run
            run, until = [], 0.0
        run.append(condition)
        within = [one for first, one in told.items() if one is before or (one.firing and first <= condition.first)]
        ends = [microseconds(one.last_ts) for one in within]
        until = max(until, inf if condition.open else condition.last, *ends)
    if run:
        yield run


def _with_moved(runs: Sequence[_Run]) -> Iterator[_Run]:
    """Yield the runs; a run of items that a later alert named, and that is over before it, is made part of it."""
    told = [(run, state) for _, run, state in runs if state]
    for begun, run, state in runs:
        about, over = {c.item for c in run}, not state and not any(c.open for c in run)
        last = max(c.last for c in run)
        for whole, one in told:
            if over and about <= one.names - {c.item for c in whole} and last <= microseconds(one.first_ts):
                whole.extend(run)
                break
        else:
            yield begun, run, state


def _with_told(mark: _Mark, firing: Iterable[_Mark]) -> _Mark:
    """Return a run with the begin of the firing alert that reported it, maybe with other settings for grouping."""
    kin, begun, run, _ = mark
    about = {c.item for c in run}
    for its_kin, its_begun, _, state in firing:
        if state is None or kin != its_kin or not about <= state.present:
            continue
        if microseconds(state.first_ts) <= begun <= microseconds(state.last_ts):
            return kin, its_begun, run, None
    return mark


def _incidents(marks: Iterable[_Mark], apart: int) -> Iterator[Episode]:
    """Join runs that begin close to each other, or to what was reported, whatever they are about."""
    found, told, last = list[Condition](), None, None
    for _, begun, run, state in marks:
        of_told = told is not None and told.firing and begun == last and {c.item for c in run} <= told.present
        if last is not None and not of_told and (not apart or begun - last > apart or (state and told)):
            if found:
                yield Episode(found, told)
            found, told = [], None
        found, told, last = found + run, told or state, begun
    if found:
        yield Episode(found, told)


def _state(episode: Sequence[Condition], told: AlertState | None, severities: Mapping[str, str]) -> AlertState:
    head, firing = episode[0], any(c.open for c in episode)
    shown = [c for c in episode if c.open or c.seen < c.last] if firing else episode
    over = [item for item in items(episode) if item not in items(shown)]
    name = (told.alert_id, told.subject, told.first_ts) if told else None
    own, about, first = name or (alert_id(*_key(head)), subject(shown), moment(head.first))
    return AlertState(
        own, head.rule, severities[head.rule], "firing" if firing else "resolved", about, first,
        moment(max(c.seen for c in shown)), summary(shown, over), labels(shown, over),
    )  # fmt: skip
