"""The worked examples of replication, with exactly their numbers, as they come out of telemetry."""

from __future__ import annotations

from pipelines.replication import Reconstructor, Rules, replay
from tests.unit.replication.bronze import Source, advances, controller, last_rows, table, values_of


def visible(facts):
    """The offsets that a consumer may read at the end: those below the last HW."""
    return list(range(values_of(facts.partition_hw, "hw")[-1]))


def health(*sources):
    reconstructor = Reconstructor()
    reconstructor.update(table(*sources))
    reconstructor.finish()
    (row,) = reconstructor.health().to_pylist()
    return row


def test_example_1_consumers_see_what_the_shortest_in_sync_replica_has():
    log = ["a", "b", "c", "d"]
    first = Source("broker-1/replication.log").leader(0, 0, leo=0, hw=0, isr=[1, 2, 3])
    first.append(10, 4).fetch(20, replica=3, leo=3).fetch(30, replica=2, leo=2)
    assert [log[offset] for offset in visible(replay(table(first)))] == ["a", "b"]

    second = Source("broker-3/replication.log").leader(100, 1, leo=3, hw=2, isr=[2, 3])
    second.fetch(110, replica=2, leo=2)
    assert [log[offset] for offset in visible(replay(table(first, second)))] == ["a", "b"]


def test_example_2_the_high_watermark_travels_with_fetches():
    telemetry = Source("broker-1/replication.log").leader(0, 0, leo=0, hw=0, isr=[1, 2, 3])
    telemetry.append(10, 2).fetch(20, replica=2, leo=0).fetch(21, replica=3, leo=0)
    assert visible(replay(table(telemetry))) == []

    telemetry.append(30, 3).fetch(40, replica=2, leo=2).fetch(41, replica=3, leo=1).hw(41, 1)
    facts = replay(table(telemetry))
    columns = ("hw", "reported_hw", "leader_leo", "holding_replicas", "agreement")
    assert values_of(facts.partition_hw, *columns, kind="advance") == [(max(0, min(3, 2, 1)), 1, 3, [3], "exact")]


def test_example_3_every_record_takes_two_rounds():
    telemetry = Source("broker-1/replication.log").leader(0, 0, leo=0, hw=0, isr=[1, 2])
    telemetry.append(10, 1).fetch(20, replica=2, leo=0)
    assert advances(replay(table(telemetry))) == []

    telemetry.fetch(30, replica=2, leo=1).hw(30, 1)
    assert advances(replay(table(telemetry))) == [(30, 1)]


def follower_hws(telemetry):
    """The HW of each follower at the end: what its last fetch shows that it made of the answer before."""
    facts = replay(table(telemetry), Rules(replica_hw=True))
    return dict(values_of(facts.replica_hw, "replica_id", "hw"))


def test_example_4_in_example_2_both_followers_end_at_1():
    telemetry = Source("broker-1/replication.log").leader(0, 0, leo=0, hw=0, isr=[1, 2, 3])
    telemetry.append(10, 2).fetch(20, replica=2, leo=0).fetch(21, replica=3, leo=0)
    telemetry.append(30, 3).fetch(40, replica=2, leo=2).fetch(41, replica=3, leo=1)
    assert follower_hws(telemetry) == {2: 0, 3: 0}
    assert follower_hws(
        telemetry.fetch(50, replica=2, leo=3).fetch(51, replica=3, leo=2).fetch(60, replica=2, leo=3)
    ) == {
        2: 1,
        3: 1,
    }


def test_example_4_in_example_3_the_answer_brings_1():
    telemetry = Source("broker-1/replication.log").leader(0, 0, leo=0, hw=0, isr=[1, 2])
    telemetry.append(10, 1).fetch(20, replica=2, leo=0).fetch(30, replica=2, leo=1)
    assert follower_hws(telemetry) == {2: 0}
    assert follower_hws(telemetry.fetch(40, replica=2, leo=1)) == {2: 1}


def test_example_4_the_high_watermark_of_a_follower_far_behind_is_its_own_end():
    telemetry = Source("broker-1/replication.log").leader(0, 0, leo=100, hw=90, isr=[1], replicas=[1, 2])
    telemetry.fetch(10, replica=2, leo=3).fetch(20, replica=2, leo=7)
    assert follower_hws(telemetry) == {2: 7}


def test_example_5_a_leader_alone_in_the_isr_commits_at_once():
    telemetry = Source("broker-1/replication.log").leader(0, 0, leo=0, hw=0, isr=[1], replicas=[1])
    telemetry.append(10, 2).append(20, 7)
    assert advances(replay(table(telemetry))) == [(10, 2), (20, 7)]


def test_example_6_assigned_replicas_are_the_isr_and_the_others():
    telemetry = Source("broker-1/replication.log").leader(0, 0, leo=3, hw=3, isr=[1, 2, 3])
    telemetry.fetch(5, replica=2, leo=3).fetch(6, replica=3, leo=3)
    telemetry.append(10, 5).fetch(20, replica=2, leo=5).fetch(21, replica=3, leo=4)
    facts = replay(table(telemetry))
    assert advances(facts) == [(21, 4)]
    assert visible(facts) == [0, 1, 2, 3]

    telemetry.fetch(30, replica=3, leo=5)
    assert advances(replay(table(telemetry))) == [(21, 4), (30, 5)]

    telemetry.isr(40, [1, 2], epoch=1)
    row = health(telemetry)
    assert (row["ar"], row["isr"], row["osr"]) == ([1, 2, 3], [1, 2], [3])


def test_example_7_a_log_from_0_to_9_with_high_watermark_6():
    telemetry = Source("broker-1/replication.log").leader(0, 0, leo=9, hw=6, isr=[1, 2, 3], log_start=0)
    telemetry.fetch(10, replica=3, leo=6).fetch(20, replica=2, leo=8)
    facts = replay(table(telemetry))
    assert visible(facts) == [0, 1, 2, 3, 4, 5]
    assert [offset for offset in range(9) if offset not in visible(facts)] == [6, 7, 8]
    assert facts.quarantine.num_rows == 0, "the fetch of a broker is not bounded by the HW"
    row = health(telemetry)
    assert (row["hw"], row["leader_leo"], row["holding_replicas"]) == (6, 9, [3])


def test_example_8_a_slow_follower_leaves_by_time_and_returns():
    telemetry = Source("broker-1/replication.log").leader(0, 0, leo=0, hw=0, isr=[1, 2], replicas=[1, 2])
    telemetry.fetch(1000, replica=2, leo=0).append(2000, 5)
    telemetry.proposed(31_500, [1], "shrink").isr(31_600, [1], epoch=1)
    telemetry.fetch(40_000, replica=2, leo=5)
    telemetry.proposed(40_001, [1, 2], "expand").isr(40_100, [1, 2], epoch=2).progress(60_000)
    facts = replay(table(telemetry))
    states = values_of(facts.replica_sync, "ms", "state", replica_id=2)
    assert states == [(16_001, "lagging"), (31_001, "out_of_sync"), (40_000, "in_sync")]
    changes = values_of(facts.isr_changes, "ms", "isr_after", "cause", "predicted")
    assert changes == [(31_600, [1], "lag", True), (40_100, [1, 2], "caught_up", None)]


def test_example_8_a_slow_follower_leaves_by_messages_and_returns():
    telemetry = Source("broker-1/replication.log").leader(0, 0, leo=0, hw=0, isr=[1, 2], replicas=[1, 2])
    telemetry.fetch(10, replica=2, leo=0).append(20, 4).append(30, 5)
    telemetry.fetch(40, replica=2, leo=5).progress(60_000)
    facts = replay(table(telemetry), Rules(lag_max_messages=4))
    assert values_of(facts.replica_sync, "ms", "state", replica_id=2) == [(30, "out_of_sync"), (40, "in_sync")]


def test_example_10_a_failed_follower_cuts_at_its_high_watermark_and_returns():
    telemetry = Source("broker-1/replication.log").leader(0, 0, leo=0, hw=0, isr=[1, 2], replicas=[1, 2])
    follower = Source("broker-2/replication.log").follower(1, 0, leo=0, hw=0, of=1)
    telemetry.append(10, 3).fetch(20, replica=2, leo=3).append(30, 5)
    fencing = controller().broker_state(99, 2, "fenced", epoch=7).broker_state(215, 2, "unfenced", epoch=8)
    telemetry.isr(100, [1], epoch=1, detail="metadata")
    follower.follower(200, 0, leo=3, hw=2, of=1).truncate(210, 2)
    telemetry.fetch(220, replica=2, leo=2).fetch(230, replica=2, leo=5)
    telemetry.proposed(231, [1, 2], "expand").isr(240, [1, 2], epoch=2)
    facts = replay(table(telemetry, follower, fencing))
    assert advances(facts) == [(20, 3), (100, 5)]
    changes = values_of(facts.isr_changes, "isr_after", "cause")
    assert changes == [([1], "controller_fenced"), ([1, 2], "caught_up")]
    assert values_of(facts.hw_regressions, "class", "start_offset") == []
    assert values_of(facts.hw_regressions, "severity", severity="critical") == []


def test_example_11_after_a_leader_failure_the_others_cut_and_follow():
    old, new = Source("broker-1/replication.log"), Source("broker-2/replication.log")
    third = Source("broker-3/replication.log").follower(1, 0, leo=0, hw=0, of=1)
    old.leader(0, 0, leo=0, hw=0, isr=[1, 2, 3]).append(10, 5)
    new.follower(1, 0, leo=0, hw=0, of=1)
    old.fetch(20, replica=2, leo=3).fetch(21, replica=3, leo=4).hw(21, 3)
    new.leader(100, 1, leo=3, hw=0, isr=[2, 3])
    third.follower(110, 1, leo=4, hw=3, of=2).truncate(111, 3)
    new.fetch(120, replica=3, leo=3)
    old.follower(200, 1, leo=5, hw=3, of=2).truncate(201, 3)
    lives = controller()
    for broker in (1, 2, 3):
        lives.broker_state(0, broker, "unfenced", epoch=broker)
    facts = replay(table(old, new, third, lives))
    assert advances(facts) == [(21, 3), (120, 3)]
    found = last_rows(facts.hw_regressions, "regression_id")
    assert {row["severity"] for row in found} == {"info"}
    assert sorted(row["class"] for row in found) == ["stale_leader_hw", *["uncommitted_truncation"] * 2]


def outage():
    """Broker 2 is fenced at 3, broker 1 commits up to 5 alone and is fenced too: nobody leads."""
    old, other = Source("broker-1/replication.log"), controller()
    old.leader(0, 0, leo=0, hw=0, isr=[1, 2], replicas=[1, 2]).append(10, 5)
    old.fetch(20, replica=2, leo=3).isr(30, [1], epoch=1, detail="metadata").hw(30, 5).progress(40)
    other.progress(0).broker_state(29, 2, "fenced", epoch=7).broker_state(99, 1, "fenced", epoch=6)
    other.election(100, -1, 1, partition_epoch=2, isr=[1], replicas=[1, 2])
    return old, other


def test_example_13_election_outside_the_isr_off_leaves_the_partition_offline():
    old, other = outage()
    row = health(old, other)
    assert (row["leader_id"], row["offline"], row["isr"]) == (-1, True, [1])


def test_example_13_election_outside_the_isr_on_names_the_lost_range():
    old, other = outage()
    new = Source("broker-2/replication.log").follower(1, 0, leo=0, hw=0, of=1)
    other.election(200, 2, 2, partition_epoch=3, isr=[2], replicas=[1, 2], unclean=True)
    new.leader(210, 2, leo=3, hw=3, isr=[2], replicas=[1, 2], partition_epoch=3, unclean=True)
    old.follower(300, 2, leo=5, hw=5, of=2)
    other.progress(400)  # it goes on, and has told of no start of broker 1
    facts = replay(table(old, other, new))
    (loss,) = [r for r in last_rows(facts.hw_regressions, "regression_id") if r["severity"] == "critical"]
    assert (loss["class"], loss["lost_from"], loss["lost_to"], loss["proof"]) == ("unclean_loss", 3, 5, "proven")
