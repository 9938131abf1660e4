"""`hwmark ingest disk --bootstrap` beside a fake Kafka: what the quorum has committed, and why that is not known."""

from time import monotonic

import pytest

from generators.cluster.asking.link import PROBE_S
from generators.cluster.asking.security import Security
from generators.disks.quorum import Quorum, QuorumEnd
from tests.cluster.fake_kafka import FakeCluster


@pytest.fixture
def cluster():
    with FakeCluster() as fake:
        yield fake


def asked(cluster):
    server = ":".join(map(str, cluster.bootstrap()))
    quorum = Quorum(server, Security())
    try:
        told = quorum.ask(), quorum.ask()
        return [one.replace(server, "A") if isinstance(one, str) else one for one in told]
    finally:
        quorum.close()


def test_the_high_watermark_of_the_metadata_log_is_told_with_its_epoch_and_cluster(cluster):
    assert asked(cluster) == [QuorumEnd(1, 100, "fake")] * 2


NOT_TOLD = "A does not say what the quorum has committed: "


def test_a_missing_right_is_said(cluster):
    cluster.describe_cluster = False
    assert asked(cluster) == [f"{NOT_TOLD}allow DESCRIBE on the cluster"] * 2


def test_controllers_in_zookeeper_are_said(cluster):
    del cluster.versions[55]
    told, again = asked(cluster)
    assert told.startswith(NOT_TOLD)
    assert "does not support the 'DescribeQuorumRequest'" in told
    assert told == again


def test_a_cluster_that_is_down_is_said_and_left_alone_for_a_while():
    with FakeCluster() as fake:
        pass
    began = monotonic()
    assert asked(fake) == [f"{NOT_TOLD}it does not answer in time"] * 2
    assert monotonic() - began < 1.9 * PROBE_S
