"""`gold/partition_changes` has what changed of the present, and nothing that passes with every fetch."""

import pyarrow as pa
import pytest

from pipelines.streaming.sinks.changes import changes
from schemas import partition_changes, partition_health

BASE = {"cluster": "c", "topic": "t", "leader_id": 1, "isr": [1, 2], "offline": False, "hw": 5}


def rows(*given):
    return pa.Table.from_pylist([BASE | {"partition": n} | more for n, more in given], partition_health.ARROW)


def found(stored, present):
    table = changes(stored, present)
    assert table.schema == partition_changes.ARROW
    return [(row["partition"], row["changed"], row["gone"], row["isr"]) for row in table.to_pylist()]


@pytest.mark.parametrize("reverse", [False, True], ids=["in the same order", "in another order"])
def test_one_row_for_each_partition_that_changed(reverse):
    stored = rows(*((n, {}) for n in range(9)))
    isr, led = {"isr": [1]}, {"leader_id": 2, "offline": None}
    now = [(0, {}), (1, {}), (2, {"hw": 6, "lag_records": 3}), (3, isr), (4, {}), (5, {}), (6, {}), (7, {}), (8, led)]
    expected = [(3, ["isr"], False, [1]), (8, ["leader_id", "offline"], False, [1, 2])]
    assert sorted(found(stored, rows(*(now[::-1] if reverse else now)))) == expected


def test_new_partitions_and_those_that_are_gone():
    stored, present = rows((0, {}), (1, {"isr": [2]})), rows((0, {}), (2, {}), (3, {}))
    assert found(stored, present) == [(2, None, False, [1, 2]), (3, None, False, [1, 2]), (1, [], True, [2])]


def test_no_row_where_only_offsets_lag_and_times_changed():
    more = dict.fromkeys(("hw", "leader_leo", "lag_records", "stalled_ms"), 7)
    more |= {"holding_replicas": [2], "behind": [2], "one_failure_away": "loss"}
    assert found(rows((0, {})), rows((0, more))) == []


def test_from_nothing_all_are_new():
    assert found(rows(), rows((0, {}))) == [(0, None, False, [1, 2])]
    assert found(rows(), rows()) == []
