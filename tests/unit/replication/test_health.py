"""gold/partition_health says unknown (null) where nobody reported it: never "in sync", never "under-replicated"."""

import pytest

from pipelines.replication import Reconstructor, Rules
from tests.unit.replication.bronze import Source, controller, table

MEMBERS = ("leader_id", "offline", "isr", "ar", "under_replicated", "under_min_isr", "level")


def health(*sources):
    reconstructor = Reconstructor(Rules())
    reconstructor.update(table(*sources))
    reconstructor.finish()
    (row,) = reconstructor.health().to_pylist()
    return tuple(row[name] for name in MEMBERS)


def elected(**more):
    return controller().election(5, 1, 3, **more)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (Source().leader(1, 0, 0, 0, [1, 2, 3]), (1, False, [1, 2, 3], [1, 2, 3], False, False, 3)),
        (Source(level=0).leader(1, 0, 0, 0, [1]), (1, False, [1], [1, 2, 3], True, False, 0)),
        (elected(isr=[1, 2], replicas=[1, 2]), (1, False, [1, 2], [1, 2], False, None, None)),
        (elected(isr=[1], replicas=[1, 2]), (1, False, [1], [1, 2], True, None, None)),
        (elected(), (1, False, None, None, None, None, None)),
        (controller().election(5, -1, 3, isr=[2], replicas=[1, 2]), (-1, True, [2], [1, 2], True, True, None)),
        (Source().append(1, 5).fetch(2, 2, 5), (1, False, None, None, None, None, 3)),
        (Source("broker-2/replication.log").follower_hw(1, 5, of=1), (None, None, None, None, None, None, None)),
    ],
    ids=[
        "a leader that reports", "at level 0", "a leader known from a controller alone",
        "and out of its ISR one", "a leader known by name alone", "nobody leads", "seen leading, its ISR not",
        "known from a follower alone",
    ],
)  # fmt: skip
def test_what_nobody_reported_is_null(source, expected):
    assert health(source) == expected


@pytest.mark.parametrize(
    ("source", "lag"),
    [
        (Source().leader(0, 0, 9, 9, [1, 2], replicas=[1, 2]).append(10, 12).fetch(20, 2, 10), 2),
        (Source().leader(0, 0, 9, 9, [1, 2], replicas=[1, 2]).fetch(20, 2, 9), 0),
        (Source().leader(0, 0, 9, 9, [1, 2], replicas=[1, 2, 3]).append(10, 12).fetch(20, 2, 12), None),
        (Source(level=0).leader(0, 0, 9, 9, [1, 2], replicas=[1, 2]), None),
        (Source().append(1, 5).fetch(2, 2, 5), None),
        (Source().leader(0, 0, 9, 9, [1], replicas=[1]), 0),
    ],
    ids=[
        "behind", "at the end", "a follower that never fetched", "no LEO at level 0", "its replicas not known",
        "a leader without followers",
    ],
)  # fmt: skip
def test_the_lag_of_a_partition_is_null_where_a_replica_s_leo_is_not_known(source, lag):
    reconstructor = Reconstructor(Rules())
    reconstructor.update(table(source))
    reconstructor.finish()
    (row,) = reconstructor.health().to_pylist()
    assert row["lag_records"] == lag


def behind(source):
    reconstructor = Reconstructor(Rules())
    reconstructor.update(table(source))
    (row,) = reconstructor.health().to_pylist()
    return row["behind"]


@pytest.mark.parametrize("level", [2, 3])
def test_a_member_that_is_not_where_its_leader_was_is_behind(level):
    source = Source().at_level(level).leader(0, 0, 0, 0, [1, 2, 3], replicas=[1, 2, 3])
    for replica in (2, 3):
        source.event(10, "fetch" if level == 3 else "replica_leo", replica_id=replica, leo=0, leader_id=1)
    assert behind(source.append(1000, 9).progress(2000)) == []
    assert behind(source.progress(9000)) == [2, 3]


def test_where_not_every_members_end_was_told_it_is_not_known_who_is_behind():
    """It was never seen to fetch, or rows are missing since."""
    led = Source().leader(0, 0, 0, 0, [1, 2], replicas=[1, 2])
    assert behind(led.append(1000, 9).progress(9000)) is None
    fetched = Source().leader(0, 0, 0, 0, [1, 2], replicas=[1, 2]).fetch(10, 2, 0)
    assert behind(fetched.lost(500).append(1000, 9).progress(9000)) is None


def test_a_reassigned_partition_says_what_was_assigned_since_when():
    source = Source().leader(0, 0, 9, 9, [1, 2], replicas=[1, 2, 3]).leader(5, 1, 9, 9, [1, 2], replicas=[1, 2])
    reconstructor = Reconstructor(Rules())
    reconstructor.update(table(source))
    (row,) = reconstructor.health().to_pylist()
    first, second = row["assignments"]
    assert (first["replicas"], second["replicas"]) == ([1, 2, 3], [1, 2])
    assert (second["since"] - first["since"]).total_seconds() == 0.005
