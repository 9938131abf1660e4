"""Clocks of brokers apart: leader epochs, partition epochs and each broker's own order say what came first."""

from __future__ import annotations

import pytest

from tests.unit.replication.history_cases import (
    FakeLookup,
    changes,
    election,
    follower,
    isr,
    leader,
    proposed,
    regressions,
    summary,
    truncate,
)


def classes(events, lookup):
    return [row["class"] for row in regressions(events, lookup)]


@pytest.mark.parametrize("late", [-4000, -1300, 0, 1300, 4000])
def test_a_cut_that_follows_from_the_resumption_of_the_leader_is_no_second_loss(late):
    """Leader 1 comes back with less; broker 2 cuts its log to that, on a clock that is apart."""
    lookup = FakeLookup({(1, 0): summary(80), (1, 20_000): summary(60)})
    events = [
        leader(0, 1, 0, 0, 0, (1, 2)),
        follower(100, 2, 0, 0, 0, 1),
        leader(20_000, 1, 0, 40, 40, (1, 2)),
        truncate(20_050 + late, 2, 40, before=80),
    ]
    found = classes(sorted(events, key=lambda event: event.ts), lookup)
    assert found.count("committed_loss") == 1
    assert "hw_moved_back" not in found


@pytest.mark.parametrize("late", [-5000, 0, 5000])
def test_a_cut_on_beginning_to_follow_is_measured_by_the_start_of_that_term(late):
    """Uncommitted records go; by the time on its own clock the HW has long passed where it was cut."""
    lookup = FakeLookup({(1, 0): summary(100), (2, 20_000): summary(500)})
    events = [
        leader(0, 1, 0, 0, 0, (1, 2, 3)),
        follower(100, 3, 0, 0, 0, 1),
        leader(20_000, 2, 1, 100, 100, (2, 3)),
        follower(20_010 + late, 3, 1, 120, 100, 2),
        truncate(20_050 + late, 3, 100, before=120),
    ]
    assert "hw_moved_back" not in classes(sorted(events, key=lambda event: event.ts), lookup)


@pytest.mark.parametrize("event", [{"partition_epoch": 3}, {}])
@pytest.mark.parametrize("late", [-5000, 0, 5000])
def test_a_replica_cut_before_it_joined_was_outside_the_isr_whatever_its_clock_shows(event, late):
    lookup = FakeLookup({(3, 20_000): summary(72)})
    events = [
        leader(0, 3, 1, 0, 0, (3,)),
        leader(20_000, 3, 3, 8, 8, (3,), partition_epoch=3),
        follower(20_010 + late, 2, 3, 38, 0, 3),
        truncate(21_000 + late, 2, 0, before=38, **event),
        isr(21_020, 3, (2, 3), 4, "alter_partition"),
    ]
    assert "hw_moved_back" not in classes(sorted(events, key=lambda event: event.ts), lookup)


def test_a_cut_below_what_was_committed_before_the_term_is_still_found():
    lookup = FakeLookup({(1, 0): summary(100), (2, 20_000): summary(100)})
    events = [
        leader(0, 1, 0, 0, 0, (1, 2, 3)),
        follower(100, 3, 0, 0, 0, 1),
        leader(20_000, 2, 1, 100, 100, (2, 3)),
        follower(20_010, 3, 1, 100, 90, 2),
        truncate(20_200, 3, 90, before=100),
    ]
    assert "loss_not_excluded" in classes(events, lookup)


def test_a_stored_hw_counts_for_the_term_its_broker_followed_though_that_leader_reports_it_later():
    """Broker 3 followed epoch 2 to a HW of 326 and leads epoch 3, all on a clock ahead of broker 2's."""
    lookup = FakeLookup({(1, 0): summary(270), (2, 30_900): summary(326, fetchers=frozenset({3}))})
    events = [
        leader(0, 1, 1, 0, 0, (1, 2, 3)),
        follower(100, 3, 1, 0, 0, 1),
        follower(29_000, 3, 2, 280, 270, 2),
        truncate(29_010, 3, 270, before=280),
        leader(30_700, 3, 3, 326, 326, (2, 3)),
        leader(30_900, 2, 2, 270, 270, (2, 3)),
        follower(31_000, 2, 3, 326, 326, 3),
    ]
    assert "committed_loss" not in classes(events, lookup)


def test_a_stored_hw_counts_for_the_last_known_term_where_that_leader_never_reports():
    lookup = FakeLookup({(1, 0): summary(270, fetchers=frozenset({3}))})
    events = [
        leader(0, 1, 1, 0, 0, (1, 3)),
        follower(100, 3, 1, 0, 0, 1),
        follower(29_000, 3, 2, 326, 270, 2),
        follower(30_700, 3, 2, 326, 326, 2),
        leader(60_000, 1, 3, 300, 270, (1,)),
    ]
    (row,) = [r for r in regressions(events, lookup) if r["class"] == "committed_loss"]
    assert (row["lost_from"], row["lost_to"]) == (300, 326)


@pytest.mark.parametrize("ahead", [-5000, 0, 5000])
def test_the_cause_of_a_change_is_sought_on_the_controllers_clock(ahead):
    lookup = FakeLookup(states={1: [(19_990, "controlled_shutdown", 7)]})
    events = [
        leader(ahead, 1, 0, 0, 0, (1, 2)),
        election(19_990, 2, 1, isr=(2,), partition_epoch=1),
        leader(20_000 + ahead, 2, 1, 0, 0, (2,)),
    ]
    (row,) = changes(sorted(events, key=lambda event: event.ts), lookup)
    assert row["cause"] == "controlled_shutdown"


def test_what_the_controller_reported_after_a_change_the_leader_asked_for_is_not_its_cause():
    lookup = FakeLookup(states={3: [(18_053, "fenced", 7)]})
    events = [
        leader(0, 1, 0, 0, 0, (1, 2, 3)),
        proposed(18_026, 1, (1, 2)),
        isr(18_032, 9, (1, 2), 1, "controller"),
        isr(18_040, 1, (1, 2), 1, "alter_partition"),
    ]
    assert changes(events, lookup)[0]["cause"] == "lag"


def test_a_fencing_reported_right_behind_the_change_it_brought_is_its_cause():
    """A controller writes the changes of partitions ahead of that of the broker, in one batch."""
    lookup = FakeLookup(states={3: [(18_034, "fenced", 7)]})
    events = [leader(0, 1, 0, 0, 0, (1, 2, 3)), isr(18_032, 9, (1, 2), 1, "controller"), isr(18_040, 1, (1, 2), 1)]
    assert changes(events, lookup)[0]["cause"] == "controller_fenced"


def test_min_isr_reported_by_the_leader_itself_shows_whether_it_was_enough_to_be_alone():
    """Alone below min ISR nothing was committed: coming back with a longer log is no loss."""
    lookup = FakeLookup({(2, 0): summary(18)})
    events = [
        leader(0, 2, 0, 0, 0, (1, 2), min_isr=2, replicas=(1, 2)),
        isr(7500, 2, (2,), 1, replicas=(1, 2)),
        leader(9000, 1, 1, 18, 18, (1,), min_isr=2, replicas=(1, 2)),
        follower(9500, 2, 1, 26, 18, 1),
    ]
    assert classes(events, lookup) == []
    assert changes(events, lookup)[0]["under_min_isr"] is True


def test_an_unclean_election_before_anything_was_committed_is_no_finding():
    lookup = FakeLookup({(1, 0): summary(0)})
    events = [leader(0, 1, 0, 0, 0, (1,)), leader(5000, 2, 1, 0, 0, (2,), unclean=True), follower(5010, 1, 1, 0, 0, 2)]
    assert classes(events, lookup) == []


@pytest.mark.parametrize("ahead", [0, 3000])
def test_the_first_leader_is_known_though_its_clock_is_ahead_of_its_successors(ahead):
    """Its start is read after that of the second one, which took over at once."""
    events = [
        leader(0 + ahead, 1, 0, 0, 0, (1, 2)),
        leader(1800, 2, 1, 5, 5, (2,), partition_epoch=1),
    ]
    found = changes(sorted(events, key=lambda event: event.ts), FakeLookup({(1, 0): summary(5)}))
    assert [(row["isr_before"], row["isr_after"], row["partition_epoch"]) for row in found] == [([1, 2], [2], 1)]


def test_what_a_restarted_controller_replays_is_no_news():
    events = [
        leader(0, 1, 0, 0, 0, (1, 2), partition_epoch=4),
        isr(20_000, 9, (1, 2, 3), 3, "controller"),
        leader(30_000, 1, 0, 0, 0, (1, 3), partition_epoch=3),
    ]
    assert changes(events, FakeLookup({(1, 0): summary(5)})) == []


@pytest.mark.parametrize("hw", [26, 27])
def test_a_follower_that_starts_again_as_before_took_no_part_in_a_term_that_begins_later(hw):
    """Its leader has lost its disk: what was lost then is not lost again with the term after it."""
    lookup = FakeLookup(
        {(1, 0): summary(26, fetchers=frozenset({2})), (2, 21_200): summary(6, fetchers=frozenset({1}))}
    )
    events = [
        leader(0, 1, 0, 0, 0, (1, 2)),
        follower(14_600, 1, 1, 27, 26, of=2),
        follower(17_600, 1, 1, 27, hw, of=2),
        leader(21_200, 2, 1, 0, 0, (1, 2)),
        leader(24_600, 1, 2, 6, 6, (1,)),
        follower(24_700, 2, 2, 6, 6, of=1),
    ]
    assert classes(events, lookup) == ["committed_loss"] * (1 if hw == 26 else 2)


def test_a_stored_hw_of_a_term_that_whose_start_nobody_has_reported_in_time_proves_no_loss():
    """Broker 3 followed epoch 1, whose leader reports it a minute later: its clock is that far ahead."""
    events = [
        leader(0, 1, 0, 0, 0, (1, 2, 3)), follower(5, 3, 0, 0, 0, 1), follower(1000, 3, 1, 4, 4, 2),
        follower(20_000, 3, 2, 12, 12, 1),
        leader(71_000, 2, 1, 4, 4, (2, 3), partition_epoch=1),
    ]  # fmt: skip
    found = regressions(events, FakeLookup({(1, 0): summary(4, leader_leo=4, fetchers=frozenset({2, 3}))}))
    assert [(r["class"], r["proof"]) for r in found if r["severity"] == "critical"] == []
