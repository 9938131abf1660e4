"""The controller's choices: who leads, who is in sync, who may still lead."""

from collections.abc import Callable
from dataclasses import replace

from generators.simulator.cluster.elections import elect, prefer, with_isr
from generators.simulator.cluster.registration import NOBODY, Registration

THREE = Registration("orders", 0, "id", (1, 2, 3), (1, 2, 3), leader=1)


def active(*ids: int) -> Callable[[int], bool]:
    return lambda id: id in ids


def test_a_leader_that_stays_in_sync_stays() -> None:
    after = elect(THREE, (1, 2), active(1, 2), elr=False)
    assert (after.leader, after.isr, after.leader_epoch, after.partition_epoch) == (1, (1, 2), 0, 1)


def test_the_first_assigned_replica_in_sync_takes_over() -> None:
    after = elect(THREE, (2, 3), active(2, 3), elr=False)
    assert (after.leader, after.isr, after.leader_epoch, after.partition_epoch) == (2, (2, 3), 1, 1)


def test_nobody_leads_when_the_last_in_sync_is_gone_and_it_stays_on_record() -> None:
    after = elect(replace(THREE, isr=(1,)), (), active(2, 3), elr=False)
    assert (after.leader, after.isr, after.recovering) == (NOBODY, (1,), False)


def test_unclean_election_takes_anyone_and_is_marked() -> None:
    after = elect(replace(THREE, isr=(1,), unclean=True), (), active(3), elr=False)
    assert (after.leader, after.isr, after.recovering) == (3, (3,), True)


def test_naming_nobody_counts_as_naming_a_leader() -> None:
    before = replace(THREE, isr=(1,), leader_epoch=4)
    gone = elect(before, (), active(), elr=False)
    back = elect(gone, gone.isr, active(1), elr=False)
    assert [(r.leader, r.leader_epoch, r.partition_epoch) for r in (gone, back)] == [(NOBODY, 5, 1), (1, 6, 2)]


def test_no_change_is_no_change_on_record() -> None:
    assert elect(THREE, (1, 2, 3), active(1, 2, 3), elr=False) is THREE


def test_who_was_in_sync_stays_eligible_under_min_isr() -> None:
    before = replace(THREE, min_isr=2)
    alone = elect(before, (1,), active(1), elr=True)
    assert (alone.isr, set(alone.eligible)) == ((1,), {2, 3})
    empty = elect(alone, (), active(), elr=True)
    assert (empty.leader, empty.isr, set(empty.eligible), empty.last_known) == (NOBODY, (), {1, 2, 3}, 1)
    led = elect(empty, (), active(3), elr=True)
    assert (led.leader, led.isr, led.recovering) == (3, (3,), False)


def test_an_unclean_shutdown_makes_a_replica_ineligible() -> None:
    before = replace(THREE, isr=(), eligible=(1, 2), leader=NOBODY, min_isr=2)
    assert elect(before, (), active(), elr=True, distrusted=2).eligible == (1,)


def test_the_last_known_leader_leads_when_nobody_else_may() -> None:
    before = replace(THREE, isr=(), leader=NOBODY, last_known=1, min_isr=2)
    after = elect(before, (), active(1), elr=True)
    assert (after.leader, after.recovering) == (1, True)


def test_an_isr_of_min_isr_needs_no_eligible_replicas() -> None:
    before = replace(THREE, isr=(1,), eligible=(2, 3), min_isr=2, recovering=True)
    after = with_isr(before, (1, 2), elr=True)
    assert (after.isr, after.eligible, after.recovering, after.leader_epoch) == ((1, 2), (), False, 0)


def test_the_preferred_leader_comes_back_only_from_the_isr() -> None:
    moved = replace(THREE, leader=2, leader_epoch=1)
    assert prefer(moved, active(1, 2, 3)).leader == 1
    assert prefer(replace(moved, isr=(2, 3)), active(1, 2, 3)).leader == 2
