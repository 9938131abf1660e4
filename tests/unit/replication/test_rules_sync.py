"""When a replica is in sync, lagging or out of sync: Kafka's bookkeeping of the last time it was caught up."""

from __future__ import annotations

import pytest

from pipelines.replication import Rules, replay
from tests.unit.replication.bronze import Source, advances, since_base, table, values_of

LAG = Rules(lag_max_ms=10_000)


def led(isr=(1, 2), replicas=(1, 2), leo=0, **more):
    return Source("broker-1/replication.log").leader(0, 0, leo, 0, list(isr), replicas=list(replicas), **more)


def states(telemetry, rules=LAG, replica=2):
    """(ms, state, reason, last caught up in ms) of every change of one replica."""
    rows = values_of(
        replay(table(telemetry), rules).replica_sync, "ms", "state", "reason", "last_caught_up_ts", replica_id=replica
    )
    return [(ms, state, reason, since_base(caught_up)) for ms, state, reason, caught_up in rows]


def test_rule_2_2_1_a_fetch_at_the_end_of_the_log_is_caught_up_now():
    telemetry = led().append(10, 5).fetch(20, 2, 5).append(30, 6).progress(20_000)
    assert states(telemetry) == [(5021, "lagging", "silent", 20), (10_021, "out_of_sync", "silent", 20)]


def test_rule_2_2_2_a_fetch_at_the_previous_end_was_caught_up_at_the_previous_fetch():
    telemetry = led().append(10, 5).fetch(20, 2, 3, leader_leo=5).append(30, 9).fetch(4000, 2, 5, leader_leo=9)
    assert states(telemetry.progress(20_000))[0] == (5021, "lagging", "behind", 20)


def test_rule_2_2_3_a_fetch_below_both_ends_changes_nothing():
    telemetry = led().append(10, 5).fetch(20, 2, 1, leader_leo=5).fetch(4000, 2, 2, leader_leo=5).progress(20_000)
    assert states(telemetry)[0] == (5001, "lagging", "behind", 0)


def test_a_follower_that_never_reaches_the_moving_end_stays_in_sync():
    telemetry = led()
    for round_ in range(1, 30):
        telemetry.append(1000 * round_, 10 * round_).fetch(1000 * round_ + 500, 2, 10 * (round_ - 1))
    assert states(telemetry) == []


def test_the_lag_is_exceeded_strictly():
    """Caught up at 20: at 10,020 still in time, at 10,021 no more."""
    telemetry = led().append(10, 5).fetch(20, 2, 5).append(30, 6)
    assert [s[:2] for s in states(telemetry.progress(10_021))] == [(5021, "lagging")]
    assert [s[:2] for s in states(telemetry.progress(10_022))] == [(5021, "lagging"), (10_021, "out_of_sync")]


def test_equality_wins_over_any_elapsed_time():
    assert states(led().append(10, 5).fetch(20, 2, 5).progress(300_000)) == []


def test_one_at_the_end_of_the_log_falls_behind_at_the_next_append():
    """Long silent at the end: out of sync the moment it is no longer equal."""
    telemetry = led().append(10, 5).fetch(20, 2, 5).append(60_000, 6).progress(60_001)
    assert states(telemetry) == [(60_000, "out_of_sync", "silent", 20)]


def test_a_fetch_that_was_long_ago_dates_nothing_before_the_append_that_left_it_behind():
    """A follower stood at the end for half a minute; its fetch below the new one says only that it did."""
    telemetry = led().append(10, 5).fetch(20, 2, 5).append(30_000, 6).fetch(30_000, 2, 5).progress(30_010)
    assert [s[:2] for s in states(telemetry)] == [(30_000, "out_of_sync")]


def test_half_the_lag_is_lagging():
    telemetry = led().append(10, 5).fetch(20, 2, 5).append(30, 6)
    assert [s[:2] for s in states(telemetry.progress(5022))] == [(5021, "lagging")]


def test_a_replica_that_catches_up_has_recovered():
    telemetry = led().append(10, 5).progress(6000).fetch(7000, 2, 5)
    assert states(telemetry)[-1] == (7000, "in_sync", "recovered", 7000)


def test_reason_silent_behind_or_no_state():
    silent = led().append(10, 5).fetch(20, 2, 5).append(30, 6).progress(11_000)
    behind = led().append(10, 9).fetch(20, 2, 3).fetch(9000, 2, 4).progress(11_000)
    never = led().append(10, 5).progress(11_000)
    found = [states(telemetry)[-1][1:3] for telemetry in (silent, behind, never)]
    assert found == [("out_of_sync", "silent"), ("out_of_sync", "behind"), ("out_of_sync", "no_state")]


def test_a_new_leader_takes_members_of_the_isr_for_caught_up_now_and_others_never():
    telemetry = led(isr=[1, 2], replicas=[1, 2, 3], leo=5).progress(20_000)
    assert states(telemetry) == [(5001, "lagging", "no_state", 0), (10_001, "out_of_sync", "no_state", 0)]
    assert states(telemetry, replica=3) == [(0, "out_of_sync", "no_state", None)]


def again(isr):
    """Broker 1 led already and gets a new epoch at 30,000; broker 2 stood at 3 of 5."""
    telemetry = led().append(10, 5).fetch(20, 2, 3)
    return telemetry.leader(30_000, 1, 5, 3, isr, replicas=[1, 2])


def test_a_leader_that_led_before_keeps_the_leo_of_its_followers():
    telemetry = again([1, 2]).append(30_010, 6).progress(30_020)
    facts = replay(table(telemetry), LAG)
    assert values_of(facts.replica_sync, "ms", "state", "leo")[-1] == (30_000, "in_sync", 3)


def test_a_leader_that_led_before_counts_members_of_the_isr_from_now_on():
    assert [s[:2] for s in states(again([1, 2]).progress(50_000))[-2:]] == [
        (35_001, "lagging"),
        (40_001, "out_of_sync"),
    ]


def test_a_leader_that_led_before_forgets_when_others_caught_up():
    assert states(again([1]).progress(50_000))[-1][:2] == (10_001, "out_of_sync")


def test_a_same_epoch_restart_is_a_new_term():
    telemetry = led().append(10, 5).fetch(20, 2, 5).leader(1000, 0, 4, 3, [1, 2], replicas=[1, 2]).progress(20_000)
    facts = replay(table(telemetry), LAG)
    assert values_of(facts.partition_hw, "ms", "hw", kind="term_start") == [(0, 0), (1000, 3)]
    assert states(telemetry)[0] == (6001, "lagging", "no_state", 1000)


def test_a_configured_lag_counts_from_the_next_term():
    telemetry = led(lag_max_ms=2000).append(10, 5).progress(3000)
    assert [s[:2] for s in states(telemetry)] == [(1001, "lagging"), (2001, "out_of_sync")]


def test_by_messages_a_replica_is_out_of_sync_when_more_than_that_many_behind():
    telemetry = led().fetch(5, 2, 0).append(10, 4).append(20, 5).fetch(30, 2, 1)
    found = states(telemetry, Rules(lag_max_messages=4))
    assert [s[:2] for s in found] == [(20, "out_of_sync"), (30, "in_sync")]


def test_by_messages_a_replica_behind_that_does_not_fetch_for_the_lag_is_out_of_sync_too():
    by_four, behind = Rules(lag_max_messages=4, lag_max_ms=10_000), led().append(10, 5).fetch(20, 2, 5).append(30, 6)
    assert states(behind.progress(20_000), by_four) == [(10_021, "out_of_sync", "silent", 20)]
    fetching = led().append(10, 5).fetch(20, 2, 3).fetch(9_000, 2, 3).progress(19_001).progress(20_000)
    assert states(fetching, by_four) == [(19_001, "out_of_sync", "silent", 9_000)]
    never, at_its_end = led().append(10, 5).progress(20_000), led().append(10, 5).fetch(20, 2, 5).progress(20_000)
    assert (states(never, by_four), states(at_its_end, by_four)) == ([(10_001, "out_of_sync", "no_state", 0)], [])


def test_out_of_sync_is_published_of_replicas_outside_the_isr_too():
    telemetry = led(isr=[1], replicas=[1, 2], leo=5).fetch(10, 2, 5).append(20, 6).progress(20_000)
    facts = replay(table(telemetry), LAG)
    assert values_of(facts.replica_sync, "ms", "state", "in_isr")[-1] == (10_011, "out_of_sync", False)


def test_lag_in_records_and_milliseconds():
    telemetry = led().append(10, 5).fetch(20, 2, 3).append(30, 9).progress(20_000)
    facts = replay(table(telemetry), LAG)
    columns = ("leo", "leader_leo", "lag_records", "lag_ms", "previous_state")
    assert values_of(facts.replica_sync, *columns, state="out_of_sync") == [(3, 9, 6, 10_001, "lagging")]


def test_by_messages_a_new_term_begins_with_replicas_it_has_not_seen_in_sync():
    telemetry = led(isr=[1, 2], leo=9).fetch(5, 2, 3).fetch(6, 3, 9)
    telemetry.follower(10, 1, 9, 3, 2).leader(20, 2, 9, 3, [1, 2], replicas=[1, 2, 3]).fetch(30, 3, 2).progress(50_000)
    by_four = Rules(lag_max_messages=4)
    found = [s[:2] for s in states(telemetry, by_four)]
    assert found == [(5, "out_of_sync"), (20, "in_sync"), (30_021, "out_of_sync")]
    assert [s[:2] for s in states(telemetry, by_four, replica=3)] == [(30, "out_of_sync")]


@pytest.mark.parametrize("leo", [0, 1, 4])
def test_by_messages_nobody_outside_the_isr_holds_the_high_watermark(leo):
    """Broker 2 is outside the ISR. Before KAFKA-4485 (0.10.2) a leader waited for the members of its ISR alone."""
    telemetry = led(isr=[1]).append(1, 4).fetch(10, 2, leo).append(20, 5)
    found = advances(replay(table(telemetry), Rules(lag_max_messages=4, lag_max_ms=30_000)))
    assert [step for step in found if step[0] == 20] == [(20, 5)]
