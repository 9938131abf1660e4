"""`hwmark whatif` on a small lake: what it reads, what it says, what it refuses."""

import csv
import io
import json

import pyarrow as pa
import pytest
from typer.testing import CliRunner

from pipelines.cli import app
from pipelines.lake.bronze import append_events, read_events
from pipelines.lake.lake import Lake
from pipelines.lake.queries import Filter
from pipelines.replication import replay
from pipelines.whatif import read
from pipelines.whatif.tables import renumbered
from tests.unit.project.lakes import health, write
from tests.unit.replication.bronze import Source, table
from tests.unit.replication.test_brokers import at
from tests.unit.whatif.test_compare import silent_follower


@pytest.fixture
def lake(tmp_path):
    """Partition 0 as in silent_follower, partition 1 of another source that does not report fetches."""
    path = str(tmp_path / "lake")
    dull = Source("broker-3/server.log", level=0).on(partition=1).leader(0, 0, 0, 0, [3, 2]).progress(41_000)
    append_events(path, table(silent_follower(), dull), app_id="test", version=0)
    for partition in (0, 1):
        row = health("clicks", partition, cluster="c", last_event_ts=at(41_000))
        write(path, "partition_health", row)
    return path


def whatif(lake, *options):
    done = CliRunner().invoke(app, ["whatif", "--lake", lake, *options])
    return done.exit_code, done.output.rstrip("\n")


def test_an_estimate_stands_beside_what_was_and_says_of_which_partitions_there_is_none(lake):
    status, text = whatif(lake, "--lag-max-ms", "10000", "--min-isr", "1", "--since", "all")
    assert (status, text.splitlines()) == (
        0,
        [
            "An estimate of everything under replica.lag.time.max.ms=10000, min.insync.replicas=1: fetches, appends "
            "and elections as they were.",
            "c: 0 -> 1 ISR shrinks, 0.0 -> 11.0 s out of sync, 20.0 -> 9.0 s of HW stood, in 1 partition",
            "cluster  partition  shrinks  expands  out of sync s  hw stood s   under min isr s",
            "c        clicks-0   0 -> 1   0 -> 1   0.0 -> 11.0    20.0 -> 9.0  0.0 -> 0.0",
            "c/clicks-1: not known at level 0",
        ],
    )


def test_as_data_every_partition_has_a_row(lake):
    rows = json.loads(whatif(lake, "--lag-max-ms", "10000", "--format", "json")[1])
    assert [(row["partition"], row["unknown"], row["shrinks_was"], row["shrinks_would"]) for row in rows] == [
        (0, None, 0, 1),
        (1, "not known at level 0", None, None),
    ]
    (first, _) = csv.DictReader(io.StringIO(whatif(lake, "--lag-max-ms", "10000", "--format", "csv")[1]))
    assert float(first["hw_stood_s_was"]) == pytest.approx(20.005)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--since", "all"], "nothing is changed: give --lag-max-ms, --min-isr or both"),
        (["--lag-max-ms", "0"], "--lag-max-ms"),
        (["--min-isr", "2", "--since", "soon"], "--since soon is no time"),
        (["--min-isr", "2", "--topic", "click"], "did you mean clicks?"),
    ],
)
def test_what_cannot_be_estimated_is_refused_by_name(lake, options, words):
    status, text = whatif(lake, *options)
    assert status == 2
    assert words in text


def test_a_window_keeps_the_rare_events_before_it_and_has_no_holes(lake):
    begin = at(15_000)
    (share,) = read.shares(Lake(lake), Filter(), "c", begin)
    kept = share.events.to_pylist()
    early = [row["event_type"] for row in kept if row["ts"] < begin]
    assert early == ["leader", "leader"]
    assert all(row["ts"] >= begin or row["event_type"] == "leader" for row in kept)
    assert replay(share.events).telemetry_gaps.num_rows == 0
    assert renumbered(read_events(lake)).num_rows == read_events(lake).num_rows


def test_partitions_are_read_in_shares_and_one_that_is_too_large_says_so(lake):
    found = list(read.shares(Lake(lake), Filter(), "c", at(0), most=10))
    assert [share.places for share in found] == [(("c", "clicks", 0),), (("c", "clicks", 1),)]
    assert "at most 10 are read: ask for less time with --since" in found[0].gaps["c", "clicks", 0]
    assert (found[0].events.num_rows, found[1].gaps) == (0, {})


def test_where_a_source_has_a_gap_its_partitions_are_not_known(lake):
    gap = {"kind": "gap", "series": "source", "source_id": "broker-1/replication.log", "cluster": "c", "topic": None}
    write(lake, "telemetry_gaps", gap | {"partition": -1, "ts": at(20_000), "source_epoch": 0})
    (share,) = read.shares(Lake(lake), Filter(), "c", at(0))
    assert share.gaps == {("c", "clicks", 0): "not known: telemetry is missing"}


def test_renumbering_keeps_each_series_apart():
    events = pa.concat_tables([table(silent_follower()).slice(5, 30), table(Source("broker-2/a.log").progress(1))])
    rows = renumbered(events).to_pylist()
    assert [row["source_seq"] for row in rows] == [*range(30), 0]
