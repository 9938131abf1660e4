"""A task reads bronze itself: each of its buckets has its own rows, everything broker-wide and the coverage of all."""

import json
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from pipelines.lake import bucket_layout
from pipelines.lake.bronze import append_events, bronze
from pipelines.lake.bucket_layout import layout_of
from pipelines.lake.lake import Lake
from pipelines.replication import Reconstructor, Rules
from pipelines.replication.events.sharding import assign
from pipelines.replication.telemetry import coverage as source_coverage
from pipelines.streaming.source.blobs import FILES, pack_table, unpack
from pipelines.streaming.source.bronze_commits import Part
from pipelines.streaming.source.bronze_file import footer_of
from pipelines.streaming.source.bronze_log import BEGINNING, BronzeLog, VersionVanishedError
from pipelines.streaming.source.bronze_source import BronzeReader, Named, Share, SourceSettings
from pipelines.streaming.source.file_references import BucketRows, refer
from pipelines.streaming.stateful.bucket_keys import bucket_keys
from pipelines.streaming.stateful.bucket_processor import BucketProcessor
from schemas import replication_events
from tests.streaming.events import history
from tests.streaming.shell import same_rows

EVENTS = history()
ORDER = [("source_id", "ascending"), ("source_seq", "ascending")]


@pytest.fixture(params=[("order", "order"), ("buckets", "buckets"), ("order", "buckets")], ids="+".join)
def lake(request, tmp_path, monkeypatch):
    """Two commits, each laid out in its way; what the second reports goes on from the first."""
    half = len(EVENTS) // 2
    monkeypatch.setattr(bucket_layout, "ROWS", 8)
    for version, rows in enumerate((EVENTS.slice(0, half), EVENTS.slice(half))):
        append_events(str(tmp_path), rows, app_id="test", version=version, layout=request.param[version])
    return str(tmp_path)


def paths(lake):
    log = BronzeLog(bronze(lake).table_uri)
    return [file.part for file in log.between(BEGINNING, log.advance(BEGINNING, log.latest(), 1 << 62, 1 << 62))]


def found(lake, files, buckets, tasks):
    """What each bucket gets, tasks one after the other."""
    blob = json.dumps(files).encode()
    for task in range(tasks):
        rows = BucketRows(bronze(lake).table_uri, {}, buckets, tasks)
        for bucket in range(task, buckets, tasks):
            yield bucket, *rows.of(bucket, blob)


@pytest.mark.parametrize(("buckets", "tasks"), [(1, 1), (2, 2), (4, 2), (32, 4)])
def test_each_bucket_reads_its_rows_all_broker_wide_rows_and_the_coverage(lake, buckets, tasks):
    bucket_of = assign(EVENTS, buckets)
    seen = set()
    for bucket, rows, covered in found(lake, paths(lake), buckets, tasks):
        expected = EVENTS.filter(pa.array(np.isin(bucket_of, (-1, bucket))))
        assert rows.schema.names == replication_events.ARROW.names
        assert rows.cast(replication_events.ARROW).sort_by(ORDER).to_pylist() == expected.sort_by(ORDER).to_pylist()
        both = sorted(covered.to_pylist(), key=lambda run: run["seq_from"])
        (whole,) = source_coverage.coverage(EVENTS).to_pylist()
        assert (both[0]["seq_from"], both[-1]["seq_to"]) == (whole["seq_from"], whole["seq_to"])
        seen.add(bucket)
    assert seen == set(range(buckets))


@pytest.mark.parametrize("buckets", [1, 2, 4])
def test_what_is_read_gives_the_facts_of_what_is_packed(lake, buckets):
    keys = list(range(buckets))
    packed = pa.Table.from_batches(pack_table(EVENTS, keys)).to_pylist()
    for bucket, rows, covered in found(lake, paths(lake), buckets, min(buckets, 2)):
        mine = [(row["kind"], row["blob"]) for row in packed if row["key"] == bucket]
        read, unpacked = (
            Reconstructor(Rules(), bucket, buckets).update(*given).tables()
            for given in ((rows, covered), unpack(*zip(*mine, strict=True)))
        )
        assert {k: same_rows(t) for k, t in read.items()} == {k: same_rows(t) for k, t in unpacked.items()}
        assert len(read["partition_hw"])


def test_a_bucket_that_asks_again_is_read_again(lake):
    """A task that is tried again in the same process finds all of its rows."""
    rows, blob = BucketRows(bronze(lake).table_uri, {}, 4, 2), json.dumps(paths(lake)).encode()
    first, _ = rows.of(2, blob)
    again, _ = rows.of(2, blob)
    other, _ = rows.of(0, blob)
    assert same_rows(again) == same_rows(first) != same_rows(other)


def test_no_files_are_no_rows_in_the_schema_of_all(lake):
    ((_, rows, covered),) = found(lake, [], 1, 1)
    assert (len(rows), len(covered)) == (0, 0)
    assert Reconstructor(Rules()).update(rows, covered).partition_hw.num_rows == 0


def test_a_file_that_is_gone_is_named_with_the_way_on(lake):
    with pytest.raises(VersionVanishedError, match=r"gone\.parquet .* is gone.*run --rebuild"):
        list(found(lake, [Part("gone.parquet")], 1, 1))


@pytest.mark.parametrize("tasks", [1, 4])
def test_few_tasks_are_told_the_names_of_files(lake, tasks):
    keys = bucket_keys(4, tasks)
    reader = BronzeReader(SourceSettings(bronze(lake).table_uri, keys, tasks, 1 << 40, 1 << 40))
    (named,) = reader.partitions(BEGINNING.json(), reader.latestOffset(BEGINNING.json(), reader.getDefaultReadLimit()))
    assert isinstance(named, Named)
    (batch,) = reader.read(named)
    assert batch.column("key").to_pylist() == keys
    assert set(batch.column("kind").to_pylist()) == {FILES}
    assert {json.dumps(json.loads(blob)) for blob in batch.column("blob").to_pylist()} == {json.dumps(paths(lake))}
    assert batch.equals(refer(paths(lake), keys))


def test_many_tasks_share_the_reading_and_pass_rows_on(lake):
    made, reader = planned(lake, 5)
    nothing, *made = made
    assert nothing == Named([])
    assert made
    assert all(isinstance(share, Share) for share in made)
    packed = pa.Table.from_batches([batch for share in made for batch in reader.read(share)])
    assert {"events", "coverage"} == set(packed["kind"].to_pylist())


def planned(lake, tasks):
    """What a batch of everything is for so many tasks of a bucket each, and who reads it."""
    reader = BronzeReader(SourceSettings(bronze(lake).table_uri, bucket_keys(tasks, tasks), tasks, 1 << 40, 1 << 40))
    end = reader.latestOffset(BEGINNING.json(), reader.getDefaultReadLimit())
    return reader.partitions(BEGINNING.json(), end), reader


def test_many_tasks_read_for_themselves_what_lies_by_bucket_and_pass_on_the_rest(lake, request):
    made, reader = planned(lake, 8)
    by_bucket = [layout_of(footer_of(reader.log, part)) is not None for part in paths(lake)]
    named = [part for one in made if isinstance(one, Named) for part in one.files]
    assert [part in named for part in paths(lake)] == by_bucket
    received = [batch for one in made for batch in reader.read(one)]
    packed = pa.Table.from_batches(received).to_pylist()
    expected, seen = assign(EVENTS, 8), 0
    for bucket, key in enumerate(reader.settings.keys):
        mine = [row for row in packed if row["key"] == key]
        processor = BucketProcessor(Rules(), reader.settings.keys, 0.0, Lake(lake), 8)
        rows, covered = processor._received(bucket, [row["kind"] for row in mine], [row["blob"] for row in mine])
        wanted = EVENTS.filter(pa.array(np.isin(expected, (-1, bucket))))
        assert same_rows(rows.select(EVENTS.column_names)) == same_rows(wanted)
        assert covered["seq_to"].to_pylist()
        seen += len(rows)
    assert seen >= len(EVENTS)


def test_rows_that_are_passed_on_stay_in_one_piece_in_a_first_batch_that_names_no_files(lake):
    made, reader = planned(lake, 5)
    assert made[0] == Named([])
    keys, packed = reader.settings.keys, pa.Table.from_batches([batch for part in made for batch in reader.read(part)])
    for bucket, key in enumerate(keys):
        mine = [row for row in packed.to_pylist() if row["key"] == key]
        processor = BucketProcessor(Rules(), keys, 0.0, Lake(lake), 5)
        rows, _ = processor._received(bucket, [row["kind"] for row in mine], [row["blob"] for row in mine])
        assert len(rows)
        assert {rows[name].num_chunks for name in rows.column_names} == {1}


@pytest.mark.parametrize("tasks", [1, 8])
def test_every_bucket_gets_the_first_batch_though_there_is_nothing_to_read(lake, tasks):
    start = {"snapshot": 1, "version": 2, "index": 0, "events": 5}
    keys = bucket_keys(8, tasks)
    reader = BronzeReader(SourceSettings(bronze(lake).table_uri, keys, tasks, 1 << 40, 1 << 40, start=start))
    (named,) = reader.partitions(start, start)
    (batch,) = reader.read(named)
    assert batch.column("key").to_pylist() == keys
    processor = BucketProcessor(Rules(), keys, 0.0, Lake(lake), tasks)
    rows, covered = processor._received(0, batch.column("kind").to_pylist()[:1], [batch.column("blob")[0].as_py()])
    assert (len(rows), len(covered)) == (0, 0)
    later = start | {"version": 3}
    assert list(reader.partitions(later, later)) == []


def test_a_query_that_goes_on_begins_at_its_offset_and_may_plan_nothing_new(lake):
    settings = SourceSettings(bronze(lake).table_uri, [0], 1, 1 << 40, 1 << 40)
    whole, start = BronzeReader(settings), {"snapshot": 1, "version": 2, "index": 0, "events": len(EVENTS) // 2}
    assert whole.initialOffset() == BEGINNING.json()
    end = whole.latestOffset(start, whole.getDefaultReadLimit())
    assert end["events"] == len(EVENTS)
    going_on = BronzeReader(replace(settings, start=start, only_planned=True))
    assert going_on.initialOffset() == start
    assert going_on.latestOffset(start, whole.getDefaultReadLimit()) == start
