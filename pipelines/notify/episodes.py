"""Episodes of alerts: what `ops/alerts` has of each, and which notification its present state is."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise

from pipelines.alerting.outbox import in_order
from pipelines.alerting.state import AlertState


@dataclass(frozen=True)
class Episode:
    """One episode of an alert: its first state, its present one, and how often it changed between firing and not."""

    first: AlertState
    last: AlertState
    changes: int = 0

    @property
    def firing(self) -> bool:
        return self.last.firing

    @property
    def key(self) -> str:
        """The notification of the present state: the same in every run, so that a double is known as one."""
        return self._key(self.changes)

    @property
    def earlier(self) -> list[str]:
        """The keys of the states before."""
        return [self._key(change) for change in range(self.changes)]

    def _key(self, change: int) -> str:
        parts = (self.first.alert_id, self.first.first_ts.isoformat(), str(change))
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:12]


def episodes(states: Iterable[AlertState]) -> list[Episode]:
    """The episodes that these states are of, the oldest first."""
    found: dict[tuple[str, datetime], list[AlertState]] = {}
    for state in in_order(states):
        found.setdefault(state.episode, []).append(state)
    each = [Episode(own[0], own[-1], sum(a.state != b.state for a, b in pairwise(own))) for own in found.values()]
    return sorted(each, key=lambda episode: (episode.first.first_ts, episode.first.alert_id))
