"""The fetches of followers at one broker: answered at once, or parked until there is something (DelayedFetch)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from generators.simulator.cluster import threads
from generators.simulator.cluster.fetcher import Request
from generators.simulator.cluster.leader_requests import Fetched
from generators.simulator.cluster.settings import MS
from generators.simulator.cluster.threads import Pause

if TYPE_CHECKING:
    from generators.simulator.cluster.broker import Broker

Key = tuple[str, int]


class DelayedFetches:
    """Fetches that one process of a broker serves; by follower at most one is parked."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._parked: dict[int, Request] = {}

    def serve(self, request: Request) -> None:
        """Answer a fetch at once if there is anything to answer, else park it."""
        broker = self._broker
        request.fetcher.session.count(broker)
        pause = threads.drawn(broker.settings, broker.cluster.random)
        last = next(reversed(request.asked), None)
        answers = {key: self._fetch(request, key, pause if key == last else threads.NONE) for key in request.asked}
        if pause.whole:
            broker.later(pause.whole, self._answer, request, answers)
        else:
            self._answer(request, answers)

    def parked(self, follower: int) -> Request | None:
        """The parked fetch of that follower."""
        return self._parked.get(follower)

    def grown(self, key: Key, followers: Iterable[int]) -> None:
        """Complete the fetches of these followers for which there are records now."""
        for id in followers:
            request = self._parked.get(id)
            if request is not None and key in request.asked and request.most > 0 and not request.patient:
                self._complete(request)

    def complete(self, key: Key) -> None:
        """Complete the fetches that ask for this partition: its leader has changed, or the replica is gone."""
        for request in [r for r in self._parked.values() if key in r.asked]:
            self._complete(request)

    def expire(self, request: Request) -> None:
        """Complete a fetch that has waited for replica.fetch.wait.max.ms."""
        if self._parked.get(request.follower) is request:
            self._complete(request)

    def _fetch(self, request: Request, key: Key, pause: Pause) -> Fetched:
        leader_partition = self._broker.leader_partition(key)
        if leader_partition is None:
            return Fetched("NOT_LEADER_OR_FOLLOWER")
        return leader_partition.fetch(request.follower, request.broker_epoch, request.asked[key], request.most, pause)

    def _answer(self, request: Request, answers: dict[Key, Fetched]) -> None:
        broker = self._broker
        ready = any(answer.error or answer.diverging or answer.runs for answer in answers.values())
        if ready and not request.patient:
            broker.cluster.answer_fetch(broker, request, answers)
            return
        self._parked[request.follower] = request
        if broker.settings.automatic:
            broker.later(broker.settings.fetch_wait_max_ms * MS, self.expire, request)

    def _complete(self, request: Request) -> None:
        """A parked fetch is read again and does not count again (DelayedFetch.onComplete)."""
        del self._parked[request.follower]
        answers = {}
        for key, asked in request.asked.items():
            leader_partition = self._broker.leader_partition(key)
            if leader_partition is None or not asked.still(leader_partition.replica):
                answers[key] = Fetched("NOT_LEADER_OR_FOLLOWER")
            else:
                answers[key] = leader_partition.read(asked, request.most)
        self._broker.cluster.answer_fetch(self._broker, request, answers)
