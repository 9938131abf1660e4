"""A lake that lives with every setting of `maintain` has what one without it has, but for what has aged."""

from datetime import timedelta
from itertools import pairwise

import pyarrow as pa
import pytest
from starlette.testclient import TestClient
from typer.testing import CliRunner

from pipelines.cli import app
from pipelines.commands.maintain.command import maintain
from pipelines.lake.bronze import append_events
from pipelines.lake.lake import Lake
from pipelines.lake.retention import TIMES
from pipelines.replication import Rules
from pipelines.streaming.job import run
from pipelines.streaming.options import RunOptions
from pipelines.streaming.tables import HEALTH, KINDS
from pipelines.verdict import Limits
from pipelines.web.app import create_app
from pipelines.web.snapshot import Reader
from tests.streaming.events import START, numbered, on
from tests.streaming.shell import same_rows

DAYS, PARTITIONS, ROUNDS = 4, 3, 6
DAY = timedelta(days=1)


def days():
    """The events of each day, of two clusters: a few seconds from midnight on."""
    rows = [on(p, "leader", 0, leader_epoch=0, leo=0, hw=0, isr=[1, 2], partition_epoch=0) for p in range(PARTITIONS)]
    ends = []
    for n in range(DAYS * ROUNDS):
        at = n // ROUNDS * 86_400_000 + 1000 * (n % ROUNDS + 1)
        for p in range(PARTITIONS):
            rows.append(on(p, "append", at, leader_leo=n + 1))
            rows.append(on(p, "fetch", at + 10, replica_id=2, leo=n + 1, leader_leo=n + 1))
            rows.append(on(p, "hw", at + 10, replica_id=1, hw=n + 1))
        rows.append({"event_type": "progress", "ts": START + timedelta(milliseconds=at + 500), "partition": -1})
        ends.append(len(rows))
    whole = numbered(rows)
    bounds = [0, *ends[ROUNDS - 1 :: ROUNDS]]
    cluster = whole.schema.field("cluster")
    other = whole.set_column(0, cluster, pa.array(["other"] * len(whole)))
    both = [[each.slice(a, b - a) for each in (whole, other)] for a, b in pairwise(bounds)]
    return [pa.concat_tables(each) for each in both]


def play(lake, **options):
    return run(str(lake), Rules(), RunOptions(buckets=4, **options))


def hwmark(lake, *words):
    done = CliRunner().invoke(app, [*words, "--lake", str(lake)])
    return done.exit_code, done.stdout


@pytest.mark.spark
def test_every_setting_then_every_reader(spark, tmp_path, monkeypatch):
    kept, plain = tmp_path / "kept", tmp_path / "plain"
    for version, events in enumerate(days()):
        for lake in (kept, plain):
            append_events(str(lake), events, app_id="test", version=version)
        if version:
            play(kept, drain=version == DAYS - 1)
            now = START + version * DAY + timedelta(hours=12)
            said = "".join(maintain(str(kept), bronze_days=1, silver_days=2, lag_days=1, vacuum_hours=0, now=now))
            assert "left for the next run" not in said
    play(plain, drain=True)
    assert play(kept).events == 0  # a batch passes the commits of `maintain`
    places, limit = [Lake(str(lake)) for lake in (kept, plain)], now - 2 * DAY
    monkeypatch.setattr("pipelines.commands.clock.now", lambda: now)
    for kind in (*KINDS, HEALTH, "cluster_minute", "broker_minute"):
        ours, theirs = (same_rows(place.rows(kind).to_table(), but=["quarantined_at", "batch_id"]) for place in places)
        time = TIMES.get(kind)
        if kind == "minute_stats" or kind == "quarantine":
            assert bool(ours) == bool(theirs)
        elif time is None:
            assert ours == theirs, kind
        else:
            assert [row for row in ours if row[time] >= limit] == [row for row in theirs if row[time] >= limit], kind
            assert all(row in theirs for row in ours), kind
            assert {row[time].date() for row in ours} <= {(limit + k * DAY).date() for k in range(3)}, kind
    assert places[0].rows("replication_events").count_rows() < places[1].rows("replication_events").count_rows()
    for words in (["show", "health", "--format", "json"], ["show", "regressions", "--format", "json"]):
        assert hwmark(kept, *words) == hwmark(plain, *words)
    for words in (["check"], ["show", "verdict"], ["report", "--out", str(tmp_path / "report.html")]):
        assert hwmark(kept, *words)[0] == hwmark(plain, *words)[0] != 1, words
    for place in places:
        reader = Reader(place, Limits(), lambda: now, 0)
        client = TestClient(create_app(reader), raise_server_exceptions=False)
        assert [client.get(page).status_code for page in ("/", "/partitions", "/quality")] == [200] * 3
