"""Out of sync from samples, by the lag rule with its uncertainty: late where they leave it open, never early."""

from pipelines.replication import Reconstructor
from pipelines.replication.samples.layout import KEPT_ISRS
from tests.unit.replication.bronze import events_of, values_of
from tests.unit.replication.test_rules_samples_hw import caught_up, facts_of, present
from tests.unit.replication.watching import Watched, cluster, in_time, rounds

LAG = 3000
COLUMNS = ("ms", "replica_id", "state", "previous_state", "reason", "leo", "leader_leo", "in_isr")


def left_behind(until: int = 12_000) -> list[Watched]:
    """Replica 3 stays at 100, which the leader was last seen at in the round of 2 s; at 3 s it is at 200."""
    one, two, three = cluster()
    one.config(0, lag_max_ms=LAG)
    one.seen(0, 1, 0).began(900, 0, 0).leads(1000, 0, 100, 100).leads(3000, 0, 200, 100)
    two.follows(1000, 100).follows(3000, 200)
    three.follows(1000, 100)
    rounds(until, one, two, three)
    return [one, two, three]


def sync(*watched: Watched) -> list[tuple]:
    return values_of(facts_of(*watched).replica_sync, *COLUMNS)


def test_out_of_sync_once_the_latest_instant_of_being_caught_up_is_longer_ago_than_the_lag():
    """By 3.001 s the leader was past 100, so by 6.002 s the replica was out of sync, whatever it did in between."""
    assert sync(*left_behind()) == [(6002, 3, "out_of_sync", "in_sync", "silent", 100, 200, True)]


def test_the_time_is_when_it_was_last_caught_up_at_the_latest_and_the_lag():
    (row,) = facts_of(*left_behind()).replica_sync.to_pylist()
    assert (row["ts"] - row["last_caught_up_ts"]).total_seconds() == (LAG + 1) / 1000


def test_not_before_a_round_in_which_the_replica_still_answers_so():
    """Until the round of 7 s it may have caught up after that of 6 s."""
    assert sync(*left_behind(6000)) == []
    assert len(sync(*left_behind(7000))) == 1


def test_who_does_not_answer_may_have_caught_up():
    one, two, three = left_behind(3000)
    rounds(20_000, one, two, since=4000)
    assert sync(one, two, three) == []


def test_an_unanswered_partition_ends_what_is_known_of_the_replica():
    one, two, three = left_behind()
    three.unanswered(5500)
    assert sync(one, two, three) == []


def test_a_broker_that_hung_is_measured_by_what_it_answers_then():
    one, two, three = left_behind(3000)
    rounds(20_000, one, two, since=4000)
    three.hung(15_000).follows(15_000, 100).round(16_000)
    assert sync(one, two, three)[0][:3] == (6002, 3, "out_of_sync")


def test_what_a_broker_answers_when_it_is_back_counts_before_its_round_does():
    """It was killed with more records than it was last seen with: seen beside a real Kafka. Its round has the same
    time as its sample."""
    one, two, three = left_behind(3000)
    one.leads(5000, 0, 400, 100)
    two.follows(5000, 400)
    rounds(20_000, one, two, since=4000)
    three.hung(15_000).follows(15_000, 200).round(15_000, 16_000)
    assert sync(one, two, three)[0][:3] == (8002, 3, "out_of_sync")


def test_caught_up_again_is_a_row():
    one, two, three = left_behind(20_000)
    three.follows(9000, 200)
    assert [row[:5] for row in sync(one, two, three)] == [
        (6002, 3, "out_of_sync", "in_sync", "silent"),
        (9000, 3, "in_sync", "out_of_sync", "recovered"),
    ]


def test_fetching_without_catching_up_is_behind():
    """The replica follows five seconds behind the leader, whose LEO grows by 100 a second."""
    one, two, three = cluster()
    one.config(0, lag_max_ms=LAG)
    one.seen(0, 1, 0)
    two.round(15_000)
    for second in range(1, 16):
        one.leads(1000 * second, 0, 100 * second, 0)
        three.follows(1000 * second, max(100 * second - 500, 100))
    rounds(15_000, one, three)
    found = sync(one, two, three)
    assert [row[:5] for row in found] == [(5002, 3, "out_of_sync", "in_sync", "silent")]
    leaps = Watched(3).follows(1000, 100).follows(3500, 150).follows(4500, 160).round(*range(1000, 16_000, 1000))
    assert sync(one, two, leaps)[0][2:5] == ("out_of_sync", "in_sync", "behind")


def test_a_replica_behind_within_the_lag_is_in_sync():
    one, two, three = left_behind()
    three.follows(5000, 200)
    one.leads(6000, 0, 300, 100)
    two.follows(6000, 300)
    three.follows(8000, 300)
    assert sync(one, two, three) == []


def test_a_new_leader_measures_anew():
    one, two, three = left_behind()
    one.seen(8000, 2, 1)
    two.leads(8100, 1, 200, 100)
    rounds(20_000, one, two, three, since=13_000)
    assert [(row[0], row[2]) for row in sync(one, two, three)] == [
        (6002, "out_of_sync"),
        (8000, "in_sync"),
        (11_102, "out_of_sync"),
    ]


def test_a_log_that_was_cut_is_behind_since_then():
    one, two, three = left_behind(20_000)
    three.follows(3500, 200).follows(8000, 50)
    assert [row[:3] for row in sync(one, two, three)] == [(11_002, 3, "out_of_sync")]


def test_a_replica_is_measured_from_its_first_sample_on():
    """One that a reassignment adds has no LEO before: it was no follower then."""
    one, two, three = left_behind(20_000)
    three.rows = [row for row in three.rows if row["event_type"] == "progress"]
    three.follows(9500, 0)
    assert [row[:3] for row in sync(one, two, three)] == [(12_502, 3, "out_of_sync")]


def test_health_names_who_is_out_of_sync():
    row = present(*left_behind())
    assert (row["out_of_sync"], row["lag_records"], row["isr"]) == ([3], 100, [1, 2, 3])


def test_health_names_who_has_not_got_where_its_leader_was_rounds_ago():
    """The fetcher of 2 dies at 2 s; its broker answers on. Whoever is only a round behind is not named."""
    one, two, three = cluster()
    one.config(0, lag_max_ms=60_000)
    one.seen(0, 1, 0).began(900, 0, 0)
    for second in range(1, 13):
        one.leads(second * 1000, 0, 100 * second, 100)
        if second < 3:
            two.follows(second * 1000, 100 * second)
        three.follows(second * 1000 - 400, 100 * (second - 1))
    rounds(12_000, one, two, three)
    row = present(one, two, three)
    assert (row["behind"], row["out_of_sync"]) == ([2], [])


def test_isr_changes_are_what_the_metadata_shows():
    one, two, three = left_behind()
    two.seen(10_000, 1, 0, isr=[1, 2]).seen(11_000, 1, 0, isr=[1, 2, 3])
    columns = ("ms", "change", "isr_before", "isr_after", "cause", "witness", "level", "predicted", "commit_ms")
    rounds(30_000, one, two, three, since=13_000)
    assert values_of(facts_of(one, two, three).isr_changes, *columns) == [
        (10_000, "shrink", [1, 2, 3], [1, 2], "lag", "broker", 1, True, None),
        (11_000, "expand", [1, 2], [1, 2, 3], "caught_up", "broker", 1, None, None),
    ]


def test_what_the_lag_rule_does_not_show_has_no_known_cause():
    one, two, three = left_behind(4000)
    two.seen(4500, 1, 0, isr=[1, 2])
    rounds(30_000, one, two, three, since=5000)
    assert values_of(facts_of(one, two, three).isr_changes, "change", "cause", "predicted") == [
        ("shrink", "unknown", False)
    ]


def test_an_election_outside_the_isr_is_one():
    one, two, three = left_behind(4000)
    two.seen(4500, -1, 1, isr=[1]).seen(5500, 2, 2, isr=[2])
    rounds(30_000, one, two, three, since=5000)
    rows = values_of(facts_of(one, two, three).isr_changes, "isr_before", "isr_after", "cause")
    assert rows[-1] == ([1], [2], "election")


def members(*watched: Watched, replica: int = 3) -> list[tuple]:
    return values_of(facts_of(*watched).replica_sync, "ms", "state", "in_isr", replica_id=replica)


def test_in_isr_is_the_isr_at_that_moment_and_not_when_it_was_known():
    """The leader shrinks the ISR between 6.5 and 6.6 s; that the replica was out of sync before is known at 7 s."""
    one, two, three = left_behind()
    one.seen(6600, 1, 0, isr=[1, 2], ts_error_ms=100.0)
    assert members(one, two, three) == [(6002, "out_of_sync", True)]


def test_in_isr_is_not_known_where_the_isr_changed_around_that_moment():
    one, two, three = left_behind()
    one.seen(6600, 1, 0, isr=[1, 2], ts_error_ms=1000.0)
    assert members(one, two, three) == [(6002, "out_of_sync", None)]


def test_in_isr_is_not_known_before_an_isr_that_only_a_sample_shows():
    one, two, three = left_behind()
    one.leads(6600, 0, 300, 100, isr=[1, 2])
    assert members(one, two, three) == [(6002, "out_of_sync", None)]


def test_in_isr_of_who_left_and_came_back_before_that_was_known():
    """A broker that hung is measured by what it answers then, long after two changes of the ISR."""
    one, two, three = left_behind(3000)
    rounds(20_000, one, two, since=4000)
    one.seen(5000, 1, 0, isr=[1, 2], ts_error_ms=100.0).seen(9000, 1, 0, ts_error_ms=100.0)
    three.hung(15_000).follows(15_000, 100).round(16_000)
    assert members(one, two, three)[0] == (6002, "out_of_sync", False)


def test_in_isr_is_not_known_where_the_isr_has_changed_too_often_since():
    one, two, three = left_behind(3000)
    rounds(40_000, one, two, since=4000)
    for n in range(2 * KEPT_ISRS):
        one.seen(8000 + 500 * n, 1, 0, isr=[1, 2] if n % 2 else [1, 2, 3], ts_error_ms=100.0)
    three.hung(35_000).follows(35_000, 100).round(36_000)
    assert members(one, two, three)[0] == (6002, "out_of_sync", None)


def test_who_is_out_of_sync_when_another_leader_begins_is_in_the_isr_that_it_begins_with():
    one, two, three = left_behind(8000)
    two.seen(9000, 2, 1, isr=[1, 2]).began(9000, 1, 200, isr=[1, 2])
    assert members(one, two, three) == [(6002, "out_of_sync", True), (9000, "in_sync", False)]


def test_what_became_of_the_isr_is_dropped_once_followers_have_gone_on():
    """Only while a claim may be made of a time before does a partition keep it."""
    one, two, three = cluster()
    one.seen(0, 1, 0).leads(1000, 0, 100, 100).seen(1500, 1, 0, isr=[1, 2]).leads(2000, 0, 200, 100, isr=[1, 2])
    two.follows(1000, 100).follows(2000, 200)
    three.follows(1000, 100).follows(2000, 200)
    rounds(4000, one, two, three)
    machine = Reconstructor()
    machine.update(events_of(in_time(one, two, three)))
    machine.finish()
    assert machine.state.sampled.records["isrs"].tolist() == [0]


def reassigned(until: int) -> list[Watched]:
    """Replica 3 is out of sync; at 60.5 s another one is assigned in its place."""
    watched = one, two, three, four = cluster(1, 2, 3, 4)
    one.config(0, lag_max_ms=1000).seen(0, 1, 0).began(900, 0, 0).leads(1000, 0, 100, 100).leads(2000, 0, 200, 100)
    two.follows(1000, 100).follows(2000, 200)
    three.follows(1000, 100)
    if until > 60_500:
        one.seen(60_500, 1, 0, [1, 2, 4], replicas=[1, 2, 4], partition_epoch=1)
        one.leads(60_900, 0, 200, 200, [1, 2, 4], replicas=[1, 2, 4])
        four.follows(60_900, 200)
    rounds(until, *watched)
    return list(watched)


def test_a_replica_that_is_not_assigned_any_more_is_not_out_of_sync_any_more():
    assert present(*reassigned(60_000))["out_of_sync"] == [3]
    assert present(*reassigned(120_000))["out_of_sync"] == []
    (out, back) = sync(*reassigned(120_000))
    assert out[:4] == (3002, 3, "out_of_sync", "in_sync")
    assert back[:5] == (60_500, 3, "in_sync", "out_of_sync", "unassigned")


def test_a_replica_that_is_assigned_again_is_measured_anew():
    watched = one, two, _, four = reassigned(120_000)
    one.seen(120_500, 1, 0, [1, 2, 4], replicas=[1, 2, 3, 4], partition_epoch=2)
    one.leads(120_900, 0, 300, 300, [1, 2, 4], replicas=[1, 2, 3, 4])
    for replica in (two, four):
        replica.follows(120_900, 300)
    rounds(180_000, *watched, since=121_000)
    again = [row[:4] for row in sync(*watched) if row[0] > 60_500]
    assert again == [(122_501, 3, "out_of_sync", "in_sync")]


def test_a_replica_whose_broker_does_not_answer_is_in_no_known_state():
    """One that was dead for minutes stood as `in_sync`, and as caught up for so many milliseconds less."""
    one, two, three = caught_up()
    one.leads(4000, 0, 300, 300, isr=[1, 2])
    two.follows(4000, 250)
    rounds(30_000, one, two, since=7000)
    machine = Reconstructor()
    machine.update(events_of(in_time(one, two, three)))
    rows = machine.present().replica_lag.to_pylist()
    found = [(row["replica_id"], row["state"], row["leo"], row["lag_ms"] is None) for row in rows]
    assert found == [(3, None, None, True), (2, "in_sync", 250, False)]
