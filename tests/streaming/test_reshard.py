"""Other buckets and tasks for a lake at work, killed on the way: its tables are those of `replay`."""

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
