"""Bronze as other engines write it, by the examples of docs/writing-bronze.md: silver is that of `replay`."""

import re
import shutil
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from deltalake import DeltaTable

from pipelines.alerting.step import Step
from pipelines.commands.maintain.command import maintain
from pipelines.lake.bronze import append_events, opened, read_events
from pipelines.lake.engines import OtherEngineError, other_engine
from pipelines.lake.lake import Lake
from pipelines.lake.queries import microseconds
from pipelines.quality.check import check
from pipelines.replication import Rules, replay
from pipelines.streaming.follow import RunFailed
from pipelines.streaming.job import run
from pipelines.streaming.options import RunOptions
from pipelines.streaming.source.bronze_log import RemovedRowsError
from pipelines.streaming.source.closings import closings
from pipelines.streaming.source.skipped import skipped
from pipelines.streaming.source.suitable import UnsuitableColumnsError
from pipelines.streaming.source.unread import bronze_of
from pipelines.verdict.sources import progress, reports
from tests.streaming.events import history
from tests.streaming.shell import same_rows
from tests.streaming.test_job import assert_same_as_replay

GUIDE = Path(__file__).parents[2] / "docs" / "writing-bronze.md"
EVENTS = history(partitions=4, rounds=20)
HALVES = [EVENTS.slice(0, len(EVENTS) // 2), EVENTS.slice(len(EVENTS) // 2)]
TEXT = [f.name for f in EVENTS.schema if f.type == pa.string()]
FILLED = [f.name for f in EVENTS.schema if EVENTS[f.name].null_count < len(EVENTS)]

pytestmark = pytest.mark.spark


def example(heading):
    """The functions that the guide defines under a heading."""
    section = GUIDE.read_text().partition(f"\n## {heading}")[2].partition("\n## ")[0]
    (code,) = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
    names = {}
    exec(compile(code, f"{GUIDE.name}: {heading}", "exec"), names)
    return names


def play(lake, **options):
    return run(str(lake), Rules(), RunOptions(buckets=2, **options))


def bronze_files(lake):
    return sorted((lake / "bronze/replication_events").rglob("*.parquet"))


def as_spark_has_them(spark, events):
    """Columns of a Spark job: no declared integers but longs, only those that have values, shuffled."""
    longs = pa.schema([f.with_type(pa.int64()) if f.type == pa.int32() else f for f in events.schema])
    names = sorted(FILLED, reverse=True)
    return spark.createDataFrame(events.cast(longs).select(names))


@pytest.mark.nightly
def test_spark_partitioned_by_cluster(spark, tmp_path):
    """Another engine on a local disk: ingest, maintain and drain keep off its table; all that reads it reads it."""
    append, lake = example("PySpark")["append"], tmp_path
    append(as_spark_has_them(spark, HALVES[0]), str(lake))
    assert play(lake).events == len(HALVES[0])
    assert bronze_of(Lake(str(lake))).backlogs == {}
    assert {result.suite for result in check(str(lake)).failed} == {"sources"}
    append(as_spark_has_them(spark, HALVES[1]), str(lake))
    (backlog,) = bronze_of(Lake(str(lake))).backlogs.values()
    assert backlog.events == len(HALVES[1])
    version = opened(str(lake)).version()

    with pytest.raises(OtherEngineError, match=r"is written by Apache-Spark/.*Delta-Lake/.*another lake"):
        append_events(str(lake), EVENTS, app_id="test", version=0)
    assert play(lake, drain=True).batches == 1
    assert opened(str(lake)).version() == version
    closing = pa.Table.from_pylist(closings(Lake(str(lake))), EVENTS.schema)
    assert len(closing) == 1
    assert_same_as_replay(lake, pa.concat_tables([EVENTS, closing]))
    said = list(maintain(str(lake), bronze_days=1))
    assert any(re.match(r"bronze/replication_events: left to Apache-Spark", line) for line in said)
    assert opened(str(lake)).version() == version

    # What else reads bronze: verdicts, alerts, and the quality suites.
    (cluster,) = set(EVENTS["cluster"].to_pylist())
    report = reports(Lake(str(lake)), {cluster}, bronze_of(Lake(str(lake))), closing["ts"][0].as_py())[cluster]
    assert report.closed == closing["ts"][0].as_py()
    assert [source.source_id for source in report.sources] == ["broker-1/replication.log"]
    known = progress(Lake(str(lake)), Step().sources, bronze_of(Lake(str(lake))), closing["ts"][0].as_py())
    assert known.closed == {cluster: microseconds(closing["ts"][0].as_py())}
    assert check(str(lake)).failed == []
    assert play(lake).events == 0


@pytest.mark.parametrize("source", ["arrow", "delta"])
def test_spark_plain_with_its_own_integers(spark, tmp_path, source):
    table = str(tmp_path / "bronze/replication_events")
    for half in HALVES:
        as_spark_has_them(spark, half).write.format("delta").mode("append").save(table)
        play(tmp_path, source=source)
    assert_same_as_replay(tmp_path, EVENTS)


def test_polars_with_its_own_texts_and_nanoseconds(tmp_path, spark):
    append = example("Polars")["append"]
    for half in HALVES:
        frame = pl.from_arrow(half.select(FILLED)).with_columns(pl.col("ts").dt.cast_time_unit("ns"))
        append(frame, str(tmp_path))
        play(tmp_path)
    assert other_engine(opened(str(tmp_path))) is None
    assert_same_as_replay(tmp_path, EVENTS)


def test_merge_adds_what_is_not_there_and_a_repeat_is_read_once(tmp_path, spark):
    merge = example("deltalake: what may have been written before")["merge"]
    append_events(str(tmp_path), HALVES[0], app_id="test", version=0)
    play(tmp_path)
    merge(EVENTS, str(tmp_path))
    merge(EVENTS, str(tmp_path))
    assert play(tmp_path).events == len(HALVES[1])
    _upsert(EVENTS.slice(10, 20), str(tmp_path))
    play(tmp_path)
    assert_same_as_replay(tmp_path, EVENTS)


def _upsert(rows, lake):
    """Replaces rows by the same ones: the file that held them is written anew."""
    same = " AND ".join(f"t.{name} = s.{name}" for name in ("cluster", "source_id", "source_epoch", "source_seq"))
    merging = DeltaTable(f"{lake}/bronze/replication_events").merge(rows, same, source_alias="s", target_alias="t")
    got = merging.when_matched_update_all().when_not_matched_insert_all().execute()
    assert got["num_target_files_removed"]


def test_duckdb(tmp_path, spark):
    append = example("DuckDB")["append"]
    append_events(str(tmp_path / "from"), EVENTS, app_id="test", version=0)
    files = tmp_path / "from/bronze/replication_events/*.parquet"
    append(f"SELECT * FROM '{files}' ORDER BY hash(source_seq)", str(tmp_path / "lake"))
    play(tmp_path / "lake")
    assert_same_as_replay(tmp_path / "lake", EVENTS)


def test_a_naive_time_is_refused_with_the_column(tmp_path, spark):
    frame = pl.from_arrow(EVENTS).with_columns(pl.col("ts").dt.replace_time_zone(None))
    frame.write_delta(str(tmp_path / "bronze/replication_events"))
    with pytest.raises(UnsuitableColumnsError, match=r"column ts is a timestamp without time zone"):
        play(tmp_path)


def test_a_row_without_what_it_must_have_is_set_aside(tmp_path, spark):
    """Engines do not know that our columns may not be null."""
    bad = np.arange(len(EVENTS)) % 7 == 3
    broken = pl.from_arrow(EVENTS).with_columns(
        ts=pl.when(pl.Series(bad)).then(None).otherwise(pl.col("ts")), bad=pl.Series(bad)
    )
    broken.write_delta(str(tmp_path / "bronze/replication_events"))
    play(tmp_path)
    aside = Lake(str(tmp_path), {}).open("quarantine").to_pyarrow_table()
    assert len(aside) == bad.sum()


@pytest.mark.parametrize("source", ["arrow", "delta"])
def test_rows_taken_out_are_refused_by_both_sources(tmp_path, spark, source):
    append_events(str(tmp_path), HALVES[0], app_id="test", version=0)
    play(tmp_path, source=source)
    DeltaTable(str(tmp_path / "bronze/replication_events")).delete("source_seq = 3")
    append_events(str(tmp_path), HALVES[1], app_id="test", version=1)
    with pytest.raises((RunFailed, RemovedRowsError), match=r"version 2 .*removed rows .*--accept-removal 2"):
        play(tmp_path, source=source)
    play(tmp_path, source=source, accept_removal=2)
    assert bronze_of(Lake(str(tmp_path))).backlogs == {}


def test_a_file_that_cannot_be_read_is_named_and_can_be_skipped(tmp_path, spark):
    lake = tmp_path / "lake"
    append_events(str(lake), HALVES[0], app_id="test", version=0)
    play(lake)
    known = set(bronze_files(lake))
    third = len(HALVES[1]) // 2
    append_events(str(lake), HALVES[1].slice(0, third), app_id="test", version=1)
    (bad,) = set(bronze_files(lake)) - known
    append_events(str(lake), HALVES[1].slice(third), app_id="test", version=2)
    content = bad.read_bytes()
    bad.write_bytes(b"\0" * len(content))
    with pytest.raises(RunFailed, match=rf"^file {bad.name} of bronze cannot .*--skip-file"):
        play(lake)

    # With a good copy of it the job goes on where it stood; without one it leaves a gap that is reported.
    shutil.copytree(lake, tmp_path / "healed")
    (tmp_path / "healed" / bad.relative_to(lake)).write_bytes(content)
    play(tmp_path / "healed")
    assert_same_as_replay(tmp_path / "healed", EVENTS)

    play(lake, skip_files=[bad.name], drain=True)
    assert skipped(Lake(str(lake))) == [bad.name]
    assert (lake / "_run/skipped" / bad.name).read_bytes() == b"\0" * len(content)
    # What is reported of the file comes late, in the order in which it is found out.
    expected, place = replay(read_events(str(lake))), Lake(str(lake), {})
    for kind in ("partition_hw", "isr_changes", "hw_regressions"):
        assert same_rows(place.open(kind).to_pyarrow_table()) == same_rows(getattr(expected, kind)), kind
    gaps = place.open("telemetry_gaps").to_pyarrow_table().to_pylist()
    assert {gap["seq_to"] - gap["seq_from"] + 1 for gap in gaps if gap["series"] == "source"} == {third, 1}
    assert "skipped" in str(read_events(str(lake))["detail"].to_pylist())
    assert play(lake).events == 0
