"""Minutes are added up from partials that come in any order and any number."""

from datetime import timedelta

import numpy as np
import pyarrow as pa
import pytest

from pipelines.lake.lake import Lake, declared
from pipelines.lake.retention import remove_older
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


def minutes(kind, *partials, stored=()):
    new = pa.Table.from_pylist(list(partials), minute_stats.ARROW)
    rows = gold.changed(kind, pa.Table.from_pylist(list(stored), declared(kind).arrow()), new, new)
    return rows.sort_by([("cluster", "ascending"), ("minute", "ascending")]).to_pylist()


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
    assert gold.percentile(np.array([0, 50, 48, 0, 2]), (0, 1, 2, 3), share) == expected


def test_gauge_is_the_running_sum_of_its_changes():
    rows = minutes(
        "cluster_minute",
        partial(3, events=1),
        partial(1, under_replicated_change=-1),
        partial(0, broker=2, partitions_change=4, under_replicated_change=2),
        stored=[{"cluster": "main", "minute": START - timedelta(minutes=1), "partitions": 10}],
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
    main = [("main", 1, 0, 2), ("main", 2, 0, 1), ("main", 1, 1, 2), ("main", 1, 2, 2), ("main", 3, 2, 0)]
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

    out = LakeWriter(SinkSettings(begun(lake, "q", 100).root, "q", 1))
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


def remove_before(lake, minute):
    """What `maintain` takes of the tables by minute."""
    for kind in ("minute_stats", *gold.WHO):
        remove_older(lake, kind, START + timedelta(minutes=minute))


def gauges(lake, kind="cluster_minute"):
    rows = stored(lake, kind)
    return [((r["minute"] - START) // timedelta(minutes=1), r["partitions"], r["under_replicated"]) for r in rows]


@pytest.mark.sampled(4)
@pytest.mark.parametrize("seed", range(4))
def test_drawn_minutes_in_any_cuts_are_those_written_at_once(lake, tmp_path, seed):
    random = np.random.default_rng(seed)
    changes = ("partitions_change", "under_replicated_change", "out_of_sync_change")
    drawn = []
    for at in np.sort(random.integers(0, 2000, 40)):
        late = int(at - random.integers(0, 1500)) if random.random() < 0.2 else int(at)
        counts = {name: int(random.integers(-2, 3)) for name in changes if random.random() < 0.3}
        counts |= {f"{name}@{random.integers(60_000)}": n for name, n in counts.items() if name == changes[1]}
        drawn.append(partial(max(0, late), int(random.integers(3)), random.choice(["a", "b"]), events=1, **counts))
    whole = Lake(str(tmp_path / "whole"), {})
    create_tables(whole)
    add(whole, 0, *drawn)
    for batch_id, part in enumerate(np.array_split(np.arange(len(drawn)), 12)):
        add(lake, batch_id, *(drawn[k] for k in part))
    for kind in gold.WHO:
        order = [(name, "ascending") for name in (*gold.WHO[kind], "minute")]
        got, expected = (place.open(kind).to_pyarrow_table().sort_by(order) for place in (lake, whole))
        assert got.to_pylist() == expected.to_pylist()


def with_history(lake, minutes=6):
    """Minutes of a cluster with 100 partitions, five of which are under-replicated, a file each."""
    add(lake, 0, partial(0, partitions_change=100, under_replicated_change=5, events=10))
    for minute in range(1, minutes):
        add(lake, minute, partial(minute, events=1))


def test_a_late_row_of_a_removed_minute_leaves_the_kept_ones_as_they_are(lake):
    with_history(lake)
    remove_before(lake, 3)
    kept = [(3, 100, 5), (4, 100, 5), (5, 100, 5)]
    assert gauges(lake) == kept
    add(lake, 6, partial(1, late=1))
    assert gauges(lake) == kept
    assert gauges(lake, "broker_minute") == kept


def test_gauges_go_on_after_a_silence_longer_than_minutes_are_kept(lake):
    with_history(lake)
    add(lake, 6, partial(7, cluster="other", partitions_change=3, events=1))
    remove_before(lake, 10_000)
    add(lake, 7, partial(10_001, events=1), partial(10_002, under_replicated_change=-5, events=1))
    remove_before(lake, 10_001)
    assert gauges(lake) == gauges(lake, "broker_minute") == [(10_001, 100, 5), (10_002, 100, 0), (7, 3, 0)]


def test_minutes_of_which_another_programs_delete_left_views_go_on(lake):
    with_history(lake)
    for kind in ("minute_stats", *gold.WHO):
        lake.open(kind).optimize.compact()
        lake.open(kind).delete(f"minute = '{START.isoformat()}'")
    add(lake, 6, partial(5, under_replicated_change=1, events=1), partial(6, events=1))
    assert gauges(lake)[-2:] == [(5, 100, 6), (6, 100, 6)]


def test_a_gauge_that_changed_in_a_removed_minute_changes_all_kept_ones(lake):
    with_history(lake)
    remove_before(lake, 3)
    add(lake, 6, partial(2, under_replicated_change=-5, late=1), partial(6, events=1))
    assert gauges(lake) == [(3, 100, 0), (4, 100, 0), (5, 100, 0), (6, 100, 0)]


def test_a_minute_of_which_partials_are_gone_keeps_its_counts(lake):
    with_history(lake)
    remove_older(lake, "minute_stats", START + timedelta(days=1))
    add(lake, 6, partial(0, under_min_isr_change=1, events=2))
    assert [(row["events"], row["under_min_isr"]) for row in stored(lake)[:2]] == [(10, 1), (1, 1)]


def test_minutes_that_come_before_the_first_one_are_written(lake):
    add(lake, 0, partial(5, events=1), partial(6, partitions_change=2, events=1))
    add(lake, 1, partial(3, partitions_change=1, events=1))
    assert gauges(lake) == [(3, 1, 0), (5, 1, 0), (6, 3, 0)]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("minute", [20, 19, 21])
def test_a_batch_opens_no_more_files_the_longer_the_history_is(lake, monkeypatch, minute):
    with_history(lake, 21)
    opened, read = [], gold._rows
    monkeypatch.setattr(gold, "_rows", lambda *asked: opened.extend(asked[2]) or read(*asked))
    add(lake, 21, partial(minute, events=1))
    assert len(opened) <= 15, "one of the batch, and of each table those within five minutes"
