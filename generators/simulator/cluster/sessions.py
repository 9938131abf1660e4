"""Partitions at rest between a follower and its leader: one fetch counts for all of them (as in KIP-227)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from generators.simulator.cluster.broker import Broker
    from generators.simulator.cluster.fetcher import Fetcher
    from generators.simulator.cluster.leader_partition import LeaderPartition
    from generators.simulator.cluster.replica import Follower

Key = tuple[str, int]


@dataclass
class _Rest:
    """A follower at its leader's LEO, with its leader's HW; `emitted_at`: time of its last emitted fetch."""

    leader_partition: LeaderPartition
    follower: Follower
    emitted_at: int


class FetchSession:
    """Partitions of one fetcher that it need not name in a fetch, because nothing has changed since the last answer.

    Every fetch counts for them all the same. When a partition wakes, its leader's state of the follower is updated, and
    the last fetch that counted is emitted: those before it change no fact (see telemetry.fetch_thinning).
    """

    def __init__(self, fetcher: Fetcher) -> None:
        self._fetcher = fetcher
        self._resting: dict[Key, _Rest] = {}
        self._at = self._ts = self._ms = 0
        """Last fetch that counted: true time and the leader's clock (us), and that in ms."""

    def __len__(self) -> int:
        return len(self._resting)

    def __contains__(self, key: Key) -> bool:
        return key in self._resting

    def count(self, leader: Broker) -> None:
        """A fetch has arrived at the leader. A clock that was set back ends all rest: `caught_up` never falls."""
        clock = leader.clock
        if clock.ms < self._ms:
            self.wake_all()
        self._at, self._ts, self._ms = leader.now, clock.us, clock.ms

    def rest(self, key: Key, leader_partition: LeaderPartition) -> None:
        """From the last fetch that counted on nothing changes."""
        self._resting[key] = _Rest(leader_partition, leader_partition.followers[self._fetcher.broker.id], self._at)

    def wake(self, key: Key) -> None:
        """It is about to change: from now on it is named in fetches, also in a request still on its way."""
        rest = self._resting.pop(key, None)
        if rest is not None:
            rest.follower.fetched = self._ms
            rest.follower.caught_up = max(rest.follower.caught_up, self._ms)
            self._emit(rest)
            self._fetcher.ask(key)

    def wake_all(self) -> None:
        for key in list(self._resting):
            self.wake(key)

    def emit(self) -> None:
        """Emit the last fetch that counted, for all partitions at rest."""
        for rest in self._resting.values():
            self._emit(rest)

    def _emit(self, rest: _Rest) -> None:
        if self._at > rest.emitted_at:
            rest.emitted_at = self._at
            rest.leader_partition.emit_resting(rest.follower, self._at, self._ts)
