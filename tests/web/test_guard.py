"""Who may ask, and what a browser may do with the answers."""

import base64
import hashlib
import re

import pytest
from starlette.testclient import TestClient

from pipelines.commands.dashboard import app
from pipelines.errors import UsageError
from pipelines.lake.lake import Lake
from pipelines.settings import load
from pipelines.verdict import Limits
from pipelines.web import assets
from pipelines.web.app import create_app
from pipelines.web.guard import LOOPBACK, host_of
from pipelines.web.snapshot import Reader
from tests.web.lakes import NOW, PAGES

TOKEN = "a-token-of-twenty-two."


@pytest.fixture(scope="module")
def lake(standing):
    return standing[0]


def client(lake, **more):
    reader = Reader(Lake(lake), Limits(), lambda: NOW, 3600)
    return TestClient(create_app(reader, **more), base_url="http://localhost:8080", raise_server_exceptions=False)


def basic(password):
    return "Basic " + base64.b64encode(f"anybody:{password}".encode()).decode()


@pytest.mark.parametrize(
    "given", [None, "Bearer nonsense", basic("nonsense"), "Basic !!!", "Digest x", f"Bearer {TOKEN} ", TOKEN]
)
def test_without_the_token_nothing_is_said(lake, given):
    asked = client(lake, token=TOKEN)
    for path in (*PAGES, "/api/v1/verdict", "/static/page.css", "/api/v1/openapi.json", "/nothing"):
        response = asked.get(path, headers={"Authorization": given} if given else {})
        assert response.status_code == 401
        assert response.headers["www-authenticate"].startswith("Basic ")
        assert "prod" not in response.text


@pytest.mark.parametrize("given", [f"Bearer {TOKEN}", f"bearer {TOKEN}", basic(TOKEN)])
def test_with_the_token_all_is(lake, given):
    assert client(lake, token=TOKEN).get("/", headers={"Authorization": given}).status_code == 200


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8080", "127.0.0.1.evil.example", "", "[::2]:8080"])
def test_on_loopback_no_other_name_leads_here(lake, host):
    """A name of somebody else's that resolves to 127.0.0.1 (DNS rebinding) would let their page read this one."""
    assert client(lake, hosts=LOOPBACK).get("/", headers={"Host": host}).status_code == 421


@pytest.mark.parametrize("host", ["localhost", "localhost:8080", "127.0.0.1:1", "[::1]:8080", "LOCALHOST"])
def test_names_of_this_machine_do(lake, host):
    assert host_of(host) in LOOPBACK
    assert client(lake, hosts=LOOPBACK).get("/", headers={"Host": host}).status_code == 200


def test_every_response_has_a_policy_without_eval_and_inline_scripts(lake):
    asked = client(lake)
    for path in (*PAGES, "/nothing", "/static/page.css", "/api/v1/verdict"):
        policy = asked.get(path).headers["content-security-policy"]
        assert "default-src 'none'; script-src 'self'; style-src 'self'" in policy
        assert "unsafe" not in policy


def test_pages_have_no_inline_script_style_or_foreign_address(lake):
    asked = client(lake)
    for path in PAGES:
        page = asked.get(path).text
        assert re.findall(r"<script(?![^>]*\bsrc=)|<style|\sstyle=|\son\w+=|javascript:", page) == []
        assert re.findall(r"(?:src|href|action|hx-get|data-spec)=\"(?!/)(?!#)[^\"]*", page) == []


def test_vendored_htmx_is_the_one_of_the_registry():
    assert hashlib.sha256(assets.asset("htmx.min.js").content).hexdigest() == assets.HTMX_SHA256
    assert b'version:"2.0.11"' in assets.asset("htmx.min.js").content


def test_files_are_kept_by_browsers_under_names_that_change_with_them(lake):
    response = client(lake).get(assets.url("page.css"))
    assert "immutable" in response.headers["cache-control"]
    assert client(lake).get("/").headers["cache-control"] == "no-store"


def test_the_openapi_file_lists_answers_and_parameters(lake):
    found = client(lake).get("/api/v1/openapi.json").json()
    assert {"/api/v1/verdict", "/api/v1/overview", "/api/v1/partition"} <= found["paths"].keys()
    names = {one["name"] for one in found["paths"]["/api/v1/overview"]["get"]["parameters"]}
    assert {"cluster", "since", "q", "page", "limit"} <= names
    assert "Overview" in found["components"]["schemas"]


def test_routers_of_others_are_mounted(lake):
    from fastapi import APIRouter

    metrics = APIRouter()
    metrics.add_api_route("/livez", lambda: "alive")
    assert client(lake, routers=[metrics], token=TOKEN).get("/livez").json() == "alive"


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "example.org"])
@pytest.mark.parametrize("given", ["", "short"])
def test_an_address_that_others_reach_needs_a_token(lake, host, given, monkeypatch):
    monkeypatch.setenv("HWMARK_DASHBOARD__TOKEN", given)
    settings = load(flags={"lake": {"path": lake}, "dashboard": {"host": host}})
    with pytest.raises(
        UsageError, match=f"--host {re.escape(host)} can be reached from elsewhere: set HWMARK_DASHBOARD__TOKEN"
    ):
        app(settings)


@pytest.mark.parametrize("kind", ["file:", "env:", ""])
def test_a_token_is_where_its_setting_says_or_in_the_variable_that_overrides_it(lake, tmp_path, monkeypatch, kind):
    file = tmp_path / "token"
    file.write_text(f"{TOKEN}\n")
    monkeypatch.setenv("PAGE_TOKEN", TOKEN)
    given = {"file:": f"file:{file}", "env:": "env:PAGE_TOKEN", "": TOKEN}[kind]
    monkeypatch.setenv("HWMARK_DASHBOARD__TOKEN", given)
    settings = load(flags={"lake": {"path": lake}, "dashboard": {"host": "0.0.0.0"}})
    assert TOKEN not in repr(settings)
    ask = TestClient(app(settings)).get
    assert ask("/livez").status_code == 200
    assert [ask("/", headers=h).status_code for h in ({}, {"Authorization": f"Bearer {TOKEN}"})] == [401, 200]


@pytest.mark.parametrize(
    ("content", "words"),
    [(None, "which cannot be read: No such file"), (b"\n", "is empty"), (b"\xff", "which is no text in UTF-8")],
)
def test_a_token_file_that_has_none_is_said(lake, tmp_path, content, words):
    file = tmp_path / "token"
    if content is not None:
        file.write_bytes(content)
    settings = load(flags={"lake": {"path": lake}, "dashboard": {"token": f"file:{file}"}})
    with pytest.raises(UsageError, match=f"dashboard.token is 'file:.*{words}"):
        app(settings)
