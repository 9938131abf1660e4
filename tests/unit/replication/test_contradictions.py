"""Two that say other committed ISRs of one partition epoch: logs or disks of another cluster are among those given."""

import pytest

from hwmark import replay
from tests.unit.replication.bronze import Source, controller, table

ID = {"topic_id": "AAAAAAAAAAAAAAAAAAAAAA"}


def contradictions(*sources):
    found = replay(table(*sources)).telemetry_gaps.to_pylist()
    return [(r["source_id"], r["partition"], r["detail"]) for r in found if r["kind"] == "contradiction"]


def leads(**isrs):
    source = Source("broker-1/server.log").leader(0, 0, 0, 0, [1, 2, 3], replicas=[1, 2, 3], partition_epoch=0, **ID)
    return source.isr(5000, isrs["told"], 1, **ID)


def test_another_brokers_metadata_that_names_another_isr_is_a_row():
    other = Source("broker-2/server.log").isr(5100, [1, 3], 1, detail="metadata", **ID)
    words = "ISR [1, 3] at partition epoch 1, others say [1, 2]"
    assert contradictions(leads(told=[1, 2]), other) == [("broker-2/server.log", 0, words)]


def test_a_committed_record_of_a_metadata_log_that_names_another_isr_is_a_row():
    disk = Source("disk/broker-9", level=0).isr(5100, [1], 1, detail="controller", committed=True, broker_id=-1, **ID)
    assert [source for source, *_ in contradictions(leads(told=[1, 2]), disk)] == ["disk/broker-9"]


@pytest.mark.parametrize("isr", [[1, 2], [2, 1]])
def test_the_same_isr_contradicts_nothing(isr):
    other = Source("broker-2/server.log").isr(5100, isr, 1, detail="metadata", **ID)
    assert contradictions(leads(told=[1, 2]), other) == []


def test_what_a_controller_alone_reports_contradicts_nothing():
    """A deposed controller prints changes that no quorum commits."""
    assert contradictions(leads(told=[1, 2]), controller().isr(5100, [1], 1, detail="controller", **ID)) == []
