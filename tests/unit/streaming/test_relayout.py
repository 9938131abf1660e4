"""The state of a lake moved to other buckets and tasks, without Spark: what is written, and who is killed when."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from pipelines.errors import UsageError
from pipelines.lake.bronze import append_events
from pipelines.lake.lake import Lake
from pipelines.replication import Reconstructor, Rules
from pipelines.replication.events.sharding import assign
from pipelines.replication.telemetry.coverage import coverage
from pipelines.streaming.checkpoint.beginning import first_state, forget
from pipelines.streaming.checkpoint.manifest import Manifests
from pipelines.streaming.checkpoint.offsets import begun, committed_offset, last, restore_plan
from pipelines.streaming.checkpoint.query import StateMismatch, open_query, recorded
from pipelines.streaming.follow import RunFailed
from pipelines.streaming.idle import newest, nothing_new
from pipelines.streaming.job import run
from pipelines.streaming.options import RunOptions
from pipelines.streaming.relayout import relaid
from pipelines.streaming.tables import commit, create_tables
from tests.streaming.events import history

END = {"snapshot": 1, "version": 3, "index": 0, "events": 70}


class Killed(Exception):
    """What comes after it does not happen, as after a kill: nothing is cleaned up on the way."""


@pytest.fixture
def lake(tmp_path):
    lake = Lake(str(tmp_path), {})
    lake.create("replication_events")
    create_tables(lake)
    return lake


def opened(lake, **asked):
    return open_query(lake, Rules(), *[asked.get(name, 2) for name in ("buckets", "tasks")], "arrow", rebuild=False)


def plan(lake, query, batch, end=END, *, done=True):
    """A batch that the query has begun, or committed."""
    lake.write_durably(f"_run/{query.query_id}/metadata", b"{}")
    restore_plan(lake, query.query_id, batch, f'v1\n{{"batchTimestampMs": 0}}\n{json.dumps(end)}')
    if done:
        lake.write_durably(f"_run/{query.query_id}/commits/{batch}", b"v1\n{}")
        commit(lake, "partition_hw", [], query.query_id, batch)


def state(buckets=2):
    """The blobs of all buckets after some events."""
    events, blobs = history(), []
    for bucket in range(buckets):
        mine = events.filter(pa.array(np.isin(assign(events, buckets), (-1, bucket))))
        reconstructor = Reconstructor(bucket=bucket, buckets=buckets)
        reconstructor.update(mine, coverage(events))
        blobs.append(reconstructor.snapshot())
    return blobs


def none_in_flight(*_):
    raise AssertionError("no batch is in flight")


def moved(lake, query, layout, blobs):
    return relaid(lake, query, layout, lambda: blobs, none_in_flight)


def places(blob):
    state = Reconstructor.restore(blob).state
    return [state.place(number) for number in range(state.partitions.count)]


def test_a_new_query_goes_on_from_the_state_at_the_offset_at_which_the_old_one_stopped(lake):
    query = opened(lake)
    plan(lake, query, 0)
    made = moved(lake, query, (3, 1), state())
    assert recorded(lake) == made == opened(lake, buckets=None, tasks=1)
    assert (made.layout, made.follows, made.start) == ((3, 1), query.query_id, END)
    assert committed_offset(lake) == END
    found = [first_state(lake, made.query_id, bucket) for bucket in range(3)]
    assert [(r.shard.bucket, r.shard.buckets) for r in map(Reconstructor.restore, found)] == [(0, 3), (1, 3), (2, 3)]
    assert sorted(p for blob in found for p in places(blob)) == sorted(p for blob in state() for p in places(blob))
    with pytest.raises(StateMismatch, match=r"-begin/3 is gone, the state with which bucket 3 begins"):
        first_state(lake, made.query_id, 3)


def test_with_the_same_buckets_their_state_stays_as_it_is(lake):
    query, blobs = opened(lake), state()
    plan(lake, query, 0)
    made = moved(lake, query, (2, 1), blobs)
    assert [first_state(lake, made.query_id, bucket) for bucket in range(2)] == blobs
    assert relaid(lake, made, (2, 1), none_in_flight, none_in_flight) == made


@pytest.mark.parametrize("writes", range(5))
def test_killed_at_each_write_the_lake_has_the_old_query_or_the_new_one(lake, monkeypatch, writes):
    query, blobs, left = opened(lake), state(), iter(range(writes))
    plan(lake, query, 0)
    write = Lake.write_durably

    def until_killed(*args):
        if next(left, None) is None:
            raise Killed
        write(*args)

    with monkeypatch.context() as mortal:
        mortal.setattr(Lake, "write_durably", until_killed)
        if writes < 4:
            with pytest.raises(Killed):
                moved(lake, query, (3, 1), blobs)
        else:
            moved(lake, query, (3, 1), blobs)
    assert committed_offset(lake) == END
    if writes < 4:
        assert opened(lake) == query
        moved(lake, query, (3, 1), blobs)
    made = opened(lake, buckets=3, tasks=1)
    assert sorted(p for b in range(3) for p in places(first_state(lake, made.query_id, b))) == sorted(
        p for blob in blobs for p in places(blob)
    )


def test_a_batch_in_flight_ends_first(lake):
    query, later = opened(lake), END | {"version": 4, "events": 90}
    plan(lake, query, 0)
    plan(lake, query, 1, later, done=False)

    assert relaid(lake, query, (2, 1), state, lambda: plan(lake, query, 1, later)).start == later


def test_a_batch_in_flight_that_does_not_end_is_not_passed_over(lake):
    """Some tables may have it: the new query would commit its events again."""
    query = opened(lake)
    plan(lake, query, 0)
    plan(lake, query, 1, END | {"version": 4, "events": 90}, done=False)
    with pytest.raises(RunFailed, match=r"batch in flight .* did not end"):
        relaid(lake, query, (2, 1), state, lambda: None)
    assert recorded(lake) == query


def test_a_query_without_a_batch_has_nothing_to_move(lake):
    query = opened(lake)
    lake.write_durably(f"_run/{query.query_id}/metadata", b"{}")
    made = relaid(lake, query, (4, 4), none_in_flight, none_in_flight)
    assert (made.layout, made.start, made.rebuild) == ((4, 4), None, False)


def test_state_that_was_moved_and_not_used_yet_is_moved_on(lake):
    query = opened(lake)
    plan(lake, query, 0)
    once = moved(lake, query, (3, 1), state())
    blobs = [first_state(lake, once.query_id, bucket) for bucket in range(3)]
    twice = moved(lake, once, (2, 2), blobs)
    assert (twice.follows, twice.start) == (query.query_id, END)
    assert opened(lake) == twice


def test_batches_of_a_moved_query_go_on_where_the_one_before_ended(lake):
    query = opened(lake)
    plan(lake, query, 7)
    made = moved(lake, query, (2, 1), state())
    later = END | {"version": 4, "events": 90}
    plan(lake, made, 0, later, done=False)
    lake.create("replication_events")
    assert Manifests(lake, made.query_id).planned(0).start == END
    assert begun(lake).events == 20


def test_the_state_it_began_with_is_kept_until_it_cannot_be_played_again(lake):
    query = opened(lake)
    plan(lake, query, 0)
    made = moved(lake, query, (2, 1), state())
    before = first_state(lake, made.query_id, 0)
    for batch in (0, 1):
        forget(lake, made)
        assert first_state(lake, made.query_id, 0) == before
        plan(lake, made, batch)
    forget(lake, made)
    with pytest.raises(StateMismatch, match="is gone"):
        first_state(lake, made.query_id, 0)
    assert last(lake.files(), query.query_id, "commits") == -1
    forget(lake, made)


@pytest.mark.parametrize("batches", [0, 1])
def test_moved_again_soon_a_lake_keeps_what_is_still_needed_and_then_the_newest_query_alone(lake, batches):
    query = opened(lake)
    plan(lake, query, 0)
    between = moved(lake, query, (2, 1), state())
    for batch in range(batches):
        plan(lake, between, batch)
    made = moved(lake, between, (2, 2), state())
    assert made.follows == (between if batches else query).query_id
    for batch in (0, 1):
        forget(lake, made)
        assert folders(lake) >= {made.follows, f"{made.query_id}-begin"}
        plan(lake, made, batch)
    forget(lake, made)
    assert folders(lake) == {made.query_id}


def test_the_checkpoint_before_a_rebuild_is_removed_once_the_new_one_is_there_for_good(lake):
    before = opened(lake)
    plan(lake, before, 0)
    plan(lake, before, 1)
    lake.write_durably("_run/notes/kept", b"of somebody")
    made = open_query(lake, Rules(), 2, 2, "arrow", rebuild=True)
    for batch in (0, 1):
        forget(lake, made)
        assert before.query_id in folders(lake)
        plan(lake, made, batch)
    forget(lake, made)
    assert folders(lake) == {made.query_id, "notes"}


def folders(lake):
    return {path.name for path in Path(lake.root, "_run").iterdir() if path.is_dir()}


def test_with_nothing_new_behind_its_offset_a_moved_query_has_nothing_to_do(lake):
    lake.create("replication_events")
    query, level = opened(lake), {"snapshot": 0, "version": 1, "index": 0, "events": 0}
    plan(lake, query, 0, level)
    assert nothing_new(lake, moved(lake, query, (2, 1), state()))
    behind = replace(recorded(lake), start=level | {"version": 0})
    assert not nothing_new(lake, behind)
    then, query = newest(lake), recorded(lake)
    append_events(lake.root, history(), app_id="test", version=0)
    assert not nothing_new(lake, query)
    assert nothing_new(lake, query, then), "what came since is of the next run"
    assert not nothing_new(lake, behind, then)


def test_an_older_copy_of_bronze_at_the_version_that_was_read_is_something_new(lake):
    append_events(lake.root, history(), app_id="test", version=0)
    query, level = opened(lake), {"snapshot": 1, "version": 2, "index": 0, "events": len(history())}
    plan(lake, query, 0, level)
    assert nothing_new(lake, moved(lake, query, (2, 1), state()))
    assert not nothing_new(lake, replace(recorded(lake), start=level | {"file": "another.parquet"}))


@pytest.mark.parametrize(
    ("asked", "named"),
    [
        ({"reshard": 4, "rebuild": True}, "--rebuild needs no --reshard 4"),
        ({"reshard": 4, "buckets": 2}, "--reshard is 4 and buckets is 2: set buckets to 4, or leave it out"),
    ],
)
def test_what_does_not_go_together_is_refused_before_anything_is_done(tmp_path, asked, named):
    with pytest.raises(UsageError, match=named):
        run(str(tmp_path / "lake"), Rules(), RunOptions(**asked))
    assert not (tmp_path / "lake").exists()
