"""A rolling restart under load with `hwmark gate` between the steps, and what comes of a step it warned of."""

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition

from generators.cluster.committed import Committed, ask_committed
from generators.cluster.watcher import WatchOptions
from pipelines.local_kafka.cluster import BROKERS, Cluster
from pipelines.local_kafka.processes import Journal, wait_until
from pipelines.local_kafka.versions import Version
from tests.realkafka.beside import ROOT
from tests.realkafka.load import Log, Place, Producers, Topic, read_back
from tests.realkafka.story import SETTINGS

pytestmark = pytest.mark.realkafka

ORDERS = Topic("orders", 3, 20)
MIN_ISR = 2
WAIT = "90s"
GROUP = "billing"

Answer = tuple[int, dict[str, Any]]


@dataclass
class Rolled:
    """What the gate said at each step, and the smallest ISR of each partition meanwhile."""

    cluster: Cluster
    before: dict[int, Answer] = field(default_factory=dict)
    """By broker, before it was stopped."""
    meanwhile: dict[int, Answer] = field(default_factory=dict)
    """By broker that was down: whether another one might be stopped, too."""
    smallest: dict[str, int] = field(default_factory=dict)
    seen: int = 0
    ignored: Answer = (-1, {})
    isr_then: dict[str, list[int]] = field(default_factory=dict)
    acked_then: int = -1
    after: Answer = (-1, {})
    acked: dict[Place, set[tuple[int, bytes]]] = field(default_factory=dict)
    final: dict[Place, Log] = field(default_factory=dict)
    alone: list[Answer] = field(default_factory=list)
    """About the broker of a topic with one replica: refused, then accepted."""
    committed: Committed = field(default_factory=Committed)

    def gate(self, broker: int, *options: str) -> Answer:
        """Exit status, and the answer as data."""
        command = [sys.executable, "-m", "hwmark", "gate", "--bootstrap", self.cluster.bootstrap]
        command += ["--broker", str(broker), "--format", "json", *options]
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "HWMARK_WATCH__TIMEOUT": "3s"}
        done = subprocess.run(command, capture_output=True, text=True, env=environment)
        print(done.returncode, done.stdout, done.stderr)
        return done.returncode, json.loads(done.stdout)

    def isrs(self) -> dict[str, list[int]]:
        """The ISR of each partition of orders, as the first broker that answers has it."""
        known = self.cluster.described()
        if known is None:
            return {}
        found = {}
        for row in range(len(known)):
            if known.topics.names[int(known.topic[row])] == ORDERS.name:
                members = known.isr.values[slice(*known.isr.offsets[row : row + 2])].tolist()
                found[f"{ORDERS.name}-{int(known.number[row])}"] = members
        return found

    def look(self, stop: threading.Event) -> None:
        """Keep the smallest ISR of each partition until `stop` is set."""
        while not stop.wait(0.2):
            for name, isr in self.isrs().items():
                self.smallest[name] = min(len(isr), self.smallest.get(name, len(BROKERS)))
                self.seen += 1


@pytest.fixture(scope="module")
def rolled(kafka: Version, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rolled]:
    folder = tmp_path_factory.mktemp("rolled")
    cluster = Cluster(folder, kafka, Journal(folder), SETTINGS)
    producers, one = Producers(cluster.bootstrap, [ORDERS]), Rolled(cluster)
    try:
        cluster.start()
        cluster.wait_until_up()
        cluster.create_topic(ORDERS.name, [[1, 2, 3], [2, 3, 1], [3, 1, 2]])
        producers.start()
        wait_until(lambda: all(producers.acked[place] for place in ORDERS.places()), 60, "the first records")
        _with_gate(one)
        _gate_ignored(one, producers)
        producers.stop()
        one.acked, one.final = producers.acked, read_back(cluster.bootstrap, [ORDERS])
        _alone(one)
        _commit(cluster.bootstrap, 5)
        options = WatchOptions(tuple(("127.0.0.1", broker.port) for broker in cluster.brokers.values()))
        one.committed = ask_committed(options, list(ORDERS.places()))
        yield one
    finally:
        producers.stop()
        cluster.stop_all()


def _with_gate(one: Rolled) -> None:
    """Each broker is stopped when the gate lets it go."""
    stop = threading.Event()
    looking = threading.Thread(target=one.look, args=(stop,), daemon=True)
    looking.start()
    for node in BROKERS:
        one.before[node] = one.gate(node, "--wait", WAIT)
        one.cluster.stop(node)
        one.meanwhile[node] = one.gate(node % 3 + 1)
        one.cluster.start(node)
        one.cluster.wait_until_up(node)
    stop.set()
    looking.join(10)


def _gate_ignored(one: Rolled, producers: Producers) -> None:
    """Broker 2 is stopped although broker 1 is down and the gate says no."""
    assert one.gate(1, "--wait", WAIT)[0] == 0
    one.cluster.stop(1)
    one.ignored = one.gate(2)
    one.cluster.stop(2)
    one.isr_then = one.isrs()
    time.sleep(2)
    acked = sum(map(len, producers.acked.values()))
    time.sleep(3)
    one.acked_then = sum(map(len, producers.acked.values())) - acked
    one.cluster.start(1, 2)
    one.cluster.wait_until_up()
    one.after = one.gate(3, "--wait", WAIT)


def _alone(one: Rolled) -> None:
    one.cluster.create_topic("alone", [[2]])
    one.alone = [one.gate(2, "--wait", WAIT), one.gate(2, "--accept-unavailable", "--wait", WAIT)]


def _commit(bootstrap: str, offset: int) -> None:
    """A group commits this offset of every partition of orders."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": GROUP, "log_level": 0})
    places = [TopicPartition(*place, offset) for place in ORDERS.places()]
    try:
        wait_until(lambda: _committed(consumer, places), 60, "a committed offset")
    finally:
        consumer.close()


def _committed(consumer: Consumer, places: list[TopicPartition]) -> bool:
    try:
        consumer.commit(offsets=places, asynchronous=False)
    except KafkaException:  # its coordinator is being found, or the topic of the offsets created
        return False
    return True


def test_with_the_gate_every_step_is_let_go_and_no_partition_falls_below_min_isr(rolled: Rolled) -> None:
    assert [status for status, _ in rolled.before.values()] == [0, 0, 0]
    assert rolled.seen > 20
    assert set(rolled.smallest.values()) == {MIN_ISR}


def test_a_second_broker_is_not_let_go_while_one_is_down(rolled: Rolled) -> None:
    for status, found in rolled.meanwhile.values():
        assert status == 3
        broken = {f"{p['topic']}-{p['partition']}" for p in found["partitions"] if p["effect"] == "breaks"}
        assert broken >= {"orders-0", "orders-1", "orders-2"}
        assert found["quorum"]["answer"] == "no"


def test_with_the_gate_ignored_what_it_had_warned_of_happens(rolled: Rolled) -> None:
    status, found = rolled.ignored
    warned = {f"{p['topic']}-{p['partition']}": p["isr_then"] for p in found["partitions"] if p["topic"] == ORDERS.name}
    assert status == 3
    assert rolled.isr_then == warned == {name: [3] for name in ("orders-0", "orders-1", "orders-2")}
    assert rolled.acked_then == 0


def test_afterwards_it_lets_go_again_and_no_acknowledged_record_is_missing(rolled: Rolled) -> None:
    assert rolled.after[0] == 0
    for place, log in rolled.final.items():
        assert {record for record in rolled.acked[place] if log.get(record[0]) != record[1]} == set()


def test_a_single_replica_stops_anyway_and_is_accepted_or_not(rolled: Rolled) -> None:
    (refused, found), (accepted, _) = rolled.alone
    assert (refused, accepted) == (3, 0)
    assert [(p["topic"], p["effect"], p["no_leader"]) for p in found["partitions"]] == [
        ("alone", "will stop anyway", True)
    ]


def test_committed_offsets_and_log_ends_are_those_of_the_clients(rolled: Rolled) -> None:
    found = rolled.committed
    assert found.groups.committed[GROUP] == dict.fromkeys(ORDERS.places(), 5)
    assert found.log_ends == {place: max(log) + 1 for place, log in rolled.final.items()}
    assert (found.all_groups_shown, found.silent, found.groups.refused) == (True, {}, {})
