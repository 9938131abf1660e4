"""A lane that comes to name more replicas than it has slots goes on where it was, with more."""

import pytest

from pipelines.replication import Reconstructor, replay
from pipelines.replication.facts.tables import SCHEMAS, Facts
from pipelines.replication.term.layout import SLOTS
from tests.unit.replication.bronze import Source, table, values_of

MANY = list(range(1, 2 * SLOTS + 2))


def grows(partition):
    """Broker 1 leads alone; replicas come one by one, until there are more than twice the slots."""
    telemetry = Source(f"broker-1/{partition}.log").on(partition=partition)
    telemetry.leader(0, 0, 0, 0, [1], replicas=[1], partition_epoch=0).append(10, 5)
    for epoch, replica in enumerate(MANY[1:], start=1):
        ms = 100 * epoch
        isr = MANY[: epoch + 1]
        telemetry.fetch(ms, replica, 5 * epoch, 5 * epoch).proposed(ms + 1, isr, "submitted")
        telemetry.isr(ms + 2, isr, epoch).append(ms + 10, 5 * (epoch + 1))
        for follower in isr[1:]:
            telemetry.fetch(ms + 20 + follower, follower, 5 * (epoch + 1), 5 * (epoch + 1))
    return telemetry


@pytest.mark.parametrize("partitions", [1, 3])
def test_a_lane_that_runs_out_of_slots_goes_on_with_more(partitions):
    events = table(*(grows(partition) for partition in range(partitions)))
    facts = replay(events)
    held = values_of(facts.partition_hw, "hw", "holding_replicas", partition=0, kind="advance")
    assert held == [(5, [1]), *((5 * (epoch + 1), MANY[: epoch + 1]) for epoch in range(1, len(MANY)))]
    reconstructor = Reconstructor()
    parts = [reconstructor.update(events.slice(row, 1)) for row in range(len(events))]
    telemetry = Facts.concat([*parts, reconstructor.finish()])
    for name in set(SCHEMAS) - {"minute_stats"}:
        whole, bit_by_bit = ([str(row) for row in of.tables()[name].to_pylist()] for of in (facts, telemetry))
        assert sorted(whole) == sorted(bit_by_bit), name


def test_a_fetch_of_a_replica_that_nobody_named_gets_a_slot():
    telemetry = Source("broker-1/replication.log").leader(0, 0, 0, 0, [1, 2, 3, 4], replicas=[1, 2, 3, 4]).append(10, 5)
    for replica in (2, 3, 4, 9):
        telemetry.fetch(20 + replica, replica, 5, 5)
    facts = replay(table(telemetry))
    assert values_of(facts.partition_hw, "ts", "hw", kind="advance") != []
    assert values_of(facts.partition_hw, "holding_replicas", kind="advance") == [[1, 2, 3, 4]]
