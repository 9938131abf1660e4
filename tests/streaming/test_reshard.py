"""Other buckets and tasks for a lake at work, killed on the way: its tables are those of `replay`."""

import os
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from generators.brokerlogs.ingest import read_logs
from generators.recordings import traces
from pipelines.lake import bucket_layout
from pipelines.lake.bronze import append_events, read_events
from pipelines.lake.lake import Lake
from pipelines.replication import Rules, replay
from pipelines.streaming import job, relayout
from pipelines.streaming.checkpoint import beginning
from pipelines.streaming.checkpoint.query import recorded
from pipelines.streaming.options import RunOptions
from pipelines.streaming.tables import HEALTH, KINDS
from tests.streaming.shell import added_up, same_rows


class Killed(Exception):
    """What comes after it does not happen, as after a kill."""


def killed(*_):
    raise Killed


def require_facts(place, expected):
    """The lake has these facts."""
    for kind in KINDS:
        found = place.open(kind).to_pyarrow_table()
        same = added_up if kind == "minute_stats" else lambda rows: same_rows(rows, but=["quarantined_at"])
        assert same(found) == same(getattr(expected, kind)), kind


@pytest.mark.spark
def test_resharded_and_killed_at_each_step_the_tables_are_those_of_replay(spark, tmp_path, monkeypatch):
    lake, place = str(tmp_path / "lake"), Lake(str(tmp_path / "lake"), {})
    events = read_logs([traces.path("unclean_election")], "main")
    events = events.take(pc.sort_indices(events["ts"]))
    parts = [events.take(pa.array(rows)) for rows in np.array_split(np.arange(len(events)), 4)]
    commits, summaries = iter(enumerate(parts)), []

    def go(append=True, **how):
        if append:
            version, part = next(commits)
            append_events(lake, part, app_id="test", version=version)
        summaries.append(job.run(lake, Rules(), RunOptions(**how)))
        return recorded(place)

    begun = go(buckets=2)
    for commit in (tmp_path / "lake/_run" / begun.query_id / "commits").glob("*0*"):
        commit.unlink()  # killed before it: the batch is in flight
    with monkeypatch.context() as before_the_rename:
        before_the_rename.setattr(beginning, "record", killed)
        with pytest.raises(Killed):
            go(reshard=4)
    assert recorded(place) == begun
    with monkeypatch.context() as after_the_rename:
        after_the_rename.setattr(relayout.log, "warning", killed)
        with pytest.raises(Killed):
            go(append=False, reshard=4)
    moved = recorded(place)
    assert (moved.layout, moved.follows) == ((4, 2), begun.query_id)
    assert go() == moved
    assert summaries[-1].events == len(parts[1]) + len(parts[2])
    fewer_tasks = go(shuffle_partitions=1, drain=True)
    assert fewer_tasks.layout == (4, 1)
    require_facts(place, replay(read_events(lake)))
    assert len(place.open(HEALTH).to_pyarrow_table()) > 0


@pytest.mark.spark
@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("words", "settings"), [(["--reshard", "4"], {}), ([], {"HWMARK_RUN__SHUFFLE_PARTITIONS": "1"})]
)
def test_a_command_moves_the_state_in_a_session_that_had_no_query(spark, tmp_path, words, settings):
    """Spark's reader of state wants to report to a part of Spark that only a query, or who asks for it, starts."""
    lake, place = str(tmp_path / "lake"), Lake(str(tmp_path / "lake"), {})
    events = read_logs([traces.path("unclean_election")], "main")
    half = len(events) // 2
    append_events(lake, events[:half], app_id="test", version=0)
    job.run(lake, Rules(), RunOptions(drain=True, buckets=2))
    append_events(lake, events[half:], app_id="test", version=1)
    command = [sys.executable, "-m", "hwmark", "run", "--once", "--drain", "--lake", lake, *words]
    done = subprocess.run(command, env=os.environ | settings, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    require_facts(place, replay(read_events(lake)))


@pytest.mark.spark
def test_state_that_was_moved_stays_through_batches_without_events(spark, tmp_path):
    """What a query began with is removed after two batches, and buckets without rows have no state of their own."""
    lake, place = str(tmp_path / "lake"), Lake(str(tmp_path / "lake"), {})
    events = read_logs([traces.path("unclean_election")], "main")
    third = len(events) // 3
    for version, rows in enumerate([events[:third], events[third : 2 * third]]):
        append_events(lake, rows, app_id="test", version=version)
    job.run(lake, Rules(), RunOptions(buckets=2))
    job.run(lake, Rules(), RunOptions(reshard=4))
    begun = tmp_path / "lake/_run" / f"{recorded(place).query_id}-begin"
    assert begun.exists()
    assert job.run(lake, Rules(), RunOptions(reshard=2)).events == 0
    place.open("replication_events").optimize.compact()
    assert job.run(lake, Rules(), RunOptions(reshard=2)).batches == 1
    append_events(lake, events[2 * third :], app_id="test", version=2)
    job.run(lake, Rules(), RunOptions(drain=True))
    assert not begun.exists()
    require_facts(place, replay(read_events(lake)))


@pytest.mark.spark
def test_a_lake_without_events_can_be_resharded(spark, tmp_path):
    lake, place = str(tmp_path / "lake"), Lake(str(tmp_path / "lake"), {})
    for asked in ({}, {"reshard": 4}, {"reshard": 1, "shuffle_partitions": 1}):
        job.run(lake, Rules(), RunOptions(**asked))
    append_events(lake, read_logs([traces.path("unclean_election")], "main"), app_id="test", version=0)
    job.run(lake, Rules(), RunOptions(drain=True, shuffle_partitions=1))
    require_facts(place, replay(read_events(lake)))


@pytest.mark.spark
def test_bronze_by_bucket_and_in_order_gives_the_tables_of_replay_at_eight_tasks(spark, tmp_path, monkeypatch):
    """Each task reads its own row groups of the one file; shares of the other are passed on to it."""
    monkeypatch.setattr(bucket_layout, "ROWS", 256)
    lake, place = str(tmp_path / "lake"), Lake(str(tmp_path / "lake"), {})
    events = read_logs([traces.path("unclean_election")], "main")
    half = len(events) // 2
    for version, (rows, layout) in enumerate([(events[:half], "buckets"), (events[half:], "order")]):
        append_events(lake, rows, app_id="test", version=version, layout=layout)
    job.run(lake, Rules(), RunOptions(drain=True, shuffle_partitions=8))
    require_facts(place, replay(read_events(lake)))
