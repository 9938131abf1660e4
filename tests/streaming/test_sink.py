"""A micro-batch is committed to every table once, however often it is played."""

from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipelines.streaming import sink
from pipelines.streaming.packing import encode
from pipelines.streaming.sink import LakeWriter, SinkSettings
from pipelines.streaming.tables import HEALTH, KINDS, MINUTES, Lake
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
    lake.create()
    return lake


def writer(lake, query_id="q", buckets=2, overwrite_first=False):
    return LakeWriter(SinkSettings(lake.root, query_id, buckets, overwrite_first))


def written(writer, **tables):
    batch = pa.record_batch(
        [pa.array(list(tables)), pa.array([encode(t) for t in tables.values()], pa.binary())], names=["kind", "blob"]
    )
    return writer.write(iter([batch]))


def contents(lake):
    return {kind: lake.open(kind).to_pyarrow_table().to_pylist() for kind in (*KINDS, HEALTH, *MINUTES)}


def versions(lake):
    return {kind: lake.open(kind).version() for kind in (*KINDS, HEALTH, *MINUTES)}


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
    touched = {"partition_hw", "isr_changes", "minute_stats", HEALTH, *MINUTES}
    assert versions(lake) == {kind: int(kind in touched) for kind in versions(lake)}


def test_a_batch_played_again_changes_no_table_and_leaves_no_file(lake):
    out = writer(lake)
    out.commit(batch_of_two_tasks(out), 0)
    before = contents(lake), versions(lake), files(lake)
    out.commit(batch_of_two_tasks(out), 0)
    assert (contents(lake), versions(lake), files(lake)) == before


def test_a_commit_that_was_cut_off_is_completed_when_played_again(lake):
    out = writer(lake)
    out._commit("partition_hw", batch_of_two_tasks(out)[0].files[:1], 0, False)
    out.commit(batch_of_two_tasks(out), 0)
    whole = Lake(lake.root + "/whole", {})
    whole.create()
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


def test_abort_removes_what_was_written(lake):
    out = writer(lake)
    out.abort(batch_of_two_tasks(out), 0)
    assert files(lake) == []


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
