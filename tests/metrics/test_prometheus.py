"""A real Prometheus scrapes lakes: it answers every query of every panel and rule, and fires where it should."""

import shutil
import subprocess
import sys
from datetime import UTC, datetime, timedelta

import pytest

from pipelines.commands import jobs
from pipelines.lake.lake import Lake
from pipelines.lake.records import write_record
from pipelines.settings import load
from pipelines.streaming.reconstruction import LAST_BATCH, LastBatch
from tests.metrics.dashboards import BROKERS, CLUSTERS, expressions, panels
from tests.metrics.servers import scraping, serving, until
from tests.unit.metrics.scrape import exporter, minute, troubled
from tests.unit.project import lakes
from tests.unit.project.lakes import at, loss, write

needs_prometheus = pytest.mark.skipif(
    shutil.which("prometheus") is None, reason="needs prometheus of Debian's package prometheus"
)
PANELS = [*panels(CLUSTERS), *panels(BROKERS)]
OF_THE_PRESENT = {
    "Judged up to, ago", "Reported up to, ago", "Worst partitions", "Worst partitions: HW stands for",
    "Worst partitions: lag",
}  # fmt: skip
"""Panels that show nothing of clusters that have ended, beside those of single brokers."""


def asked(expression):
    """The expression as Grafana sends it, with all clusters chosen."""
    return expression.replace("$cluster", ".*").replace("$__rate_interval", "1m")


def unanswered(prometheus):
    """The panels with a query that has no result; a query that Prometheus refuses raises."""
    answers = {panel["title"]: [prometheus.query(asked(expr)) for expr in expressions(panel)] for panel in PANELS}
    return {title for title, results in answers.items() if not all(results)}


def everything(lake):
    """A lake with something for every panel."""
    troubled(lake)
    write_record(Lake(lake), LAST_BATCH, LastBatch(7, 1200, 2.5, 4096))
    write(lake, "hw_regressions", loss(ts=at(30)))
    write(lake, "minute_stats", minute(0, events=5, late=1, gaps=1, shrink__lag=2, expand__caught_up=1, appended=8))
    write(lake, "minute_stats", minute(0, batch=1, regression__unclean_loss=1))
    write(lake, "brokers", {"broker_id": 1, "rack": "a", "led": 3, "followed": 4, "sole_isr": 1})
    write(lake, "broker_lag", {"broker_id": 2, "lag_records": 40, "lag_ms": 1500, "ts": at(60), "behind": 2})
    write(
        lake, "broker_minute",
        {"broker_id": 1, "minute": at(0), "append_to_hw_p99_ms": 8.0, "max_lag_records": 64, "p95_lag_records": 8},
    )  # fmt: skip
    alert = {"rule": "loss", "severity": "critical", "alert_id": "a", "labels": [("cluster", "prod")]}
    write(lake, "alerts", {**alert, "state": "firing", "last_ts": at(50)})
    write(lake, "quality_results", {"run_ts": at(55), "success": False, "suite": "silver", "expectation": "no_loss"})


@needs_prometheus
def test_every_panel_and_rule_is_answered_from_a_live_lake(tmp_path, monkeypatch):
    monkeypatch.setattr(lakes, "NOON", datetime.now(UTC) - timedelta(seconds=70))
    lake = tmp_path / "lake"
    everything(str(lake))
    one = exporter(lake)
    one.now = lambda: datetime.now(UTC)
    with serving(one) as port, scraping(port, tmp_path) as prometheus:
        assert unanswered(prometheus) == set()
        rules = prometheus.expressions()
        recorded = [name for name in rules if ":" in name]
        assert {name: bool(prometheus.query(asked(name))) for name in recorded} == dict.fromkeys(recorded, True)
        assert all(isinstance(prometheus.query(expression), list) for expression in rules.values())
        until(lambda: prometheus.firing() == {"HwmarkAlert"}, "the alert of the lake fires, and no other")
        (alert,) = prometheus.query('ALERTS{alertname="HwmarkAlert"}')
        assert (alert["metric"]["rule"], alert["metric"]["severity"]) == ("loss", "critical")
        shutil.move(lake, tmp_path / "away")
        until(lambda: "HwmarkLakeUnreadable" in prometheus.pending(), "the lake that is gone is noticed")


@needs_prometheus
def test_a_dead_hwmark_is_noticed(tmp_path):
    lake = tmp_path / "lake"
    everything(str(lake))
    with serving(exporter(lake)) as port:
        scraped = scraping(port, tmp_path)
        prometheus = scraped.__enter__()
    try:
        gone = {"HwmarkAbsent", "HwmarkDown"}
        until(lambda: gone <= prometheus.pending(), "the rules for a dead hwmark wait for their time")
        assert prometheus.query("hwmark_cluster_state") == []
    finally:
        scraped.__exit__(None, None, None)


@needs_prometheus
@pytest.mark.spark
@pytest.mark.nightly
def test_every_panel_is_answered_from_the_demo(tmp_path):
    lake = str(tmp_path / "lake")
    subprocess.run([sys.executable, "-m", "hwmark", "demo", "--lake", lake], check=True, stdout=subprocess.DEVNULL)
    one = jobs.exporter(load(None, {"lake": {"path": lake}}), lambda: datetime.now(UTC))
    with serving(one) as port, scraping(port, tmp_path) as prometheus:
        clusters, brokers = ({panel["title"] for panel in panels(path)} for path in (CLUSTERS, BROKERS))
        assert unanswered(prometheus) & clusters == OF_THE_PRESENT | {"Expectations that failed"} & unanswered(
            prometheus
        )
        assert unanswered(prometheus) - clusters <= brokers
        lost = {one["metric"]["cluster"]: one["value"][1] for one in prometheus.query("hwmark_lost_offsets")}
        assert lost == {"power_failure": "305", "unclean_election": "360"}
