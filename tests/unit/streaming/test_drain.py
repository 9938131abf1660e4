"""What `hwmark run --drain` appends to bronze: one closing row per cluster, with a number that only rises."""

from datetime import UTC, datetime

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from pipelines.lake.bronze import append_events, read_events
from pipelines.lake.lake import Lake
from pipelines.replication.compiled.types import NEVER
from pipelines.streaming.source import drain
from pipelines.streaming.source.drain import DrainSkippedError, close_sources
from schemas import replication_events
from schemas.replication_events import DRAIN
from tests.unit.replication.bronze import BASE_MS, Source, table


@pytest.fixture
def lake(tmp_path):
    return Lake(str(tmp_path / "lake"))


def append(lake, *sources, version=0, app_id="x"):
    append_events(lake.root, table(*sources).cast(replication_events.ARROW), app_id=app_id, version=version)


def closing_rows(lake):
    rows = read_events(lake.root, source_id=DRAIN).sort_by([("source_seq", "ascending"), ("cluster", "ascending")])
    return rows.to_pylist()


def two_clusters():
    one, two = Source("broker-1/a.log").leader(0, 0, 0, 0, [1]).append(10, 9), Source("broker-2/b.log", cluster="d")
    return one, two.leader(5, 0, 0, 0, [2]).progress(7000)


def test_it_names_the_last_row_of_each_source_of_its_cluster(lake):
    append(lake, *two_clusters())
    append(lake, Source("broker-1/a.log", source_epoch=3).progress(20), version=1)
    assert close_sources(lake) == 2
    found = [(row["cluster"], row["ts"].timestamp() * 1000 - BASE_MS, row["closes"]) for row in closing_rows(lake)]
    assert found == [
        ("c", 20, [{"source_id": "broker-1/a.log", "source_epoch": 3, "source_seq": 0}]),
        ("d", 7000, [{"source_id": "broker-2/b.log", "source_epoch": 0, "source_seq": 1}]),
    ]


def test_the_next_one_names_no_closing_row_and_has_the_next_number(lake):
    append(lake, *two_clusters())
    close_sources(lake)
    assert close_sources(lake) == 2
    assert [row["source_seq"] for row in closing_rows(lake)] == [0, 0, 1, 1]
    assert {entry["source_id"] for row in closing_rows(lake) for entry in row["closes"]} == {
        "broker-1/a.log",
        "broker-2/b.log",
    }


def test_its_number_does_not_fall_when_retention_has_removed_closing_rows(lake):
    """Its version fell below that of the last one, and the append was skipped without a word, for ever."""
    append(lake, *two_clusters())
    for _ in range(3):
        close_sources(lake)
    DeltaTable(lake.uri(replication_events.TABLE)).delete()
    append(lake, *two_clusters(), version=1)
    assert close_sources(lake) == 2
    assert [row["source_seq"] for row in closing_rows(lake)] == [3, 3]


def test_an_append_that_was_skipped_is_an_error(lake, monkeypatch):
    append(lake, *two_clusters())
    monkeypatch.setattr(drain, "append_events", lambda *_, **__: False)
    with pytest.raises(drain.DrainSkippedError, match=r"closing rows 0 already.*run it again"):
        close_sources(lake)


def test_rows_that_are_refused_count_for_nothing(lake):
    one, _ = two_clusters()
    early, late = (ms - BASE_MS for ms in (0, 5_000_000_000_000))
    append(lake, one.append(early, 11).append(late, 12))
    close_sources(lake)
    (row,) = closing_rows(lake)
    assert row["ts"].timestamp() * 1000 - BASE_MS == 10
    assert row["closes"][0]["source_seq"] == 1


def test_a_foreign_row_with_the_last_number_is_an_error_and_no_row_that_nobody_counts(lake):
    one, _ = two_clusters()
    append(lake, one)
    foreign = {"cluster": "prod", "source_id": DRAIN, "source_epoch": 0, "source_seq": NEVER - 1, "seq": 0}
    foreign |= {
        "ts": datetime(2026, 9, 1, tzinfo=UTC),
        "broker_id": -1,
        "event_type": "progress",
        "partition": -1,
        "level": 0,
    }
    append_events(lake.root, pa.Table.from_pylist([foreign], replication_events.ARROW), app_id="y", version=0)
    with pytest.raises(DrainSkippedError, match="the last there is"):
        close_sources(lake)


def test_an_empty_lake_has_nothing_to_close(lake):
    lake.create(replication_events.TABLE)
    assert close_sources(lake) == 0
    assert closing_rows(lake) == []


def test_a_lake_without_the_column_gets_it(lake):
    rows = table(*two_clusters()).cast(replication_events.ARROW)
    uri = lake.uri(replication_events.TABLE)
    write_deltalake(uri, rows.drop_columns(["closes"]))
    assert close_sources(lake) == 2
    assert all(row["closes"] for row in closing_rows(lake))


def test_what_is_read_to_write_it_is_one_file_at_a_time(lake, monkeypatch):
    """The names of all rows of bronze stood in memory as plain text."""
    for version in range(4):
        append(lake, *two_clusters(), version=version)
    read = []
    aggregated = drain._aggregated
    monkeypatch.setattr(drain, "_aggregated", lambda rows: read.append(rows) or aggregated(rows))
    close_sources(lake)
    assert [len(rows) for rows in read] == [4] * 4
    assert all(pa.types.is_dictionary(rows[name].type) for rows in read for name in ("cluster", "source_id"))
