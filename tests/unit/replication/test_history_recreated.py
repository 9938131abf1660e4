"""A topic that was deleted and created again, as brokers with differing clocks and replaying controllers report it."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from pipelines.replication.partition.events import PartitionEvent
from tests.unit.replication.history_cases import (
    T1,
    T2,
    FakeLookup,
    election,
    history_of,
    isr,
    leader,
    regressions,
    summary,
)

START = leader(0, 1, 0, 0, 0, (1, 2, 3), replicas=(1, 2, 3))


def new_follower(ms, broker=3, of=1):
    return PartitionEvent(
        ms * 1000, "follower", broker, leader_epoch=0, leader_id=of, leo=0, hw=0, partition_epoch=0, topic_id=T2
    )


def rows_of(events, lookup=None):
    rows = history_of(sorted(events, key=lambda event: event.ts), lookup or FakeLookup()).take_isr_changes()
    return [(row["topic_id"], row["partition_epoch"], row["removed"], row["cause"]) for row in rows]


def test_what_brokers_with_slower_clocks_report_of_the_deleted_topic_counts_for_it():
    """Broker 3, 4 s behind, reports the new topic ahead of what its leader reported of the old one before."""
    asked = PartitionEvent(9_000_000, "isr_proposed", 1, isr=(1, 2), detail="shrink", topic_id=T1)
    events = [START, new_follower(6000), asked, isr(9020, 1, (1, 2), 1, "alter_partition")]
    assert rows_of(events) == [(T1, 1, [3], "lag")]


def test_a_term_of_the_deleted_topic_is_judged_though_it_is_read_after_the_new_one():
    lookup = FakeLookup({(1, 0): summary(300)})
    events = [START, new_follower(6000), leader(9000, 2, 1, 250, 250, (2, 3))]
    found = [(row["class"], row["topic_id"], row["lost_from"]) for row in regressions(events, lookup)]
    assert found == [("topic_recreated", T2, None), ("committed_loss", T1, 250)]


def test_the_deleted_topic_is_closed_when_no_clock_can_be_further_behind():
    events = [START, new_follower(6000), isr(16_001, 1, (1, 2), 1, "alter_partition")]
    assert rows_of(events) == []


@pytest.mark.parametrize("late", [100, 4000])
def test_all_that_is_published_of_a_recreated_topic_is_news(late):
    """A broker whose clock is behind reports the second ISR before the controller reports the first."""
    events = [
        START,
        new_follower(6000, broker=2),
        replace(isr(6100, 2, (1, 2), 1), topic_id=T2),
        election(6000 + late, 1, 0, isr=(1, 2, 3), partition_epoch=0, topic_id=T2),
    ]
    assert [row[:3] for row in rows_of(events)] == [(T2, 1, [3])]


@pytest.mark.parametrize("thawed", ["isr_proposed", "truncate", "hw", None])
def test_a_change_that_only_the_controller_reported_of_a_recreated_topic_is_published(thawed):
    """Nobody ever leads it; a broker that was frozen goes on for a moment as if the old one were there."""
    lookup = FakeLookup(states={2: [(9000, "fenced", 7)]})
    events = [
        START,
        election(7000, 2, 0, topic_id=T2, isr=(2,), partition_epoch=0, replicas=(2, 3)),
        election(9000, -1, 1, topic_id=T2, isr=(), partition_epoch=1, replicas=(2, 3)),
    ]
    if thawed:
        events.append(PartitionEvent(9_500_000, thawed, 3, isr=(1, 3), leo=5, hw=5, replica_id=3, topic_id=T1))
    assert rows_of(events, lookup) == [(T2, 1, [2], "controller_fenced")]


def test_a_broker_that_reports_its_metadata_refutes_what_a_controller_replayed():
    events = [
        START,
        election(7000, 2, 0, topic_id=T2, isr=(2,), partition_epoch=0),
        election(7001, 2, 0, topic_id=T2, isr=(2, 3), partition_epoch=1),
        isr(9000, 1, (1, 2), 1, leader_id=1, leader_epoch=0),
    ]
    history = history_of(events, FakeLookup())
    assert (history.registration.topic_id, history.take_regressions()) == (T1, [])


def test_what_waited_for_a_new_topic_is_published_though_an_old_leader_reported_meanwhile():
    """The clock of the old topic's leader is ahead of the controller's, that of the new one's is behind both."""
    events = [
        START,
        election(7000, 2, 0, topic_id=T2, isr=(2, 3), partition_epoch=0, replicas=(2, 3)),
        isr(8000, 1, (1, 2), 1, leader_id=1, leader_epoch=0),
        replace(isr(8500, 9, (2,), 1, "controller"), topic_id=T2),
        leader(9000, 2, 0, 0, 0, (2,), topic_id=T2, partition_epoch=1, replicas=(2, 3)),
    ]
    assert [row[:3] for row in rows_of(events)] == [(T1, 1, [3]), (T2, 1, [3])]


def test_all_that_waited_is_published_when_a_broker_comes_back_late():
    """The only replica is down while its topic is created anew, and reports that after 10 s."""
    lookup = FakeLookup(states={2: [(7600, "fenced", 7)]})
    events = [
        START,
        election(7000, 2, 0, topic_id=T2, isr=(2,), partition_epoch=0, replicas=(2,)),
        election(7600, -1, 1, topic_id=T2, isr=(), partition_epoch=1, replicas=(2,)),
        leader(17_500, 2, 2, 0, 0, (2,), topic_id=T2, partition_epoch=3, replicas=(2,)),
    ]
    assert [row[1:3] for row in rows_of(events, lookup)] == [(1, [2]), (3, [])]
