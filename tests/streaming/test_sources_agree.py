"""The two ways of reading bronze give identical tables: those of `replay`."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from generators.brokerlogs.ingest import read_logs
from generators.recordings import traces
from pipelines.errors import UsageError
from pipelines.lake.bronze import append_events, read_events
from pipelines.lake.compaction import compact
from pipelines.lake.lake import Lake
from pipelines.replication import Rules, replay
from pipelines.streaming.job import run
from pipelines.streaming.options import SOURCES, RunOptions
from pipelines.streaming.source.bronze_log import BronzeLog
from pipelines.streaming.tables import HEALTH, KINDS, MINUTES
from schemas import replication_events
from tests.streaming.planned import commit
from tests.streaming.shell import added_up, same_rows
from tests.streaming.test_time_order import clusters, slices


@pytest.mark.spark
def test_both_sources_give_the_tables_of_replay(spark, tmp_path):
    events = read_logs([traces.path("unclean_election")], "main")
    events = events.take(pc.sort_indices(events["ts"]))
    found = {}
    for source in SOURCES:
        lake = str(tmp_path / source)
        for version, rows in enumerate(np.array_split(np.arange(len(events)), 3)):
            append_events(lake, events.take(pa.array(rows)), app_id="test", version=version)
        summary = run(
            lake, Rules(), RunOptions(buckets=4, source=source, max_rows_per_trigger=len(events) // 2, drain=True)
        )
        assert summary.events == len(events) + 1
        place = Lake(lake, {})
        found[source] = {kind: place.open(kind).to_pyarrow_table() for kind in (*KINDS, HEALTH, *MINUTES)}
    expected = replay(read_events(lake))
    for kind, arrow in found["arrow"].items():
        same = added_up if kind == "minute_stats" else lambda rows: same_rows(rows, but=["quarantined_at"])
        assert same(arrow) == same(found["delta"][kind]), kind
        assert kind not in KINDS or same(arrow) == same(getattr(expected, kind)), kind
    assert len(found["arrow"]["partition_hw"]) > 1000


WAYS = {
    "a task of one bucket reads and writes files itself": {},
    "a task of several buckets reads once, and the sink writes": {"buckets": 6},
    "many tasks pass rows on": {"buckets": 10, "shuffle_partitions": 5},
}


@pytest.mark.spark
def test_every_way_through_spark_gives_the_tables_of_replay(spark, tmp_path):
    events = read_logs([traces.path("unclean_election")], "main")
    events = events.take(pc.sort_indices(events["ts"]))
    for number, (way, how) in enumerate(WAYS.items()):
        lake = str(tmp_path / str(number))
        for version, rows in enumerate(np.array_split(np.arange(len(events)), 2)):
            append_events(lake, events.take(pa.array(rows)), app_id="test", version=version)
        summary = run(lake, Rules(), RunOptions(max_rows_per_trigger=len(events) // 2, drain=True, **how))
        assert summary.batches > 1, way
        expected, place = replay(read_events(lake)), Lake(lake, {})
        for kind in KINDS:
            found = place.open(kind).to_pyarrow_table()
            same = added_up if kind == "minute_stats" else lambda rows: same_rows(rows, but=["quarantined_at"])
            assert same(found) == same(getattr(expected, kind)), (way, kind)
        assert len(place.open(HEALTH).to_pyarrow_table()) > 0, way


@pytest.mark.spark
@pytest.mark.parametrize("source", SOURCES)
def test_a_compacted_backlog_of_two_clusters_that_is_drained_at_once_gives_the_tables_of_replay(
    spark, tmp_path, source
):
    """In several batches, one cluster over an hour before the other, the rows of the first hour compacted last."""
    live, old = clusters()
    for part in [*slices(live, 4), old]:
        commit(tmp_path, [part])
    compact(Lake(str(tmp_path)), "replication_events", 200_000)
    limits = {"arrow": {"max_rows_per_trigger": 3_000}, "delta": {"max_bytes_per_trigger": "1k"}}[source]
    summary = run(str(tmp_path), Rules(), RunOptions(buckets=2, source=source, drain=True, **limits))
    assert summary.batches > 3
    expected = replay(read_events(str(tmp_path)))
    for kind in KINDS:
        found = Lake(str(tmp_path)).open(kind).to_pyarrow_table()
        same = added_up if kind == "minute_stats" else lambda rows: same_rows(rows, but=["quarantined_at"])
        assert same(found) == same(getattr(expected, kind)), kind


def test_the_delta_source_is_refused_where_bronze_has_lost_what_a_commit_added(tmp_path):
    live, _ = clusters()
    for part in slices(live, 20):
        commit(tmp_path, [part])
    log = BronzeLog(Lake(str(tmp_path)).uri(replication_events.TABLE))
    log.require_every_commit()
    compact(Lake(str(tmp_path)), "replication_events", 2_000_000)
    log.require_every_commit()
    for file in log.files(1, 1):
        (tmp_path / replication_events.TABLE.path / file.path).unlink()
    with pytest.raises(UsageError, match=r'is gone, and source = "delta" .*: set \[run\] source = "arrow"'):
        log.require_every_commit()
