"""A micro-batch is committed to every table once, however often it is played."""

import json
import shutil
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipelines.lake.bronze import bronze
from pipelines.lake.lake import Lake
from pipelines.streaming.checkpoint.manifest import resume
from pipelines.streaming.checkpoint.offsets import last, restore_plan
from pipelines.streaming.checkpoint.query import StateMismatch
from pipelines.streaming.sinks import sink
from pipelines.streaming.sinks.sink import LakeWriter, SinkSettings
from pipelines.streaming.source.blobs import encode
from pipelines.streaming.tables import HEALTH, KINDS, MINUTES, TABLES, commit, create_tables
from schemas import isr_changes, minute_stats, partition_health, partition_hw
from tests.streaming.events import START


def rows(module, *values):
    return pa.Table.from_pylist([{f.name: None for f in module.ARROW} | v for v in values], module.ARROW)


PLACE = {"cluster": "main", "topic": "clicks", "partition": 0, "ts": START}
HW = rows(
    partition_hw,
    PLACE | {"kind": "advance", "hw": 1},
    PLACE | {"kind": "advance", "hw": 2, "ts": START + timedelta(microseconds=1500)},
)
ISR = rows(isr_changes, PLACE | {"change": "shrink", "cause": "lag", "isr_after": [1], "revision": 1})
MINUTE = rows(
    minute_stats,
    {"cluster": "main", "broker_id": 1, "minute": START, "batch_id": 0, "counts": [("events", 3)]},
)
HEALTHY = rows(partition_health, {"cluster": "main", "topic": "clicks", "partition": 0, "hw": 2})


@pytest.fixture
def lake(tmp_path):
    lake = Lake(str(tmp_path), {})
    create_tables(lake)
    return lake


def begun(lake, query_id, batches=3):
    """The lake with bronze, and with a checkpoint of the query that has planned so many batches."""
    bronze(lake.root, lake.storage_options)
    known = last(lake.files(), query_id, "offsets")
    for number in range(known + 1, batches if known < 0 else 0):
        plan(lake, query_id, number, {"version": number + 1})
    return lake


def plan(lake, query_id, number, end):
    restore_plan(lake, query_id, number, f'v1\n{{"batchTimestampMs": 0}}\n{json.dumps(end)}')


def writer(lake, query_id="q", buckets=2, overwrite_first=False):
    begun(lake, query_id)
    return LakeWriter(SinkSettings(lake.root, query_id, buckets, overwrite_first))


def written(writer, **tables):
    batch = pa.record_batch(
        [pa.array(list(tables)), pa.array([encode(t) for t in tables.values()], pa.binary())], names=["kind", "blob"]
    )
    return writer.write(iter([batch]))


def contents(lake):
    return {kind: lake.open(kind).to_pyarrow_table().to_pylist() for kind in TABLES}


def versions(lake):
    return {kind: lake.open(kind).version() for kind in TABLES}


def files(lake):
    return sorted(str(p) for p in Path(lake.root).rglob("*.parquet") if "_delta_log" not in p.parts)


def test_buckets_of_few_rows_become_one_row_group(lake):
    batch = pa.record_batch(
        [pa.array(["partition_hw"] * 50), pa.array([encode(HW)] * 50, pa.binary())], names=["kind", "blob"]
    )
    task = writer(lake).write(iter([batch]))
    writer(lake).commit([task], 0)
    (file,) = lake.open("partition_hw").file_uris()
    assert pq.ParquetFile(file).metadata.num_row_groups == 1
    assert lake.open("partition_hw").to_pyarrow_table().num_rows == 50 * len(HW)


def test_a_task_of_many_rows_writes_several_row_groups(lake, monkeypatch):
    monkeypatch.setattr(sink, "ROW_GROUP", 4)
    batch = pa.record_batch(
        [pa.array(["partition_hw"] * 5), pa.array([encode(HW)] * 5, pa.binary())], names=["kind", "blob"]
    )
    (file,) = writer(lake).write(iter([batch])).files
    metadata = pq.ParquetFile(lake.files("partition_hw").open_input_file(file.path)).metadata
    assert [metadata.row_group(k).num_rows for k in range(metadata.num_row_groups)] == [4, 4, 2]
    assert file.rows == 5 * len(HW)


def batch_of_two_tasks(out):
    first = written(out, partition_hw=HW, minute_stats=MINUTE, partition_health=HEALTHY)
    return [first, written(out, isr_changes=ISR, partition_health=HEALTHY.slice(0, 0)), None]


def test_a_batch_is_one_commit_of_each_table_that_has_rows(lake):
    out = writer(lake)
    out.commit(batch_of_two_tasks(out), 0)
    held = contents(lake)
    assert held["partition_hw"] == HW.to_pylist()
    assert held["isr_changes"] == ISR.to_pylist()
    assert held[HEALTH] == HEALTHY.to_pylist()
    assert [(r["minute"], r["events"]) for r in held["cluster_minute"]] == [(START, 3)]
    touched = {"partition_hw", "isr_changes", "minute_stats", HEALTH, "partition_changes", *MINUTES}
    assert versions(lake) == {kind: int(kind in touched) for kind in versions(lake)}


def test_silver_names_its_query_from_the_first_batch_on_though_it_has_no_facts(lake):
    out = writer(lake)
    for batch, marked in ((0, 0), (1, 0)):
        out.commit([written(out)], batch)
        assert lake.open("partition_hw").transaction_version("q") == marked
    assert versions(lake) == {kind: int(kind == "partition_hw") for kind in versions(lake)}


def test_a_batch_played_again_changes_no_table(lake):
    out = writer(lake)
    out.commit(batch_of_two_tasks(out), 0)
    before = contents(lake), versions(lake)
    out.commit(batch_of_two_tasks(out), 0)
    assert (contents(lake), versions(lake)) == before


def test_a_commit_that_fails_part_way_is_completed_when_played_again_and_nothing_is_deleted(lake, monkeypatch):
    """Of the tables of a batch the first has it when the next one's log cannot be written; then Spark aborts."""
    out, found = writer(lake), batch_of_two_tasks(writer(lake))

    def full(lake, kind, *args, **more):
        if kind == "isr_changes":
            raise OSError("No space left on device")
        return commit(lake, kind, *args, **more)

    monkeypatch.setattr(sink, "commit", full)
    with pytest.raises(OSError, match="No space left"):
        out.commit(found, 0)
    out.abort(found, 0)
    assert contents(lake)["partition_hw"] == HW.to_pylist()
    monkeypatch.setattr(sink, "commit", commit)
    again = batch_of_two_tasks(out)
    out.commit(again, 0)
    named, held = {f.path for task in found if task for f in task.files}, [lake.open(k).file_uris() for k in KINDS]
    assert {Path(path).name for paths in held for path in paths} <= named, "from the record of the batch"
    whole = Lake(lake.root + "/whole", {})
    create_tables(whole)
    uncut = writer(whole)
    uncut.commit(batch_of_two_tasks(uncut), 0)
    assert contents(lake) == contents(whole)


def test_the_next_batch_is_added_and_health_replaced(lake):
    out = writer(lake)
    out.commit(batch_of_two_tasks(out), 0)
    out.commit(batch_of_two_tasks(out), 1)
    held = contents(lake)
    assert len(held["partition_hw"]) == 4
    assert len(held[HEALTH]) == 1
    assert [r["events"] for r in held["cluster_minute"]] == [6]


def test_health_of_some_buckets_only_is_not_written(lake):
    out = writer(lake, buckets=3)
    out.commit(batch_of_two_tasks(out), 0)
    assert contents(lake)[HEALTH] == []


def test_first_batch_of_a_rebuild_replaces_every_table_and_empties_those_without_rows(lake):
    out = writer(lake)
    out.commit(batch_of_two_tasks(out), 0)
    again = writer(lake, query_id="r", overwrite_first=True)
    again.commit([written(again, partition_hw=HW.slice(0, 1))], 0)
    held = contents(lake)
    assert held["partition_hw"] == HW.slice(0, 1).to_pylist()
    assert {k for k, values in held.items() if values} == {"partition_hw", HEALTH}
    before = versions(lake)
    again.commit([written(again, partition_hw=HW.slice(0, 1))], 0)
    assert versions(lake) == before
    again.commit([written(again, partition_hw=HW.slice(1, 1))], 1)
    assert contents(lake)["partition_hw"] == HW.slice(1, 1).to_pylist() + HW.slice(0, 1).to_pylist()


def refused(lake, words, number=1):
    out, before = writer(lake), versions(lake)
    with pytest.raises(StateMismatch, match=words):
        out.commit(batch_of_two_tasks(out), number)
    assert versions(lake) == before


def test_a_number_alone_does_not_make_a_batch_the_one_that_was_committed(lake):
    out = writer(lake)
    out.commit(batch_of_two_tasks(out), 0)
    plan(lake, "q", 0, {"version": 7})
    refused(lake, "batch 0 was recorded with other events", 0)


def test_a_batch_goes_on_where_the_one_before_it_ended(lake):
    out = writer(lake)
    out.commit(batch_of_two_tasks(out), 0)
    plan(lake, "q", 0, {"version": 0})
    refused(lake, "batch 1 does not go on where the one before ended")


def test_a_batch_of_another_bronze_is_refused(lake):
    out = writer(lake)
    out.commit(batch_of_two_tasks(out), 0)
    shutil.rmtree(lake.uri("replication_events"))
    bronze(lake.root)
    refused(lake, "bronze is another table")


def test_a_batch_older_than_what_was_committed_is_refused(lake):
    out = writer(lake)
    for number in range(3):
        out.commit(batch_of_two_tasks(out), number)
    for number in range(2):
        (Path(lake.root) / f"_run/q/batches/{number}.json").unlink()
    refused(lake, "batch 1 is older than what was committed")


def test_a_damaged_manifest_is_named(lake):
    out = writer(lake)
    out.commit(batch_of_two_tasks(out), 0)
    (Path(lake.root) / "_run/q/batches/0.json").write_text("{")
    refused(lake, "_run/q/batches/0.json is damaged", 0)


def committed(lake):
    """Two batches, as Spark's checkpoint knows them to be done."""
    out = writer(lake)
    for number in range(2):
        out.commit(batch_of_two_tasks(out), number)
        done = Path(lake.root) / f"_run/q/commits/{number}"
        done.parent.mkdir(exist_ok=True)
        done.write_text("v1\n{}")
    return Path(lake.root)


def test_what_a_batch_reads_is_restored_where_the_checkpoint_lost_it(lake):
    folder = committed(lake)
    (folder / "_run/q/offsets/2").unlink()
    before = (folder / "_run/q/offsets/1").read_text()
    (folder / "_run/q/offsets/1").unlink()
    assert resume(lake, "q") == ["restored what batch 1 reads: its file in the checkpoint was lost"]
    assert (folder / "_run/q/offsets/1").read_text() == before
    assert resume(lake, "q") == []


def test_a_lake_without_manifests_begins_some(lake):
    shutil.rmtree(committed(lake) / "_run/q/batches")
    assert resume(lake, "q") == []
    out = writer(lake)
    out.commit(batch_of_two_tasks(out), 2)
    assert resume(lake, "q") == []


def test_a_table_that_is_gone_is_refused(lake):
    shutil.rmtree(committed(lake) / lake.path("isr_changes"))
    with pytest.raises(StateMismatch, match="isr_changes is gone, and batch 1 was committed to it"):
        resume(lake, "q")


def test_a_table_that_lost_its_last_commit_is_refused(lake):
    table = committed(lake) / lake.path("partition_hw")
    max((table / "_delta_log").glob("*.json")).unlink()
    with pytest.raises(StateMismatch, match="partition_hw has batch 0 as its last one"):
        resume(lake, "q")


def test_a_table_whose_newest_file_is_gone_is_refused(lake):
    committed(lake)
    newest = lake.open("partition_hw").get_add_actions(flatten=True)["path"].to_pylist()
    for path in newest:
        (Path(lake.root) / lake.path("partition_hw") / path).unlink()
    with pytest.raises(StateMismatch, match=r"partition_hw names the file .*, which is not there"):
        resume(lake, "q")


def test_an_older_copy_of_run_is_refused(lake):
    """Batches that the tables have by those numbers, of other rows, would not be written again."""
    folder = committed(lake)
    for part in ("commits", "offsets", "batches"):
        for later in (folder / "_run/q" / part).glob("[1-9]*"):
            later.unlink()
    with pytest.raises(StateMismatch, match="has batch 1 of this query, and the newest in _run is batch 0: an older"):
        resume(lake, "q")


def test_a_task_that_fails_leaves_no_file(lake):
    broken = pa.record_batch(
        [pa.array(["partition_hw", "partition_hw"]), pa.array([encode(HW), b"torn"])], names=["kind", "blob"]
    )
    with pytest.raises(pa.ArrowInvalid):
        writer(lake).write(iter([broken]))
    assert files(lake) == []


def test_statistics_let_readers_skip_files(lake):
    out = writer(lake)
    out.commit(batch_of_two_tasks(out), 0)
    (file,) = pa.table(lake.open("partition_hw").get_add_actions(flatten=True)).to_pylist()
    assert file["num_records"] == 2
    assert (file["min.topic"], file["max.topic"], file["null_count.topic_id"]) == ("clicks", "clicks", 2)
    assert (file["min.ts"], file["max.ts"]) == (START, START + timedelta(milliseconds=2))


def test_drafts_of_a_killed_jvm_are_removed_as_the_job_starts(lake):
    """With one of them in it Spark refuses the checkpoint of a first batch, at every start."""
    offsets = Path(lake.root, "_run", "q", "offsets")
    offsets.mkdir(parents=True)
    for name in ("0", ".0.crc", ".0.7ad3.tmp", "..0.7ad3.tmp.crc"):
        (offsets / name).touch()
    assert resume(lake, "q") == []
    assert {path.name for path in offsets.iterdir()} == {"0", ".0.crc"}


def test_a_batch_that_changes_no_row_of_gold_writes_none(lake):
    out = writer(lake)
    out.commit(batch_of_two_tasks(out), 0)
    before = versions(lake)
    same = [written(out, partition_health=HEALTHY), written(out, partition_health=HEALTHY.slice(0, 0))]
    out.commit(same, 1)
    out.commit(same, 1)
    assert versions(lake) == before
    assert not resume(lake, "q")
    other = HEALTHY.set_column(
        HEALTHY.column_names.index("hw"), partition_health.ARROW.field("hw"), pa.array([[3]]).flatten()
    )
    out.commit([written(out, partition_health=other), written(out, partition_health=other.slice(0, 0))], 2)
    assert versions(lake) == before | {HEALTH: before[HEALTH] + 1}


def test_minutes_that_come_out_as_they_were_are_not_written(lake):
    out = writer(lake)
    out.commit(batch_of_two_tasks(out), 0)
    before = versions(lake)
    nothing = MINUTE.set_column(
        MINUTE.column_names.index("counts"),
        minute_stats.ARROW.field("counts"),
        pa.array([[]], minute_stats.ARROW.field("counts").type),
    )
    out.commit([written(out, minute_stats=nothing)], 1)
    assert versions(lake) == before | {"minute_stats": before["minute_stats"] + 1}
