"""The rules for samples by themselves (docs/kafka-rules.md 7): compiled functions, values in, values out."""

import numpy as np
import pytest

from pipelines.replication.compiled.records import as_records, records
from pipelines.replication.compiled.types import NULL
from pipelines.replication.samples.bundles import Instants, Present, Rounds, answered_always, last_round
from pipelines.replication.samples.lag import find_step_above, grow, in_isr_at, is_follower
from pipelines.replication.samples.layout import CHILDREN, ISRS, KEPT_STEPS, MEMBERS, SAMPLED, STEPS
from pipelines.replication.samples.leadership import is_under_min_isr


def partition(members=(), steps=(), isrs=(), **values):
    """A partition with these members (broker, answers, first, leo), steps and earlier ISRs."""
    of = dict(zip(SAMPLED.names, SAMPLED.defaults, strict=True))
    of |= values | {"members": len(members), "steps": len(steps), "isrs": len(isrs)}
    tables = {name: records(layout, KEPT_STEPS + 2) for name, layout in CHILDREN.items()}
    for name, rows in {"members": members, "steps": steps, "isrs": isrs}.items():
        for k, row in enumerate(rows):
            tables[name][k, : len(row)] = row
    whole = np.array([[of[name] for name in SAMPLED.names]], dtype=np.int64)
    children = {name: as_records(CHILDREN[name], rows) for name, rows in tables.items()}
    return Present(as_records(SAMPLED, whole), **children)


def instants(*times):
    """Times of broker 2 in cluster 1, with how far each may be off."""
    ts, errors = (np.array(column, dtype=np.int64) for column in zip(*times, strict=True))
    return Instants(np.array([1 << 32 | 2]), np.array([0, len(ts)]), ts, ts - errors)


ROUNDS = Rounds(answered=instants((10, 1), (20, 2)), missed=instants((15, 0), (30, 0)))


@pytest.mark.parametrize(
    ("broker", "now", "upto"),
    [
        pytest.param(2, 9, -1, id="none was answered by then"),
        pytest.param(2, 10, 9, id="a round says all up to its own time less the error"),
        pytest.param(2, 99, 18, id="the last one counts"),
        pytest.param(3, 99, -1, id="another broker's say nothing"),
    ],
)
def test_answers_of_a_broker_are_known_up_to_its_last_round(broker, now, upto):
    assert last_round(ROUNDS, 1, broker, now) == upto


@pytest.mark.parametrize(("after", "until", "always"), [(0, 14, True), (0, 15, False), (15, 29, True), (14, 40, False)])
def test_a_broker_answered_always_unless_a_round_was_missed_in_between(after, until, always):
    assert answered_always(ROUNDS, 1, 2, after, until) == always


def test_a_follower_is_caught_up_until_the_leaders_leo_passes_its_own():
    one = partition(steps=[(0, 5, 100), (5, 9, 120)])
    assert [find_step_above(one, leo) for leo in (99, 100, 119, 120)] == [0, 1, 1, -1]


@pytest.mark.parametrize(
    ("member", "follows"),
    [
        pytest.param((7, 1), True, id="an assigned replica that answers"),
        pytest.param((7, 0), False, id="one that does not answer"),
        pytest.param((1, 1), False, id="the leader"),
    ],
)
def test_a_follower_is_an_assigned_replica_that_answers_and_does_not_lead(member, follows):
    assert is_follower(partition(members=[member], leader=1, assigned=1), 0) == follows
    assert not is_follower(partition(members=[member], leader=1, assigned=0), 0)


@pytest.mark.parametrize(
    ("at", "known"),
    [
        pytest.param(30, 1, id="now"),
        pytest.param(15, NULL, id="it joined between two answers"),
        pytest.param(9, 0, id="before the last answer without it"),
    ],
)
def test_the_isr_is_known_where_two_answers_agree(at, known):
    assert in_isr_at(partition(isr=0b11, isrs=[(10, 20, 0b01)]), 1, at) == known


@pytest.mark.parametrize(
    ("isr", "assigned", "min_isr", "under"),
    [
        pytest.param(0b1, 0b111, 2, True, id="one of three"),
        pytest.param(0b11, 0b111, 2, False, id="two of three"),
        pytest.param(0b1, 0b1, 2, False, id="no more than are assigned are asked for"),
        pytest.param(0b1, NULL, 2, True, id="assignment not known"),
    ],
)
def test_the_hw_may_not_move_under_min_isr(isr, assigned, min_isr, under):
    assert is_under_min_isr(isr, assigned, min_isr) == under


def test_steps_are_kept_as_far_back_as_a_follower_is_behind():
    one = partition(members=[(1, 1, -1, 130), (2, 1, 0, 110)], steps=[(0, 5, 100), (5, 9, 120)], leo=120, leader=1)
    grow(one, 130, 9, 12)
    assert one.steps[: one.record[0]["steps"]].tolist() == [(5, 9, 120), (9, 12, 130)]


def test_a_leo_that_falls_begins_anew():
    one = partition(steps=[(0, 5, 100)], leo=100)
    grow(one, 90, 5, 9)
    assert one.steps[: one.record[0]["steps"]].tolist() == [(-1, 9, 90)]


def test_too_many_steps_lose_one_in_the_middle_and_the_bounds_stay_true():
    steps = [(k, k, k + 1) for k in range(KEPT_STEPS)]
    one = partition(members=[(2, 1, 0, 0)], steps=steps, leo=KEPT_STEPS, leader=1)
    grow(one, KEPT_STEPS + 1, KEPT_STEPS, KEPT_STEPS)
    kept = one.steps[: one.record[0]["steps"]].tolist()
    middle = (KEPT_STEPS + 1) // 2
    assert len(kept) == KEPT_STEPS
    assert kept[middle] == (middle, middle + 1, middle + 2)


def test_layouts_of_this_test_are_those_of_the_rules():
    assert (MEMBERS.names[:4], STEPS.names, ISRS.names) == (
        ("broker", "answers", "first", "leo"), ("least", "most", "leo"), ("after", "by", "isr"),
    )  # fmt: skip
