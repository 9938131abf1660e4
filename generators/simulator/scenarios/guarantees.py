"""What sending again costs, what idempotence saves of it, and what that is called."""

from __future__ import annotations

from itertools import count

from generators.simulator.clients.consumer import Consumer
from generators.simulator.clients.producer import Producer, ProducerSettings
from generators.simulator.cluster.settings import Topic
from generators.simulator.cluster.simulation import Simulation
from generators.simulator.scenarios.outcome import compared, delivered, told
from generators.simulator.scenarios.registry import Scenario
from generators.simulator.scenarios.stage import PARTITION, TOPIC, dies, manual, rounds
from generators.simulator.scenarios.story import Story

PLAIN = ProducerSettings(idempotence=False)
IDEMPOTENT = ProducerSettings()


def idempotent_producer(story: Story) -> str:
    acts = _retry(story, PLAIN), _retry(story, IDEMPOTENT), _restart(story), _elsewhere(story)
    return "; ".join(acts) + "."


def _retry(story: Story, settings: ProducerSettings) -> str:
    how = "With" if settings.idempotence else "Without"
    cluster = story.cluster(manual(3), f"{how} idempotence: the answer is lost, and the producer sends again")
    producer = _unanswered(story, cluster, settings)
    producer.retry()
    rounds(cluster, 2, 3)
    _numbers(story, cluster)
    story.after("The producer sends b again")
    return f"{how.lower()} idempotence, after a retry {told(delivered(cluster, producer))}"


def _restart(story: Story) -> str:
    cluster = story.cluster(manual(3), "With idempotence: the producer itself is started anew")
    producer = _unanswered(story, cluster, IDEMPOTENT)
    before = producer.id
    producer.restart()
    producer.send(PARTITION, "b")
    rounds(cluster, 2, 3)
    _numbers(story, cluster)
    story.after(f"The producer, now with id {producer.id}, sends b again: to the leader it is another one")
    return f"after a restart ({before} becomes {producer.id}) {told(delivered(cluster, producer))}"


def _elsewhere(story: Story) -> str:
    topic = Topic(TOPIC, partitions=2, assignment=((1, 2, 3), (2, 3, 1)))
    cluster = story.cluster(manual(3, topics=(topic,)), "With idempotence: sent again to another partition")
    producer = _unanswered(story, cluster, IDEMPOTENT)
    producer.send(1, "b")
    rounds(cluster, 2, 3)
    story.after("The application gives up on partition 0 and sends b to partition 1")
    found = [p for p in (0, 1) if "b" in (r.value for r in Consumer(cluster, TOPIC, p).poll())]
    return f"sent again elsewhere, b is in partitions {' and '.join(map(str, found))}"


def _unanswered(story: Story, cluster: Simulation, settings: ProducerSettings) -> Producer:
    """A producer whose b is on all replicas, but whose leader has died before it could say so."""
    producer = Producer(cluster, TOPIC, count(1000), settings)
    producer.send(PARTITION, "a")
    rounds(cluster, 3, 2, 3)
    producer.send(PARTITION, "b")
    rounds(cluster, 1, 2, 3)
    _numbers(story, cluster)
    story.after("a is committed and acknowledged; b is on all replicas, but not acknowledged yet")
    dies(cluster, 1)
    story.after("The leader dies; the answer never comes")
    return producer


def _numbers(story: Story, cluster: Simulation) -> None:
    """Notes the numbers that the batches of the log carry."""
    leader = cluster.leader(TOPIC, PARTITION)
    assert leader is not None
    batches = [run.batch for run in cluster.replica(TOPIC, PARTITION, leader).log.runs if run.batch is not None]
    rows = [(b.values[0], b.producer, b.producer_epoch, b.first_sequence) for b in batches if b.producer >= 0]
    if rows:
        story.table(("record", "producer id", "epoch", "sequence"), rows)


# at most, at least, exactly once

SETTINGS = {
    "acks=0": ProducerSettings(acks=0, idempotence=False),
    "acks=all": PLAIN,
    "acks=all and idempotence": IDEMPOTENT,
}


def delivery_guarantees(story: Story) -> str:
    return "; ".join([*(_guarantee(story, *setting) for setting in SETTINGS.items()), _consumers(story)]) + "."


def _guarantee(story: Story, name: str, settings: ProducerSettings) -> str:
    cluster = story.cluster(manual(3), name)
    producer = _through_two_failures(story, cluster, settings)
    delivery = delivered(cluster, producer)
    sent, lost, doubled = len(delivery.sent), len(delivery.lost), len(delivery.duplicated)
    story.table(("sent", "lost", "doubled", "guarantee"), [(sent, lost, doubled, delivery.guarantee)])
    story.after("Counted at a consumer that has read everything")
    return f"{name}: of {sent} records {lost} lost and {doubled} doubled, {delivery.guarantee}"


def _through_two_failures(story: Story, cluster: Simulation, settings: ProducerSettings) -> Producer:
    """The script of all acts: one request is lost, and one answer."""
    producer = Producer(cluster, TOPIC, count(1000), settings)
    producer.send(PARTITION, "a")
    rounds(cluster, 3, 2, 3)
    story.after("a is sent, and all is well")
    cluster.kill(1)
    producer.send(PARTITION, "b")
    story.after("The leader dies; b is sent before anybody has noticed, and reaches nobody")
    cluster.expire(1)
    cluster.settle()
    producer.retry()
    rounds(cluster, 3, 3)
    story.after("Broker 2 takes over; a producer that wants an answer has sent b again")
    producer.send(PARTITION, "c")
    rounds(cluster, 1, 3)
    dies(cluster, 2)
    story.after("c is sent and replicated, then the leader dies before it can answer")
    producer.retry()
    story.after("Broker 3 takes over; a producer that wants an answer has sent c again")
    return producer


def _consumers(story: Story) -> str:
    """The other end: a log in which everything is once is still read twice, or not at all."""
    cluster = story.cluster(manual(1), "Everything stored once: a consumer dies between processing and committing")
    producer = Producer(cluster, TOPIC, count(1000))
    for value in "abcd":
        producer.send(PARTITION, value)
    rows = [_dying(cluster, producer, words, first) for words, first in (("commits", True), ("processes", False))]
    story.table(("first it", "processed in all", "guarantee"), rows)
    story.after("Two consumers die between their two steps at the third record, and are started again")
    found = [f"one that first {words} has {guarantee} ({processed})" for words, processed, guarantee in rows]
    return "of consumers that die in between, " + ", ".join(found)


def _dying(cluster: Simulation, producer: Producer, words: str, commits_first: bool) -> tuple[str, str, str]:
    consumer = Consumer(cluster, TOPIC, PARTITION, commits_first)
    consumer.step(2)
    consumer.step(1, dies=True)
    consumer.step()
    processed = " ".join(str(record.value) for record in consumer.processed)
    return words, processed, compared(producer, consumer.processed).guarantee


SCENARIOS = (
    Scenario(
        "idempotent-producer", 17, "A retry is stored once, within one session and partition", idempotent_producer
    ),
    Scenario(
        "delivery-guarantees", 18, "At most, at least and exactly once, counted on one script", delivery_guarantees
    ),
)
