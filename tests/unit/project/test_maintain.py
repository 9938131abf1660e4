"""`hwmark maintain` on small lakes: what is kept, and that the job is never overtaken."""

import json
import os
import time

import pytest
from deltalake import DeltaTable, Field, write_deltalake

from pipelines.commands.maintain.command import maintain
from pipelines.lake.data_file import Written
from pipelines.lake.lake import Lake
from pipelines.streaming.checkpoint.manifest import Manifest, Manifests
from schemas import tables
from tests.unit.project.lakes import at, loss, write


def lines(lake, **keep):
    found = list(maintain(lake, now=at(0), **keep))
    return {line.split(": ")[0]: line.split(": ")[1] for line in found}


def table(lake, name):
    return DeltaTable(f"{lake}/{tables()[name].path}")


def job_has_read(lake, version):
    """The record and the checkpoint of a job that has read bronze up to and with `version`."""
    query = lake / "_run" / "q"
    (query / "commits").mkdir(parents=True)
    (query / "offsets").mkdir()
    (lake / "_run" / "query.json").write_text(json.dumps({"query_id": "q"}))
    (query / "commits" / "4").write_text("v1\n{}")
    offset = {"sourceVersion": 1, "reservoirVersion": version + 1, "index": -1, "isStartingVersion": False}
    (query / "offsets" / "4").write_text("v1\n{}\n" + json.dumps(offset))
    (query / "offsets" / "5").write_text(
        f'v1\n{{"batchTimestampMs": {time.time() * 1000:.0f}}}\n' + json.dumps({**offset, "reservoirVersion": 99})
    )


@pytest.fixture
def lake(tmp_path):
    """Four commits of bronze, one every second day, the last today."""
    for day in (6, 4, 2, 0):
        write(tmp_path, "replication_events", {"ts": at(-day * 86400), "source_seq": 6 - day})
    return tmp_path


def test_small_files_become_one_and_the_rows_stay(lake):
    job_has_read(lake, 3)
    said = lines(str(lake))
    assert said["bronze/replication_events"] == "4 files into 1, 0 dead files removed"
    assert table(lake, "replication_events").to_pyarrow_table().num_rows == 4


@pytest.mark.parametrize("name", ["replication_events", "hw_regressions"])
def test_a_column_that_is_not_declared_keeps_its_values(tmp_path, name):
    """As a foreign writer of bronze adds one, or somebody who notes what became of a loss."""
    write(tmp_path, name, {"source_seq": 0} if name == "replication_events" else loss())
    place = table(tmp_path, name)
    place.alter.add_columns([Field("note", "string")])
    place.update({"note": "'by hand'"})
    write_deltalake(place, place.to_pyarrow_table(), mode="append")
    assert "2 files into 1" in lines(str(tmp_path))[tables()[name].path]
    assert sorted(table(tmp_path, name).to_pyarrow_table()["note"].to_pylist()) == ["by hand"] * 2


def test_files_are_removed_when_no_reader_can_want_them(lake):
    job_has_read(lake, 3)
    assert lines(str(lake), vacuum_hours=0)["bronze/replication_events"] == "4 files into 1, 4 dead files removed"


@pytest.mark.parametrize(
    ("read", "words"), [(0, "0 dead files removed"), (None, "no dead files removed, no job has read it yet")]
)
def test_what_the_job_has_yet_to_read_is_never_removed(lake, read, words):
    if read is not None:
        job_has_read(lake, read)
    unread = {
        uri for version in range(4) for uri in DeltaTable(f"{lake}/bronze/replication_events", version).file_uris()
    }
    said = lines(str(lake), vacuum_hours=0, bronze_days=3)
    assert said["bronze/replication_events"] == (
        f"not aged, the job has yet to read some of it, 4 files into 1, {words}"
    )
    assert all((lake / "bronze/replication_events" / uri.rsplit("/", 1)[1]).exists() for uri in unread)


def test_bronze_ages_once_the_job_has_read_it(lake):
    job_has_read(lake, 3)
    said = lines(str(lake), bronze_days=3)
    assert said["bronze/replication_events"].startswith("2 rows before 2026-08-29 12:00 removed, ")
    kept = table(lake, "replication_events").to_pyarrow_table()["source_seq"].to_pylist()
    assert sorted(kept) == [4, 6]


def test_losses_are_kept_when_silver_ages(lake):
    job_has_read(lake, 3)
    write(lake, "partition_hw", {"ts": at(-9 * 86400)}, {"ts": at(0)})
    write(lake, "hw_regressions", loss(ts=at(-9 * 86400)))
    said = lines(str(lake), silver_days=7)
    assert said["silver/partition_hw"].startswith("1 rows before 2026-08-25 12:00 removed, ")
    assert table(lake, "partition_hw").to_pyarrow_table().num_rows == 1
    assert table(lake, "hw_regressions").to_pyarrow_table().num_rows == 1


def test_nothing_ages_unless_asked(lake):
    job_has_read(lake, 3)
    assert "rows before" not in " ".join(lines(str(lake)).values())


def test_files_that_no_commit_named_are_removed_once_they_are_old_and_in_no_manifest(lake):
    """As a killed ingest leaves them, or a batch that was played again."""
    job_has_read(lake, 3)
    write(lake, "partition_hw", {"ts": at(0)})
    folder = lake / "silver/partition_hw"
    for name in ("orphan", "young", "recorded"):
        (folder / f"part-{name}.parquet").write_bytes(b"PAR1")
        hours = 1 if name == "young" else 30
        then = time.time() - hours * 3600
        os.utime(folder / f"part-{name}.parquet", (then, then))
    found = {
        "kind": "partition_hw",
        "path": "part-recorded.parquet",
        "size": 4,
        "rows": 1,
        "written_ms": 0,
        "stats": "",
    }
    manifest = Manifest(5, "id", None, {}, "v1", files=[Written(**found)])
    Manifests(Lake(str(lake), {}), "q").write(manifest)
    assert "1 files that no commit named removed" in lines(str(lake), vacuum_hours=0)["silver/partition_hw"]
    left = {path.name for path in folder.glob("part-*.parquet")}
    assert {"part-young.parquet", "part-recorded.parquet"} <= left
    assert "part-orphan.parquet" not in left
    assert table(lake, "partition_hw").to_pyarrow_table().num_rows == 1


def test_the_lag_of_brokers_and_replicas_is_kept_for_seven_days(tmp_path):
    lag = {"followed": 1, "known": 1, "behind": 0, "broker_id": 2}
    write(tmp_path, "broker_lag", *(lag | {"ts": at(-day * 86400)} for day in (9, 8, 6, 0)))
    write(tmp_path, "replica_lag", *({"ts": at(-day * 86400), "replica_id": 2} for day in (8, 1)))
    assert lines(str(tmp_path))["gold/broker_lag"].startswith("2 rows before ")
    assert table(tmp_path, "replica_lag").to_pyarrow_table().num_rows == 1
    assert "removed" not in lines(str(tmp_path), lag_days=0)["gold/broker_lag"].split(",")[0]


def test_each_table_is_named_as_its_turn_comes(lake):
    said = []
    list(maintain(str(lake), on_table=said.append))
    assert said == [table.path for table in tables().values()]


def test_what_the_job_replaces_as_a_whole_is_not_compacted(tmp_path):
    """A compaction between what the job reads and what it commits would keep rows that it replaces."""
    for hw in (1, 2):
        write(tmp_path, "partition_health", {"hw": hw})
    before = table(tmp_path, "partition_health").file_uris()
    assert "files into" not in lines(str(tmp_path))["gold/partition_health"]
    assert table(tmp_path, "partition_health").file_uris() == before
