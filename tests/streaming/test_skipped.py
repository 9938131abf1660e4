"""A file of bronze is taken out by name: the gap is recorded first, and any number of files may be gone."""

import pyarrow as pa
import pytest

from pipelines.errors import UsageError
from pipelines.lake.bronze import append_events, bronze, read_events
from pipelines.lake.lake import Lake
from pipelines.replication import Rules
from pipelines.streaming.job import run
from pipelines.streaming.options import RunOptions
from pipelines.streaming.source import skipped
from pipelines.streaming.source.bronze_log import BronzeLog
from pipelines.streaming.source.skipped import skip_file
from pipelines.streaming.source.unread import bronze_of
from tests.streaming.events import history

EVENTS = history(partitions=2, rounds=6)


@pytest.fixture
def lake(tmp_path):
    for version in range(3):
        append_events(str(tmp_path), EVENTS.slice(10 * version, 10), app_id="test", version=version)
    return tmp_path


def files(lake):
    log = BronzeLog(bronze(str(lake)).table_uri)
    last = log.latest()
    return [file.path for file in log.files(last, last)]


def gaps(lake):
    return [row["detail"] for row in read_events(str(lake)).to_pylist() if row["event_type"] == "lost"]


def test_several_files_that_are_gone_are_skipped_one_by_one(lake):
    first, second, _ = files(lake)
    for path in (first, second):
        (lake / "bronze/replication_events" / path).unlink()
    with pytest.raises(UsageError, match=f"lost other files, too: skip {second} as well"):
        skip_file(Lake(str(lake)), first)
    skip_file(Lake(str(lake)), second)
    assert len(gaps(lake)) == 2
    assert skipped.skipped(Lake(str(lake))) == sorted([first, second])
    assert not {first, second} & set(files(lake))


@pytest.mark.parametrize("step", ["_append_lost_rows", "_record", "_take_out"])
def test_the_gap_is_recorded_before_a_file_is_left_out(lake, monkeypatch, step):
    """Cut off at any point: either the file is still read, or bronze has the gap. A second call ends it."""
    bad = files(lake)[1]
    with monkeypatch.context() as cut:
        cut.setattr(skipped, step, lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            skip_file(Lake(str(lake)), bad)
    assert bad not in skipped.skipped(Lake(str(lake))) or gaps(lake)
    skip_file(Lake(str(lake)), bad)
    skip_file(Lake(str(lake)), bad)
    assert len(gaps(lake)) == 1
    assert bad not in files(lake)
    assert (lake / "_run/skipped" / bad).is_file()


def test_a_file_that_bronze_does_not_have_is_named(lake):
    with pytest.raises(UsageError, match=r"has no file nonsense\.parquet"):
        skip_file(Lake(str(lake)), "nonsense.parquet")


def test_only_our_source_leaves_files_out(lake):
    with pytest.raises(UsageError, match=r"--skip-file .*source = \"delta\""):
        run(str(lake), Rules(), RunOptions(source="delta", skip_files=["x.parquet"]))


def test_a_file_without_statistics_of_the_cluster_and_cannot_be_read_is_unread_for_all(lake):
    """Other writers leave statistics out."""
    table = bronze(str(lake))
    append_events(str(lake), EVENTS.slice(30, 5), app_id="test", version=3)
    log = sorted((lake / "bronze/replication_events/_delta_log").glob("*.json"))[-1]
    log.write_text(log.read_text().replace('"stats"', '"other"'))
    bad = next(path for path in files(lake) if BronzeLog(table.table_uri).files(4, 4)[0].path == path)
    (lake / "bronze/replication_events" / bad).write_bytes(b"\0" * 100)
    (backlog,) = bronze_of(Lake(str(lake))).backlogs.items()
    assert backlog[0] == EVENTS["cluster"][0].as_py()
    assert backlog[1].events == 31


def test_brokers_are_found_a_piece_at_a_time(lake):
    log = BronzeLog(bronze(str(lake)).table_uri)
    last = log.latest()
    (row,) = skipped._brokers(log, [file.part for file in log.files(last, last)])
    assert (row["cluster"], row["broker_id"]) == ("main", 1)
    assert row["ts_max"] == pa.compute.max(EVENTS.slice(0, 30)["ts"]).as_py()
