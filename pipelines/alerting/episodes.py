"""Conditions of one cause put together: one alert for a broker gone, not one for each partition."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import groupby

from pipelines.alerting.conditions import SECOND, Condition
from pipelines.alerting.state import AlertState, alert_id
from pipelines.alerting.words import labels, summary


def states(conditions: Iterable[Condition], severities: dict[str, str]) -> list[AlertState]:
    """One state for each episode of each alert, in order of time."""
    alerts = sorted(conditions, key=lambda c: (_key(c), c.fires, c.first, c.item))
    episodes = [e for _, same in groupby(alerts, _key) for e in _episodes(same)]
    found = [_state(episode, severities[episode[0].rule]) for episode in episodes]
    return sorted(found, key=lambda s: (s.first_ts, s.rule, s.labels["cluster"], s.subject))


def _key(condition: Condition) -> tuple[str, str, str, str]:
    return condition.rule, condition.cluster, condition.cause, condition.subject


def _episodes(conditions: Iterable[Condition]) -> Iterator[list[Condition]]:
    """Runs of conditions, sorted by `fires`, that overlap in time."""
    episode: list[Condition] = []
    for condition in conditions:
        if episode and not any(c.open for c in episode) and condition.fires > max(c.last for c in episode):
            yield episode
            episode = []
        episode.append(condition)
    if episode:
        yield episode


def _state(episode: Sequence[Condition], severity: str) -> AlertState:
    head, firing = episode[0], any(c.open for c in episode)
    told = [c for c in episode if c.open or c.seen < c.last] if firing else episode
    return AlertState(
        alert_id(*_key(head)), head.rule, severity, "firing" if firing else "resolved", head.subject,
        _time(head.first), _time(max(c.seen for c in told)), summary(told), labels(told),
    )  # fmt: skip


def _time(microseconds: int) -> datetime:
    return datetime.fromtimestamp(microseconds // SECOND, UTC).replace(microsecond=microseconds % SECOND)
