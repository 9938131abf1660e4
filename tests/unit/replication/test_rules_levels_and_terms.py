"""Terms of leading, and what a leaner telemetry level can show of them."""

from __future__ import annotations

import pytest

from pipelines.replication import Reconstructor, Rules, replay
from schemas.event_types import CLEAN_START
from tests.unit.replication.bronze import Source, advances, controller, last_rows, since_base, table, values_of

LAG = Rules(lag_max_ms=10_000)


def led(isr=(1, 2), replicas=(1, 2), leo=0, hw=0, level=3, **more):
    telemetry = Source("broker-1/replication.log").at_level(level)
    return telemetry.leader(0, 0, leo, hw, list(isr), replicas=list(replicas), **more)


def rows(telemetry, rules=LAG):
    """(ms, kind, hw, agreement) of every row after the start of the term."""
    facts = replay(table(telemetry.progress(60_000)), rules)
    return values_of(facts.partition_hw, "ms", "kind", "hw", "agreement")[1:]


def test_a_deposed_leader_that_still_reports_counts_in_its_own_term():
    old, new = led().append(10, 5).fetch(20, 2, 3), Source("broker-2/replication.log")
    new.leader(100, 1, 3, 3, [1, 2], replicas=[1, 2])
    old.append(110, 9).fetch(120, 2, 4)
    facts = replay(table(old, new))
    assert values_of(facts.partition_hw, "ms", "leader_id", "leader_epoch", "hw") == [
        (0, 1, 0, 0),
        (20, 1, 0, 3),
        (100, 2, 1, 3),
        (120, 1, 0, 4),
    ]


def test_a_same_epoch_restart_with_a_lower_start_offset_is_committed_loss():
    telemetry = led().append(10, 5).fetch(20, 2, 5).hw(20, 5).leader(1000, 0, 3, 3, [1, 2], replicas=[1, 2])
    (loss,) = last_rows(replay(table(telemetry)).hw_regressions, "regression_id")
    assert (loss["class"], loss["severity"], loss["lost_from"], loss["lost_to"]) == ("committed_loss", "critical", 3, 5)


def test_a_same_epoch_restart_with_all_records_loses_nothing():
    telemetry = led().append(10, 5).fetch(20, 2, 5).hw(20, 5)
    telemetry.event(900, "config", True, detail=CLEAN_START).leader(1000, 0, 5, 3, [1, 2], replicas=[1, 2])
    facts = replay(table(telemetry))
    assert values_of(facts.hw_regressions, "class", "severity", "lost_from") == [("stale_leader_hw", "info", None)]


def test_a_term_starts_with_the_high_watermark_that_it_reports():
    assert values_of(replay(table(led(leo=9, hw=6))).partition_hw, "kind", "hw", "agreement") == [
        ("term_start", 6, "unreported")
    ]


def test_a_former_leader_that_follows_is_no_leader_any_more():
    telemetry = led().append(10, 5).fetch(20, 2, 3).follower(30, 1, 5, 3, of=2).follower_hw(40, 4, of=2)
    assert rows(telemetry) == [(20, "advance", 3, "unreported")]


def test_a_broker_seen_leading_without_its_start_is_accepted():
    telemetry = Source("broker-1/replication.log").append(0, 100).hw(10, 40).fetch(20, 2, 50)
    facts = replay(table(telemetry))
    assert values_of(facts.partition_hw, "kind", "hw", "agreement") == [("advance", 40, "only_witness")]


def test_a_recreated_topic_starts_anew_and_is_no_loss():
    telemetry = led(leo=90, hw=90).append(10, 99).fetch(20, 2, 99)
    telemetry.on(topic_id="second-id").leader(1000, 0, 0, 0, [1, 2], replicas=[1, 2]).append(1010, 3).fetch(1020, 2, 3)
    facts = replay(table(telemetry))
    assert advances(facts, topic_id="second-id") == [(1020, 3)]
    assert values_of(facts.hw_regressions, "class", "severity") == [("topic_recreated", "info")]


def test_level_2_believes_reports():
    assert rows(led(level=2).append(10, 9).hw(20, 4).hw(30, 9)) == [
        (20, "advance", 4, "only_witness"),
        (30, "advance", 9, "only_witness"),
    ]


def test_level_2_a_lower_leo_of_a_member_later_contradicts_the_report():
    telemetry = led(level=2).append(10, 9).hw(20, 4).replica_leo(1000, 2, 3)
    assert rows(telemetry) == [
        (20, "advance", 4, "only_witness"),
        (1000, "report", 0, "disagree"),
        (1000, "advance", 3, "unreported"),
    ]


def lied(first=20, telemetry=4):
    """Broker 1 reports by lean lines that its HW became 4, and a second later 104: nobody has written so much."""
    return led(level=2).append(10, 9).hw(first, telemetry).hw(1000, 104)


LIE = [(20, "advance", 4, "only_witness"), (1000, "advance", 104, "only_witness")]


def test_level_2_true_reports_after_a_false_one_are_accepted_once_it_is_shown():
    assert rows(lied().replica_leo(2000, 2, 6).hw(3000, 7).append(4000, 12).hw(4010, 9)) == [
        *LIE,
        (2000, "report", 4, "disagree"),
        (2000, "advance", 6, "unreported"),
        (3000, "advance", 7, "only_witness"),
        (4010, "advance", 9, "only_witness"),
    ]


def test_level_2_the_end_of_the_leaders_log_contradicts_a_report_above_it():
    assert rows(lied().append(2000, 12).hw(2010, 6)) == [
        *LIE,
        (2000, "report", 4, "disagree"),
        (2010, "advance", 6, "only_witness"),
    ]


def test_level_2_true_reports_below_a_false_one_are_accepted_while_not_final():
    telemetry = lied().hw(1050, 5).hw(1900, 6).hw(1950, 7).replica_leo(2000, 2, 7)
    assert rows(telemetry) == [
        *LIE,
        (1050, "report", 104, "disagree"),
        (1900, "advance", 6, "only_witness"),
        (1950, "advance", 7, "only_witness"),
        (2000, "report", 7, "disagree"),
    ]


def moved_back(telemetry):
    facts = replay(table(telemetry.progress(60_000)), LAG)
    rows = [row for row in facts.hw_regressions.to_pylist() if row["regression_id"].rpartition("/")[2][:7] == "reports"]
    return [(row["class"], row["severity"], row["revision"]) for row in rows]


def test_level_2_reports_below_a_false_one_did_not_move_back():
    assert moved_back(lied().hw(1900, 6).hw(1950, 7).replica_leo(2000, 2, 7)) == []


def test_level_2_reports_below_one_that_nothing_contradicts_moved_back():
    assert moved_back(lied().hw(1900, 6).hw(1950, 7)) == [("hw_moved_back", "critical", 1)]


def test_level_2_what_was_reported_of_reports_below_a_false_one_is_withdrawn():
    assert moved_back(lied().hw(1900, 6).hw(1950, 7).replica_leo(9000, 2, 7)) == [
        ("hw_moved_back", "critical", 1),
        ("stale_leader_hw", "info", 2),
    ]


def test_level_2_a_false_report_is_no_loss_for_the_next_term():
    telemetry = lied().replica_leo(2000, 2, 6).leader(3000, 1, 9, 6, [1, 2], replicas=[1, 2])
    found = replay(table(telemetry.progress(60_000)), LAG).hw_regressions.to_pylist()
    assert [row["severity"] for row in found] == ["info"]  # nobody told of the life of broker 1


def test_level_2_a_false_report_makes_nobody_out_of_sync():
    """Broker 2 follows a second behind; else the log had to reach 104 before a fetch counted as caught up."""
    telemetry = lied()
    for second in range(2, 20):
        telemetry.append(second * 1000, 5 * second).replica_leo(second * 1000 + 1, 2, 5 * second - 5)
    assert late(telemetry.progress(20_000)) == []


def test_level_2_a_replica_that_started_just_before_its_fetch_contradicts_no_report():
    """The leader is 2 s ahead of the controller, and seems to be so by 140 ms more, the way of the metadata."""
    control = controller().broker_state(-9000, 2, "started", 2).broker_state(-8900, 2, "unfenced", 2)
    control.election(0, 1, 0, isr=[1, 2], replicas=[1, 2], partition_epoch=0).broker_state(5000, 2, "started", 3)
    telemetry = Source("broker-1/replication.log").at_level(2).leader(2140, 0, 0, 0, [1, 2], replicas=[1, 2])
    telemetry.append(2300, 9).hw(2320, 9).replica_leo(7060, 2, 3).progress(60_000)
    facts = replay(table(telemetry, control.progress(60_000)))
    assert "disagree" not in values_of(facts.partition_hw, "agreement")


@pytest.mark.parametrize(("leo", "agreement"), [(3, "only_witness"), (5, "disagree")])
def test_level_2_a_replica_whose_leo_fell_below_its_own_has_lost_it_and_contradicts_no_report(leo, agreement):
    """A power failure of which the controller tells only later than this clock: no epoch showed how far it is off."""
    telemetry = led(level=2).replica_leo(5, 2, 4).append(10, 9).hw(20, 9)
    telemetry.replica_leo(1000, 2, leo).replica_leo(1010, 2, 7)
    found = {row["agreement"] for row in replay(table(telemetry.progress(60_000))).partition_hw.to_pylist()}
    assert agreement in found
    assert (agreement == "disagree") == ("disagree" in found)


def test_level_2_a_lower_leo_within_the_race_window_is_a_race():
    telemetry = led(level=2).append(10, 9).hw(20, 4).replica_leo(170, 2, 3)
    assert rows(telemetry) == [(20, "advance", 4, "only_witness")]


def test_level_2_a_lower_leo_of_the_next_term_contradicts_nothing():
    telemetry = led(level=2).append(10, 9).hw(20, 4).leader(900, 1, 9, 4, [1, 2], replicas=[1, 2])
    telemetry.replica_leo(1000, 2, 3)
    assert [row for row in rows(telemetry) if row[3] == "disagree"] == []


def late(telemetry):
    facts = replay(table(telemetry), LAG)
    return values_of(facts.replica_sync, "ms", "replica_id", state="out_of_sync")


def test_level_2_claims_nothing_of_a_replica_of_which_nothing_was_reported():
    assert late(led(level=2).append(10, 9).progress(60_000)) == []


def test_level_2_a_replica_that_has_what_its_leader_had_may_have_fetched_since():
    """Broker 2 fetches at 38, unseen, when the log ends at 40 already, and at 40 as it ends at 44."""
    telemetry = led(level=2, leo=38, hw=38).replica_leo(1, 2, 38).append(2000, 40).append(2600, 44).hw(3000, 40)
    assert late(telemetry.append(3010, 46).replica_leo(3010, 2, 40).progress(60_000)) == [(13_001, 2)]


def test_level_2_equality_counts_as_caught_up_until_the_next_append():
    telemetry = led(level=2).append(10, 9).replica_leo(20, 2, 9).append(30_000, 12).progress(60_000)
    assert late(telemetry) == [(40_001, 2)]


def test_level_2_a_report_equal_to_the_end_counts_as_caught_up_until_the_next_append():
    telemetry = led(level=2).append(10, 9).hw(20, 9).append(30_000, 12).progress(60_000)
    assert late(telemetry) == [(40_001, 2)]


def test_level_2_a_change_of_the_leo_counts_as_a_fetch():
    """At 4000 it stands where the log ended at its fetch before, and may have fetched at any time between."""
    telemetry = led(level=2).append(10, 9).replica_leo(20, 2, 5).append(30, 12).replica_leo(4000, 2, 9).progress(60_000)
    facts = replay(table(telemetry), LAG)
    (caught_up,) = values_of(facts.replica_sync, "last_caught_up_ts", state="out_of_sync")
    assert since_base(caught_up) == 4000


def test_level_2_whom_a_leader_removes_under_min_isr_is_out_of_sync_until_it_is_added_again():
    """Under min ISR nothing shows fetches; the leader asks for no removal but by its own lag rule."""
    telemetry = led(isr=(1, 2, 3), replicas=(1, 2, 3), level=2, min_isr=3).append(10, 9).replica_leo(20, 2, 9)
    telemetry.replica_leo(21, 3, 9).hw(21, 9).append(100, 12).replica_leo(101, 2, 12)
    telemetry.proposed(10_090, [1, 2], "shrink").isr(10_095, [1, 2], 1, "alter_partition").append(60_000, 15)
    telemetry.proposed(60_100, [1, 2, 3], "expand").isr(60_110, [1, 2, 3], 2, "alter_partition").progress(70_000)
    states = values_of(replay(table(telemetry), LAG).replica_sync, "ms", "state", replica_id=3)
    assert states == [(5101, "lagging"), (10_095, "out_of_sync"), (60_110, "in_sync")]


def test_level_3_a_leo_without_a_fetch_is_no_fetch():
    """The leader's own record raises the HW, and says nothing of when the follower came."""
    telemetry = led().append(10, 9).fetch(20, 2, 5).replica_leo(9000, 2, 9).append(9001, 10).progress(60_000)
    facts = replay(table(telemetry), LAG)
    assert advances(facts) == [(20, 5), (9000, 9)]
    assert late(telemetry) == [(10_001, 2)]


def test_rows_carry_the_level_of_the_leading_brokers_source():
    telemetry = led(level=2).append(10, 9).hw(20, 4).append(30_000, 12).progress(60_000)
    facts = replay(table(telemetry, controller().isr(40, [1], 1, "controller", leader_id=1)), LAG)
    levels = [*facts.partition_hw["level"].to_pylist(), *facts.replica_sync["level"].to_pylist()]
    assert set(levels) == {2}


def health(telemetry, *others):
    reconstructor = Reconstructor(LAG)
    reconstructor.update(table(telemetry, *others))
    reconstructor.finish()
    return reconstructor.health().to_pylist()


def test_health_is_the_present_of_a_partition():
    telemetry = (
        led(isr=[1, 2], replicas=[1, 2, 3], leo=10, hw=6, min_isr=3).fetch(10, 2, 6).fetch(11, 3, 4).append(20, 12)
    )
    (row,) = health(telemetry.progress(30_000))
    assert {k: row[k] for k in ("leader_id", "leader_epoch", "partition_epoch", "hw", "leader_leo")} == {
        "leader_id": 1, "leader_epoch": 0, "partition_epoch": 0, "hw": 6, "leader_leo": 12,
    }  # fmt: skip
    assert (row["ar"], row["isr"], row["osr"], row["out_of_sync"]) == ([1, 2, 3], [1, 2], [3], [2, 3])
    assert (row["under_replicated"], row["under_min_isr"], row["offline"]) == (True, True, False)
    assert (row["lag_records"], row["holding_replicas"], row["stalled_ms"]) == (8, [2], 30_000)
    assert since_base(row["last_event_ts"]) == 20


def test_health_of_a_partition_that_stands_at_its_end():
    (row,) = health(led().append(10, 5).fetch(20, 2, 5).progress(30_000))
    assert (row["stalled_ms"], row["holding_replicas"], row["lag_records"]) == (0, [], 0)


def test_health_counts_no_replica_that_is_not_assigned_any_more():
    telemetry = led(isr=[1, 2], replicas=[1, 2, 3]).append(10, 5).fetch(20, 2, 5).fetch(20, 3, 1)
    telemetry.isr(100, [1, 2], 1, detail="metadata", replicas=[1, 2])
    (row,) = health(telemetry.progress(30_000))
    assert (row["ar"], row["osr"], row["out_of_sync"], row["lag_records"]) == ([1, 2], [], [], 0)


def test_health_after_a_failover_is_that_of_the_new_leader():
    old, new = led().append(10, 5).fetch(20, 2, 3), Source("broker-2/replication.log")
    new.leader(100, 1, 3, 3, [2], replicas=[1, 2]).append(110, 4)
    (row,) = health(old, new)
    assert (row["leader_id"], row["leader_epoch"], row["hw"], row["isr"], row["osr"]) == (2, 1, 4, [2], [1])


def test_health_has_a_row_per_partition():
    telemetry = led().on(partition=1).leader(5, 0, 7, 7, [1], replicas=[1])
    assert [(row["partition"], row["hw"]) for row in health(telemetry)] == [(0, 0), (1, 7)]
