"""A topic that was deleted and created again, told by brokers whose clocks are apart and by controllers that replay."""

from __future__ import annotations

import pytest
from history_cases import T1, T2, Around, election, isr, leader, regressions, seen, told
from msgspec.structs import replace

from pipelines.replication.partition.events import PartitionEvent

START = leader(0, 1, 0, 0, 0, (1, 2, 3), replicas=(1, 2, 3))


def new_follower(ms, broker=3, of=1):
    return PartitionEvent(
        ms * 1000, "follower", broker, leader_epoch=0, leader_id=of, leo=0, hw=0, partition_epoch=0, topic_id=T2
    )


def told_of(story, around=None):
    rows = told(sorted(story, key=lambda note: note.ts), around or Around()).take_isr_changes()
    return [(row["topic_id"], row["partition_epoch"], row["removed"], row["cause"]) for row in rows]


def test_what_brokers_with_slower_clocks_tell_of_the_deleted_topic_counts_for_it():
    """Broker 3, 4 s behind, tells of the new topic ahead of what its leader told of the old one before."""
    asked = PartitionEvent(9_000_000, "isr_proposed", 1, isr=(1, 2), detail="shrink", topic_id=T1)
    story = [START, new_follower(6000), asked, isr(9020, 1, (1, 2), 1, "alter_partition")]
    assert told_of(story) == [(T1, 1, [3], "lag")]


def test_a_term_of_the_deleted_topic_is_judged_though_it_is_read_after_the_new_one():
    around = Around({(1, 0): seen(300)})
    story = [START, new_follower(6000), leader(9000, 2, 1, 250, 250, (2, 3))]
    found = [(row["class"], row["topic_id"], row["lost_from"]) for row in regressions(story, around)]
    assert found == [("topic_recreated", T2, None), ("committed_loss", T1, 250)]


def test_the_deleted_topic_is_closed_when_no_clock_can_be_further_behind():
    story = [START, new_follower(6000), isr(16_001, 1, (1, 2), 1, "alter_partition")]
    assert told_of(story) == []


@pytest.mark.parametrize("late", [100, 4000])
def test_all_that_is_told_of_a_topic_made_anew_is_news(late):
    """A broker whose clock is behind tells of the second ISR before the controller tells of the first."""
    story = [
        START,
        new_follower(6000, broker=2),
        replace(isr(6100, 2, (1, 2), 1), topic_id=T2),
        election(6000 + late, 1, 0, isr=(1, 2, 3), partition_epoch=0, topic_id=T2),
    ]
    assert [row[:3] for row in told_of(story)] == [(T2, 1, [3])]


@pytest.mark.parametrize("thawed", ["isr_proposed", "truncate", "hw", None])
def test_a_change_that_only_the_controller_told_of_a_topic_made_anew_is_told(thawed):
    """Nobody ever leads it; a broker that was frozen goes on for a moment as if the old one were there."""
    around = Around(states={2: [(9000, "fenced", 7)]})
    story = [
        START,
        election(7000, 2, 0, topic_id=T2, isr=(2,), partition_epoch=0, replicas=(2, 3)),
        election(9000, -1, 1, topic_id=T2, isr=(), partition_epoch=1, replicas=(2, 3)),
    ]
    if thawed:
        story.append(PartitionEvent(9_500_000, thawed, 3, isr=(1, 3), leo=5, hw=5, replica_id=3, topic_id=T1))
    assert told_of(story, around) == [(T2, 1, [2], "controller_fenced")]


def test_a_broker_that_tells_of_its_metadata_refutes_what_a_controller_replayed():
    story = [
        START,
        election(7000, 2, 0, topic_id=T2, isr=(2,), partition_epoch=0),
        election(7001, 2, 0, topic_id=T2, isr=(2, 3), partition_epoch=1),
        isr(9000, 1, (1, 2), 1, leader_id=1, leader_epoch=0),
    ]
    history = told(story, Around())
    assert (history.registration.topic_id, history.take_regressions()) == (T1, [])


def test_what_waited_for_a_new_topic_is_told_though_an_old_leader_was_heard_meanwhile():
    """The clock of the old topic's leader is ahead of the controller's, that of the new one's is behind both."""
    story = [
        START,
        election(7000, 2, 0, topic_id=T2, isr=(2, 3), partition_epoch=0, replicas=(2, 3)),
        isr(8000, 1, (1, 2), 1, leader_id=1, leader_epoch=0),
        replace(isr(8500, 9, (2,), 1, "controller"), topic_id=T2),
        leader(9000, 2, 0, 0, 0, (2,), topic_id=T2, partition_epoch=1, replicas=(2, 3)),
    ]
    assert [row[:3] for row in told_of(story)] == [(T1, 1, [3]), (T2, 1, [3])]


def test_all_that_waited_is_told_when_a_broker_comes_back_late():
    """The only replica is down while its topic is made anew, and tells of it when 10 s have passed since."""
    around = Around(states={2: [(7600, "fenced", 7)]})
    story = [
        START,
        election(7000, 2, 0, topic_id=T2, isr=(2,), partition_epoch=0, replicas=(2,)),
        election(7600, -1, 1, topic_id=T2, isr=(), partition_epoch=1, replicas=(2,)),
        leader(17_500, 2, 2, 0, 0, (2,), topic_id=T2, partition_epoch=3, replicas=(2,)),
    ]
    assert [row[1:3] for row in told_of(story, around)] == [(1, [2]), (3, [])]
