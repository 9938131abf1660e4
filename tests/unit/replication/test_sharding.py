"""A bucket is a fixed function of cluster, topic and partition."""

import numpy as np
import pyarrow as pa
import pytest

from pipelines.replication.events.sharding import assign, owner
from schemas import replication_events


def events(*places):
    rows = [{"cluster": c, "topic": t, "partition": p} for c, t, p in places]
    nullable = pa.schema([field.with_nullable(True) for field in replication_events.ARROW])
    return pa.Table.from_pylist(rows, nullable)


def test_assignment_is_the_same_in_every_run_and_on_every_machine():
    rows = events(("main", "clicks", 0), ("main", "clicks", 1), ("main", "orders.v2", 7), ("other", "clicks", 0))
    assert assign(rows, 32).tolist() == [17, 18, 8, 15]
    assert [owner(s, 32) for s in ("broker-1/replication.log", "controller.log")] == [23, 4]


def test_broker_wide_rows_belong_to_no_bucket():
    assert assign(events(("c", None, -1), ("c", "clicks", -1)), 8).tolist() == [-1, -1]
    assert assign(events(), 8).tolist() == []


def test_assignment_ignores_chunks_order_and_dictionary_encoding():
    places = [("c", f"t{i % 7}", i % 11) for i in range(200)]
    whole = events(*places)
    chunks = pa.concat_tables([events(*places[:50]), events(*places[50:])])
    encoded = whole.set_column(8, "topic", whole["topic"].dictionary_encode())
    expected = assign(whole, 5)
    assert assign(chunks, 5).tolist() == assign(encoded, 5).tolist() == expected.tolist()
    order = np.random.default_rng(3).permutation(200)
    assert assign(whole.take(order), 5).tolist() == expected[order].tolist()


@pytest.mark.parametrize("buckets", [1, 7, 32])
def test_partitions_of_a_topic_spread_evenly(buckets):
    counts = np.bincount(assign(events(*(("c", "clicks", p) for p in range(buckets * 3))), buckets))
    assert counts.tolist() == [3] * buckets


def test_names_are_not_confused_by_concatenation():
    assert assign(events(("a", "bc", 0)), 1 << 20) != assign(events(("ab", "c", 0)), 1 << 20)
