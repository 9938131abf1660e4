"""Producers' requests: sent to the believed leader, answered once, or not in time."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from generators.simulator.cluster.broker import Broker
from generators.simulator.cluster.leader_requests import Produced
from generators.simulator.cluster.log import Batch, Run
from generators.simulator.cluster.registration import NOBODY
from generators.simulator.cluster.settings import SECOND

if TYPE_CHECKING:
    from generators.simulator.cluster.simulation import Simulation

Key = tuple[str, int]
REQUEST_TIMEOUT = 30 * SECOND


class Request:
    """One produce request of one client; `done` is called once with its answer."""

    def __init__(self, clients: Clients, key: Key, acks: int, done: Callable[[Produced], None] | None) -> None:
        self.clients = clients
        self.key = key
        self.acks = acks
        self.done = done
        self.open = True
        self.lost = False
        """The connection was closed before the broker had read it."""
        self.unread = True

    def arrived(self, broker: Broker, count: int, batch: Batch | None) -> None:
        if not self.lost:
            broker.produce(self.key, count, self.acks, batch, lambda produced: self.answered(broker, produced))

    def answered(self, broker: Broker, produced: Produced) -> None:
        """The leader answers; acknowledged are the records of its log now. An error of acks=0 has no answer."""
        if produced.error is not None and self.acks == 0:
            self.clients.close(broker.id)
            return
        runs: list[Run] = []
        if produced.error is None:
            log = broker.replicas[self.key].log
            runs = [
                r._replace(end=min(r.end, produced.last + 1))
                for r in log.read(produced.first, produced.last + 1 - produced.first)
            ]
        self.unread = False
        self.clients.send(broker.id, False, self.received, broker.id, produced, runs)

    def received(self, leader: int, produced: Produced, runs: list[Run]) -> None:
        if not self.open:
            return
        self.open = False
        self.clients.ended(self, leader)
        if produced.error is not None:
            self.clients.forget(self.key)
        elif self.acks != 0:
            self.clients.acknowledged.setdefault(self.key, []).extend(runs)
        if self.done is not None:
            self.done(produced)


class Clients:
    """All producers together: the leaders they believe in, open requests, and what was `acknowledged`."""

    def __init__(self, cluster: Simulation) -> None:
        self.cluster = cluster
        self.acknowledged: dict[Key, list[Run]] = {}
        self._leader: dict[Key, int] = {}
        self._due: dict[tuple[int, bool], int] = {}
        """By broker and direction the arrival of the last message: a connection keeps their order."""
        self._open: dict[int, dict[Request, None]] = {}

    def forget(self, key: Key) -> None:
        """Look up the leader again at the next request."""
        self._leader.pop(key, None)

    def ended(self, request: Request, leader: int) -> None:
        self._open.get(leader, {}).pop(request, None)

    def disconnected(self, leader: int) -> None:
        """That broker's process is gone, and with it every answer; its leaders are looked up again."""
        self._leader = {key: believed for key, believed in self._leader.items() if believed != leader}
        for request in self._open.pop(leader, {}):
            self.cluster.network.send(request.received, leader, Produced("NETWORK_EXCEPTION"), [])

    def close(self, leader: int) -> None:
        """A broker closes a connection: with acks=0 it cannot answer an error otherwise
        (KafkaApis.handleProduceRequest).

        Requests sent on it and not read yet are lost; the producer sees that the connection is closed, not why, and
        looks up the leader again.
        """
        gone = [r for r in self._open.get(leader, {}) if r.acks == 0 and r.unread]
        for request in gone:
            request.lost = True
        self.send(leader, False, self._closed, leader, gone)

    def _closed(self, leader: int, requests: list[Request]) -> None:
        for request in requests:
            request.received(leader, Produced("NETWORK_EXCEPTION"), [])

    def send(self, broker: int, outward: bool, action: Callable[..., Any], *arguments: Any) -> None:
        """Send a message on the connection with a broker: none overtakes another."""
        cluster = self.cluster
        due = cluster.event_queue.now + cluster.network.between(cluster.settings.network_us)
        due = self._due[broker, outward] = max(due, self._due.get((broker, outward), 0))
        cluster.event_queue.at(due, action, *arguments)

    def produce(
        self, key: Key, count: int, acks: int, batch: Batch | None, done: Callable[[Produced], None] | None
    ) -> None:
        request = Request(self, key, acks, done)
        leader = self._leader.setdefault(key, self._registered(key))
        broker = self.cluster.brokers.get(leader)
        if broker is None or not broker.running:
            self.cluster.network.send(request.received, leader, Produced("LEADER_NOT_AVAILABLE"), [])
            return
        self._open.setdefault(leader, {})[request] = None
        self.send(leader, True, broker.run, broker.process, request.arrived, broker, count, batch)
        if self.cluster.settings.automatic:
            self.cluster.event_queue.after(REQUEST_TIMEOUT, request.received, leader, Produced("REQUEST_TIMED_OUT"), [])

    def _registered(self, key: Key) -> int:
        known = self.cluster.controller.partitions.get(key)
        return known.leader if known is not None else NOBODY
