"""Outcome of a producer's records, and its description."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import NamedTuple

from generators.simulator.clients.consumer import Consumer, Record
from generators.simulator.clients.delivery import Delivery, count
from generators.simulator.clients.producer import Producer
from generators.simulator.cluster.simulation import Simulation
from generators.simulator.scenarios.fixtures import PARTITION
from generators.simulator.scenarios.narrative import Act, Narrative, Watch

SYSTEMS = 20
"""Systems that scenarios show, some more than one of them."""


class Scenario(NamedTuple):
    """`script` moves clusters and returns the result in one sentence, computed from what it did."""

    name: str
    system: int
    """The one of the twenty systems that it shows."""
    purpose: str
    script: Callable[[Narrative], str]


class Performance(NamedTuple):
    """A scenario as it was played: an act for each of its clusters, and the result."""

    scenario: Scenario
    acts: list[Act]
    result: str


def play(scenario: Scenario, watch: Watch = lambda simulation: None) -> Performance:
    """Run a scenario; `watch` may add observers to each of its clusters."""
    narrative = Narrative(scenario.name, watch)
    result = scenario.script(narrative)
    return Performance(scenario, narrative.acts, result)


def delivered(cluster: Simulation, producer: Producer, partition: int = PARTITION) -> Delivery:
    """A comparison of the producer's records for a partition with those that a consumer reads there now."""
    return compared(producer, Consumer(cluster, producer.topic, partition).poll(), partition)


def compared(producer: Producer, found: Iterable[Record], partition: int = PARTITION) -> Delivery:
    """The same against any records. A value that two processes of the producer sent counts as sent once."""
    sent = dict.fromkeys(v for s in producer.sent if s.partition == partition for v in s.values)
    kept = dict.fromkeys(v for s in producer.sent if s.partition == partition and s.acknowledged for v in s.values)
    return count(sent, kept, [record.value for record in found if record.value is not None])


def describe(delivery: Delivery) -> str:
    """The lost and the repeated records, in words."""
    lost = [f"{v} was {'acknowledged' if v in delivery.broken else 'sent'} and is lost" for v in delivery.lost]
    doubled = [f"{v} is there {n + 1} times" for v, n in Counter(delivery.duplicated).items()]
    return ", ".join(lost + doubled) or f"{' '.join(delivery.sent)} are there once each"
