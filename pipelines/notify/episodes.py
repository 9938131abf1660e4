"""Episodes of alerts: the states of each in `ops/alerts`, and the notification of its present state."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from pipelines.alerting.outbox import in_order
from pipelines.alerting.state import AlertState

INCIDENT = "incident"
"""The rule name of an incident's episode."""
LOST = "loss"
"""The label of the episode of an incident's first loss, and of the first that is not proven."""
GROWTH = timedelta(minutes=10)
"""The shortest time between two messages about an alert that grows."""


NEVER = datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True)
class Episode:
    """One episode of an alert, or an incident, as it is notified.

    Attributes:
        first, last: its first and its present state.
        changes: the number of changes that are notified anew.
        growths: the number of growths since the last such change.
        raised: an incident's episodes, one for each severity that it had, and one for its first loss, proven or not.
        grown: the number of growths before each change.
    """

    first: AlertState
    last: AlertState
    changes: int = 0
    growths: int = 0
    raised: tuple[Episode, ...] = ()
    grown: tuple[int, ...] = ()

    @property
    def firing(self) -> bool:
        return self.last.firing

    @property
    def key(self) -> str:
        """The key of the notification of the present state: equal in every run, so that doubles are recognized."""
        return self._key(_state(self.changes, self.growths))

    @property
    def earlier(self) -> list[str]:
        """The keys of earlier notifications of this episode."""
        grown = (*self.grown, *[0] * (self.changes - len(self.grown)))
        return [self._key(_state(change, n)) for change, growths in enumerate(grown) for n in range(growths + 1)]

    @property
    def told_as(self) -> str:
        """The name of an entry that a receiver keeps for an incident: a severity, or its first loss, proven or not."""
        lost = self.first.labels.get(LOST)
        return f"{self.first.severity}-{'lost' if lost == 'true' else lost}" if lost else self.first.severity

    def by_severity(self) -> list[Episode]:
        """An incident's episodes, one for each entry that a receiver keeps, the gravest last; else itself."""
        return list(self.raised) or [self]

    def _key(self, change: str) -> str:
        own = (self.told_as, change) if self.first.rule == INCIDENT else (change,)
        parts = (self.first.alert_id, self.first.first_ts.isoformat(), *own)
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:12]


def _state(change: int, growths: int) -> str:
    return f"{change}+{growths}" if growths else str(change)


def episodes(states: Iterable[AlertState], now: datetime = NEVER) -> list[Episode]:
    """The episodes that these states are of at `now` (wall clock), the oldest first.

    What was over before anybody looked is history: it is none.
    """
    found: dict[tuple[str, datetime], list[AlertState]] = {}
    for state in in_order(states):
        found.setdefault(state.episode, []).append(state)
    each = [_episode(own, now) for own in found.values() if any(state.firing for state in own)]
    return sorted(each, key=lambda episode: (episode.first.first_ts, episode.first.alert_id))


def _episode(own: Sequence[AlertState], now: datetime) -> Episode:
    """Build one episode from its states, in the order in which they were written."""
    changes, growths, grown = 0, 0, list[int]()
    told, size, due = _at(own[0]), own[0].size, None
    for before, state in zip(own, [*own[1:], None], strict=True):
        if due is not None and due <= (now if state is None else _at(state)):
            growths, told, size, due = growths + 1, due, before.size, None
        if state is None:
            break
        if state.state != before.state:
            grown.append(growths)
            changes, growths, told, size, due = changes + 1, 0, _at(state), state.size, None
        elif state.firing and state.exceeds(size):
            due = max(_at(state), told + GROWTH)
    return Episode(own[0], own[-1], changes, growths, grown=tuple(grown))


def _at(state: AlertState) -> datetime:
    return state.written_at or datetime.min.replace(tzinfo=UTC)
