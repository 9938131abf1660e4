"""Every partition that a fleet has, had or will have, and those of their properties that change while it runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from generators.simulator.cluster import placement
from generators.simulator.cluster.registration import Registration
from generators.simulator.cluster.settings import Settings, Topic
from generators.simulator.faults.script import Fault
from generators.simulator.fleet.compiled import I32, I64
from generators.simulator.fleet.partitions import NOBODY


class PartitionCatalog:
    """Partitions numbered over topics by name: one that is deleted and created again keeps its numbers.

    A partition that does not exist (yet, or any more) has no replicas.
    """

    def __init__(self, settings: Settings, faults: Sequence[Fault] = ()) -> None:
        self.settings = settings
        sizes: dict[str, int] = {}
        topics = (*settings.topics, *(f.on for f in faults if f.do == "create-topic"))
        for topic in topics:
            sizes[topic.name] = max(sizes.get(topic.name, 0), topic.partitions)
        self.topics: list[str] = list(sizes)
        counts = np.array(list(sizes.values()), dtype=np.int64)
        self.topic: I32 = np.repeat(np.arange(len(counts)), counts).astype(np.int32)
        """Position of a partition's topic."""
        self.first: I64 = np.cumsum(counts) - counts
        """Number of a topic's partition 0."""
        self.partition: I32 = (np.arange(len(self.topic)) - self.first[self.topic]).astype(np.int32)
        most = max([*map(_width, topics), *(len(f.options["to"]) for f in faults if f.do == "reassign")])
        self.replicas: I32 = np.full((len(self.topic), most), NOBODY, dtype=np.int32)
        """In the order of assignment, padded with NOBODY."""
        self.min_isr: I32 = np.ones(len(self.topic), dtype=np.int32)
        self.unclean = np.zeros(len(self.topic), dtype=bool)
        self.topic_ids = [""] * len(self.topics)
        for number, topic in enumerate(settings.topics, 1):
            self.create(topic, placement.topic_id(topic.name, number))

    @property
    def existing(self) -> I64:
        """Numbers of the existing partitions."""
        return np.flatnonzero(self.replicas[:, 0] != NOBODY)

    def create(self, topic: Topic, topic_id: str) -> I64:
        """The controller has created a topic; returns the numbers of its partitions."""
        position = self.topics.index(topic.name)
        self.topic_ids[position] = topic_id
        numbers: I64 = self.first[position] + np.arange(topic.partitions)
        for p, number in enumerate(numbers.tolist()):
            self._assign(number, placement.assigned(topic, p, self.settings.brokers))
        self.min_isr[numbers], self.unclean[numbers] = topic.min_isr, topic.unclean
        return numbers

    def of(self, topic: str) -> I64:
        """All numbers that a topic of this name ever has."""
        return np.flatnonzero(self.topic == self.topics.index(topic))

    def number(self, topic: str, partition: int) -> int:
        return int(self.first[self.topics.index(topic)]) + partition

    def topic_partition(self, number: int) -> tuple[str, int]:
        return self.topics[self.topic[number]], int(self.partition[number])

    def assigned(self, number: int) -> tuple[int, ...]:
        return tuple(r for r in self.replicas[number].tolist() if r != NOBODY)

    def follow(self, number: int, known: Registration) -> None:
        """Update a partition by its registration after single steps."""
        self._assign(number, known.replicas)
        self.min_isr[number], self.unclean[number] = known.min_isr, known.unclean

    def delete(self, numbers: Any) -> None:
        self.replicas[numbers] = NOBODY

    def _assign(self, number: int, replicas: Sequence[int]) -> None:
        self.replicas[number, : len(replicas)] = replicas
        self.replicas[number, len(replicas) :] = NOBODY


def _width(topic: Topic) -> int:
    return topic.replication_factor if topic.assignment is None else max(map(len, topic.assignment))
