"""Metadata that no broker of Kafka answers: refused in a line that names the field."""

from types import SimpleNamespace as Row
from uuid import UUID

import pytest

from generators.cluster.asking.decoded import MOST_BROKERS, TopicFilter, described
from generators.cluster.asking.problems import NotAnswering
from generators.cluster.metadata.partitions import NOT_TOLD


def metadata(broker=None, topic=None, partition=None, **answer):
    """A sound answer with other values of its broker 7, of topic orders, of its partition 0, or of itself."""
    place = Row(**{"node_id": 7, "host": "kafka-7.example.com", "port": 9092, "rack": None} | (broker or {}))
    one = {"partition_index": 0, "leader_id": 7, "leader_epoch": 3, "replica_nodes": [7], "isr_nodes": [7]}
    partitions = [Row(**one | {"error_code": 0} | (partition or {}))]
    orders = {"error_code": 0, "name": "orders", "topic_id": UUID(int=1), "is_internal": False}
    topics = [Row(**orders | {"partitions": partitions} | (topic or {}))]
    return Row(**{"brokers": [place], "topics": topics, "cluster_id": "c"} | answer)


def test_a_sound_answer_is_believed():
    assert described(metadata(), TopicFilter()).partitions.leader.tolist() == [7]
    assert described(metadata({"host": "fe80::1%eth0"}), TopicFilter()).partitions.brokers[0].port == 9092


def test_a_leader_without_the_listener_that_is_asked_is_not_told_and_its_isr_is_up():
    """Brokers without a leader say LEADER_NOT_AVAILABLE (5), of one behind another listener LISTENER_NOT_FOUND (72)."""
    no_leader, not_told = (
        described(metadata(partition={"leader_id": -1, "error_code": code}), TopicFilter()).partitions
        for code in (5, 72)
    )
    assert (no_leader.leader.tolist(), no_leader.behind_other_listeners) == ([-1], frozenset())
    assert (not_told.leader.tolist(), not_told.behind_other_listeners) == ([NOT_TOLD], {7})


@pytest.mark.parametrize(("answer", "words"), [
    (metadata(brokers=None), "brokers is null"),
    (metadata(topics=None), "topics is null"),
    (metadata({"host": None}), "host of broker 7 is 'None'"),
    (metadata({"host": ""}), "host of broker 7 is ''"),
    (metadata({"host": "http://kafka 7"}), "host of broker 7 is 'http://kafka 7'"),
    (metadata({"host": "a" * 300}), f"host of broker 7 is '{'a' * 80}'"),
    (metadata({"port": 0}), "port of broker 7 is 0"),
    (metadata({"port": 70_000}), "port of broker 7 is 70000"),
    (metadata({"node_id": -5}), "node_id of a broker is -5"),
    (metadata(topic={"name": None}), "name of a topic is 'None'"),
    (metadata(topic={"name": "a b"}), "name of a topic is 'a b'"),
    (metadata(topic={"partitions": None}), "name of a topic is 'orders' without partitions"),
    (metadata(partition={"partition_index": -2}), "partition_index of orders--2 is -2"),
    (metadata(partition={"leader_id": -9}), "leader_id of orders-0 is -9"),
    (metadata(partition={"replica_nodes": None}), "replica_nodes of orders-0 is None"),
    (metadata(partition={"isr_nodes": None}), "isr_nodes of orders-0 is None"),
    (metadata(brokers=metadata().brokers * (MOST_BROKERS + 1)), "brokers has 2,001 entries, at most 2,000 are asked"),
])  # fmt: skip
def test_a_field_that_no_broker_of_kafka_sends_is_named(answer, words):
    with pytest.raises(NotAnswering) as refused:
        described(answer, TopicFilter())
    assert str(refused.value) == f"its metadata are not believed: {words}"
