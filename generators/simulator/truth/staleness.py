"""When each follower is out of sync by Kafka's rule, from its leader's own state."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from generators.simulator.cluster import rules
from generators.simulator.cluster.leader_partition import LeaderPartition
from generators.simulator.cluster.settings import Settings
from generators.simulator.cluster.versions import Version


class Stretch(NamedTuple):
    """A follower out of sync from `start` to `end` (ms of the leader's clock); no end: until the term ended."""

    replica: int
    start: int
    end: int | None


@dataclass
class _Known:
    """A follower as its leader knew it at the last look, and since when it has been out of sync."""

    leo: int
    caught_up: int
    since: int | None = None


class Staleness:
    """The followers of one term, looked at after every event in it."""

    def __init__(self, settings: Settings, version: Version) -> None:
        self._settings = settings
        self._by_messages = version.lag_by_messages
        self._leader_leo = 0
        self._looked = 0
        self._followers: dict[int, _Known] = {}

    def look(self, leader_partition: LeaderPartition, now: int) -> list[Stretch]:
        """The stretches that ended with the event at `now` (ms)."""
        self.pass_time(now)
        ended = []
        for id in sorted(set(self._followers) - set(leader_partition.followers)):
            since = self._followers.pop(id).since
            if since is not None and since < now:
                ended.append(Stretch(id, since, now))
        self._leader_leo, self._looked = leader_partition.log.leo, now
        for follower in leader_partition.followers.values():
            caught_up = follower.fetched if self._by_messages else follower.caught_up
            known = self._followers.setdefault(follower.id, _Known(follower.leo, caught_up))
            known.leo, known.caught_up = follower.leo, caught_up
            if self._in_sync(follower.leo, caught_up, now):
                if known.since is not None and known.since < now:
                    ended.append(Stretch(follower.id, known.since, now))
                known.since = None
            elif known.since is None:
                known.since = now
        return ended

    def pass_time(self, now: int) -> None:
        """Nothing has happened since the last look; followers that have not caught up in time fall out of sync."""
        for known in self._followers.values():
            due = max(known.caught_up + self._settings.lag_max_ms + 1, self._looked)
            if known.since is None and known.leo != self._leader_leo and due < now:
                known.since = due

    def open(self) -> list[Stretch]:
        """Stretches that are open as the term ends."""
        return [Stretch(id, known.since, None) for id, known in self._followers.items() if known.since is not None]

    def _in_sync(self, leo: int, caught_up: int, now: int) -> bool:
        if self._by_messages:
            most = self._settings.lag_max_messages
            return rules.is_in_sync_by_messages(leo, self._leader_leo, most, now - caught_up, self._settings.lag_max_ms)
        return rules.is_caught_up(leo, self._leader_leo, caught_up, now, self._settings.lag_max_ms)
