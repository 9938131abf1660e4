"""What an acknowledgement is worth: acks, and min.insync.replicas; and what it is to have none."""

from __future__ import annotations

from itertools import count

from generators.simulator.clients.producer import Producer, ProducerSettings
from generators.simulator.cluster.settings import Topic
from generators.simulator.cluster.simulation import Simulation
from generators.simulator.scenarios.fixtures import KEY, PARTITION, TOPIC, dies, isr, leader, manual, returns, rounds
from generators.simulator.scenarios.narrative import Narrative
from generators.simulator.scenarios.outcome import Scenario, delivered, describe

ONE = ProducerSettings(acks=1, idempotence=False)
ALL = ProducerSettings(acks=-1, idempotence=False)
NONE = ProducerSettings(acks=0, idempotence=False)


def acks_and_min_isr(narrative: Narrative) -> str:
    acts = _before_replication(narrative), _before_the_answer(narrative), _alone(narrative, 1), _alone(narrative, 2)
    return "; ".join(acts) + "."


def _before_replication(narrative: Narrative) -> str:
    cluster = narrative.cluster(manual(3), "acks=1: the leader answers when it has the record itself")
    producer = _begun(cluster, ONE)
    narrative.after("a is on all replicas, and below the HW")
    producer.send(PARTITION, "b")
    narrative.after("The leader takes b and acknowledges it; nobody has fetched it yet")
    dies(cluster, 1)
    narrative.after("The leader dies")
    returns(cluster, 1)
    rounds(cluster, 2, 1, 3)
    narrative.after("It comes back and follows; what the new leader does not have it cuts off")
    return f"acks=1, and the leader dies before replication: {describe(delivered(cluster, producer))}"


def _before_the_answer(narrative: Narrative) -> str:
    cluster = narrative.cluster(manual(3), "acks=all: the leader answers when the whole ISR has the record")
    producer = _begun(cluster, ALL)
    narrative.after("a is on all replicas, and below the HW")
    producer.send(PARTITION, "b")
    rounds(cluster, 1, 2, 3)
    narrative.after("The leader takes b, and the others fetch it; with their next fetch the answer would go out")
    dies(cluster, 1)
    after = narrative.after("The leader dies")
    producer.retry()
    rounds(cluster, 2, 3)
    narrative.after(f"The producer, without an answer, sends b again, now to broker {leader(after)}")
    return (
        f"acks=all, and the leader dies after replication, before the answer: {describe(delivered(cluster, producer))}"
    )


def _alone(narrative: Narrative, min_isr: int) -> str:
    topic = Topic(TOPIC, min_isr=min_isr, assignment=((1, 2, 3),))
    title = f"acks=all with min.insync.replicas={min_isr}, when the leader is alone in the ISR"
    cluster = narrative.cluster(manual(3, topics=(topic,)), title)
    producer = _begun(cluster, ALL)
    for broker in (3, 2):
        cluster.stop(broker)
        cluster.settle()
    alone = narrative.after("a is on all replicas; then brokers 3 and 2 are shut down")
    b = producer.send(PARTITION, "b")
    narrative.after("The producer sends b: " + ("acknowledged" if b.acknowledged else b.errors[0]))
    dies(cluster, 1)
    cluster.lose_disk(1)
    returns(cluster, 2)
    cluster.elect_unclean(*KEY)
    cluster.settle()
    narrative.after("The leader dies, and its disk with it; broker 2 comes back, and there is nobody else to lead")
    returns(cluster, 3)
    rounds(cluster, 1, 3)
    narrative.after("Broker 3 comes back and is in sync")
    producer.retry()
    rounds(cluster, 2, 3)
    narrative.after("What was refused is sent again" if b.errors else "The producer has nothing left to send")
    refused = f"b is refused ({b.errors[0]}) until then; " if b.errors else ""
    outcome = describe(delivered(cluster, producer))
    return f"acks=all with ISR {isr(alone)} and min.insync.replicas={min_isr}: {refused}{outcome}"


def _begun(cluster: Simulation, settings: ProducerSettings) -> Producer:
    """A producer that has sent a, which all replicas have and know to be committed."""
    producer = Producer(cluster, TOPIC, count(1000), settings)
    producer.send(PARTITION, "a")
    rounds(cluster, 3, 2, 3)
    return producer


# no acknowledgement at all

ELSEWHERE = 1
"""A partition whose leader is the producer's to the end."""
MOVED = Topic(TOPIC, partitions=2, assignment=((2, 1), (1, 2)))


def a_closed_connection(narrative: Narrative) -> str:
    return "; ".join(_moved(narrative, name, settings) for name, settings in (("acks=0", NONE), ("acks=1", ONE))) + "."


def _moved(narrative: Narrative, name: str, settings: ProducerSettings) -> str:
    title = f"{name}: the leader of one partition has moved, and four requests are on their way to the old one"
    cluster = narrative.cluster(manual(2, topics=(MOVED,)), title)
    cluster.kill(2)
    cluster.expire(2)
    cluster.settle()
    cluster.pipelined = True
    producer = Producer(cluster, TOPIC, count(1000), settings)
    for partition, value in ((PARTITION, "a"), (ELSEWHERE, "k")):
        producer.send(partition, value)
        cluster.settle()
    returns(cluster, 2)
    rounds(cluster, 3, 2)
    cluster.elect_preferred(*KEY)
    cluster.settle()
    narrative.after("a and k are stored; then broker 2 is back and leads partition 0, unknown to the producer")
    for partition, value in ((PARTITION, "b"), (ELSEWHERE, "l"), (ELSEWHERE, "m"), (ELSEWHERE, "n")):
        producer.send(partition, value)
    cluster.settle()
    producer.retry()
    cluster.settle()
    rounds(cluster, 3, 1, 2)
    narrative.annotate(f"the producer learns: {_errors_seen(producer)}")
    narrative.after("b goes to partition 0, then l, m and n to partition 1: all to broker 1, which leads the latter")
    producer.send(PARTITION, "c")
    cluster.settle()
    rounds(cluster, 3, 1, 2)
    narrative.after("It sends c, by now to the right broker")
    found = [delivered(cluster, producer, partition) for partition in (PARTITION, ELSEWHERE)]
    lost = [value for one in found for value in one.lost]
    gone = f"{' '.join(lost)} are lost" if lost else "nothing is lost"
    return f"{name}: {_errors_seen(producer)}; of {sum(len(one.sent) for one in found)} records {gone}"


def _errors_seen(producer: Producer) -> str:
    errors = [error for sent in producer.sent for error in sent.errors]
    if producer.settings.acks == 0:
        return "the connection is closed, without a word about any record"
    return f"{', '.join(errors)} for {' '.join(v for s in producer.sent if s.errors for v in s.values)}"


SCENARIOS = (
    Scenario(
        "acks-0-closes-the-connection",
        20,
        "Without answers an error is a closed connection, and more than it is lost",
        a_closed_connection,
    ),
    Scenario("acks-and-min-isr", 9, "What acks=1 and acks=all promise, and what min ISR adds", acks_and_min_isr),
)
