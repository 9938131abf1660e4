"""The start of a fleet: every partition created, led and followed, with the events that single steps would emit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING, Any

import numpy as np

from generators.simulator.clients.load import Load, intensity, weights
from generators.simulator.cluster.settings import SECOND, Topic
from generators.simulator.cluster.simulation_event import CONTROLLER, REPLICATION, SimulationEvent
from generators.simulator.fleet.compiled import F64, I32, I64
from generators.simulator.fleet.fetch_rounds import TENTH
from generators.simulator.fleet.partition_catalog import PartitionCatalog
from generators.simulator.fleet.partitions import Partitions, fresh

if TYPE_CHECKING:
    from generators.simulator.cluster.simulation import Simulation


def spread(topics: int, partitions: int, brokers: Sequence[int], replication_factor: int = 3) -> tuple[Topic, ...]:
    """Topics whose replicas go round the brokers, followers a step further every time round (StripedReplicaPlacer)."""
    count = len(brokers)
    if not 1 <= replication_factor <= count:
        raise ValueError(f"replication factor {replication_factor}: from 1 to the {count} brokers there are")

    def replicas(number: int) -> tuple[int, ...]:
        others = [(number // count + k) % max(1, count - 1) + 1 for k in range(replication_factor - 1)]
        return tuple(brokers[(number + step) % count] for step in (0, *others))

    return tuple(
        Topic(f"topic-{t}", partitions, replication_factor, assignment=tuple(
            replicas(t * partitions + p) for p in range(partitions)
        ))
        for t in range(topics)
    )  # fmt: skip


def partitions(catalog: PartitionCatalog, simulation: Simulation, loads: Sequence[Load], records: float) -> Partitions:
    """All partitions at the start of their leaders; `records`: the average of an append."""
    numbers = catalog.existing
    random = Random(f"{catalog.settings.seed}/fleet")
    made = [_rates(topic, loads, random) for topic in catalog.settings.topics]
    return _begun(catalog, simulation, numbers, loads, np.concatenate([[], *made]) / records)


def created(
    catalog: PartitionCatalog, simulation: Simulation, topic: Topic, loads: Sequence[Load], records: float
) -> Partitions:  # fmt: skip
    """The partitions of a topic that the controller has created in a running fleet."""
    numbers = catalog.create(topic, simulation.controller.partitions[topic.name, 0].topic_id)
    random = Random(f"{catalog.settings.seed}/fleet/{simulation.controller.topics}")
    return _begun(catalog, simulation, numbers, loads, _rates(topic, loads, random) / records)


def _begun(
    catalog: PartitionCatalog, simulation: Simulation, numbers: I64, loads: Sequence[Load], rate: F64
) -> Partitions:
    clocks = {b: simulation.brokers[b].clock.ms for b in catalog.settings.brokers}
    replicas = catalog.replicas[numbers]
    caught_up = np.array([clocks[b] for b in replicas[:, 0].tolist()], dtype=np.int64)
    load = load_of(catalog, loads)[numbers]
    return replace(fresh(replicas, rate, load, catalog.min_isr[numbers], caught_up), number=numbers)


def load_of(catalog: PartitionCatalog, loads: Sequence[Load]) -> I32:
    """By number: the position of a partition's load."""
    return np.array([_load_of(t, loads) for t in catalog.topics], dtype=np.int32)[catalog.topic]


def _load_of(topic: str, loads: Sequence[Load]) -> int:
    """The position of a topic's load, one that names it before one for all; -1 for none."""
    return next((k for name in (topic, None) for k, load in enumerate(loads) if load.topic == name), -1)


def _rates(topic: Topic, loads: Sequence[Load], random: Random) -> F64:
    """Records a second of each partition at the height of its load."""
    which = _load_of(topic.name, loads)
    if which < 0:
        return np.zeros(topic.partitions)
    return np.array(weights(loads[which], topic.partitions, random)) * loads[which].rate


def shape(loads: Sequence[Load], seconds: float) -> F64:
    """[load, tenth of a second]: the share of its rate that each has."""
    tenths = range(0, max(1, round(seconds * SECOND)), TENTH)
    return np.array([[intensity(load, at) for at in tenths] for load in loads] or [[0.0]])


def announce(catalog: PartitionCatalog, simulation: Simulation) -> None:
    """Emit the first term of every partition: its election, its leader, its followers."""
    settings, controller = catalog.settings, simulation.settings.controller_id
    now = simulation.event_queue.now
    clocks = {b: simulation.brokers[b].clock.us for b in settings.brokers} | {controller: simulation.quorum.clock.us}

    def emit(broker: int, source: str, kind: str, **more: Any) -> None:
        simulation.observe(
            SimulationEvent(now, clocks[broker], broker, source, kind, leader_epoch=0, partition_epoch=0, **more)
        )

    simulation.controller.topics = len(settings.topics)
    for number in catalog.existing.tolist():
        leader, *followers = replicas = catalog.assigned(number)
        topic, partition = catalog.topic_partition(number)
        fields = {
            "topic": topic, "topic_id": catalog.topic_ids[catalog.topic[number]], "partition": partition,
            "leader": leader, "isr": replicas, "replicas": replicas,
        }  # fmt: skip
        emit(controller, CONTROLLER, "election", **fields, unclean=False, controller_epoch=1, committed=False)
        emit(
            leader, REPLICATION, "leader", **fields, leo=0, leader_leo=0, hw=0, log_start=0, unclean=False,
            min_isr=int(catalog.min_isr[number]), lag_max_ms=settings.lag_max_ms,
        )  # fmt: skip
        fields |= {"isr": None, "replicas": None}
        for follower in followers:
            emit(follower, REPLICATION, "follower", **fields, replica=follower, leo=0, hw=0, log_start=0)
