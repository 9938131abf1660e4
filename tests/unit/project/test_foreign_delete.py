"""Somebody else's DELETE through deltalake leaves text in files as `string_view`: every reader reads what is left."""

import re
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from starlette.testclient import TestClient
from typer.testing import CliRunner

from generators.brokerlogs.ingest import read_logs
from generators.recordings import traces
from pipelines.alerting.reading import read
from pipelines.alerting.rules import AlertRules
from pipelines.alerting.step import Step
from pipelines.cli import app
from pipelines.commands.maintain.command import maintain
from pipelines.lake.bronze import read_events
from pipelines.lake.data_file import Written
from pipelines.lake.lake import Lake
from pipelines.replication import Reconstructor
from pipelines.replication.facts.tables import Facts
from pipelines.streaming.sinks import gold
from pipelines.streaming.tables import create_tables
from pipelines.verdict import Limits
from pipelines.web.app import create_app
from pipelines.web.snapshot import Reader
from schemas import tables
from tests.unit.project.lakes import job_has_read

pytestmark = pytest.mark.long

GONE, *LEFT = traces.scenarios()
NOW = datetime(2026, 12, 1, tzinfo=UTC)


@pytest.fixture(autouse=True)
def wall_clock(monkeypatch):
    monkeypatch.setattr("pipelines.commands.clock.now", lambda: NOW)


def partials(lake):
    """The files of silver/minute_stats, as a batch that wrote all of them has them."""
    paths = [path.rpartition("/")[2] for path in lake.open("minute_stats").file_uris()]
    return [Written("minute_stats", path, 0, 0, 0, "") for path in paths]


@pytest.fixture(scope="module")
def lakes(tmp_path_factory):
    """A lake with two clusters, and one where a third was deleted by hand from every table."""
    found = {}
    for scenario in (GONE, *LEFT):
        events, machine = read_logs([traces.path(scenario)], scenario), Reconstructor()
        facts = Facts.concat([machine.update(events), machine.finish()])
        found[scenario] = {"replication_events": events, **facts.tables(), "partition_health": machine.health()}
    places = []
    for scenarios in (LEFT, [*LEFT, GONE]):
        lake = Lake(str(tmp_path_factory.mktemp("lake") / "lake"))
        create_tables(lake)
        for name in found[GONE]:
            lake.append(
                name, pa.concat_tables([found[s][name] for s in scenarios]).select(tables()[name].arrow().names)
            )
        gold.add_minutes(lake, partials(lake), "q", 0)
        places.append(lake)
    for name in (*found[GONE], "cluster_minute", "broker_minute"):
        places[1].open(name).delete(f"cluster = '{GONE}'")
    for lake in places:
        job_has_read(lake.root)
    return places


def test_its_files_have_such_text(lakes):
    named = [pq.read_schema(path) for path in DeltaTable(lakes[1].uri("replication_events")).file_uris()]
    assert any("string_view" in str(schema) for schema in named)


def hwmark(lake, *words):
    done = CliRunner().invoke(app, [*words, "--lake", lake.root])
    assert done.exit_code in (0, 3, 4), done.output
    return done.stdout


@pytest.mark.parametrize("view", ["verdict", "hw", "isr", "sync", "regressions", "health", "loss"])
@pytest.mark.sampled(3)
def test_show(lakes, view):
    plain, deleted = (hwmark(lake, "show", view, "--since", "all", "--format", "json") for lake in lakes)
    assert deleted == plain


@pytest.mark.nightly
def test_whatif(lakes):
    plain, deleted = (hwmark(lake, "whatif", "--lag-max-ms", "1000", "--since", "all") for lake in lakes)
    assert deleted == plain


@pytest.mark.nightly
def test_report(lakes, tmp_path):
    pages = []
    for number, lake in enumerate(lakes):
        hwmark(lake, "report", "--since", "all", "--out", str(tmp_path / f"{number}.html"))
        text = (tmp_path / f"{number}.html").read_text()
        pages.append(re.sub(r"(?s)\d\d:\d\d:\d\d|<svg.*?</svg>", "", text).replace(lake.root, ""))
    assert pages[1] == pages[0]


def test_check(lakes):
    """Of the suites one line each, with how many rows they looked at; then the alerts."""
    lines = [hwmark(lake, "check").splitlines() for lake in lakes]
    plain, deleted = ([line[:70] for line in said if "so far" not in line] for said in lines)
    assert deleted == plain


def test_alerts(lakes):
    readings = [read(lake, AlertRules(), Step(), NOW) for lake in lakes]
    assert [reading.blind.keys() for reading in readings] == [readings[0].blind.keys()] * 2
    plain, deleted = (reading.evidence for reading in readings)
    for name in ("regressions", "min_isr", "disagreements", "sync", "gaps", "health", "leaderships", "reported"):
        both = [sorted(map(repr, one[name].to_pylist())) for one in (plain, deleted)]
        assert both[1] == both[0]


@pytest.mark.parametrize("page", ["/", "/partitions", "/quality", "/api/v1/verdict", "/api/v1/partitions"])
@pytest.mark.sampled(3)
def test_pages(lakes, page):
    answers = []
    for lake in lakes:
        reader = Reader(Lake(lake.root), Limits(since=timedelta(days=36500)), lambda: NOW, 0)
        answers.append(TestClient(create_app(reader), raise_server_exceptions=False).get(page))
    assert [answer.status_code for answer in answers] == [200, 200]
    plain, deleted = (one.text.replace(lake.root, "") for one, lake in zip(answers, lakes, strict=True))
    assert deleted == plain


def test_events(lakes):
    for cluster in LEFT:
        both = [read_events(lake.root, cluster=cluster, dictionaries=["topic"]).num_rows for lake in lakes]
        assert both[0] == both[1] > 0


def test_minutes_of_gold(lakes):
    """A batch of the job reads silver and gold of the clusters that it touches."""
    rows = []
    for lake in lakes:
        gold.add_minutes(lake, partials(lake), "q", 1)
        rows.append(sorted(map(repr, lake.rows("broker_minute").to_table().to_pylist())))
    assert rows[1] == rows[0]


def test_maintain(lakes, tmp_path):
    said = "".join(maintain(lakes[1].root))
    assert "silver/minute_stats: 1 files into" in said
    for name in ("partition_hw", "minute_stats"):
        both = [sorted(map(repr, lake.rows(name).to_table().to_pylist())) for lake in lakes]
        assert both[1] == both[0]
