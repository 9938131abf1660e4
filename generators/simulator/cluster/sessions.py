"""Partitions at rest between a follower and its leader: a fetch counts for all of them at once (as in KIP-227)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from generators.simulator.cluster.broker import Broker
    from generators.simulator.cluster.fetcher import Fetcher
    from generators.simulator.cluster.leading import Leading
    from generators.simulator.cluster.replica import Follower

Key = tuple[str, int]


@dataclass
class _Rest:
    """A follower at its leader's LEO, with its leader's HW; `told`: when its last fetch was that is told of."""

    leading: Leading
    follower: Follower
    told: int


class FetchSession:
    """What one fetcher follows and need not ask for by name, because nothing has changed since the last answer.

    Every fetch of it counts all the same. When a partition wakes, its leader's record of the follower is brought up to
    date, and the fetch counted last is told of: those before it change no fact (see telemetry.thinning).
    """

    def __init__(self, fetcher: Fetcher) -> None:
        self._fetcher = fetcher
        self._resting: dict[Key, _Rest] = {}
        self._at = self._ts = self._ms = 0
        """When a fetch was counted last: true time and the leader's clock (us), and that in ms."""

    def __len__(self) -> int:
        return len(self._resting)

    def __contains__(self, key: Key) -> bool:
        return key in self._resting

    def count(self, leader: Broker) -> None:
        """A fetch has arrived at the leader. A clock set back ends all rest: `caught_up` never falls."""
        clock = leader.clock
        if clock.ms < self._ms:
            self.wake_all()
        self._at, self._ts, self._ms = leader.now, clock.us, clock.ms

    def rest(self, key: Key, leading: Leading) -> None:
        """From the fetch counted last on nothing changes."""
        self._resting[key] = _Rest(leading, leading.followers[self._fetcher.broker.id], self._at)

    def wake(self, key: Key) -> None:
        """It is about to change: from now on it is asked for by name, by a request still on its way too."""
        rest = self._resting.pop(key, None)
        if rest is not None:
            rest.follower.fetched = self._ms
            rest.follower.caught_up = max(rest.follower.caught_up, self._ms)
            self._tell(rest)
            self._fetcher.ask(key)

    def wake_all(self) -> None:
        for key in list(self._resting):
            self.wake(key)

    def tell(self) -> None:
        """Tells of the fetch counted last, for all at rest."""
        for rest in self._resting.values():
            self._tell(rest)

    def _tell(self, rest: _Rest) -> None:
        if self._at > rest.told:
            rest.told = self._at
            rest.leading.tell_of_rest(rest.follower, self._at, self._ts)
