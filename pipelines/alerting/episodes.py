"""Conditions of one incident put together: one alert for a broker gone, or for a power failure, not one a partition."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import groupby

from pipelines.alerting.conditions import SECOND, Condition, items
from pipelines.alerting.messages import labels, subject, summary
from pipelines.alerting.state import AlertState, alert_id
from pipelines.lake.queries import moment

Episode = list[Condition]


def episodes(
    conditions: Iterable[Condition], group_s: Mapping[str, int], known: Collection[tuple[str, int]] = ()
) -> Iterator[Episode]:
    """The conditions by the episode of an alert that they are of.

    `group_s`: by rule, how many seconds apart episodes of one cluster may begin and still be one incident, unless they
    are `known` already, by id of their alert and beginning.
    """
    alerts = sorted(conditions, key=lambda c: (_key(c), c.fires, c.first, c.item))
    return _incidents([e for _, same in groupby(alerts, _key) for e in _episodes(same)], group_s, known)


def states(found: Iterable[Episode], severities: Mapping[str, str]) -> list[AlertState]:
    """One state for each episode, in order of time."""
    each = [_state(episode, severities[episode[0].rule]) for episode in found]
    return sorted(each, key=lambda s: (s.first_ts, s.rule, s.labels["cluster"], s.subject))


def _key(condition: Condition) -> tuple[str, str, str, str]:
    return condition.rule, condition.cluster, condition.cause, condition.subject


def _episodes(conditions: Iterable[Condition]) -> Iterator[Episode]:
    """Runs of conditions, sorted by `fires`, that overlap in time."""
    episode: Episode = []
    for condition in conditions:
        if episode and not any(c.open for c in episode) and condition.fires > max(c.last for c in episode):
            yield episode
            episode = []
        episode.append(condition)
    if episode:
        yield episode


def _incidents(
    episodes: Iterable[Episode], group_s: Mapping[str, int], known: Collection[tuple[str, int]]
) -> Iterator[Episode]:
    """Episodes of one rule and cluster that begin close to each other, whatever they are about, as one."""
    ordered = sorted(episodes, key=lambda e: (_kin(e), _begun(e), _key(e[0])))
    for (rule, *_), same in groupby(ordered, _kin):
        incident: Episode = []
        last, apart = 0, group_s[rule] * SECOND
        for episode in same:
            close = apart and _begun(episode) - last <= apart
            if incident and (not close or (alert_id(*_key(episode[0])), episode[0].first) in known):
                yield incident
                incident = []
            last = _begun(episode)
            incident = incident + episode
        yield incident


def _kin(episode: Episode) -> tuple[str, str, str]:
    return episode[0].rule, episode[0].cluster, episode[0].kin


def _begun(episode: Episode) -> int:
    return min(condition.first for condition in episode)


def _state(episode: Sequence[Condition], severity: str) -> AlertState:
    head, firing = episode[0], any(c.open for c in episode)
    shown = [c for c in episode if c.open or c.seen < c.last] if firing else episode
    over = [item for item in items(episode) if item not in items(shown)]
    return AlertState(
        alert_id(*_key(head)), head.rule, severity, "firing" if firing else "resolved", subject(shown),
        moment(head.first), moment(max(c.seen for c in shown)), summary(shown, over), labels(shown, over),
    )  # fmt: skip
