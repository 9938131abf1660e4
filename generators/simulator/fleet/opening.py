"""How a fleet begins: every partition created, led and followed, as single steps would tell of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from random import Random
from typing import TYPE_CHECKING, Any

import numpy as np

from generators.simulator.clients.load import Load, intensity, weights
from generators.simulator.cluster.happening import CONTROLLER, REPLICATION, Happening
from generators.simulator.cluster.settings import SECOND, Settings, Topic
from generators.simulator.fleet.compiled import F64, I32, I64
from generators.simulator.fleet.partitions import NOBODY, Partitions, fresh
from generators.simulator.fleet.rounds import TENTH

if TYPE_CHECKING:
    from generators.simulator.cluster.simulation import Simulation


def spread(topics: int, partitions: int, brokers: Sequence[int], replication_factor: int = 3) -> tuple[Topic, ...]:
    """Topics whose replicas go round the brokers, followers a step further every time round (StripedReplicaPlacer)."""
    count = len(brokers)
    if not 1 <= replication_factor <= count:
        raise ValueError(f"replication factor {replication_factor}: from 1 to the {count} brokers there are")

    def replicas(n: int) -> tuple[int, ...]:
        others = [(n // count + k) % max(1, count - 1) + 1 for k in range(replication_factor - 1)]
        return tuple(brokers[(n + step) % count] for step in (0, *others))

    return tuple(
        Topic(f"topic-{t}", partitions, replication_factor, assignment=tuple(
            replicas(t * partitions + p) for p in range(partitions)
        ))
        for t in range(topics)
    )  # fmt: skip


@dataclass(frozen=True)
class Roster:
    """All partitions of a cluster, numbered over its topics."""

    settings: Settings

    @cached_property
    def topic(self) -> I32:
        """The position of a partition's topic."""
        counts = [t.partitions for t in self.settings.topics]
        return np.repeat(np.arange(len(counts)), counts).astype(np.int32)

    @cached_property
    def first(self) -> I64:
        """The number of a topic's partition 0."""
        counts = np.array([t.partitions for t in self.settings.topics], dtype=np.int64)
        before: I64 = np.cumsum(counts) - counts
        return before

    @cached_property
    def partition(self) -> I32:
        return (np.arange(len(self.topic)) - self.first[self.topic]).astype(np.int32)

    @cached_property
    def replicas(self) -> I32:
        """In the order of assignment, padded with NOBODY."""
        assigned = [self._assigned(t, p) for t in self.settings.topics for p in range(t.partitions)]
        most = max(map(len, assigned))
        return np.array([a + (NOBODY,) * (most - len(a)) for a in assigned], dtype=np.int32)

    def _assigned(self, topic: Topic, partition: int) -> tuple[int, ...]:
        """As the controller assigns them (Controller._assigned)."""
        if topic.assignment is not None:
            return topic.assignment[partition % len(topic.assignment)]
        brokers = self.settings.brokers
        return tuple(brokers[(partition + k) % len(brokers)] for k in range(topic.replication_factor))

    @cached_property
    def topics(self) -> list[str]:
        return [t.name for t in self.settings.topics]

    @cached_property
    def topic_ids(self) -> list[str]:
        """22 characters, as the controller gives them (Controller.create)."""
        stems = [f"{t:.12}".replace(".", "-").replace("_", "-").ljust(14, "A") for t in self.topics]
        return [f"{stem}{n:08d}" for n, stem in enumerate(stems, 1)]

    def of_topics(self, values: Sequence[int]) -> I32:
        """A value of each topic, for each of its partitions."""
        return np.array(values, dtype=np.int32)[self.topic]


def partitions(roster: Roster, simulation: Simulation, loads: Sequence[Load], records: float) -> Partitions:
    """All partitions, their leaders having just begun; `records`: how many an append has on average."""
    leaders = {b: simulation.brokers[b].clock.ms for b in roster.settings.brokers}
    load = roster.of_topics([_load_of(t, loads) for t in roster.topics])
    caught_up = np.array([leaders[b] for b in roster.replicas[:, 0].tolist()], dtype=np.int64)
    min_isr = roster.of_topics([t.min_isr for t in roster.settings.topics])
    return fresh(roster.replicas, _rates(roster, loads, load) / records, load, min_isr, caught_up)


def _load_of(topic: str, loads: Sequence[Load]) -> int:
    """The position of a topic's load, one that names it before one for all; -1 for none."""
    return next((k for name in (topic, None) for k, load in enumerate(loads) if load.topic == name), -1)


def _rates(roster: Roster, loads: Sequence[Load], load: I32) -> F64:
    """Records a second of each partition at the height of its load."""
    random = Random(f"{roster.settings.seed}/fleet")
    rates = np.zeros(len(roster.topic))
    for t, topic in enumerate(roster.settings.topics):
        first = int(roster.first[t])
        if load[first] >= 0:
            given = loads[load[first]]
            rates[first : first + topic.partitions] = np.array(weights(given, topic.partitions, random)) * given.rate
    return rates


def shape(loads: Sequence[Load], seconds: float) -> F64:
    """[load, tenth of a second]: the share of its rate that each has."""
    tenths = range(0, max(1, round(seconds * SECOND)), TENTH)
    return np.array([[intensity(load, at) for at in tenths] for load in loads] or [[0.0]])


def announce(roster: Roster, simulation: Simulation) -> None:
    """Tells of the first term of every partition: its election, its leader, its followers."""
    settings, controller = roster.settings, simulation.settings.controller_id
    now = simulation.agenda.now
    clocks = {b: simulation.brokers[b].clock.us for b in settings.brokers} | {
        controller: simulation.controller.clock.us
    }

    def tell(broker: int, source: str, kind: str, **more: Any) -> None:
        simulation.observe(
            Happening(now, clocks[broker], broker, source, kind, leader_epoch=0, partition_epoch=0, **more)
        )

    for n, (topic, partition) in enumerate(zip(roster.topic.tolist(), roster.partition.tolist(), strict=True)):
        replicas = tuple(r for r in roster.replicas[n].tolist() if r != NOBODY)
        leader, *followers = replicas
        place = {
            "topic": roster.topics[topic], "topic_id": roster.topic_ids[topic], "partition": partition,
            "leader": leader, "isr": replicas, "replicas": replicas,
        }  # fmt: skip
        tell(controller, CONTROLLER, "election", **place, unclean=False)
        tell(
            leader, REPLICATION, "leader", **place, leo=0, leader_leo=0, hw=0, log_start=0, unclean=False,
            min_isr=settings.topics[topic].min_isr, lag_max_ms=settings.lag_max_ms,
        )  # fmt: skip
        place |= {"isr": None, "replicas": None}
        for follower in followers:
            tell(follower, REPLICATION, "follower", **place, replica=follower, leo=0, hw=0, log_start=0)
