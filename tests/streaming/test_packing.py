"""What goes into blobs comes out of them, and each bucket gets its own rows and everything broker-wide."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from pipelines.replication.events.sharding import assign
from pipelines.replication.telemetry import coverage as source_coverage
from pipelines.streaming.source import blobs
from pipelines.streaming.stateful.bucket_keys import _murmur3, bucket_keys
from schemas import replication_events
from tests.streaming.events import history

ORDER = [("source_id", "ascending"), ("source_seq", "ascending")]


def unpacked(batch):
    by_key = {}
    for key, kind, blob in zip(*(c.to_pylist() for c in batch.columns), strict=True):
        by_key.setdefault(key, ([], []))
        by_key[key][0].append(kind)
        by_key[key][1].append(blob)
    found = {key: blobs.unpack(*rows) for key, rows in by_key.items()}
    # Arrow does not sort dictionaries.
    return {key: (events.cast(replication_events.ARROW), covered) for key, (events, covered) in found.items()}


@pytest.mark.parametrize("buckets", [1, 4, 32])
def test_each_bucket_gets_its_rows_all_broker_wide_rows_and_the_coverage(buckets):
    events = history()
    keys = bucket_keys(buckets, 2)
    (packed,) = blobs.pack_table(events, keys)
    got = unpacked(packed)
    bucket_of = assign(events, buckets)
    assert set(got) == set(keys)
    for bucket, key in enumerate(keys):
        mine, covered = got[key]
        expected = events.filter(pa.array(np.isin(bucket_of, (-1, bucket))))
        assert mine.schema.names == replication_events.ARROW.names
        assert mine.sort_by(ORDER).to_pylist() == expected.sort_by(ORDER).to_pylist()
        assert covered.to_pylist() == source_coverage.coverage(events).to_pylist()


def test_rows_of_a_bucket_keep_their_order():
    (key,) = keys = [7]
    got, _ = unpacked(next(blobs.pack_table(history(), keys)))[key]
    on_partitions = got.filter(pc.greater_equal(got["partition"], 0))
    assert pc.all(pc.greater(pc.pairwise_diff(on_partitions["source_seq"].combine_chunks()), 0)).as_py()


def test_columns_that_are_null_throughout_come_back_as_nulls():
    ((events, _),) = unpacked(next(blobs.pack_table(history(), [1]))).values()
    assert events["unclean"].null_count == len(events)
    assert events["unclean"].type == pa.bool_()


def test_parts_with_other_names_and_other_columns_come_back_as_one():
    events = history()
    renamed = events.set_column(events.column_names.index("topic"), "topic", pa.array(["other"] * len(events)))
    tables = [events.slice(0, 20), renamed.slice(20).drop_columns(["isr"]), events.slice(0, 0)]
    rows = [row for table in tables for packed in blobs.pack_table(table, [0]) for row in packed.to_pylist()]
    got, _ = blobs.unpack([row["kind"] for row in rows], [row["blob"] for row in rows])
    assert all(column.num_chunks == 1 for column in got.columns)
    expected = pa.concat_tables(tables, promote_options="default")
    order = [*ORDER, ("topic", "ascending")]
    assert got.cast(expected.schema).sort_by(order).to_pylist() == expected.sort_by(order).to_pylist()


def test_rows_are_packed_in_chunks_and_no_batch_is_lost(monkeypatch):
    monkeypatch.setattr(blobs, "ROWS_PER_BLOB", 100)
    events = history()
    chunks = list(blobs.pack(events.to_batches(max_chunksize=60), [0, 1]))
    assert len(chunks) > 2
    tables = [unpacked(chunk)[0][0] for chunk in chunks] + [unpacked(chunk)[1][0] for chunk in chunks]
    rows = pa.concat_tables(tables).filter(pc.greater_equal(pa.concat_tables(tables)["partition"], 0))
    assert len(rows) == pc.sum(pc.greater_equal(events["partition"], 0)).as_py()
    assert list(blobs.pack([], [0, 1])) == []


def test_more_bytes_than_32_bit_addresses_reach_go_in_several_batches(monkeypatch):
    (whole,) = blobs.pack_table(history(), range(7))
    monkeypatch.setattr(blobs, "BYTES_PER_BATCH", whole.nbytes // 3)
    parts = list(blobs.pack_table(history(), range(7)))
    assert [part.num_rows for part in parts] == [6, 6, 2]
    assert pa.Table.from_batches(parts).to_pylist() == whole.to_pylist()


@pytest.mark.parametrize(("buckets", "partitions"), [(1, 1), (8, 2), (32, 2), (32, 5)])
def test_buckets_spread_evenly_over_shuffle_partitions(buckets, partitions):
    keys = bucket_keys(buckets, partitions)
    assert len(set(keys)) == buckets
    assert [_murmur3(key) % partitions for key in keys] == [bucket % partitions for bucket in range(buckets)]


def test_hash_of_a_key_is_that_of_spark():
    # SELECT hash(0), hash(1), hash(-1)
    assert [_murmur3(value) for value in (0, 1, -1)] == [933211791, -559580957, -1604776387]


def test_a_bucket_gets_one_blob_of_events_and_one_of_coverage_per_table():
    (packed,) = blobs.pack_table(history(), [3, 5])
    assert sorted(zip(packed["key"].to_pylist(), packed["kind"].to_pylist(), strict=True)) == [
        (3, blobs.COVERAGE), (3, blobs.EVENTS), (5, blobs.COVERAGE), (5, blobs.EVENTS),
    ]  # fmt: skip
