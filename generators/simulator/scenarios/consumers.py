"""Consumers: order within a partition only, a near replica up to its own HW, and everything at least once."""

from __future__ import annotations

from itertools import count

from generators.simulator.clients.consumer import Consumer
from generators.simulator.clients.producer import Producer, ProducerSettings
from generators.simulator.cluster.settings import Topic
from generators.simulator.cluster.simulation import Simulation
from generators.simulator.scenarios.fixtures import PARTITION, TOPIC, at, dies, manual, rounds, send
from generators.simulator.scenarios.narrative import Narrative
from generators.simulator.scenarios.outcome import Scenario, compared

NEAR = 3


def order_in_a_partition(narrative: Narrative) -> str:
    topic = Topic(TOPIC, partitions=2, assignment=((1,), (1,)))
    cluster = narrative.cluster(manual(1, topics=(topic,)))
    producer = Producer(cluster, TOPIC, count(1000))
    for k, value in enumerate("abcd"):
        producer.send(k % 2, value)
    narrative.after("a and c are sent to partition 0, b and d to partition 1, in the order a b c d")
    found = {partition: _values(Consumer(cluster, TOPIC, partition)) for partition in (0, 1)}
    read = " ".join([*found[1], *found[0]])
    narrative.table(("partition", "is read in the order"), [(p, " ".join(found[p])) for p in found])
    narrative.after(f"A consumer of both that is answered for partition 1 first reads {read}")
    kept = " and ".join(f"{' before '.join(values)}" for values in found.values())
    return (
        f"sent as a b c d, read as {read}: {kept} are in order, as they share a partition; nothing orders the others."
    )


def nearest_replica(narrative: Narrative) -> str:
    """KIP-392: a follower answers consumers below its own HW, which the leader tells it with the next fetch."""
    cluster = narrative.cluster(manual(3))
    send(cluster, "a", "b")
    rounds(cluster, 2, NEAR, 2)
    near, far = Consumer(cluster, TOPIC, PARTITION, nearest=NEAR), Consumer(cluster, TOPIC, PARTITION)
    step = narrative.after(f"a and b are on all replicas; the leader's HW covers them, that of broker {NEAR} not yet")
    before = _values(near), _values(far)
    bound = at(step, NEAR)
    rounds(cluster, 1, NEAR)
    narrative.after(f"Broker {NEAR} fetches again, and is told the HW")
    after = _values(near)
    cluster.kill(NEAR)
    near.nearest = None
    send(cluster, "c")
    gone = _values(near)
    narrative.after(f"Broker {NEAR} is gone: the consumer turns to the leader, where c is not committed yet")
    seen, led, later, last = (" ".join(values) or "nothing" for values in (*before, after, gone))
    return (
        f"broker {NEAR} has LEO {bound.leo} and HW {bound.hw}, so that a consumer of it reads {seen} while one of the "
        f"leader reads {led}; a fetch later it reads {later}, and from the leader, once broker {NEAR} is gone, {last}."
    )


def deduplicated_downstream(narrative: Narrative) -> str:
    """Before 0.11: nothing in Kafka removes duplicates, so that whoever applies records does, by an id in them."""
    cluster = narrative.cluster(manual(3), "Without idempotence: a retry and a restart")
    producer = _twice(narrative, cluster)
    consumer = Consumer(cluster, TOPIC, PARTITION)
    consumer.step(2)
    consumer.step(dies=True)
    consumer.step()
    processed = [str(record.value) for record in consumer.processed]
    narrative.after("A consumer processes before it commits, dies in between, and is started again")
    applied = list(dict.fromkeys(processed))
    guarantees = compared(producer, consumer.processed).guarantee, "exactly once"
    narrative.table(("", "in order", "guarantee"), [("processed", " ".join(processed), guarantees[0]),
                                                    ("applied", " ".join(applied), guarantees[1])])  # fmt: skip
    narrative.after("What is applied remembers the ids that it has, in one transaction with what it applies")
    return (
        f"processed are {' '.join(processed)}, {guarantees[0]}; applied, by the ids that are known already, "
        f"{' '.join(applied)}: {guarantees[1]}."
    )


def _twice(narrative: Narrative, cluster: Simulation) -> Producer:
    """A producer whose b is stored, and sent again as its answer was lost."""
    producer = Producer(cluster, TOPIC, count(1000), ProducerSettings(idempotence=False))
    producer.send(PARTITION, "a")
    rounds(cluster, 3, 2, 3)
    producer.send(PARTITION, "b")
    rounds(cluster, 1, 2, 3)
    dies(cluster, 1)
    producer.retry()
    rounds(cluster, 2, 3)
    producer.send(PARTITION, "c")
    rounds(cluster, 2, 3)
    narrative.after("b is replicated, its answer is lost with the leader, and it is sent again; then c")
    return producer


def _values(consumer: Consumer) -> list[str]:
    return [str(record.value) for record in consumer.poll()]


SCENARIOS = (
    Scenario("nearest-replica", 4, "A consumer of a follower sees what is below that follower's HW", nearest_replica),
    Scenario("order-in-a-partition", 16, "Order holds within a partition, and nowhere else", order_in_a_partition),
    Scenario(
        "deduplicated-downstream", 18, "Exactly once before 0.11: by ids, where it is applied", deduplicated_downstream
    ),
)
