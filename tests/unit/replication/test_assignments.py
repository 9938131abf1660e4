"""Replica assignments as of a time, of any number of partitions, each reported any number of times."""

from itertools import pairwise

import numpy as np
import pytest

from pipelines.replication.metadata.assignments import Assignments


def record(assignments, *rows):
    """Each row is (partition, ts, replicas)."""
    partition, ts = (np.array([row[k] for row in rows], dtype=np.int64) for k in (0, 1))
    size = np.array([len(row[2]) for row in rows], dtype=np.int64)
    at = np.cumsum(size) - size
    ids = np.array([r for row in rows for r in row[2]], dtype=np.int32)
    assignments.record(partition, ts, at, size, ids)


def as_of(assignments, *asked):
    partition, ts = (np.array(column, dtype=np.int64) for column in zip(*asked, strict=True))
    bounds, ids = assignments.as_of(partition, ts)
    return [tuple(ids[a:b].tolist()) for a, b in pairwise(bounds)]


def test_an_assignment_holds_from_the_first_time_it_was_reported():
    known = Assignments()
    record(known, (3, 20, (1, 2)), (3, 10, (1, 2)), (4, 15, (2, 3, 1)), (5, 1, ()))
    record(known, (3, 30, (1, 2)), (4, 12, (2, 3, 1)))
    assert not known.changed
    asked = [(3, 9), (3, 10), (4, 11), (4, 12), (5, 5), (9, 99)]
    assert as_of(known, *asked) == [(), (1, 2), (), (2, 3, 1), (), ()]


def test_reassigned_partitions_stand_among_the_others():
    known = Assignments()
    record(known, (0, 10, (1, 2)), (1, 10, (2, 3)), (2, 10, (3, 1)), (1, 20, (3, 4, 5)))
    record(known, (2, 30, (3,)), (1, 25, (3, 4, 5)), (0, 30, (1, 2)))
    assert sorted(known.changed) == [1, 2]
    asked = [(1, 9), (0, 10), (1, 19), (2, 29), (1, 20), (2, 30), (0, 99), (1, 99)]
    assert as_of(known, *asked) == [(), (1, 2), (2, 3), (3, 1), (3, 4, 5), (3,), (1, 2), (3, 4, 5)]


def test_the_same_brokers_in_another_order_are_another_assignment():
    known = Assignments()
    record(known, (0, 10, (1, 2)), (0, 20, (2, 1)))
    assert as_of(known, (0, 15), (0, 20)) == [(1, 2), (2, 1)]


@pytest.mark.parametrize("seed", range(20))
def test_the_assignments_do_not_depend_on_how_the_rows_are_cut(seed):
    chance = np.random.default_rng(seed)
    choices = [(1, 2), (2, 1), (1, 2, 3), ()]
    rows = [(int(p), int(t), choices[c]) for t, (p, c) in enumerate(chance.integers(0, 4, (60, 2)))]
    asked = [(p, t) for p in range(4) for t in range(0, 60, 7)]
    expected = [
        next((r for p, t, r in reversed(rows) if p == partition and t <= ts and r), ()) for partition, ts in asked
    ]
    for parts in (1, 5, 60):
        known = Assignments()
        for part in np.array_split(np.arange(len(rows)), parts):
            record(known, *(rows[k] for k in part))
        again = Assignments(known.table(), known.changed)
        recent = [k for k, (p, t) in enumerate(asked) if t >= min((s for s, _ in known.changed.get(p, [(0, ())])))]
        assert [as_of(known, *asked)[k] for k in recent] == [expected[k] for k in recent]
        assert as_of(again, *asked) == as_of(known, *asked)
