"""What a controller wrote and the quorum never committed: provisional, contradicted, retracted."""

from __future__ import annotations

import pytest

from tests.unit.replication.history_cases import (
    FakeLookup,
    changes,
    election,
    history_of,
    isr,
    leader,
    regressions,
    summary,
)

START = leader(0, 1, 0, 0, 0, (1, 2, 3), replicas=(1, 2, 3))
LATE = 11_000
"""After the grace of what was reported at 1 s."""


def by_controller(ms, isr_, epoch, committed=False, broker=4, **more):
    return isr(ms, broker, isr_, epoch, "controller", committed=committed, leader_id=1, leader_epoch=0, **more)


def rows(events):
    return [
        (r["change"], r["witness"], r["revision"], r["isr_after"])
        for r in history_of(events, FakeLookup()).take_isr_changes()
    ]


@pytest.mark.parametrize("committed", [False, None])
def test_what_an_active_controller_alone_reports_is_published_after_the_grace(committed):
    events = [START, by_controller(1000, (1, 2), 1, committed)]
    history, lookup = history_of(events[:1], FakeLookup()), FakeLookup()
    history.apply(events[1], lookup)
    history.settle(LATE * 1000, lookup)
    assert history.take_isr_changes() == []
    history.settle(LATE * 1000 + 1, lookup)
    assert [(r["change"], r["witness"]) for r in history.take_isr_changes()] == [("shrink", "controller_only")]


@pytest.mark.parametrize(
    ("witness", "event"),
    [
        ("leader", isr(1050, 1, (1, 2), 1, "alter_partition")),
        ("leader", isr(1050, 1, (1, 2), 1, "metadata")),
        ("broker", isr(1050, 2, (1, 2), 1, "metadata", leader_id=1, leader_epoch=0)),
        ("metadata_log", by_controller(1050, (1, 2), 1, True, broker=-1)),
        ("controller", by_controller(1050, (1, 2), 1, True, broker=5)),
    ],
)
def test_one_witness_that_it_was_committed_is_enough(witness, event):
    events = [START, by_controller(1000, (1, 2), 1), event]
    assert rows(events) == [("shrink", witness, 1, [1, 2])]


def test_a_change_that_was_never_committed_is_not_published():
    events = [START, by_controller(1000, (1,), 1), isr(1500, 1, (1, 3), 1)]
    assert rows(events) == [("shrink", "leader", 1, [1, 3])]


def test_a_change_that_turns_out_never_to_have_been_committed_is_retracted():
    events = [START, by_controller(1000, (1,), 1), isr(30_000, 1, (1, 3), 1)]
    assert rows(events) == [
        ("shrink", "controller_only", 1, [1]),
        ("retracted", "controller_only", 2, [1]),
        ("shrink", "leader", 3, [1, 3]),
    ]
    retracted = history_of(events, FakeLookup()).take_isr_changes()[1]
    assert (retracted["removed"], retracted["added"], retracted["ts"]) == ([], [], 1_000_000)


def test_a_retracted_change_of_an_isr_that_stays_is_only_retracted():
    events = [START, by_controller(1000, (1,), 1), isr(30_000, 1, (1, 2, 3), 1)]
    assert rows(events) == [("shrink", "controller_only", 1, [1]), ("retracted", "controller_only", 2, [1])]


def test_of_two_active_controllers_the_later_one_is_accepted():
    events = [
        START,
        by_controller(1000, (1,), 1, controller_epoch=7),
        by_controller(1010, (1, 3), 1, broker=5, controller_epoch=8),
        by_controller(1020, (1,), 1, broker=6, controller_epoch=7),
    ]
    assert rows(events) == [("shrink", "controller_only", 1, [1, 3])]


def test_what_is_known_to_be_committed_is_not_doubted_by_a_controller():
    events = [START, isr(1000, 1, (1, 3), 1), by_controller(1010, (1,), 1, controller_epoch=9)]
    assert rows(events) == [("shrink", "leader", 1, [1, 3])]


def test_a_change_reported_on_a_controllers_word_is_published_again_once_it_is_known_to_be_committed():
    events = [START, by_controller(1000, (1, 2), 1), by_controller(30_000, (1, 2), 1, True, broker=5)]
    assert [(r[1], r[2]) for r in rows(events)] == [("controller_only", 1), ("controller", 2)]


def test_an_unclean_election_that_was_never_committed_makes_no_loss():
    """A woken controller writes that broker 3 was elected unclean; the quorum had elected it from the ISR."""
    lookup = FakeLookup({(1, 0): summary(300, fetchers=frozenset({2, 3}))})
    events = [
        START,
        election(4900, 3, 1, isr=(3,), partition_epoch=1, unclean=True, committed=False),
        leader(5000, 3, 1, 300, 290, (3, 2)),
    ]
    assert [r["class"] for r in regressions(events, lookup)] == ["stale_leader_hw"]
    assert [(r["change"], r["witness"]) for r in changes(events, lookup)] == [("shrink", "leader")]


def test_an_election_counts_for_the_present_state_once_it_is_known_to_be_committed():
    history, lookup = history_of([START], FakeLookup()), FakeLookup()
    history.apply(election(1000, -1, 1, isr=(), partition_epoch=1, committed=False), lookup)
    assert history.registration.leader_id == 1
    history.settle(2_000_000, lookup)
    history.apply(election(2000, -1, 1, isr=(), partition_epoch=1, committed=True), lookup)
    assert history.registration.leader_id == -1


def test_an_election_that_nobody_else_reports_counts_after_the_grace():
    history, lookup = history_of([START], FakeLookup()), FakeLookup()
    history.apply(election(1000, -1, 1, isr=(), partition_epoch=1, committed=False), lookup)
    history.settle(LATE * 1000 + 1, lookup)
    assert history.registration.leader_id == -1
