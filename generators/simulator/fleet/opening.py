"""How a fleet begins: every partition created, led and followed, as single steps would tell of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING, Any

import numpy as np

from generators.simulator.clients.load import Load, intensity, weights
from generators.simulator.cluster.happening import CONTROLLER, REPLICATION, Happening
from generators.simulator.cluster.settings import SECOND, Topic
from generators.simulator.fleet.compiled import F64, I32, I64
from generators.simulator.fleet.partitions import Partitions, fresh
from generators.simulator.fleet.roster import Roster
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


def partitions(roster: Roster, simulation: Simulation, loads: Sequence[Load], records: float) -> Partitions:
    """All partitions, their leaders having just begun; `records`: how many an append has on average."""
    numbers = roster.there
    random = Random(f"{roster.settings.seed}/fleet")
    made = [_rates(topic, loads, random) for topic in roster.settings.topics]
    return _begun(roster, simulation, numbers, loads, np.concatenate([[], *made]) / records)


def created(
    roster: Roster, simulation: Simulation, topic: Topic, loads: Sequence[Load], records: float
) -> Partitions:  # fmt: skip
    """The partitions of a topic that the controller has created in a fleet that runs."""
    numbers = roster.create(topic, simulation.controller.partitions[topic.name, 0].topic_id)
    random = Random(f"{roster.settings.seed}/fleet/{simulation.controller.topics}")
    return _begun(roster, simulation, numbers, loads, _rates(topic, loads, random) / records)


def _begun(roster: Roster, simulation: Simulation, numbers: I64, loads: Sequence[Load], rate: F64) -> Partitions:
    clocks = {b: simulation.brokers[b].clock.ms for b in roster.settings.brokers}
    replicas = roster.replicas[numbers]
    caught_up = np.array([clocks[b] for b in replicas[:, 0].tolist()], dtype=np.int64)
    load = load_of(roster, loads)[numbers]
    return replace(fresh(replicas, rate, load, roster.min_isr[numbers], caught_up), number=numbers)


def load_of(roster: Roster, loads: Sequence[Load]) -> I32:
    """By number: the position of a partition's load."""
    return np.array([_load_of(t, loads) for t in roster.topics], dtype=np.int32)[roster.topic]


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


def announce(roster: Roster, simulation: Simulation) -> None:
    """Tells of the first term of every partition: its election, its leader, its followers."""
    settings, controller = roster.settings, simulation.settings.controller_id
    now = simulation.agenda.now
    clocks = {b: simulation.brokers[b].clock.us for b in settings.brokers} | {controller: simulation.quorum.clock.us}

    def tell(broker: int, source: str, kind: str, **more: Any) -> None:
        simulation.observe(
            Happening(now, clocks[broker], broker, source, kind, leader_epoch=0, partition_epoch=0, **more)
        )

    simulation.controller.topics = len(settings.topics)
    for number in roster.there.tolist():
        leader, *followers = replicas = roster.assigned(number)
        topic, partition = roster.place(number)
        place = {
            "topic": topic, "topic_id": roster.topic_ids[roster.topic[number]], "partition": partition,
            "leader": leader, "isr": replicas, "replicas": replicas,
        }  # fmt: skip
        tell(controller, CONTROLLER, "election", **place, unclean=False, controller_epoch=1, committed=False)
        tell(
            leader, REPLICATION, "leader", **place, leo=0, leader_leo=0, hw=0, log_start=0, unclean=False,
            min_isr=int(roster.min_isr[number]), lag_max_ms=settings.lag_max_ms,
        )  # fmt: skip
        place |= {"isr": None, "replicas": None}
        for follower in followers:
            tell(follower, REPLICATION, "follower", **place, replica=follower, leo=0, hw=0, log_start=0)
