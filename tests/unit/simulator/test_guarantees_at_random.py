"""Kafka's guarantees to producers hold through any failures of a cluster that keeps two of three replicas in sync."""

from itertools import count, pairwise
from random import Random

import pytest

from generators.simulator.clients import delivery
from generators.simulator.clients.consumer import Consumer
from generators.simulator.clients.producer import Producer, ProducerSettings
from generators.simulator.cluster.settings import MS, Settings, Topic
from generators.simulator.cluster.simulation import Simulation

pytestmark = pytest.mark.long

SECONDS, CALM = 25, 150


def failing(seed, settings):
    """A producer and a consumer at work while leaders die, stop and freeze, one at a time; then calm."""
    topic = Topic("orders", min_isr=2)
    cluster = Simulation(Settings(seed=seed, topics=(topic,), lag_max_ms=3000))
    cluster.start()
    producer, consumer = Producer(cluster, "orders", count(1000), settings), Consumer(cluster, "orders", 0)
    random, end = Random(seed), cluster.event_queue.now + SECONDS * 1000 * MS

    def every(low, high, action):
        if cluster.event_queue.now < end:
            action()
            cluster.event_queue.after(random.randint(low, high) * MS, every, low, high, action)

    def fail():
        whole = len(cluster.registration("orders", 0).isr) == 3
        if whole and all(b.running and not b.frozen for b in cluster.brokers.values()):
            broker, (ends, comes_back) = cluster.leader("orders", 0), random.choice(ENDS)
            ends(cluster, broker)
            cluster.event_queue.after(random.randint(500, 12_000) * MS, comes_back, cluster, broker)

    numbers = count()
    every(2, 20, lambda: producer.send(0, *(str(next(numbers)) for _ in range(random.randint(1, 3)))))
    every(50, 150, lambda: consumer.step(random.randint(1, 30)))
    every(500, 4_000, fail)
    cluster.run(SECONDS + CALM)
    consumer.step(10**6)
    return producer, [record.value for record in consumer.processed]


ENDS = (
    (Simulation.kill, Simulation.restart),
    (Simulation.stop, Simulation.restart),
    (Simulation.freeze, Simulation.thaw),
)


def outcome(producer, found):
    sent = [value for batch in producer.sent for value in batch.values]
    kept = [value for batch in producer.sent if batch.acknowledged for value in batch.values]
    return delivery.count(sent, kept, found)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("seed", range(6))
def test_an_idempotent_producer_is_read_exactly_once_and_in_order(seed):
    producer, found = failing(seed, ProducerSettings())
    assert outcome(producer, found).guarantee == delivery.EXACTLY_ONCE
    assert all(int(before) < int(after) for before, after in pairwise(found))
    assert all(batch.acknowledged for batch in producer.sent)
    assert any(batch.errors for batch in producer.sent)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("seed", range(3))
def test_acks_all_loses_nothing_that_was_acknowledged(seed):
    producer, found = failing(seed, ProducerSettings(idempotence=False))
    assert outcome(producer, found).broken == ()


@pytest.mark.sampled(3)
@pytest.mark.parametrize("seed", range(3))
def test_acks_0_may_lose_but_never_doubles(seed):
    producer, found = failing(seed, ProducerSettings(acks=0, idempotence=False))
    assert outcome(producer, found).duplicated == ()
