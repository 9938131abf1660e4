"""The judge of a fault: what it calls lost, doubled and wrong, and which message it takes for clear."""

import signal
from collections import Counter

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from tests.faults.campaign import closing_table
from tests.faults.points import Injection
from tests.faults.preload import Point
from tests.faults.rows import difference, tables
from tests.faults.stages import Ended
from tests.faults.trial import CLEAR, HELD, WRONG, Outcome, is_clear

LAKE = "/data/lake"
FULL = f"hwmark: no space left on device: {LAKE}/silver: free some space and run it again"


@pytest.mark.parametrize(
    ("found", "counts"),
    [
        ({"t": Counter("ab")}, (0, 0, 0)),
        ({"t": Counter("a")}, (1, 0, 0)),
        ({"t": Counter("abb")}, (0, 1, 0)),
        ({"t": Counter("abc")}, (0, 0, 1)),
        ({}, (3, 0, 0)),
    ],
    ids=["equal", "lost", "doubled", "foreign", "a table that is not there"],
)
def test_rows_are_compared_as_multisets(found, counts):
    assert difference(found, {"t": Counter("ab")}) == counts


def test_tables_are_read_without_what_the_wall_clock_puts_in(tmp_path):
    for name, column in (("bronze/quarantine", "quarantined_at"), ("ops/alerts", "first_ts")):
        write_deltalake(str(tmp_path / name), pa.table({column: [1, 2], "kind": ["a", "a"]}))
    found = tables(tmp_path)
    assert found["bronze/quarantine"] == Counter({"{'kind': 'a'}": 2})
    assert len(found["ops/alerts"]) == 2


def test_of_lags_when_they_were_noted_counts_and_that_none_was_noted_twice(tmp_path):
    def noted(name, *brokers):
        rows = {"cluster": ["c"] * len(brokers), "ts": [7] * len(brokers), "broker_id": [*brokers]}
        write_deltalake(str(tmp_path / name / "gold/broker_lag"), pa.table(rows | {"behind": [*range(len(brokers))]}))
        return tables(tmp_path / name)

    expected = noted("one", 1, 2)
    assert difference(noted("another batch knew of less", 2), expected) == (0, 0, 0)
    assert difference(noted("twice", 2, 2), expected) == (0, 0, 1)


@pytest.mark.parametrize(
    ("ended", "fault", "clear"),
    [
        (Ended(1, f"run: batch 0\n{FULL}\n"), "ENOSPC", True),
        (Ended(-signal.SIGKILL, ""), "kill", True),
        (Ended(1, FULL), "EIO", False),
        (Ended(1, ""), "EIO", False),
        (Ended(1, f"Traceback (most recent call last):\n{FULL}"), "ENOSPC", False),
        (Ended(1, f"{FULL}\nException in thread main"), "ENOSPC", False),
        (Ended(1, f"hwmark: RunFailed: java.io.IOException: No space left on device {LAKE}"), "ENOSPC", False),
        (Ended(1, "hwmark: no space left on device: somewhere"), "ENOSPC", False),
    ],
)
def test_a_clear_error_is_one_line_that_names_what_failed_and_where(ended, fault, clear):
    assert is_clear(ended, fault, LAKE) == clear


def test_the_closing_table_counts_every_outcome_by_point_and_fault():
    point = Point("jvm", "_run/*", "write")
    came = ((1, "EIO", HELD), (2, "EIO", CLEAR), (1, "kill", WRONG))
    lines = closing_table([Outcome(Injection("run", point, n, fault), v) for n, fault, v in came], 9).splitlines()
    assert lines[1].split("  ")[:2] == ["run: jvm · _run/* · write", "  1 held, 1 clear error".strip()]
    assert lines[-2].split() == ["all", "3", "1", "1", "0", "0", "0", "1", "0"]
    assert lines[-1] == "3 of 9 faults tried"
