"""Minutes tell the most of a gauge within them and its seconds, and not only how it stood at their ends."""

import pyarrow as pa
import pytest

from pipelines.lake.lake import declared
from pipelines.replication import replay
from pipelines.streaming.sinks import gold
from pipelines.streaming.sinks.spans import most_and_seconds
from tests.unit.replication.bronze import Source, controller, table


@pytest.mark.parametrize(
    ("start", "moves", "expected"),
    [
        pytest.param(0, {}, (0, 0.0), id="nothing all minute"),
        pytest.param(2, {}, (2, 60.0), id="two all minute"),
        pytest.param(0, {10_000: 1, 18_000: -1}, (1, 8.0), id="one for eight seconds"),
        pytest.param(0, {59_000: 3}, (3, 1.0), id="what still stands counts to the end"),
        pytest.param(3, {0: -3}, (0, 0.0), id="what ended with the minute before lasted for nothing"),
        pytest.param(1, {1_000: 1, 2_000: -2, 3_000: 1, 3_001: -1}, (2, 2.001), id="two times, and the most between"),
    ],
)
def test_the_most_and_the_seconds_of_a_minute(start, moves, expected):
    at, by = (pa.array(values, pa.int64()).to_numpy() for values in (moves.keys(), moves.values()))
    assert most_and_seconds(start, at, by) == expected


def minutes(kind, *sources):
    partials = replay(table(*sources)).minute_stats
    return gold.changed(kind, declared(kind).arrow().empty_table(), partials, partials).to_pylist()


def said(row, *names):
    return {name: (row[name], row[f"{name}_max"], row[f"{name}_s"]) for name in names}


def test_a_shrink_of_eight_seconds_is_in_its_minute():
    leader = Source().leader(0, 0, 0, 0, [1, 2, 3], min_isr=2).isr(10_000, [1, 2], epoch=1)
    leader.isr(18_000, [1, 2, 3], epoch=2).progress(50_000)
    for kind in gold.WHO:
        row = next(row for row in minutes(kind, leader, controller().progress(50_000)) if row["partitions"])
        expected = {"under_replicated": (0, 1, 8.0), "under_min_isr": (0, 0, 0.0), "offline": (0, 0, 0.0)}
        assert said(row, *expected) == expected


def test_a_partition_without_a_leader_for_a_third_of_a_second_is_in_its_minute():
    ruling = controller().election(10_000, -1, 1, isr=[1], replicas=[1, 2], partition_epoch=1)
    ruling.election(10_300, 2, 2, isr=[2], replicas=[1, 2], partition_epoch=2).progress(50_000)
    first = Source().leader(0, 0, 0, 0, [1, 2], replicas=[1, 2]).progress(50_000)
    (row,) = minutes("cluster_minute", first, ruling)
    assert said(row, "offline", "under_replicated") == {"offline": (0, 1, 0.3), "under_replicated": (1, 1, 39.7)}
