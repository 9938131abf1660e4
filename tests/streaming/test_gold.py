"""Minutes are added up from partials that come in any order and any number."""

from datetime import timedelta

import pyarrow as pa
import pytest

from pipelines.lake.lake import Lake
from pipelines.streaming.sinks import gold
from pipelines.streaming.tables import create_tables
from schemas import minute_stats
from schemas.minute_stats import BOUNDS_MS, BOUNDS_RECORDS
from tests.streaming.events import START


def partial(minute, broker=1, cluster="main", append_to_hw=None, lag=None, **counts):
    counts = [(name.replace("__", ":"), n) for name, n in counts.items()]
    row = {"cluster": cluster, "broker_id": broker, "minute": START + timedelta(minutes=minute), "batch_id": 0}
    return row | {"counts": counts, "append_to_hw": append_to_hw, "lag": lag}


def histogram(bounds, **at):
    filled = [0] * (len(bounds) + 1)
    for bucket, n in at.items():
        filled[int(bucket[1:])] = n
    return filled


def minutes(kind, *partials, before=None):
    return gold.minutes(pa.Table.from_pylist(list(partials), minute_stats.ARROW), kind, before or {}).to_pylist()


def test_partials_of_one_minute_add_up():
    (row,) = minutes(
        "cluster_minute",
        partial(0, events=3, late=1, shrink__lag=1, append_to_hw=histogram(BOUNDS_MS, b2=50)),
        partial(
            0,
            broker=2,
            events=4,
            shrink__lag=2,
            shrink__election=1,
            append_to_hw=histogram(BOUNDS_MS, b2=44, b9=5, b20=1),
        ),
        partial(0, regression__unclean_loss=1, expand__caught_up=1, lag=histogram(BOUNDS_RECORDS, b0=96, b3=4)),
    )
    assert (row["events"], row["late"], row["gaps"]) == (7, 1, 0)
    assert row["shrinks"] == [("election", 1), ("lag", 3)]
    assert row["expands"] == [("caught_up", 1)]
    assert row["regressions"] == [("unclean_loss", 1)]
    latencies = [row[f"append_to_hw_p{p}_ms"] for p in (50, 95, 99)]
    assert latencies == [BOUNDS_MS[2], BOUNDS_MS[9], BOUNDS_MS[9]]
    assert (row["p95_lag_records"], row["max_lag_records"]) == (0, BOUNDS_RECORDS[3])


def test_a_minute_without_values_has_no_percentiles():
    (row,) = minutes("cluster_minute", partial(0, events=1))
    assert row["append_to_hw_p50_ms"] is None
    assert row["max_lag_records"] is None


@pytest.mark.parametrize(("share", "expected"), [(0.5, 1), (0.51, 2), (0.98, 2), (0.99, None), (1.0, None)])
def test_percentile_is_the_upper_bound_of_its_bucket(share, expected):
    import numpy as np

    assert gold.percentile(np.array([0, 50, 48, 0, 2]), (0, 1, 2, 3), share) == expected


def test_gauge_is_the_running_sum_of_its_changes():
    rows = minutes(
        "cluster_minute",
        partial(3, events=1),
        partial(1, under_replicated_change=-1),
        partial(0, broker=2, partitions_change=4, under_replicated_change=2),
        before={("main",): {"partitions": 10, "under_replicated": 0, "under_min_isr": 0, "out_of_sync_replicas": 0}},
    )
    assert [(r["minute"], r["partitions"], r["under_replicated"]) for r in rows] == [
        (START, 14, 2),
        (START + timedelta(minutes=1), 14, 1),
        (START + timedelta(minutes=3), 14, 1),
    ]


def test_a_broker_that_still_leads_has_a_row_in_every_minute_of_its_cluster():
    rows = minutes(
        "broker_minute",
        partial(0, broker=1, partitions_change=2),
        partial(0, broker=2, partitions_change=1),
        partial(1, broker=2, partitions_change=-1),
        partial(2, broker=3, events=1),
        partial(2, broker=1, cluster="other", events=1),
    )
    held = [(r["cluster"], r["broker_id"], (r["minute"] - START).seconds // 60, r["partitions"]) for r in rows]
    main = [
        ("main", 1, 0, 2),
        ("main", 2, 0, 1),
        ("main", 1, 1, 2),
        ("main", 2, 1, 0),
        ("main", 1, 2, 2),
        ("main", 3, 2, 0),
    ]
    assert held == [*main, ("other", 1, 2, 0)]


@pytest.fixture
def lake(tmp_path):
    lake = Lake(str(tmp_path), {})
    create_tables(lake)
    return lake


def add(lake, batch_id, *partials):
    from pipelines.streaming.sinks.sink import LakeWriter, SinkSettings
    from pipelines.streaming.source.blobs import encode
    from tests.streaming.test_sink import begun

    out = LakeWriter(SinkSettings(begun(lake, "q", len(CUTS)).root, "q", 1))
    table = pa.Table.from_pylist(list(partials), minute_stats.ARROW)
    batch = pa.record_batch(
        [pa.array(["minute_stats"]), pa.array([encode(table)], pa.binary())], names=["kind", "blob"]
    )
    out.commit([out.write(iter([batch]))], batch_id)


def stored(lake, kind="cluster_minute"):
    return lake.open(kind).to_pyarrow_table().sort_by([("cluster", "ascending"), ("minute", "ascending")]).to_pylist()


CUTS = [
    [partial(0, partitions_change=3, events=1), partial(1, events=5)],
    [partial(1, events=5, under_min_isr_change=1), partial(2, events=7), partial(0, cluster="it's", events=9)],
    [partial(2, events=1), partial(4, broker=2, partitions_change=1)],
    [partial(1, under_min_isr_change=-1, late=1)],
]


def test_minutes_written_batch_by_batch_are_those_written_at_once(lake, tmp_path):
    for batch_id, cut in enumerate(CUTS):
        add(lake, batch_id, *cut)
    whole = Lake(str(tmp_path / "whole"), {})
    create_tables(whole)
    add(whole, 0, *(p for cut in CUTS for p in cut))
    for kind in gold.WHO:
        order = [("cluster", "ascending"), ("minute", "ascending")]
        got, expected = (place.open(kind).to_pyarrow_table().sort_by(order) for place in (lake, whole))
        assert got.to_pylist() == expected.to_pylist()
    assert [r["under_min_isr"] for r in stored(lake)] == [0, 0, 0, 0, 0]


def test_minutes_before_the_first_touched_one_are_left_alone(lake):
    add(lake, 0, *CUTS[0])
    before = set(lake.open("cluster_minute").file_uris())
    add(lake, 1, partial(5, events=1))
    assert before <= set(lake.open("cluster_minute").file_uris())
