"""What is kept of a partition between batches is small: the state of 200,000 of them crosses disks at every commit."""

import pytest

from pipelines.commands.simulate.plan import plan, tiled
from pipelines.commands.simulate.run import run
from pipelines.commands.simulate.sinks import bronze_sink
from pipelines.lake.bronze import read_events
from pipelines.replication import Reconstructor, Rules
from pipelines.settings import Simulate
from tests.bench.load import rounds

PARTITIONS = 3_000


def in_bulk(folder):
    yield from rounds(PARTITIONS, 10, step=5)


def simulated(folder):
    """With controllers, reported HWs and followers, which the bulk load has not."""
    asked = Simulate(brokers=12, partitions=PARTITIONS, load=[f"steady:{PARTITIONS * 2}"], duration=8)
    planned = tiled(plan(asked))
    run(planned, bronze_sink(planned, str(folder)), lambda words: None)
    yield read_events(str(folder))


@pytest.mark.parametrize("telemetry", [in_bulk, simulated])
def test_a_steady_partition_of_three_replicas_takes_less_than_200_bytes(telemetry, tmp_path):
    reconstructor = Reconstructor(Rules(hw_resolution_ms=1_000))
    for events in telemetry(tmp_path):
        reconstructor.update(events)
    blob = reconstructor.snapshot()
    assert len(blob) < 200 * PARTITIONS
    assert Reconstructor.restore(blob).snapshot() == blob
