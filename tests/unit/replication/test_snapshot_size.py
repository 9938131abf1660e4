"""What is kept of a partition between batches is small: the state of 200,000 of them crosses disks at every commit."""

import pytest

from generators.simulator.clients.load import Load
from generators.simulator.cluster.settings import Settings
from generators.simulator.fleet.bootstrap import spread
from generators.simulator.fleet.fleet import Fleet
from pipelines.bench.workloads.load import rounds
from pipelines.replication import Reconstructor, Rules

PARTITIONS = 3_000


def in_bulk():
    yield from rounds(PARTITIONS, 10, step=5)


def simulated():
    """With controllers, reported HWs and followers, which the bulk load has not."""
    brokers = tuple(range(1, 13))
    settings = Settings(brokers=brokers, topics=spread(3, PARTITIONS // 3, brokers))
    for part in Fleet(settings, [Load("steady", PARTITIONS * 2.0)], 8.0).parts():
        yield part.copied()


@pytest.mark.parametrize("telemetry", [in_bulk, simulated])
def test_a_steady_partition_of_three_replicas_takes_less_than_200_bytes(telemetry):
    reconstructor = Reconstructor(Rules(hw_resolution_ms=1_000))
    for events in telemetry():
        reconstructor.update(events)
    blob = reconstructor.snapshot()
    assert len(blob) < 200 * PARTITIONS
    assert Reconstructor.restore(blob).snapshot() == blob
