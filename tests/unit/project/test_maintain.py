"""`hwmark maintain` on small lakes: what is kept, and that the job is never overtaken."""

import json
import os
import re
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, Field, write_deltalake

import pipelines
from pipelines.alerting.evaluate import evaluate
from pipelines.commands.maintain.command import maintain
from pipelines.lake.data_file import Written
from pipelines.lake.delta_log import actions
from pipelines.lake.lake import Lake
from pipelines.streaming import dead_files
from pipelines.streaming.checkpoint.manifest import Manifest, Manifests
from schemas import minute_stats, tables
from tests.unit.project.lakes import at, loss, write

UNSEEN = "no evaluation of the alerts had looked at prod"


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
    """Four commits of bronze, one every second day, the last today, and two more of today."""
    for seconds in (6 * 86400, 4 * 86400, 2 * 86400, 20, 10, 0):
        write(tmp_path, "replication_events", {"ts": at(-seconds), "source_seq": 6 * 86400 - seconds})
    return tmp_path


def commits(lake, name):
    """The actions of each commit of a table, in order."""
    log = sorted((lake / tables()[name].path / "_delta_log").glob("*.json"))
    return [[json.loads(line) for line in commit.read_text().splitlines()] for commit in log]


def infos(commit):
    return [action["commitInfo"] for action in commit if "commitInfo" in action]


def ages(lake, name):
    """Seconds before NOON of the rows of each file of bronze."""
    files = [pq.read_table(path)["ts"].to_pylist() for path in table(lake, name).file_uris()]
    return sorted([(at(0) - ts).total_seconds() for ts in times] for times in files)


def test_small_files_become_one_and_the_rows_stay(lake):
    job_has_read(lake, 5)
    said = lines(str(lake))
    assert said["bronze/replication_events"] == "3 files into 1, 0 dead files removed"
    assert ages(lake, "replication_events") == [[20, 10, 0], [2 * 86400], [4 * 86400], [6 * 86400]]


@pytest.mark.parametrize("name", ["replication_events", "hw_regressions"])
def test_a_column_that_is_not_declared_keeps_its_values(tmp_path, name):
    """As a foreign writer of bronze adds one, or somebody who notes what became of a loss."""
    write(tmp_path, name, {"source_seq": 0} if name == "replication_events" else loss())
    job_has_read(tmp_path, 3)
    place = table(tmp_path, name)
    place.alter.add_columns([Field("note", "string")])
    place.update({"note": "'by hand'"})
    write_deltalake(place, place.to_pyarrow_table(), mode="append")
    lines(str(tmp_path))
    assert len(table(tmp_path, name).file_uris()) == 1
    assert sorted(table(tmp_path, name).to_pyarrow_table()["note"].to_pylist()) == ["by hand"] * 2


def test_files_are_removed_when_no_reader_can_want_them(lake):
    job_has_read(lake, 5)
    assert lines(str(lake), vacuum_hours=0)["bronze/replication_events"] == "3 files into 1, 3 dead files removed"


@pytest.mark.parametrize(
    ("read", "words"),
    [
        (-1, "not aged, the job has yet to read it, 3 files into 1, 0 dead files removed"),
        (None, "not aged, the job has yet to read it, 3 files into 1, no dead files removed, no job has read it yet"),
    ],
)
def test_what_the_job_has_yet_to_read_is_never_removed(lake, read, words):
    """-1: it is in the middle of a snapshot at version 0."""
    if read is not None:
        job_has_read(lake, read)
    unread = {
        uri for version in range(6) for uri in DeltaTable(f"{lake}/bronze/replication_events", version).file_uris()
    }
    assert lines(str(lake), vacuum_hours=0, bronze_days=3)["bronze/replication_events"] == words
    assert all((lake / "bronze/replication_events" / uri.rsplit("/", 1)[1]).exists() for uri in unread)


def test_bronze_ages_by_what_the_job_has_read_of_it(lake):
    """It is live: there is always a commit that the job has not read yet."""
    job_has_read(lake, 0)
    said = lines(str(lake), bronze_days=3, vacuum_hours=0)
    assert said["bronze/replication_events"] == (
        "1 rows before 2026-08-29 12:00 removed, 3 files into 1, 0 dead files removed"
    )
    assert ages(lake, "replication_events") == [[20, 10, 0], [2 * 86400], [4 * 86400]]


def test_vacuum_beside_a_job_that_is_behind_reads_each_commit_once(lake, monkeypatch):
    job_has_read(lake, 1)
    read = []
    monkeypatch.setattr(dead_files, "actions", lambda folder, version: read.append(version) or actions(folder, version))
    monkeypatch.setattr(dead_files, "remove_orphans", lambda *args: 0)
    dead_files.remove_tombstones(Lake(str(lake)), "replication_events", 0, 1)
    assert read == [2, 3, 4, 5]


def test_retention_takes_whole_files_out_and_adds_none(lake):
    job_has_read(lake, 5)
    lines(str(lake), bronze_days=3)
    (removals,) = [
        c for c in commits(lake, "replication_events") if any(a.get("hwmark") == "retention" for a in infos(c))
    ]
    assert sorted(kind for action in removals for kind in action) == ["commitInfo", "remove", "remove"]
    assert all(action["remove"]["dataChange"] for action in removals if "remove" in action)


def test_nothing_is_deleted_or_merged_by_deltalake():
    """Both write rows anew, which a stream of readers does not pass, and leave text as views."""
    sources = (path.read_text() for path in Path(pipelines.__file__).parent.rglob("*.py"))
    assert not any(re.search(r"(?<!obstore)\.(delete|merge)\(", source) for source in sources)


def test_rows_across_the_limit_live_up_to_a_day_longer(tmp_path):
    """The limit is at noon."""
    for hour in (30, 13, 11, 1):
        write(tmp_path, "partition_hw", {"ts": at(-86400 * 7 - 3600 * (hour - 12) - 1)})
    lines(str(tmp_path), silver_days=7)
    assert [len(times) for times in ages(tmp_path, "partition_hw")] == [3]


def test_a_file_of_several_days_becomes_one_for_each_once(tmp_path):
    write(tmp_path, "partition_hw", *({"ts": at(-86400 * day)} for day in (0, 1, 2, 2)))
    assert lines(str(tmp_path))["silver/partition_hw"].startswith("1 files into 3, ")
    assert ages(tmp_path, "partition_hw") == [[0], [86400], [2 * 86400, 2 * 86400]]
    assert lines(str(tmp_path))["silver/partition_hw"].startswith("0 files into 0, ")


def test_a_file_of_bronze_has_one_cluster_in_the_order_of_minutes(tmp_path):
    job_has_read(tmp_path, 1)
    for first in (0, 1):
        rows = [{"cluster": c, "ts": at(60 * k), "source_seq": k} for c in "ba" for k in range(first, 60, 2)]
        write(tmp_path, "replication_events", *rows[::-1])
    assert lines(str(tmp_path))["bronze/replication_events"].startswith("2 files into 2, ")
    for path in table(tmp_path, "replication_events").file_uris():
        rows = pq.read_table(path)
        assert len(rows["cluster"].unique()) == 1
        assert rows["source_seq"].to_pylist() == list(range(60))


def test_a_row_at_the_last_instant_of_a_day_does_not_have_its_file_written_anew_each_time(tmp_path):
    """Delta's statistics round it up to the next day."""
    rows = pa.table({"cluster": ["c"], "minute": [at(43199.9999)]})
    Lake(str(tmp_path)).append("minute_stats", pa.Table.from_pylist(
        [{**rows.to_pylist()[0], "broker_id": 1, "batch_id": 0, "counts": [], "append_to_hw": [], "lag": []}],
        minute_stats.ARROW))  # fmt: skip
    assert lines(str(tmp_path))["silver/minute_stats"].startswith("0 files into 0, ")


def test_files_in_which_deltalake_left_text_as_views_are_written_anew_once(tmp_path):
    write(tmp_path, "hw_regressions", loss(cluster="a"), loss(cluster="b"))
    write(tmp_path, "partition_hw", {"cluster": "a"}, {"cluster": "b"})
    for name in ("hw_regressions", "partition_hw"):
        table(tmp_path, name).delete("cluster = 'a'")
    for words in ("1 files into 1, ", "0 files into 0, "):
        said = lines(str(tmp_path))
        assert all(said[tables()[name].path].startswith(words) for name in ("hw_regressions", "partition_hw"))
    (path,) = table(tmp_path, "hw_regressions").file_uris()
    assert "view" not in str(pq.read_schema(path))
    assert table(tmp_path, "hw_regressions").to_pyarrow_table()["cluster"].to_pylist() == ["b"]


def test_a_commit_that_the_job_cleans_meanwhile_does_not_end_it(lake, monkeypatch):
    def cleaned(folder, version):
        raise FileNotFoundError(version)

    write(lake, "partition_hw", {"ts": at(0)})
    orphan = lake / "silver/partition_hw/part-orphan.parquet"
    orphan.write_bytes(b"PAR1")
    os.utime(orphan, (0, 0))
    monkeypatch.setattr(dead_files, "actions", cleaned)
    assert dead_files.remove_orphans(Lake(str(lake)), "partition_hw", frozenset(), 24, None) == 1


def test_losses_are_kept_when_silver_ages(lake):
    job_has_read(lake, 5)
    write(lake, "partition_hw", {"ts": at(-9 * 86400)}, {"ts": at(0)})
    write(lake, "hw_regressions", loss(ts=at(-9 * 86400)))
    said = lines(str(lake), silver_days=7)
    assert ", 1 rows before 2026-08-25 12:00 removed, " in said["silver/partition_hw"]
    assert table(lake, "partition_hw").to_pyarrow_table().num_rows == 1
    assert table(lake, "hw_regressions").to_pyarrow_table().num_rows == 1


def test_rows_that_go_before_anybody_looked_are_said(lake):
    job_has_read(lake, 5)
    write(lake, "cluster_minute", {"minute": at(0)})
    write(lake, "partition_hw", {"ts": at(-9 * 86400)}, {"ts": at(0)})
    assert lines(str(lake), silver_days=7)["silver/partition_hw"].endswith(UNSEEN)
    write(lake, "partition_hw", {"ts": at(-9 * 86400)})
    evaluate(str(lake), now=at(1))
    said = lines(str(lake), silver_days=7)["silver/partition_hw"]
    assert "rows before" in said
    assert "had looked" not in said


def test_a_recording_that_was_looked_at_to_its_end_is_none_that_nobody_looked_at(lake):
    job_has_read(lake, 5)
    write(lake, "cluster_minute", {"minute": at(-30 * 86400), "cluster": "old"}, {"minute": at(0)})
    evaluate(str(lake), now=at(1))
    write(lake, "cluster_minute", {"minute": at(-20 * 86400), "cluster": "new"})
    write(lake, "partition_hw", {"ts": at(-9 * 86400)}, {"ts": at(0)})
    said = lines(str(lake), silver_days=7)["silver/partition_hw"]
    assert said.endswith(UNSEEN.replace("prod", "new"))


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
    assert ", 2 rows before " in lines(str(tmp_path))["gold/broker_lag"]
    assert table(tmp_path, "replica_lag").to_pyarrow_table().num_rows == 1
    assert "rows before" not in lines(str(tmp_path), lag_days=0)["gold/broker_lag"]


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
