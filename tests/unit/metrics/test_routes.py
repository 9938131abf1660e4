"""`/metrics`, `/livez` and `/healthz` over HTTP: what probes get of sound lakes, of others, and of odd requests."""

import shutil
from pathlib import Path

import pytest
from deltalake import DeltaTable
from fastapi import FastAPI
from fastapi.testclient import TestClient

from pipelines.metrics.routes import router
from tests.unit.metrics.scrape import exporter
from tests.unit.project.lakes import at, committed_at, drained, health, loss, reported, sound, write


@pytest.fixture
def lake(tmp_path):
    path = str(tmp_path / "lake")
    sound(path, health("orders", 0))
    return path


def client(lake, **options):
    app = FastAPI(docs_url=None, redoc_url=None)
    app.include_router(router(exporter(lake, **options)))
    return TestClient(app)


def healthz(lake, **options):
    answer = client(lake, **options).get("/healthz")
    return answer.status_code, answer.text


def test_a_judged_lake_is_healthy_in_the_words_of_the_verdict(lake):
    write(lake, "hw_regressions", loss())
    assert healthz(lake) == (200, "prod: judged up to 2026-09-01 12:01:00 UTC, 25 s ago, at level 3 (full TRACE)\n")


def test_a_cluster_that_is_not_judged_is_unhealthy(lake):
    reported(lake, 1, to=70)
    committed_at(lake, 1, at(-900))
    status, said = healthz(lake)
    assert status == 503
    assert said.startswith(
        "prod: NOT JUDGED: `hwmark run` has not read what bronze got since 2026-09-01 11:45:00 UTC; "
    )
    assert said.count("\n") == 1


def test_silent_sources_are_unhealthy_unless_the_cluster_has_ended(lake):
    status, said = healthz(lake, seconds=60 + 301)
    assert status == 503
    assert "3 sources of brokers 1, 2, 3 silent since 2026-09-01 12:01:00 UTC: broker-1/server.log" in said
    drained(lake)
    assert healthz(lake, seconds=60 + 301)[0] == 200


def test_only_what_is_wrong_is_said_of_several_clusters(lake):
    reported(lake, 1, cluster="audit", to=10)
    write(lake, "partition_health", health("orders", 0, cluster="audit"))
    status, said = healthz(lake, seconds=320)
    assert (status, said.split(":")[0], said.count("\n")) == (503, "audit", 1)


def test_a_lake_without_events_or_tables_is_unhealthy(lake, tmp_path):
    none = tmp_path / "none"
    assert healthz(none) == (503, f"NOT JUDGED: the tables of {none} cannot be read: there are none\n")
    shutil.rmtree(f"{lake}/gold")
    DeltaTable(f"{lake}/bronze/replication_events").delete()
    assert healthz(lake) == (503, "NOT JUDGED: the lake holds no events yet\n")


def test_tables_that_cannot_be_read_are_unhealthy_in_one_line(lake, tmp_path):
    for file in (tmp_path / "lake/gold/partition_health").glob("*.parquet"):
        file.write_bytes(b"PAR1")
    status, said = healthz(lake)
    assert status == 503
    assert said.startswith(f"NOT JUDGED: the tables of {lake} cannot be read: ")
    assert said.count("\n") == 1
    assert client(lake).get("/livez").status_code == 200


def test_the_process_lives_without_a_lake(tmp_path):
    answer = client(tmp_path / "none").get("/livez")
    assert (answer.status_code, answer.text) == (200, "alive\n")


@pytest.mark.parametrize(
    ("accept", "media_type"),
    [
        ("", "text/plain; version=0.0.4; charset=utf-8"),
        ("text/plain;version=nonsense", "text/plain; version=1.0.0; charset=utf-8"),
        ("application/openmetrics-text;version=1.0.0", "application/openmetrics-text; version=1.0.0; charset=utf-8"),
        ("application/openmetrics-text;version=x.y,*/*;q=¼".encode("latin-1"), "text/plain"),
        ("image/png", "text/plain; version=0.0.4; charset=utf-8"),
    ],
)
def test_metrics_in_the_format_that_is_asked_for(lake, accept, media_type):
    answer = client(lake).get("/metrics", headers={"accept": accept})
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith(media_type)
    assert "hwmark_lake_up 1" in answer.text
    assert "process_resident_memory_bytes" in answer.text


@pytest.mark.parametrize("route", ["/metrics", "/healthz", "/livez"])
def test_nothing_is_written_and_nothing_else_is_answered(lake, route):
    before = {path: path.stat().st_mtime_ns for path in Path(lake).rglob("*")}
    assert client(lake).get(route).status_code == 200
    assert {path: path.stat().st_mtime_ns for path in Path(lake).rglob("*")} == before
    assert client(lake).post(route, content=b"x" * 10).status_code == 405
    assert client(lake).delete(route).status_code == 405
    assert client(lake).get(f"{route}/../../etc").status_code == 404
    assert client(lake).get(route, params={"limit": "9" * 400, "topic": "<script>"}).status_code == 200
