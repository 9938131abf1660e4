"""What retries cost, what idempotence saves of it, and the names of the guarantees."""

from __future__ import annotations

from itertools import count

from generators.simulator.clients.consumer import Consumer
from generators.simulator.clients.producer import Producer, ProducerSettings
from generators.simulator.cluster.settings import Topic
from generators.simulator.cluster.simulation import Simulation
from generators.simulator.scenarios.fixtures import PARTITION, TOPIC, dies, manual, rounds
from generators.simulator.scenarios.narrative import Narrative
from generators.simulator.scenarios.outcome import Scenario, compared, delivered, describe

PLAIN = ProducerSettings(idempotence=False)
IDEMPOTENT = ProducerSettings()


def idempotent_producer(narrative: Narrative) -> str:
    acts = _retry(narrative, PLAIN), _retry(narrative, IDEMPOTENT), _restart(narrative), _elsewhere(narrative)
    return "; ".join(acts) + "."


def _retry(narrative: Narrative, settings: ProducerSettings) -> str:
    how = "With" if settings.idempotence else "Without"
    cluster = narrative.cluster(manual(3), f"{how} idempotence: the answer is lost, and the producer sends again")
    producer = _unanswered(narrative, cluster, settings)
    producer.retry()
    rounds(cluster, 2, 3)
    _numbers(narrative, cluster)
    narrative.after("The producer sends b again")
    return f"{how.lower()} idempotence, after a retry {describe(delivered(cluster, producer))}"


def _restart(narrative: Narrative) -> str:
    cluster = narrative.cluster(manual(3), "With idempotence: the producer itself is started anew")
    producer = _unanswered(narrative, cluster, IDEMPOTENT)
    before = producer.id
    producer.restart()
    producer.send(PARTITION, "b")
    rounds(cluster, 2, 3)
    _numbers(narrative, cluster)
    narrative.after(f"The producer, now with id {producer.id}, sends b again: to the leader it is another one")
    return f"after a restart ({before} becomes {producer.id}) {describe(delivered(cluster, producer))}"


def _elsewhere(narrative: Narrative) -> str:
    topic = Topic(TOPIC, partitions=2, assignment=((1, 2, 3), (2, 3, 1)))
    cluster = narrative.cluster(manual(3, topics=(topic,)), "With idempotence: sent again to another partition")
    producer = _unanswered(narrative, cluster, IDEMPOTENT)
    producer.send(1, "b")
    rounds(cluster, 2, 3)
    narrative.after("The application gives up on partition 0 and sends b to partition 1")
    found = [p for p in (0, 1) if "b" in (r.value for r in Consumer(cluster, TOPIC, p).poll())]
    return f"sent again elsewhere, b is in partitions {' and '.join(map(str, found))}"


def _unanswered(narrative: Narrative, cluster: Simulation, settings: ProducerSettings) -> Producer:
    """A producer whose b is on all replicas, but whose leader has died before it could say so."""
    producer = Producer(cluster, TOPIC, count(1000), settings)
    producer.send(PARTITION, "a")
    rounds(cluster, 3, 2, 3)
    producer.send(PARTITION, "b")
    rounds(cluster, 1, 2, 3)
    _numbers(narrative, cluster)
    narrative.after("a is committed and acknowledged; b is on all replicas, but not acknowledged yet")
    dies(cluster, 1)
    narrative.after("The leader dies; the answer never comes")
    return producer


def _numbers(narrative: Narrative, cluster: Simulation) -> None:
    """Annotate the step with the numbers of the batches in the log."""
    leader = cluster.leader(TOPIC, PARTITION)
    assert leader is not None
    batches = [run.batch for run in cluster.replica(TOPIC, PARTITION, leader).log.runs if run.batch is not None]
    rows = [(b.values[0], b.producer, b.producer_epoch, b.first_sequence) for b in batches if b.producer >= 0]
    if rows:
        narrative.table(("record", "producer id", "epoch", "sequence"), rows)


# at most, at least, exactly once

SETTINGS = {
    "acks=0": ProducerSettings(acks=0, idempotence=False),
    "acks=all": PLAIN,
    "acks=all and idempotence": IDEMPOTENT,
}


def delivery_guarantees(narrative: Narrative) -> str:
    return "; ".join([*(_guarantee(narrative, *setting) for setting in SETTINGS.items()), _consumers(narrative)]) + "."


def _guarantee(narrative: Narrative, name: str, settings: ProducerSettings) -> str:
    cluster = narrative.cluster(manual(3), name)
    producer = _through_two_failures(narrative, cluster, settings)
    delivery = delivered(cluster, producer)
    sent, lost, doubled = len(delivery.sent), len(delivery.lost), len(delivery.duplicated)
    narrative.table(("sent", "lost", "doubled", "guarantee"), [(sent, lost, doubled, delivery.guarantee)])
    narrative.after("Counted at a consumer that has read everything")
    return f"{name}: of {sent} records {lost} lost and {doubled} doubled, {delivery.guarantee}"


def _through_two_failures(narrative: Narrative, cluster: Simulation, settings: ProducerSettings) -> Producer:
    """The script of all acts: one request is lost, and one answer."""
    producer = Producer(cluster, TOPIC, count(1000), settings)
    producer.send(PARTITION, "a")
    rounds(cluster, 3, 2, 3)
    narrative.after("a is sent, and all is well")
    cluster.kill(1)
    producer.send(PARTITION, "b")
    narrative.after("The leader dies; b is sent before anybody has noticed, and reaches nobody")
    cluster.expire(1)
    cluster.settle()
    producer.retry()
    rounds(cluster, 3, 3)
    narrative.after("Broker 2 takes over; a producer that wants an answer has sent b again")
    producer.send(PARTITION, "c")
    rounds(cluster, 1, 3)
    dies(cluster, 2)
    narrative.after("c is sent and replicated, then the leader dies before it can answer")
    producer.retry()
    narrative.after("Broker 3 takes over; a producer that wants an answer has sent c again")
    return producer


def _consumers(narrative: Narrative) -> str:
    """The other end: a log in which everything is once is still read twice, or not at all."""
    cluster = narrative.cluster(manual(1), "Everything stored once: a consumer dies between processing and committing")
    producer = Producer(cluster, TOPIC, count(1000))
    for value in "abcd":
        producer.send(PARTITION, value)
    rows = [_dying(cluster, producer, step, first) for step, first in (("commits", True), ("processes", False))]
    narrative.table(("first it", "processed in all", "guarantee"), rows)
    narrative.after("Two consumers die between their two steps at the third record, and are started again")
    found = [f"one that first {step} has {guarantee} ({processed})" for step, processed, guarantee in rows]
    return "of consumers that die in between, " + ", ".join(found)


def _dying(cluster: Simulation, producer: Producer, step: str, commits_first: bool) -> tuple[str, str, str]:
    consumer = Consumer(cluster, TOPIC, PARTITION, commits_first)
    consumer.step(2)
    consumer.step(1, dies=True)
    consumer.step()
    processed = " ".join(str(record.value) for record in consumer.processed)
    return step, processed, compared(producer, consumer.processed).guarantee


SCENARIOS = (
    Scenario(
        "idempotent-producer", 17, "A retry is stored once, within one session and partition", idempotent_producer
    ),
    Scenario(
        "delivery-guarantees", 18, "At most, at least and exactly once, counted on one script", delivery_guarantees
    ),
)
