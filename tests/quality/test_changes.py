"""Which rows of a table are new since a version, whatever was committed in between."""

import pytest
from deltalake import DeltaTable

from pipelines.lake.changes import since
from schemas import telemetry_gaps
from tests.quality.lake_rows import put

GAP = {
    "cluster": "c", "partition": -1, "source_id": "s", "source_epoch": 0, "series": "source", "kind": "gap",
}  # fmt: skip


def gap(number):
    from datetime import UTC, datetime

    return GAP | {"ts": datetime(2026, 11, 21, tzinfo=UTC), "seq_from": number, "seq_to": number}


@pytest.fixture
def table(lake):
    for number in range(3):
        put(lake, telemetry_gaps, gap(number))
    return lambda: DeltaTable(f"{lake}/{telemetry_gaps.TABLE.path}")


def rows(table, change):
    """The numbers that the files of a change hold."""
    import pyarrow.parquet as pq

    return sorted(n for f in change.files for n in pq.read_table(f"{table.table_uri}/{f}")["seq_from"].to_pylist())


def test_everything_is_new_the_first_time(table):
    change = since(table(), None)
    assert (change.version_to, change.rows, change.files) == (2, 3, None)


def test_only_later_versions_are_new(table):
    change = since(table(), 0)
    assert (change.version_from, change.version_to, change.rows) == (1, 2, 2)
    assert rows(table(), change) == [1, 2]


def test_nothing_is_new_at_the_same_version(table):
    assert since(table(), 2) is None


def test_an_empty_table_has_nothing_new(lake):
    put(lake, telemetry_gaps)
    assert since(DeltaTable(f"{lake}/{telemetry_gaps.TABLE.path}"), None) is None


def test_optimizing_makes_nothing_new(table):
    table().optimize.compact()
    assert since(table(), 2) is None
    assert rows(table(), since(table(), 1)) == [2]


def test_a_rebuilt_table_is_new_from_the_rebuild_on(table, lake):
    put(lake, telemetry_gaps, gap(7), mode="overwrite")
    put(lake, telemetry_gaps, gap(8))
    assert rows(table(), since(table(), 1)) == [7, 8]


def test_all_of_the_table_is_new_where_files_are_gone(table):
    table().optimize.compact()
    table().vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
    change = since(table(), 1)
    assert (change.files, change.rows) == (None, 3)


def test_all_of_the_table_is_new_where_it_was_made_anew(table):
    change = since(table(), 99)
    assert (change.version_to, change.files) == (2, None)
