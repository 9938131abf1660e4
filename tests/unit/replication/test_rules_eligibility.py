"""Who may hold the high watermark as a joiner: incarnations, fencings, and controllers on another clock."""

from __future__ import annotations

import pytest

from pipelines.replication import Rules, replay
from tests.unit.replication.bronze import Source, advances, controller, table, values_of

SECOND = 1000


def led(isr=(1,), leo=4, hw=4, ms=0, **more):
    """Broker 1 leads; broker 2 is assigned too."""
    return Source("broker-1/replication.log").leader(ms, 0, leo, hw, list(isr), replicas=[1, 2], **more)


def joining(other, **fetched):
    """Broker 2 caught up at 10, outside the ISR, and what the controller says of it before the append at 20."""
    telemetry = led().fetch(10, 2, 4, **fetched).append(20, 6)
    return table(telemetry.progress(50 * SECOND), other.progress(50 * SECOND))


def test_a_broker_added_again_in_the_same_incarnation_holds_the_high_watermark_once_more():
    other = controller().broker_state(1, 2, "unfenced", epoch=7).broker_state(5, 2, "fenced", epoch=7)
    assert advances(replay(joining(other))) == [(20, 6)]
    assert advances(replay(joining(other.broker_state(15, 2, "unfenced", epoch=7)))) == []


def test_a_controller_that_starts_again_fences_nobody_by_reporting_it_anew():
    other = controller().broker_state(0, 2, "started", epoch=7).broker_state(1, 2, "unfenced", epoch=7)
    other.broker_state(5, 2, "fenced", epoch=7).broker_state(8, 2, "unfenced", epoch=7)
    for ms, state in ((12, "started"), (13, "unfenced"), (14, "fenced")):
        other.broker_state(ms, 2, state, epoch=7)
    assert advances(replay(joining(other))) == []


def test_a_second_controller_that_reports_the_same_states_fences_nobody():
    other, second = controller(), Source("controller-8/controller.log", level=0)
    for ms, state in ((0, "started"), (1, "unfenced"), (5, "fenced"), (8, "unfenced")):
        other.broker_state(ms, 2, state, epoch=7)
        second.broker_state(ms + 4, 2, state, epoch=7)
    telemetry = led().fetch(10, 2, 4).append(11, 6)
    assert advances(replay(table(telemetry, other, second))) == []


@pytest.mark.parametrize("fetched", [{}, {"broker_epoch": 7}])
def test_a_restarted_replica_holds_nothing_until_it_fetched_as_its_new_incarnation(fetched):
    other = controller().broker_state(0, 2, "unfenced", epoch=7)
    assert advances(replay(joining(other, **fetched))) == []
    other.broker_state(12, 2, "started", epoch=8).broker_state(15, 2, "unfenced", epoch=8)
    assert advances(replay(joining(other, **fetched))) == [(20, 6)]


@pytest.mark.parametrize("now", [{}, {"broker_epoch": 8}])
def test_a_restarted_replica_holds_the_high_watermark_from_its_first_fetch_on(now):
    other = controller().broker_state(12, 2, "started", epoch=8).broker_state(15, 2, "unfenced", epoch=8)
    telemetry = led().fetch(10, 2, 4).fetch(18, 2, 4, **now).append(20, 6)
    assert advances(replay(table(telemetry, other.progress(SECOND)))) == []


def test_before_kafka_3_5_a_fenced_joiner_holds_the_high_watermark():
    other = controller().broker_state(5, 2, "fenced", epoch=7)
    assert advances(replay(joining(other), Rules(strict_eligibility=False))) == []


def elsewhere(ahead, *states):
    """A leader whose clock is `ahead` of the controller's by so many ms; its times are counted from its own 0."""
    other = controller().election(20 * SECOND - ahead, 1, 0, partition_epoch=0, isr=[1], replicas=[1, 2])
    for ms, state in states:
        other.broker_state(20 * SECOND + ms - ahead, 2, state, epoch=7)
    telemetry = led(ms=20 * SECOND + 2).fetch(26 * SECOND, 2, 4).append(28 * SECOND, 6).fetch(29 * SECOND, 2, 5)
    return table(telemetry.progress(60 * SECOND), other.progress(60 * SECOND))


@pytest.mark.parametrize("ahead", [-5000, -500, 0, 500, 5000])
def test_clocks_apart_leave_it_the_same_who_holds_the_high_watermark(ahead):
    """What both report of one partition epoch shows how their clocks differ."""
    assert advances(replay(elsewhere(ahead, (0, "unfenced"), (7800, "fenced")))) == [(28 * SECOND, 6)]
    assert advances(replay(elsewhere(ahead, (0, "unfenced"), (8200, "fenced")))) == [(29 * SECOND, 6)]
    assert advances(replay(elsewhere(ahead, (0, "fenced"), (7800, "unfenced")))) == [(29 * SECOND, 5)]


@pytest.mark.parametrize("ahead", [-4000, 0, 4000])
def test_a_new_leader_knows_its_clock_from_the_time_it_followed(ahead):
    """The old leader has to stop and is out of the ISR; it goes on fetching, and holds nothing."""
    other = controller().election(0, 1, 0, partition_epoch=0, isr=[1, 2], replicas=[1, 2])
    other.broker_state(1, 1, "unfenced", epoch=6).broker_state(20 * SECOND, 1, "controlled_shutdown", epoch=6)
    other.election(20 * SECOND, 2, 1, partition_epoch=1, isr=[2], replicas=[1, 2])
    telemetry = Source("broker-2/replication.log").event(
        5 + ahead, "follower", leader_id=1, leader_epoch=0, partition_epoch=0, leo=0, hw=0
    )
    now = 20 * SECOND + ahead
    telemetry.leader(now + 10, 1, 4, 4, [2], replicas=[1, 2]).fetch(now + 20, 1, 4).append(now + 30, 6)
    assert advances(replay(table(telemetry.progress(60 * SECOND), other.progress(60 * SECOND)))) == [(now + 30, 6)]


def test_what_comes_long_after_does_not_change_how_clocks_stand():
    """The same facts from the whole history at once and minute by minute."""
    ahead = -4000
    other = controller().election(20 * SECOND - ahead, 1, 0, partition_epoch=0, isr=[1], replicas=[1, 2])
    other.broker_state(20 * SECOND - ahead, 2, "unfenced", epoch=7)
    other.broker_state(27_800 - ahead, 2, "fenced", epoch=7)
    other.on(partition=1).election(300 * SECOND, 1, 0, partition_epoch=0, isr=[1], replicas=[1, 2])
    telemetry = led(ms=20 * SECOND + 2).fetch(26 * SECOND, 2, 4).append(28 * SECOND, 6).progress(400 * SECOND)
    assert advances(replay(table(telemetry, other.progress(400 * SECOND)))) == [(28 * SECOND, 6)]


def test_a_controller_that_reports_old_changes_anew_sets_no_clock():
    rows = controller().election(20 * SECOND, 1, 0, partition_epoch=0, isr=[1], replicas=[1, 2])
    rows.broker_state(27 * SECOND, 2, "fenced", epoch=7)
    rows.election(22 * SECOND, 1, 0, partition_epoch=0, isr=[1], replicas=[1, 2])
    telemetry = led(ms=20 * SECOND).fetch(26 * SECOND, 2, 4).append(28 * SECOND, 6)
    assert advances(replay(table(telemetry, rows.progress(60 * SECOND)))) == [(28 * SECOND, 6)]


def test_whom_the_controller_took_out_of_the_isr_holds_nothing_though_it_reports_the_fencing_later():
    """The controller's clock is five seconds ahead, and nothing says so."""
    other = controller().broker_state(0, 2, "unfenced", epoch=7).broker_state(5030, 2, "fenced", epoch=7)
    telemetry = led(isr=[1, 2], leo=0, hw=0).fetch(5, 2, 0).append(10, 4).isr(30, [1], 1, detail="metadata")
    assert advances(replay(table(telemetry.progress(60 * SECOND), other.progress(60 * SECOND)))) == [(30, 4)]


def test_whom_the_leader_itself_asked_out_of_the_isr_may_come_back():
    """A lag is no fencing: caught up again, it holds the HW although it is not in the ISR yet."""
    other = controller().broker_state(0, 2, "unfenced", epoch=7)
    telemetry = led(isr=[1, 2], leo=0, hw=0).fetch(5, 2, 0).append(10, 4).proposed(20, [1], "shrink")
    telemetry.isr(30, [1], 1, detail="metadata")
    assert advances(replay(table(telemetry.progress(60 * SECOND), other.progress(60 * SECOND)))) == []


def reassigned(*replicas):
    telemetry = led(isr=[1, 2], leo=7, hw=7).fetch(5, 2, 7)
    for k, assigned in enumerate(replicas):
        telemetry.isr(100 * (k + 1), [1, 2], k + 1, detail="metadata", replicas=assigned)
    return telemetry


def states(telemetry):
    return values_of(replay(table(telemetry)).replica_sync, "ms", "state", "reason", replica_id=3)


def test_a_newly_assigned_replica_is_out_of_sync_until_it_caught_up():
    telemetry = reassigned([1, 2, 3]).fetch(200, 3, 0).fetch(300, 3, 7)
    assert states(telemetry) == [(100, "out_of_sync", "no_state"), (300, "in_sync", "recovered")]


def test_a_replica_that_is_assigned_again_begins_with_nothing():
    telemetry = reassigned([1, 2, 3]).fetch(150, 3, 7)
    telemetry.isr(200, [1, 2], 2, detail="metadata", replicas=[1, 2]).append(210, 9).fetch(220, 2, 9)
    telemetry.isr(300, [1, 2], 3, detail="metadata", replicas=[1, 2, 3])
    found = [(100, "out_of_sync", "no_state"), (150, "in_sync", "recovered"), (300, "out_of_sync", "no_state")]
    assert states(telemetry) == found
    assert advances(replay(table(telemetry))) == [(220, 9)]


@pytest.mark.parametrize("late", [0, 3, 8])
def test_a_leader_that_was_down_when_the_controller_named_it_is_not_ahead(late):
    """It learns of its election once it has started; the joiner that was let in since holds the HW."""
    start = (10 + late) * SECOND
    other = controller().election(10 * SECOND, 1, 0, partition_epoch=0, isr=[1], replicas=[1, 2])
    other.broker_state(10 * SECOND, 2, "fenced", epoch=5)
    other.broker_state(start, 1, "started", epoch=6).broker_state(start + 20, 1, "unfenced", epoch=6)
    other.broker_state(start + 700, 2, "started", epoch=7).broker_state(start + 715, 2, "unfenced", epoch=7)
    telemetry = led(ms=start + 20).fetch(start + 716, 2, 4, broker_epoch=7).append(start + 800, 6)
    assert advances(replay(table(telemetry.progress(60 * SECOND), other.progress(60 * SECOND)))) == []


def test_a_replica_that_is_not_assigned_any_more_is_out_of_sync_no_more():
    telemetry = reassigned([1, 2, 3], [1, 2])
    assert states(telemetry) == [(100, "out_of_sync", "no_state"), (200, "in_sync", "unassigned")]


def test_a_new_term_without_a_replica_ends_its_being_out_of_sync():
    telemetry = reassigned([1, 2, 3]).leader(200, 1, 7, 7, [1, 2], replicas=[1, 2])
    assert states(telemetry) == [(100, "out_of_sync", "no_state"), (200, "in_sync", "unassigned")]


def test_a_replica_that_the_last_term_began_without_begins_with_nothing():
    telemetry = reassigned([1, 2, 3]).fetch(150, 3, 7).leader(200, 1, 7, 7, [1, 2], replicas=[1, 2])
    telemetry.isr(300, [1, 2], 3, detail="metadata", replicas=[1, 2, 3])
    assert states(telemetry)[-1] == (300, "out_of_sync", "no_state")


def test_who_is_added_again_before_the_leader_learns_that_it_was_out_holds_the_high_watermark():
    """What the controller did, it did in its own order: out of the ISR, then in again; the leader learns of both."""
    other = controller().broker_state(0, 2, "unfenced", epoch=7).broker_state(1000, 2, "fenced", epoch=7)
    other.isr(1000, [1], 1, "controller", leader_id=1).broker_state(1080, 2, "unfenced", epoch=7)
    telemetry = led(isr=[1, 2]).isr(1100, [1], 1, detail="metadata").fetch(1110, 2, 4).append(1200, 6)
    assert advances(replay(table(telemetry.progress(60 * SECOND), other.progress(60 * SECOND)))) == []


def compared(out_at):
    """A controller, and a leader of three that knows its clock; broker 3 is assigned, caught up and fenced later."""
    other = controller().broker_state(0, 3, "unfenced", epoch=8).broker_state(0, 2, "unfenced", epoch=7)
    other.election(0, 1, 0, partition_epoch=0, isr=[1], replicas=[1, 2, 3])
    telemetry = Source("broker-1/replication.log").leader(5, 0, 4, 4, [1], replicas=[1, 2, 3]).fetch(20, 3, 4)
    return telemetry, other.broker_state(out_at, 3, "fenced", epoch=8)


def test_a_leader_that_stood_still_learns_late_and_is_not_ahead():
    telemetry, other = compared(9 * SECOND)
    other.isr(10 * SECOND, [1, 2], 1, "controller", leader_id=1).broker_state(12 * SECOND, 3, "unfenced", epoch=8)
    telemetry.isr(18 * SECOND, [1, 2], 1, detail="metadata").fetch(18_010, 3, 4).append(18_100, 6).fetch(18_110, 2, 6)
    assert advances(replay(table(telemetry.progress(60 * SECOND), other.progress(60 * SECOND)))) == []


def test_a_clock_that_jumped_ahead_shows_in_what_the_leader_itself_asked_for():
    telemetry, other = compared(12 * SECOND)
    other.isr(10_010, [1, 2], 1, "controller", leader_id=1)
    telemetry.fetch(15_000, 2, 4).proposed(15_000, [1, 2], "expand").isr(15_020, [1, 2], 1)
    telemetry.fetch(16_000, 3, 4).append(16_500, 6).fetch(16_510, 2, 6)
    assert advances(replay(table(telemetry.progress(60 * SECOND), other.progress(60 * SECOND)))) == []


def test_who_left_the_isr_counts_as_the_incarnation_that_fetched_last():
    """It restarted as a member, and fetched before its leader knew that it was out."""
    other = controller().broker_state(0, 2, "started", epoch=7).broker_state(1, 2, "unfenced", epoch=7)
    other.broker_state(1000, 2, "started", epoch=8).isr(1000, [1], 1, "controller", leader_id=1)
    other.broker_state(1060, 2, "unfenced", epoch=8)
    telemetry = led(isr=[1, 2]).fetch(500, 2, 4, broker_epoch=7).fetch(1070, 2, 4, broker_epoch=8)
    telemetry.isr(1100, [1], 1, detail="metadata").append(1200, 6)
    assert advances(replay(table(telemetry.progress(60 * SECOND), other.progress(60 * SECOND)))) == []


@pytest.mark.parametrize(("at", "holds"), [(19, True), (20, False)])
def test_what_the_controller_records_in_the_instant_of_a_leaders_look_it_does_not_know(at, holds):
    other = controller().broker_state(1, 2, "unfenced", epoch=7).broker_state(5, 2, "fenced", epoch=7)
    other.broker_state(at, 2, "unfenced", epoch=7)
    assert advances(replay(joining(other))) == ([] if holds else [(20, 6)])
