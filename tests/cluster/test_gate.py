"""`hwmark gate --bootstrap` beside a fake Kafka: what the brokers answer, refuse and leave out."""

import json

import pytest
from typer.testing import CliRunner

from pipelines.cli import app
from tests.cluster.fake_kafka import FakeCluster


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    """No configuration of the checkout, and brokers that are given up soon."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HWMARK_WATCH__TIMEOUT", "500ms")
    monkeypatch.setattr("generators.cluster.standing.CATCHES_UP_WITHIN_S", 0.5)


@pytest.fixture
def cluster():
    with FakeCluster() as fake:
        topic = fake.topic("orders", [1, 2, 3], [2, 3, 1], min_isr=2)
        for partition in topic.partitions:
            partition.write(100)
        yield fake


def gate(cluster, *options):
    server = ":".join(map(str, cluster.bootstrap()))
    done = CliRunner().invoke(app, ["gate", "--bootstrap", server, "--format", "json", *options])
    assert done.exit_code in (0, 3, 4), done.output
    return done.exit_code, json.loads(done.stdout)


def whys(found):
    return [(f"{p['topic']}-{p['partition']}", p["effect"], p["why"]) for p in found["partitions"]]


def test_a_cluster_in_sync_lets_one_broker_go_and_not_two(cluster):
    status, found = gate(cluster, "--broker", "1")
    assert (status, found["partitions"], found["not_known"]) == (0, [], [])
    assert found["quorum"]["text"] == "quorum: 3 voters, 2 caught up afterwards, a majority is 2"
    status, found = gate(cluster, "--broker", "1", "--broker", "2", "--accept-unavailable")
    assert (status, found["quorum"]["answer"]) == (3, "no")


def test_a_shrunken_isr_is_a_no(cluster):
    cluster.topics["orders"].partitions[1].isr = [1, 2]
    status, found = gate(cluster, "--broker", "1")
    assert (status, whys(found)) == (3, [("orders-1", "breaks", "under min ISR then")])


def test_a_follower_in_the_isr_that_stands_still_behind_its_leader_does_not_count(cluster):
    cluster.topics["orders"].partitions[0].leo[2] = 90
    status, found = gate(cluster, "--broker", "1")
    assert status == 3
    assert whys(found) == [("orders-0", "breaks", "under min ISR then; broker 2 in the ISR but behind or down")]


def test_a_broker_that_hangs_leaves_what_it_hosts_unknown(cluster):
    cluster.brokers[3].hung = True
    status, found = gate(cluster, "--broker", "1")
    assert status == 4
    assert whys(found)[0] == ("orders-0", "not known", "broker 3 does not answer for it")
    assert found["notes"] == ["broker 3 does not answer: it does not answer in time"]


def test_a_controller_that_hangs_leaves_the_quorum_unknown_and_no_broker(cluster, monkeypatch):
    """The broker that was asked for the quorum was said not to answer, as it waited for the frozen controller."""
    monkeypatch.setattr("generators.cluster.standing.PROBE_S", 0.5)
    cluster.controller_hangs = True
    status, found = gate(cluster, "--broker", "1")
    assert (status, whys(found), found["notes"]) == (4, [], ["quorum not known"])
    assert found["not_known"] == ["the quorum: it was not answered (error code -2); ask again"]


def test_a_broker_that_is_down_does_not_count(cluster):
    cluster.stop(3)
    status, found = gate(cluster, "--broker", "1")
    assert status == 3
    assert "broker 3 in the ISR but behind or down" in whys(found)[0][2]


def test_a_leader_without_the_listener_that_is_asked_is_not_known(cluster):
    cluster.brokers[1].other_listener = True
    status, found = gate(cluster, "--broker", "2")
    assert status == 4
    assert whys(found)[0] == ("orders-0", "not known", "its leader is not known")
    assert not any("nobody leads" in why or "down" in why for _, _, why in whys(found))


def test_the_quorum_must_keep_a_majority_that_is_caught_up(cluster):
    cluster.voters[3] = 60_000
    status, found = gate(cluster, "--broker", "2")
    assert (status, found["quorum"]["answer"], found["partitions"]) == (3, "no", [])


def test_a_voter_whose_broker_is_down_does_not_count(cluster):
    cluster.stop(3)
    assert gate(cluster, "--broker", "2")[1]["quorum"]["answer"] == "no"


def test_an_eligible_leader_replica_is_named(cluster):
    partition = cluster.topics["orders"].partitions[0]
    partition.isr, partition.eligible = [1], [2]
    assert gate(cluster, "--broker", "1")[1]["partitions"][0]["no_leader"] is False
    partition.eligible = []
    assert gate(cluster, "--broker", "1")[1]["partitions"][0]["no_leader"] is True


def test_a_broker_without_describe_quorum_is_said(cluster):
    del cluster.versions[55]
    status, found = gate(cluster, "--broker", "1")
    assert status == 0
    assert found["notes"] == ["quorum not looked at: this broker knows no DescribeQuorum (controllers in ZooKeeper)"]


def test_a_missing_right_on_the_cluster_is_named():
    with FakeCluster(describe_cluster=False) as cluster:
        cluster.topic("orders", [1, 2, 3], min_isr=2)
        status, found = gate(cluster, "--broker", "1")
    assert status == 4
    assert found["not_known"] == [
        "the quorum: DescribeQuorum is refused; allow DESCRIBE on the cluster",
        "whether broker 1 hosts topics that may not be described: allow DESCRIBE on the cluster",
    ]


def test_a_missing_right_on_the_settings_is_named():
    with FakeCluster(describe_configs=False) as cluster:
        cluster.topic("orders", [1, 2, 3], min_isr=2)
        status, found = gate(cluster, "--broker", "1")
    assert status == 4
    assert found["not_known"] == ["min.insync.replicas of orders: allow DESCRIBE_CONFIGS on the topics"]


def test_a_topic_that_may_not_be_described_is_named(cluster):
    cluster.topic("secret", [1, 2], refused=True)
    assert gate(cluster, "--broker", "1")[1]["not_known"] == ["secret on broker 1: allow DESCRIBE on the topics"]
    assert gate(cluster, "--broker", "3")[0] == 0


def test_internal_topics_are_looked_at_too(cluster):
    cluster.topic("__consumer_offsets", [1], internal=True)
    status, found = gate(cluster, "--broker", "1")
    assert (status, found["counts"]["will stop anyway"]) == (3, 1)


def test_a_rack_of_the_cluster_and_one_that_it_has_not(cluster):
    assert gate(cluster, "--rack", "rack-2")[1]["brokers"] == [2]
    server = ":".join(map(str, cluster.bootstrap()))
    done = CliRunner().invoke(app, ["gate", "--bootstrap", server, "--broker", "12"])
    assert (done.exit_code, done.output) == (2, "hwmark: there is no broker 12; known: 1, 2, 3\n")


def test_a_cluster_that_does_not_answer_is_status_1(tmp_path):
    done = CliRunner().invoke(app, ["gate", "--bootstrap", "127.0.0.1:1", "--broker", "1"])
    assert done.exit_code == 1
    assert done.output.startswith("hwmark: no cluster can be asked: 127.0.0.1:1: it refuses connections")


def test_waiting_goes_on_while_the_broker_that_is_asked_restarts(cluster):
    cluster.stop(1)
    status, found = gate(cluster, "--broker", "1", "--wait", "1s")
    assert (status, found["answer"]) == (4, "not known")
    assert "it refuses connections" in found["stale"]
