"""Topic ids of new topics, and the replicas of their partitions."""

from __future__ import annotations

from collections.abc import Sequence

from generators.simulator.cluster.settings import Topic


def topic_id(name: str, number: int) -> str:
    """A topic id of 22 characters; `number` counts the topics of a cluster from 1, deleted ones included."""
    return f"{name:.12}".replace(".", "-").replace("_", "-").ljust(14, "A") + f"{number:08d}"


def assigned(topic: Topic, partition: int, brokers: Sequence[int]) -> tuple[int, ...]:
    """The replicas of one partition, in order of preference: round the brokers where the topic does not assign them."""
    if topic.assignment is not None:
        return topic.assignment[partition % len(topic.assignment)]
    return tuple(brokers[(partition + k) % len(brokers)] for k in range(topic.replication_factor))
