"""Applications that write: producers with retries and idempotence, and a partitioner for what they send."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from random import Random
from typing import TYPE_CHECKING, NamedTuple

from generators.simulator.clients import delivery
from generators.simulator.clients.consumer import Consumer
from generators.simulator.clients.partitioner import Partitioner, RoundRobin, Sticky
from generators.simulator.clients.producer import Producer, ProducerSettings, Sent

if TYPE_CHECKING:
    from generators.simulator.clients.load import Load
    from generators.simulator.cluster.simulation import Simulation

KEYS = 1_000
"""Number of different keys; `hot` makes a few of them frequent."""
RECORD_BYTES = 100
GRAIN = 10**12
"""Frequencies of keys are cut to whole numbers of 1/GRAIN: powers differ in the last bit between machines."""


class Delivered(NamedTuple):
    """Numbers of records by outcome. `skipped`: partitions that are offline, or whose first records are deleted."""

    once: int
    doubled: int
    lost: int
    broken: int
    """Lost though they were acknowledged."""
    pending: int
    """Not there, and not answered yet."""
    resent: int
    """Batches that were sent more than once."""
    skipped: int


class Applications:
    """The producers of one load on one topic; records go to producers in turn, and to partitions by a partitioner."""

    def __init__(
        self, simulation: Simulation, load: Load, topic: str, partitions: int, random: Random, ids: Iterator[int]
    ) -> None:
        self._simulation, self._topic, self._random = simulation, topic, random
        self._acks, self._by, self._partitions = load.acks, load.by, range(partitions)
        settings = ProducerSettings(load.acks, load.idempotent)
        self._producers = [Producer(simulation, topic, ids, settings) for _ in range(load.producers)]
        keyless = (RoundRobin if load.by == "round-robin" else Sticky)(random)
        self._partitioner = Partitioner(partitions, keyless)
        self._keys = list(accumulate(round(rank**-load.hot * GRAIN) for rank in range(1, KEYS + 1)))
        self._sent = 0

    def send(self, records: int) -> None:
        """Send so many records now, a batch for each partition of each producer."""
        batches: dict[tuple[int, int], list[str]] = {}
        for _ in range(records):
            at = self._sent % len(self._producers), self._chosen()
            batches.setdefault(at, []).append(f"r{self._sent}")
            self._sent += 1
        for (producer, partition), values in batches.items():
            self._producers[producer].send(partition, *values)

    def _chosen(self) -> int:
        if self._by == "key":
            (key,) = self._random.choices(range(KEYS), cum_weights=self._keys)
            return self._partitioner.partition(key=f"key-{key}".encode())
        return self._partitioner.partition(size=RECORD_BYTES)

    @property
    def sent(self) -> Iterator[Sent]:
        return (sent for producer in self._producers for sent in producer.sent)

    def delivered(self) -> Delivered:
        """Outcome of all that was sent, by what a consumer finds now."""
        total = [0] * len(Delivered._fields)
        for partition in self._partitions:
            found = self._count(partition, [sent for sent in self.sent if sent.partition == partition])
            total = [a + b for a, b in zip(total, found, strict=True)]
        return Delivered(*total)

    def _count(self, partition: int, sent: Sequence[Sent]) -> Delivered:
        resent = sum(s.attempts > 1 for s in sent)
        registered = self._simulation.controller.partitions.get((self._topic, partition))
        leader = None if registered is None else self._simulation.leader(self._topic, partition)
        replica = None if leader is None else self._simulation.brokers[leader].replicas.get((self._topic, partition))
        if replica is None or replica.log.start > 0:
            return Delivered(0, 0, 0, 0, 0, resent, 1)
        read = Consumer(self._simulation, self._topic, partition).poll(most=replica.log.leo + 1)
        there = [record.value for record in read if record.value is not None]
        acknowledged = [] if self._acks == 0 else _values(s for s in sent if s.acknowledged)
        made = delivery.count(_values(sent), acknowledged, there)
        open_ = set(_values(s for s in sent if s.answer is None))
        doubled, pending = len(set(made.duplicated)), sum(value in open_ for value in made.lost)
        once = len(made.sent) - len(made.lost) - doubled
        return Delivered(once, doubled, len(made.lost) - pending, len(made.broken), pending, resent, 0)


def _values(sent: Iterable[Sent]) -> list[str]:
    return [value for s in sent for value in s.values]
