"""Gold is rewritten every few seconds: what was replaced is kept for minutes, and nothing that is needed is removed."""

import json
import os
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from deltalake import DeltaTable

from pipelines.lake import queries
from pipelines.lake.data_file import write_file
from pipelines.lake.lake import Lake, declared
from pipelines.streaming import upkeep
from pipelines.streaming.checkpoint.manifest import Manifest, Manifests
from pipelines.streaming.dead_files import remove_replaced
from pipelines.streaming.sinks.unchanged import has_rows
from pipelines.streaming.tables import REWRITTEN, TABLES, commit, create_tables
from schemas import partition_health

pytestmark = pytest.mark.long

HEALTH = "partition_health"
KEPT = timedelta(minutes=15)


def later(minutes):
    return datetime.now(UTC) + timedelta(minutes=minutes)


def file(lake, hw):
    rows = [{"cluster": "c", "topic": "orders", "partition": 0, "hw": hw}]
    return write_file(
        lake.files(HEALTH), HEALTH, partition_health.ARROW, [pa.Table.from_pylist(rows, partition_health.ARROW)]
    )


def replaced(lake, *hws):
    """`gold/partition_health`, overwritten with each of these; the last version."""
    for hw in hws:
        commit(lake, HEALTH, [file(lake, hw)], "q", hw, overwrite=True)
    return lake.open(HEALTH).version()


def files(lake):
    return {path.name for path in Path(lake.root, "gold/partition_health").glob("*.parquet")}


def hws(table):
    return table.to_pyarrow_table(columns=["hw"])["hw"].to_pylist()


@pytest.fixture
def lake(tmp_path):
    place = Lake(str(tmp_path))
    create_tables(place)
    return place


@pytest.mark.parametrize(("minutes", "left"), [(14, 3), (17, 1)])
def test_a_replaced_file_is_removed_once_no_version_of_the_last_quarter_of_an_hour_had_it(lake, minutes, left):
    replaced(lake, 1, 2, 3)
    assert remove_replaced(lake, KEPT, later(minutes)) == 3 - left
    assert len(files(lake)) == left
    assert hws(lake.open(HEALTH)) == [3]


def test_a_snapshot_ten_minutes_old_is_still_read(lake):
    version = replaced(lake, 1)
    replaced(lake, 2, 3)
    remove_replaced(lake, KEPT, later(10))
    old = DeltaTable(lake.uri(HEALTH), version)
    assert hws(old) == [1]
    rows = old.to_pyarrow_dataset()
    assert duckdb.from_arrow(rows).aggregate("max(hw)").fetchall() == [(1,)]


def test_a_file_is_old_by_when_it_was_replaced_not_by_when_it_was_written(lake):
    """Gold of a cluster in which nothing happens stands for days."""
    replaced(lake, 1)
    (standing,) = Path(lake.root, "gold/partition_health").glob("*.parquet")
    days_ago = time.time() - 3 * 86_400
    os.utime(standing, (days_ago, days_ago))
    replaced(lake, 2)
    assert remove_replaced(lake, KEPT, later(0)) == 0


def test_a_file_that_a_recorded_batch_has_written_is_never_removed(lake):
    Path(lake.root, "_run").mkdir()
    Path(lake.root, "_run/query.json").write_text(json.dumps({"query_id": "q"}))
    waiting = file(lake, 4)
    Manifests(lake, "q").write(Manifest(4, "id", None, {}, "v1", files=[waiting]))
    replaced(lake, 1, 2)
    assert remove_replaced(lake, KEPT, later(60)) == 1
    assert waiting.path in files(lake)


def test_a_file_of_the_batch_under_way_is_never_removed(lake):
    """Its tasks write long before the batch is recorded, an hour where it has a backlog to read."""
    offsets = Path(lake.root, "_run/q/offsets")
    offsets.mkdir(parents=True)
    Path(lake.root, "_run/query.json").write_text(json.dumps({"query_id": "q"}))
    begun_ms = (time.time() - 5) * 1000
    (offsets / "0").write_text(f'v1\n{{"batchTimestampMs": {begun_ms:.0f}}}\n{{"version": 1}}')
    of_its_tasks = file(lake, 1)
    assert remove_replaced(lake, KEPT, later(60)) == 0
    (offsets.parent / "commits").mkdir()
    (offsets.parent / "commits/0").write_text("v1\n{}")
    assert remove_replaced(lake, KEPT, later(60)) == 1
    assert of_its_tasks.path not in files(lake)


def test_a_file_of_gold_that_no_commit_names_is_removed_with_those_that_were_replaced(lake):
    """Written by a batch that changed nothing, or that was played again: nobody but the job writes there."""
    replaced(lake, 1)
    unused = file(lake, 1)
    assert remove_replaced(lake, KEPT, later(17)) == 1
    assert unused.path not in files(lake)


def test_silver_is_left_to_maintain(lake):
    kind = "partition_hw"
    orphan = write_file(lake.files(kind), kind, declared(kind).arrow(), [declared(kind).arrow().empty_table()])
    assert remove_replaced(lake, KEPT, later(100_000)) == 0
    assert Path(lake.root, "silver/partition_hw", orphan.path).exists()


@pytest.mark.parametrize("kind", REWRITTEN)
def test_the_log_of_a_rewritten_table_is_kept_four_times_as_long_as_its_files(lake, kind):
    create_tables(lake, 1200)
    properties = lake.open(kind).metadata().configuration
    assert properties["delta.deletedFileRetentionDuration"] == "interval 1200 seconds"
    assert properties["delta.logRetentionDuration"] == "interval 4800 seconds"


def test_a_table_of_an_earlier_version_gets_the_retention_once(tmp_path):
    lake = Lake(str(tmp_path))
    lake.create(HEALTH)
    create_tables(lake)
    version = lake.open(HEALTH).version()
    assert lake.open(HEALTH).metadata().configuration["delta.logRetentionDuration"] == "interval 3600 seconds"
    create_tables(lake)
    assert lake.open(HEALTH).version() == version


@pytest.mark.sampled(2)
def test_the_log_of_gold_stays_short(lake, monkeypatch):
    """A checkpoint is made every hundred commits, and the commits before it go once they are old."""
    lake.open(HEALTH).alter.set_table_properties({"delta.logRetentionDuration": "interval 0 seconds"})
    for number in range(130):
        commit(lake, HEALTH, [file(lake, 1)], "q", number, overwrite=True)
    commits = list(Path(lake.root, "gold/partition_health/_delta_log").glob("*.json"))
    assert len(commits) < 110
    assert hws(lake.open(HEALTH)) == [1]


def test_the_job_looks_every_five_minutes_and_an_error_does_not_end_it(lake, monkeypatch, caplog):
    looks = []

    def look(*asked):
        looks.append(asked)
        raise OSError("disk on fire")

    monkeypatch.setattr(upkeep, "remove_replaced", look)
    clock = iter([0.0, 299.0, 301.0, 301.0, 302.0, 602.0, 602.0])
    keep = upkeep.Upkeep(lake, 900, lambda: next(clock))
    for _ in range(4):
        keep.when_due()
    assert len(looks) == 2
    assert "disk on fire" in caplog.text


def test_the_timeline_is_written_each_minute_and_takes_a_hundredth_of_the_time(lake):
    now, begun = [0.0], []

    def write_timeline(lake):
        begun.append(now[0])
        now[0] += 0.5 if now[0] < 150 else 3

    keep = upkeep.Upkeep(lake, 900, lambda: now[0], write_timeline)
    while now[0] < 800:
        keep.when_due()
        now[0] += 0.5
    assert begun == [60, 120.5, 181, 484, 787]


def test_a_timeline_that_cannot_be_written_does_not_end_the_job(lake, caplog):
    keep = upkeep.Upkeep(lake, 900, write_timeline=lambda lake: 1 / 0)
    keep.now()
    assert "gold/timeline was not written, tried again in a minute: division by zero" in caplog.text


def test_a_reader_opens_a_table_again_where_a_file_is_gone(lake):
    replaced(lake, 1)
    opened = lake.open(HEALTH)
    replaced(lake, 2)
    remove_replaced(lake, KEPT, later(17))
    assert queries.query(opened, "SELECT hw FROM t") == [{"hw": 2}]


def test_rows_are_read_again_where_a_file_goes_while_they_are_read(lake, monkeypatch):
    replaced(lake, 1)
    found = lake.open(HEALTH)
    replaced(lake, 2)
    remove_replaced(lake, KEPT, later(17))
    monkeypatch.setattr(Lake, "find", lambda self, table: found)
    assert lake.read(HEALTH, partition_health.ARROW)["hw"].to_pylist() == [2]


@pytest.mark.parametrize("read", [lambda lake: queries.query(lake.open(HEALTH), "SELECT hw FROM t"),
                                  lambda lake: lake.read(HEALTH, partition_health.ARROW)])  # fmt: skip
def test_a_file_that_the_newest_version_lacks_is_an_error(lake, read):
    replaced(lake, 1)
    for path in Path(lake.root, "gold/partition_health").glob("*.parquet"):
        path.unlink()
    with pytest.raises(Exception, match=r"(?i)no such file"):
        read(lake)


def test_the_same_rows_are_the_same_bytes_and_others_are_not(lake):
    replaced(lake, 1)
    assert has_rows(lake, HEALTH, [file(lake, 1)])
    assert not has_rows(lake, HEALTH, [file(lake, 2)])
    assert not has_rows(lake, HEALTH, [file(lake, 1), file(lake, 1)])
    assert not has_rows(lake, HEALTH, [])


def test_the_log_of_the_other_tables_is_kept_for_a_day_unless_set_otherwise(tmp_path):
    lake = Lake(str(tmp_path))
    for seconds, words in ((86_400, "interval 86400 seconds"), (7200, "interval 7200 seconds")):
        create_tables(lake, log_s=seconds)
        for kind in set(TABLES) - set(REWRITTEN):
            assert lake.open(kind).metadata().configuration["delta.logRetentionDuration"] == words
            assert "delta.deletedFileRetentionDuration" not in lake.open(kind).metadata().configuration
