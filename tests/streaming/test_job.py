"""The streaming job on a small lake: once, resumed, replayed, stopped, rebuilt, refused."""

import os
import signal
import stat
import sys
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from pipelines.commands.maintain.command import maintain
from pipelines.lake.bronze import append_events, read_events
from pipelines.lake.lake import Lake
from pipelines.lake.roles import RoleHeld, hold
from pipelines.replication import Reconstructor, Rules, replay
from pipelines.streaming.checkpoint.offsets import RECORD, interval
from pipelines.streaming.checkpoint.query import StateMismatch
from pipelines.streaming.job import run
from pipelines.streaming.options import RunOptions
from pipelines.streaming.source.unread import bronze_of
from pipelines.streaming.stateful.bucket_keys import _murmur3
from pipelines.streaming.tables import BROKERS, HEALTH, KINDS, LAGS, TABLES, create_tables
from tests.streaming.events import history
from tests.streaming.shell import added_up, same_rows

BUCKETS = 4
EVENTS = history(partitions=6, rounds=40)


def put(lake, version, begin, end):
    append_events(str(lake), EVENTS.slice(begin, end - begin), app_id="test", version=version)


def play(lake, on_batch=None, **options):
    return run(str(lake), Rules(), RunOptions(buckets=BUCKETS, **options), on_batch=on_batch)


def assert_same_as_replay(lake, events=None):
    place, expected = Lake(str(lake), {}), replay(read_events(str(lake)) if events is None else events)
    for kind in KINDS:
        table, want = place.open(kind).to_pyarrow_table(), getattr(expected, kind)
        if kind == "minute_stats":
            assert added_up(table) == added_up(want)
        else:
            but = ["quarantined_at", "to_ts"]  # a stretch that is not closed is written once a minute
            assert same_rows(table, but) == same_rows(want, but), kind


def versions(lake):
    return {kind: Lake(str(lake), {}).open(kind).version() for kind in TABLES}


def contents(lake):
    place = Lake(str(lake), {})
    return {kind: same_rows(place.open(kind).to_pyarrow_table()) for kind in TABLES}


def replayed(events):
    one = Reconstructor(Rules())
    one.update(events)
    return one.present()


def assert_brokers_as_one_bucket_has_them(place, present):
    for kind in (BROKERS, *LAGS):
        assert same_rows(place.open(kind).to_pyarrow_table()) == same_rows(getattr(present, kind)), kind
    assert present.brokers.num_rows > 1


@pytest.mark.spark
def test_a_lake_through_its_life(spark, tmp_path):
    lake, half = tmp_path / "lake", len(EVENTS) // 2

    # Several commits, one run: what is final is there, and delta-spark reads every table.
    put(lake, 0, 0, half // 2)
    put(lake, 1, half // 2, half)
    batches = []
    summary = play(lake, on_batch=batches.append)
    assert (summary.events, summary.stopped) == (half, False)
    assert sum(b.events for b in batches) == half
    assert batches[-1].versions_behind == 0
    place = Lake(str(lake), {})
    assert place.open("partition_hw").to_pyarrow_table().num_rows > 0
    assert place.open(HEALTH).to_pyarrow_table().num_rows == 6
    assert_brokers_as_one_bucket_has_them(place, replayed(EVENTS.slice(0, half)))
    for kind, rows in contents(lake).items():
        assert spark.read.format("delta").load(place.uri(kind)).count() == len(rows), kind

    # The last batch again, as after a driver that died between the commits of the tables and of the checkpoint.
    before = contents(lake), versions(lake)
    commits = next((lake / "_run").glob("*/commits"))
    newest = max((p for p in commits.iterdir() if p.name.isdigit()), key=lambda p: int(p.name))
    newest.unlink()
    newest.with_name(f".{newest.name}.crc").unlink(missing_ok=True)
    play(lake)
    assert newest.exists()
    assert (contents(lake), versions(lake)) == before

    # More data, drained: the same as a replay of everything.
    put(lake, 2, half, len(EVENTS))
    assert play(lake, drain=True).events == len(EVENTS) - half + 1
    assert_same_as_replay(lake)

    # A rebuild gives the same rows under a new query.
    before = contents(lake)
    play(lake, rebuild=True)
    after = contents(lake)
    by_batch = {"minute_stats", "partition_changes", *LAGS}
    assert {k: v for k, v in after.items() if k not in by_batch} == {
        k: v for k, v in before.items() if k not in by_batch
    }
    assert_brokers_as_one_bucket_has_them(place, replayed(read_events(str(lake))))
    assert_same_as_replay(lake)


@pytest.mark.spark
def test_bronze_ages_between_two_runs_and_the_second_goes_on(spark, tmp_path):
    """Whole files go: news to nobody."""
    lake, half = tmp_path / "lake", len(EVENTS) // 2
    put(lake, 0, 0, half // 2)
    put(lake, 1, half // 2, half)
    assert play(lake).events == half
    now = EVENTS["ts"][half // 2].as_py() + timedelta(days=1, seconds=1)
    got = list(maintain(str(lake), bronze_days=1, vacuum_hours=0, now=now))
    kept = read_events(str(lake)).num_rows
    assert kept == half - half // 2
    assert any(line.startswith(f"bronze/replication_events: {half - kept} rows before") for line in got)
    put(lake, 2, half, len(EVENTS))
    assert play(lake, drain=True).events == len(EVENTS) - half + 1
    assert_same_as_replay(lake, pa.concat_tables([EVENTS.slice(0, half), told_after(lake, half)]))


def told_after(lake, half):
    """What was reported after the first half of EVENTS: nothing of it has aged."""
    events = read_events(str(lake))
    later = pc.or_(pc.greater_equal(events["source_seq"], half), pc.equal(events["source_id"], "hwmark/drain"))
    return events.filter(later)


@pytest.mark.spark
def test_sigterm_stops_after_the_batch_in_flight_and_the_next_run_goes_on(spark, tmp_path):
    lake = tmp_path / "lake"
    put(lake, 0, 0, 300)

    def ask_to_stop(batch):
        os.kill(os.getpid(), signal.SIGTERM)

    summary = play(lake, once=False, interval=1, on_batch=ask_to_stop)
    assert summary.stopped
    assert summary.events == 300
    assert interval(Lake(str(lake))) == 1
    put(lake, 1, 300, len(EVENTS))
    # What the next run has to read is known from the checkpoint alone.
    assert unread(lake) == {EVENTS["cluster"][0].as_py(): len(EVENTS) - 300}
    play(lake, drain=True)
    assert unread(lake) == {}
    assert interval(Lake(str(lake))) is None
    assert_same_as_replay(lake)


@pytest.mark.spark
def test_a_changed_rule_applies_from_the_next_batch_on_and_a_batch_played_again_keeps_its_own(spark, tmp_path):
    """Followers are 10 ms behind: more than 5 ms is out of sync under the second rules only."""
    lake, third = tmp_path / "lake", len(EVENTS) // 3
    strict, at = Rules(lag_max_ms=5, reorder_grace_ms=0), EVENTS["ts"].to_pylist()
    lax = replace(strict, lag_max_ms=30_000)
    put(lake, 0, 0, third)
    run(str(lake), lax, RunOptions(buckets=BUCKETS))
    put(lake, 1, third, 2 * third)
    run(str(lake), lax, RunOptions(buckets=BUCKETS))
    (commits,) = lake.glob("_run/*/commits")
    (commits / "1").unlink()  # as a kill leaves it that came before Spark's own record
    (commits / ".1.crc").unlink(missing_ok=True)
    got = contents(lake)
    put(lake, 2, 2 * third, len(EVENTS))
    run(str(lake), strict, RunOptions(buckets=BUCKETS, drain=True))
    out = Lake(str(lake), {}).open("replica_sync").to_pyarrow_table()
    late = [row["ts"] for row in out.to_pylist() if row["state"] == "out_of_sync"]
    assert late
    assert min(late) > at[third * 2 - 20]
    assert got["partition_hw"] == [row for row in contents(lake)["partition_hw"] if row in got["partition_hw"]]


def unread(lake):
    return {name: found.events for name, found in bronze_of(Lake(str(lake))).backlogs.items()}


@pytest.mark.spark
def test_an_event_that_breaks_the_contract_is_set_aside_and_the_rest_goes_on(spark, tmp_path):
    lake = tmp_path / "lake"
    rows = EVENTS.to_pylist()
    at = next(i for i, row in enumerate(rows) if row["event_type"] == "hw" and i > 100)
    rows[at]["hw"] = -7
    append_events(str(lake), pa.Table.from_pylist(rows, EVENTS.schema), app_id="test", version=0)
    play(lake, drain=True)
    (aside,) = Lake(str(lake), {}).open("quarantine").to_pyarrow_table().to_pylist()
    assert aside["reasons"] == ["hw_below_-1: hw = -7"]
    assert {k: v for k, v in aside.items() if k not in ("reasons", "quarantined_at")} == rows[at]
    assert_same_as_replay(lake)


@pytest.mark.spark
def test_sparks_python_is_the_short_one_and_it_speaks_to_the_jvm_through_sockets_of_its_own(spark):
    context = spark.sparkContext
    assert Path(context.pythonExec).read_text().splitlines()[0] == f"#!{sys.executable} -IS"
    assert os.environ["PYSPARK_PYTHON"] == sys.executable
    assert context.getConf().get("spark.python.unix.domain.socket.enabled") == "true"
    folder = Path(context.getConf().get("spark.python.unix.domain.socket.dir"))
    assert context.parallelize([1], 1).map(lambda _: os.environ["PYTHON_UNIX_DOMAIN_ENABLED"]).collect() == ["True"]
    assert any(stat.S_ISSOCK(path.stat().st_mode) for path in folder.iterdir())


@pytest.mark.spark
@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="counts open sockets in /proc")
def test_no_batch_leaves_a_socket_of_the_jvm_open(spark, tmp_path):
    """Spark 4.2.0 left two a batch (SPARK-58932), until there was no port left: a run goes on for months."""
    opened, jvm = [], spark._jvm.java.lang.ProcessHandle.current().pid()

    def count(batch):
        of_jvm = Path(f"/proc/{jvm}/fd").iterdir()
        opened.append(sum(os.path.lexists(fd) and os.readlink(fd).startswith("socket:") for fd in of_jvm))

    for version in range(8):
        put(tmp_path, version, version * 100, version * 100 + 100)
    play(tmp_path, count, max_rows_per_trigger=50)
    assert len(opened) >= 8
    assert opened[-1] - opened[1] < 6


@pytest.mark.spark
def test_keys_are_hashed_as_spark_hashes_them(spark):
    from pyspark.sql import functions as F

    rows = spark.range(-50, 50).select(F.col("id").cast("int").alias("key")).select("key", F.hash("key").alias("hash"))
    assert all(_murmur3(row.key) == row.hash for row in rows.collect())


def test_a_second_run_is_refused_by_name(tmp_path):
    with hold(str(tmp_path), "run"), pytest.raises(RoleHeld, match=f"process {os.getpid()}"):
        play(tmp_path)


def test_a_run_without_its_checkpoint_is_refused(tmp_path):
    from tests.streaming.test_sink import HW, writer, written

    place = Lake(str(tmp_path), {})
    create_tables(place)
    out = writer(place)
    out.commit([written(out, partition_hw=HW)], 0)
    with pytest.raises(StateMismatch, match="run --rebuild"):
        play(tmp_path)
    assert not Path(tmp_path, RECORD).exists()
