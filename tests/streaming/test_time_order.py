"""A backlog is read in the order of time: the facts are those of one batch, however rows lie in files and commits."""

import os
import random
from datetime import timedelta
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipelines.lake.bronze import append_events, read_events
from pipelines.lake.bucket_layout import coverage_in
from pipelines.lake.compaction import compact
from pipelines.lake.lake import Lake
from pipelines.replication import replay
from pipelines.replication.telemetry.coverage import coverage
from pipelines.streaming.source.bronze_file import footer_of, read
from pipelines.streaming.source.bronze_log import BEGINNING, BronzeLog, Offset
from pipelines.streaming.source.drain import close_sources
from pipelines.streaming.tables import KINDS
from schemas import replication_events
from tests.streaming.events import START, numbered
from tests.streaming.planned import ANY_BYTES, PlannedJob, commit
from tests.streaming.shell import added_up, same_rows
from tests.streaming.test_simulated import cluster

SECOND = 1_000_000
HOUR = 3_600 * SECOND
SEEDS = range(int(os.environ.get("PLANNED_LAKES", "6")))


def times(events):
    return events["ts"].cast(pa.int64()).to_numpy()


def at(events, ts):
    column = pa.array(ts).cast(events.schema.field("ts").type)
    return events.set_column(events.column_names.index("ts"), events.schema.field("ts"), column)


@cache
def clusters():
    """40 s of two clusters under faults: one is over an hour before the other begins."""
    live, old = (cluster(seed)[1].cast(replication_events.ARROW) for seed in (1, 2))
    live, old = (events.filter(pa.array(times(events) < times(events).min() + 40 * SECOND)) for events in (live, old))
    return live, at(old, times(old) - HOUR)


def slices(events, seconds):
    """The rows by their time, in stretches of so many seconds."""
    number = (times(events) - times(events).min()) // int(seconds * SECOND)
    order = np.argsort(number, kind="stable")
    return [events.take(pa.array(rows)) for rows in np.split(order, np.flatnonzero(np.diff(number[order])) + 1)]


def parted(events, column):
    values = events[column].dictionary_encode().combine_chunks().indices.fill_null(-1).to_numpy(zero_copy_only=False)
    return [events.filter(pa.array(values == value)) for value in np.unique(values)]


def differences(got, expected):
    tables = [kind for kind in KINDS if kind != "minute_stats"]
    differing = [k for k in tables if same_rows(getattr(got, k)) != same_rows(getattr(expected, k))]
    return differing + (["minute_stats"] if added_up(got.minute_stats) != added_up(expected.minute_stats) else [])


def assert_read_as_one(lake, job):
    events = read_events(str(lake))
    assert job.offsets[-1].events == len(events)
    assert differences(job.closed(), replay(events)) == []


def assert_read_in_any_batches(lake, most=(3_000,)):
    for max_rows in most:
        job = PlannedJob(lake, max_rows).run()
        assert len(job.offsets) > 2
        assert_read_as_one(lake, job)


@pytest.mark.nightly
def test_a_file_for_each_source_of_a_minute(tmp_path):
    live, _ = clusters()
    for part in slices(live, 60):
        commit(tmp_path, parted(part, "source_id"))
    assert_read_in_any_batches(tmp_path, (6_000, 1_500))


@pytest.mark.nightly
def test_a_file_for_each_topic(tmp_path):
    """The numbers of a source are spread over the files of a commit."""
    live, _ = clusters()
    for part in slices(live, 12):
        commit(tmp_path, parted(part, "topic"))
    assert_read_in_any_batches(tmp_path)


@pytest.mark.nightly
def test_a_controller_whose_clock_is_nine_seconds_behind(tmp_path):
    live, _ = clusters()
    of_controller = np.array(["controller" in name for name in live["source_id"].to_pylist()])
    for part in slices(at(live, times(live) - np.where(of_controller, 9 * SECOND, 0)), 12):
        commit(tmp_path, [part])
    assert_read_in_any_batches(tmp_path)


def test_a_commit_for_each_broker_of_the_whole_time(tmp_path):
    live, _ = clusters()
    for part in parted(live, "source_id"):
        commit(tmp_path, [part])
    assert_read_in_any_batches(tmp_path)


@pytest.mark.nightly
def test_rows_laid_by_bucket(tmp_path):
    """Each task reads some row groups; what a part of the file covers is known from its footer."""
    live, old = clusters()
    many = pa.concat_tables([live, old])
    append_events(str(tmp_path), many, app_id="test", version=0, layout="buckets")
    for passed_on in (False, True):
        assert_read_as_one(tmp_path, PlannedJob(tmp_path, 5_000, buckets=4, passed_on=passed_on).run())


def test_the_footer_of_a_large_file_says_what_its_rows_cover(tmp_path):
    """Only files that a batch takes in part are read by those who plan it."""
    rows = [{"event_type": "progress", "ts": START + timedelta(milliseconds=n), "partition": -1} for n in range(70_000)]
    events = numbered(rows)
    append_events(str(tmp_path), events, app_id="test", version=0)
    log = BronzeLog(PlannedJob(tmp_path, 1).uri)
    (file,) = log.files(1, 1)
    assert coverage_in(footer_of(log, file.part)).to_pylist() == coverage(events).to_pylist()
    assert_read_as_one(tmp_path, PlannedJob(tmp_path, 30_000).run())


def test_a_cluster_of_an_hour_ago_in_a_compacted_file_with_a_live_one(tmp_path):
    live, old = clusters()
    parts = slices(live, 2)
    for part in [*parts[:20], old, *parts[20:]]:
        commit(tmp_path, [part])
    compact(Lake(str(tmp_path)), "replication_events", 200_000)
    assert_read_in_any_batches(tmp_path)


def test_a_clock_that_is_set_back_for_good(tmp_path):
    """What the source tells then has the keys of before: it is not read ahead of it."""
    live, _ = clusters()
    source = np.array(live["source_id"].to_pylist()) == "broker-2/replication.log"
    ahead = source & (times(live) < times(live).min() + 25 * SECOND)
    for part in slices(at(live, times(live) + np.where(ahead, 600 * SECOND, 0)), 600):
        commit(tmp_path, parted(part, "source_id"))
    job = PlannedJob(tmp_path, 2_000).run()
    numbers = BronzeLog(job.uri).between(job.offsets[0], job.offsets[-1])
    assert sum(file.rows for file in numbers) == len(live)
    assert "gap" not in job.closed().telemetry_gaps["kind"].to_pylist()


@pytest.mark.parametrize("readable", [True, False])
def test_a_file_skipped_inside_a_window_moves_no_other_row(tmp_path, readable):
    """Rows after it in its source had their keys of it: with keys of their own they would count as read."""
    live, _ = clusters()
    source = np.array(live["source_id"].to_pylist()) == "broker-2/replication.log"
    start = times(live).min()
    ahead = source & (times(live) < start + 25 * SECOND)
    for rows in (live.filter(pa.array(~ahead)), at(live, times(live) + 600 * SECOND).filter(pa.array(ahead))):
        commit(tmp_path, [rows])
    log = BronzeLog(Lake(str(tmp_path)).uri(replication_events.TABLE))
    end, found = BEGINNING, []
    while end.key < start + 100 * SECOND:
        begin, end = end, log.advance(end, log.latest(), ANY_BYTES, 500)
        found += keys_read(log, begin, end)
    wrong = next(file.path for file in log.files(log.latest(), -1))
    if not readable:
        (Path(Lake(str(tmp_path)).uri(replication_events.TABLE)) / wrong).write_bytes(b"PAR1")
    log = BronzeLog(log.uri, skipped=[wrong])
    while (begin := end) != (end := log.advance(begin, log.latest(), ANY_BYTES, 500)):
        found += keys_read(log, begin, end)
    assert len(found) == len(set(found))
    kept = live.filter(pa.array(~ahead)).select(["source_id", "source_seq"])
    assert not readable or set(found) >= set(zip(*kept.to_pydict().values(), strict=True))


def keys_read(log, begin, end):
    """(source_id, source_seq) of the rows of one batch."""
    tables = [rows for file in log.between(begin, end) for rows in read(log, file.part)]
    return [
        key
        for rows in tables
        for key in zip(*rows.select(["source_id", "source_seq"]).to_pydict().values(), strict=True)
    ]


def test_one_time_far_ahead_keeps_nothing_back(tmp_path):
    live, _ = clusters()
    ts = times(live).copy()
    struck = np.flatnonzero(np.array(live["source_id"].to_pylist()) == "broker-2/replication.log")[700]
    ts[struck] += 365 * 24 * HOUR
    commit(tmp_path, [at(live, ts)])
    assert_read_in_any_batches(tmp_path)


@pytest.mark.parametrize("wrong", [0])
def test_a_row_without_a_time_that_is_accepted_goes_with_the_row_before(tmp_path, wrong):
    live, _ = clusters()
    ts = times(live).copy()
    ts[[0, 5_000, len(ts) - 1]] = wrong
    commit(tmp_path, [at(live, ts)])
    assert_read_in_any_batches(tmp_path)


def test_versions_that_are_begun_are_read_before_later_ones(tmp_path):
    live, _ = clusters()
    half = len(live) // 2
    commit(tmp_path, [live.slice(0, half)])
    job = PlannedJob(tmp_path, 1_000).run(batches=2)
    commit(tmp_path, [live.slice(half)])
    job.run()
    assert [offset.until for offset in job.offsets][1:3] == [2, 2]
    assert_read_as_one(tmp_path, job)


def test_an_offset_inside_a_commit_of_an_earlier_version(tmp_path):
    """Those of before 0.2 ended between two files: the rest of the commit is read."""
    live, _ = clusters()
    commit(tmp_path, parted(live, "source_id"))
    log = BronzeLog(PlannedJob(tmp_path, 1).uri)
    files = log.files(1, 1)
    half = Offset(1, 1, 2, sum(file.rows for file in files[:2]))
    assert [f.path for f in log.between(BEGINNING, half)] == [f.path for f in files[:2]]
    end = log.advance(half, 1, ANY_BYTES, 1 << 62)
    assert end == Offset(1, 2, 0, len(live))
    assert [f.path for f in log.between(half, end)] == [f.path for f in files[2:]]


def test_a_batch_keeps_to_its_limits(tmp_path):
    live, _ = clusters()
    commit(tmp_path, parted(live, "source_id"))
    read = np.diff([offset.events for offset in PlannedJob(tmp_path, 2_000).run().offsets])
    assert read.max() <= 2_000
    assert read[:-1].min() > 1_000


def test_rows_of_one_moment_are_one_batch(tmp_path):
    rows = [{"event_type": "progress", "ts": "2026-01-01 00:00:00", "partition": -1} for _ in range(50)]
    moment = numbered([{**row, "ts": np.datetime64(row["ts"]).item()} for row in rows])
    commit(tmp_path, [moment])
    assert [offset.events for offset in PlannedJob(tmp_path, 3).run().offsets] == [0, 50]


def laid(lake, draw, between):
    """The rows of both clusters laid into commits and files as nobody would: `draw` decides.

    `between` is called after commits, where those come in the order of time and none holds much of it.
    """
    live, old = clusters()
    events = [live] if draw.random() < 0.5 else [live, old]
    seconds = draw.choice([2, 4, 9, 30, 100])
    commits = [
        c for part in events for c in (slices(part, seconds) if draw.random() < 0.7 else parted(part, "source_id"))
    ]
    in_time = len(events) == 1 and len(commits) > 40 // seconds >= 10
    if not in_time and draw.random() < 0.4:
        draw.shuffle(commits)
    while commits:
        together = [commits.pop(0) for _ in range(min(len(commits), draw.choice([1, 1, 2])))]
        rows = pa.concat_tables(together)
        way = draw.choice(["one", "source_id", "topic", "broker_id", "random"])
        if way == "random":
            of = np.random.default_rng(draw.randrange(1 << 30)).integers(0, 3, len(rows))
            commit(lake, [rows.filter(pa.array(of == k)) for k in range(3)])
        else:
            commit(lake, [rows] if way == "one" else parted(rows, way))
        if draw.random() < 0.2:
            compact(Lake(str(lake)), "replication_events", draw.choice([100_000, 400_000]))
        if draw.random() < 0.2:
            close_sources(Lake(str(lake)))
        if in_time and draw.random() < 0.5:
            between()


@pytest.mark.sampled(3)
@pytest.mark.parametrize("seed", SEEDS)
def test_drawn_lakes_are_read_as_one_batch(tmp_path, seed):
    draw = random.Random(seed)
    limit, passed_on, buckets = draw.choice([1_500, 4_000]), draw.random() < 0.3, draw.choice([1, 2, 4])
    commit(tmp_path, [])
    job = PlannedJob(tmp_path, limit, buckets, passed_on=passed_on)
    laid(tmp_path, draw, lambda: job.run(batches=draw.choice([1, 3, 9])))
    assert_read_as_one(tmp_path, job.run())


@pytest.mark.nightly
@pytest.mark.parametrize(("seed", "limit"), [(0, 100), (1, 333)])
def test_drawn_lakes_are_read_as_one_batch_by_few_rows_at_once(tmp_path, seed, limit):
    """Fewer than the sources of a cluster tell at one moment: a batch goes on until its time does."""
    draw = random.Random(seed)
    commit(tmp_path, [])
    job = PlannedJob(tmp_path, limit, draw.choice([1, 2]))
    laid(tmp_path, draw, lambda: job.run(batches=draw.choice([3, 9])))
    assert_read_as_one(tmp_path, job.run())


def without_names(lake):
    """Closing rows as earlier versions wrote them."""
    log = BronzeLog(Lake(str(lake)).uri(replication_events.TABLE))
    for file in log.files(log.latest(), log.latest()):
        path = lake / replication_events.TABLE.path / file.path
        rows = pq.read_table(path)
        if rows["closes"].null_count < len(rows):
            pq.write_table(rows.drop_columns(["closes"]), path)
            path.with_name(f".{path.name}.crc").unlink(missing_ok=True)


@pytest.mark.sampled(2)
def test_closing_rows_of_earlier_versions_in_mid_history(tmp_path):
    """They name nothing, and close what was told up to their time: a batch ends there."""
    live, _ = clusters()
    for part in slices(live, 15):
        commit(tmp_path, [part])
        close_sources(Lake(str(tmp_path)))
    without_names(tmp_path)
    expected = replay(live)
    assert len(expected.hw_regressions) > 0
    for limit in (1_500, 4_000):
        job = PlannedJob(tmp_path, limit).run()
        assert same_rows(job.closed().hw_regressions) == same_rows(expected.hw_regressions)


def test_closing_rows_of_earlier_drains_in_mid_history(tmp_path):
    """A lake that was drained while it grew, read anew in any batches: what came after is judged as well."""
    live, old = clusters()
    parts = slices(live, 5)
    for drained, part in enumerate(parts):
        commit(tmp_path, [part] if drained != 3 else [part, old])
        if drained in (2, 3, len(parts) - 1):
            close_sources(Lake(str(tmp_path)))
    assert_read_in_any_batches(tmp_path)
