"""Bad input on every route: one sentence and the right status, no trace, nothing written."""

import shutil
from pathlib import Path
from urllib.parse import quote, urlencode

import pytest

from pipelines.lake.bronze import bronze
from tests.web.lakes import ANSWERS, EVIL, PAGES, WHERE, incident

NAMES = ("cluster", "topic", "q", "since", "theme", "refresh", "partition", "broker", "alert_id")
ROUTES = [*PAGES, *(f"/api/v1/{name}" for name in ANSWERS)]
CHARTS = [
    f"/charts/partition.json?{WHERE}",
    f"/charts/partition.svg?{WHERE}",
    "/charts/broker.json?cluster=prod&broker=1",
]


def with_value(route, name, value):
    path, _, query = route.partition("?")
    kept = [pair for pair in query.split("&") if pair and not pair.startswith(f"{name}=")]
    return f"{path}?{'&'.join([*kept, urlencode({name: value})])}"


def files(lake):
    return {path: path.stat().st_mtime_ns for path in Path(lake).rglob("*")}


def said(response, status):
    assert response.status_code == status, response.text
    assert "Traceback" not in response.text
    assert 'File "' not in response.text
    return response.json()["error"] if response.headers["content-type"] == "application/json" else response.text


WRONG = [
    ("cluster", "prd", 404, "knows no cluster prd; did you mean prod?"),
    ("topic", "clik", 404, "knows no topic clik; did you mean clicks?"),
    ("partition", "99", 404, "knows no partition 99"),
    ("partition", "-1", 400, "partition is -1; say a number from 0 to 2,147,483,647"),
    ("partition", "9" * 400, 400, "partition is 9999"),
    ("partition", "1e3", 400, "partition is 1e3; say a number"),
    ("since", "yesterday", 400, "since = yesterday is no time; say 15m"),
    ("since", "99999999999d", 400, "is more than 100 years"),
    ("since", "9999999d", 400, "is more than 100 years"),
    ("since", "0001-01-01", 400, "since = 0001-01-01 is outside 2010 to 2100"),
    ("limit", "100000000", 400, "limit is 100000000; say a number from 1 to 1,000"),
    ("page", "0", 400, "page is 0; say a number from 1"),
    ("page", "½", 400, "say a number"),
    ("q", "x" * 5000, 400, "q has 5,000 characters"),
    ("refresh", "maybe", 400, "refresh is maybe; say on or off"),
    ("broker", "two", 400, "broker is two; say a number"),
]


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("name", "value", "status", "words"), WRONG, ids=[f"{w[0]}={w[1][:12]}" for w in WRONG])
def test_a_bad_value_is_named_on_every_route(standing, name, value, status, words):
    lake, client = standing
    before = files(lake)
    for route in [*ROUTES, *CHARTS]:
        if name in ("topic", "partition") and status == 404 and "broker" in route:
            continue  # brokers are those of a cluster: a partition is not asked for
        assert words in said(client.get(with_value(route, name, value)), status), route
    assert files(lake) == before


@pytest.mark.parametrize(
    ("path", "status", "words"),
    [
        ("/broker?cluster=prod&broker=9", 404, "cluster prod has no broker 9; known: 1, 2, 3"),
        ("/partition", 400, "no partition is named"),
        ("/partition?topic=clicks", 400, "no partition is named"),
        ("/nothing", 404, "there is no such page"),
        ("/static/../app.py", 404, "there is no such page"),
        ("/static/nothing.js", 404, "there is no such page"),
        ("/docs", 404, "there is no such page"),
        ("/redoc", 404, "there is no such page"),
        ("/charts/nothing.json", 404, "there is no chart nothing.json"),
        ("/charts/partition.exe?" + WHERE, 404, "there is no chart partition.exe"),
        (f"/charts/partition.svg?{WHERE}&since=2026-09-02", 404, "nothing was reported in this time"),
        ("/?theme=pink", 400, "theme is pink; say auto, light, dark"),
    ],
)
def test_what_is_not_there_is_said(standing, path, status, words):
    assert words in said(standing[1].get(path), status)


@pytest.mark.sampled(9)
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("value", [EVIL, "\x00", "'; DROP TABLE t; --", "%", "\\", "𝔘" * 50, "../../etc/passwd"])
def test_markup_and_quotes_in_parameters_do_nothing(standing, name, value):
    for route in PAGES:
        response = standing[1].get(with_value(route, name, value))
        assert response.status_code in (200, 400, 404)
        assert "<img src=x" not in response.text
        assert not {"\x1b", "\u202e", "\x00"} & set(response.text)


def test_markup_and_escapes_in_names_do_nothing(lake, ask):
    """Whoever writes bronze chooses names of clusters, and sources: they may hold anything."""
    incident(lake, cluster=EVIL, topic=EVIL)
    where = urlencode({"cluster": EVIL, "topic": EVIL, "partition": 0})
    views = (f"partition?{where}", f"broker?{where}&broker=2", f"topic?{where}", "alert?alert_id=a1b2", "incidents")
    for path in ("/", *(f"/{view}" for view in views), "/partitions", "/brokers", "/topics", "/quality"):
        text = said(ask(path), 200)
        assert "<img src=x" not in text
        assert "&lt;img src=x" in text
        assert not {"\x1b", "\u202e"} & set(text)
    drawn = ask(f"/charts/partition.svg?{where}").text
    assert drawn.startswith("<svg ")
    assert "<img" not in drawn


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.sampled(3)
def test_a_lake_without_events_is_said(lake, ask, route):
    bronze(lake)
    response = ask(route)
    if "cluster=prod" in route:
        assert "knows no cluster prod" in said(response, 404)
    else:
        assert response.status_code == 200
    if route in ("/", "/partitions"):
        assert f"{lake} holds no events yet." in response.text


@pytest.mark.sampled(3)
@pytest.mark.parametrize("route", [*ROUTES, *CHARTS])
def test_a_lake_that_vanishes_is_no_empty_one(lake, ask, route):
    incident(lake)
    assert ask(route).status_code == 200
    shutil.rmtree(lake)
    response = ask(route)
    assert "there is no table in the lake" in said(response, 503)
    assert response.headers["retry-after"] == "5"


@pytest.mark.sampled(5)
@pytest.mark.parametrize("route", [*PAGES, "/api/v1/verdict"])
@pytest.mark.parametrize("table", ["gold/partition_health", "silver/hw_regressions", "bronze/replication_events"])
def test_a_lake_whose_files_are_gone_is_not_shown_as_sound(lake, ask, route, table):
    incident(lake)
    for file in (Path(lake) / table).glob("*.parquet"):
        file.unlink()
    assert f"the lake {lake} cannot be read just now" in said(ask(route), 503)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("route", [*PAGES, "/api/v1/verdict"])
def test_a_half_written_log_is_not_shown_as_sound(lake, ask, route):
    incident(lake)
    commit = Path(lake) / "gold/partition_health/_delta_log/00000000000000000000.json"
    commit.write_bytes(commit.read_bytes()[:200])
    assert "cannot be read just now" in said(ask(route), 503)


def test_a_lake_that_comes_back_is_shown_again(lake, ask):
    incident(lake)
    aside = Path(lake).with_name("aside")
    Path(lake).rename(aside)
    said(ask("/"), 503)
    aside.rename(lake)
    assert ask("/").status_code == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
def test_nothing_can_be_written(standing, method):
    for route in ROUTES:
        assert "read-only" in said(standing[1].request(method, route), 405)


def test_what_goes_wrong_inside_is_one_sentence(lake, ask, monkeypatch):
    incident(lake)
    monkeypatch.setattr("pipelines.web.answers.quality._gaps", lambda *_: 1 / 0)
    assert "something went wrong in hwmark itself" in said(ask("/quality"), 500)
    assert "something went wrong in hwmark itself" in said(ask("/api/v1/quality"), 500)


def test_a_name_in_a_path_is_no_file(standing):
    assert standing[1].get(f"/static/{quote('/etc/passwd', safe='')}").status_code == 404
