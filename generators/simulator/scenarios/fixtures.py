"""Shared by the scripts: clusters of one partition, records with a value, words for outcomes."""

from __future__ import annotations

from collections.abc import Iterable

from generators.simulator.cluster.leader_requests import Produced
from generators.simulator.cluster.log import Batch
from generators.simulator.cluster.settings import Settings, Topic
from generators.simulator.cluster.simulation import Simulation
from generators.simulator.scenarios.narrative import Position, Step

TOPIC, PARTITION = KEY = "orders", 0


def manual(brokers: int, unclean: bool = False, **settings: object) -> Settings:
    """One partition on each of `brokers` brokers, the first of which leads; nothing in it happens by itself."""
    ids = tuple(range(1, brokers + 1))
    topic = Topic(TOPIC, replication_factor=brokers, unclean=unclean, assignment=(ids,))
    return Settings(**{"brokers": ids, "topics": (topic,), "automatic": False, **settings})  # type: ignore[arg-type]


def send(cluster: Simulation, *values: str) -> None:
    """Send records of one value each, with acks=1; after an error the producer looks up the leader, and retries."""
    for value in values:
        _send(cluster, Batch(values=(value,)), tries=2)


def _send(cluster: Simulation, batch: Batch, tries: int) -> None:
    def done(answer: Produced) -> None:
        if answer.error is not None and tries > 1:
            _send(cluster, batch, tries - 1)

    cluster.produce(TOPIC, PARTITION, len(batch.values), batch=batch, done=done)


def rounds(cluster: Simulation, number: int, *followers: int) -> None:
    """So many fetches of each follower in turn."""
    for _ in range(number):
        for follower in followers:
            cluster.fetch(follower)


def dies(cluster: Simulation, broker: int) -> None:
    """Kill a broker; the controller has noticed."""
    cluster.kill(broker)
    cluster.expire(broker)
    cluster.settle()


def returns(cluster: Simulation, broker: int) -> None:
    """Start a broker again; it knows whom to follow."""
    cluster.restart(broker)
    cluster.settle()


def at(step: Step, broker: int) -> Position:
    """The position of the broker's replica after a step."""
    return step.partitions[KEY].replicas[broker]


def leader(step: Step) -> int:
    """The leader after a step. Raises ValueError where nobody led."""
    led = step.partitions[KEY].leader
    if led is None:
        raise ValueError(f"nobody leads after {step.text!r}")
    return led


def isr(step: Step) -> str:
    return ids(step.partitions[KEY].isr)


def ids(brokers: Iterable[int]) -> str:
    """`1,2,3`"""
    return ",".join(map(str, sorted(brokers)))


def visible(position: Position) -> str:
    """The records that a consumer of this replica reads, as text."""
    return " ".join(position.records[: position.hw - position.log_start])


def offsets(low: int, high: int) -> str:
    """`0..5` for the half-open range of offsets from 0 to 6, `0` for that from 0 to 1."""
    return f"{low}..{high - 1}" if high > low + 1 else str(low) if high > low else "none"
