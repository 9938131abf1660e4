"""A task reads bronze itself: each of its buckets has its own rows, everything broker-wide and the coverage of all."""

import json

import numpy as np
import pyarrow as pa
import pytest

from pipelines.lake.bronze import append_events, bronze
from pipelines.replication import Reconstructor, Rules
from pipelines.replication.events.sharding import assign
from pipelines.replication.telemetry import coverage as source_coverage
from pipelines.streaming.source.blobs import FILES, pack_table, unpack
from pipelines.streaming.source.bronze_log import BEGINNING, BronzeLog, VersionVanishedError
from pipelines.streaming.source.bronze_source import BronzeReader, Named, Share, SourceSettings
from pipelines.streaming.source.file_references import BucketRows, refer
from pipelines.streaming.stateful.bucket_keys import bucket_keys
from schemas import replication_events
from tests.streaming.events import history
from tests.streaming.shell import same_rows

EVENTS = history()
ORDER = [("source_id", "ascending"), ("source_seq", "ascending")]


@pytest.fixture
def lake(tmp_path):
    """Two commits; what the second tells goes on from the first."""
    half = len(EVENTS) // 2
    for version, rows in enumerate((EVENTS.slice(0, half), EVENTS.slice(half))):
        append_events(str(tmp_path), rows, app_id="test", version=version)
    return str(tmp_path)


def paths(lake):
    log = BronzeLog(bronze(lake).table_uri)
    return [file.part for file in log.between(BEGINNING, log.advance(BEGINNING, log.latest(), 1 << 62, 1 << 62))]


def told(lake, files, buckets, tasks):
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
    for bucket, rows, covered in told(lake, paths(lake), buckets, tasks):
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
    packed = pack_table(EVENTS, keys).to_pylist()
    for bucket, rows, covered in told(lake, paths(lake), buckets, min(buckets, 2)):
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
    ((_, rows, covered),) = told(lake, [], 1, 1)
    assert (len(rows), len(covered)) == (0, 0)
    assert Reconstructor(Rules()).update(rows, covered).partition_hw.num_rows == 0


def test_a_file_that_is_gone_is_named_with_the_way_on(lake):
    with pytest.raises(VersionVanishedError, match=r"gone\.parquet .* is gone.*run --rebuild"):
        list(told(lake, [("gone.parquet", {})], 1, 1))


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
    keys = bucket_keys(5, 5)
    reader = BronzeReader(SourceSettings(bronze(lake).table_uri, keys, 5, 1 << 40, 1 << 40))
    made = reader.partitions(BEGINNING.json(), reader.latestOffset(BEGINNING.json(), reader.getDefaultReadLimit()))
    assert len(made) == 2
    assert all(isinstance(share, Share) for share in made)
    packed = pa.Table.from_batches([batch for share in made for batch in reader.read(share)])
    assert {"events", "coverage"} == set(packed["kind"].to_pylist())
