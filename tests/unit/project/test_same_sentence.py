"""One question to every surface: what is lost here, and how it is judged. All of them answer in the same words."""

import json
import re
import shlex
from datetime import UTC, datetime, timedelta
from html import unescape
from pathlib import Path

import pytest
from starlette.testclient import TestClient
from typer.testing import CliRunner

from pipelines.cli import app
from pipelines.commands import jobs
from pipelines.lake.lake import Lake
from pipelines.quality.results import CheckSummary
from pipelines.verdict import Limits
from pipelines.web.app import create_app
from pipelines.web.snapshot import Reader
from tests.unit.notify.notified import fresh, frozen, lost, settings
from tests.unit.notify.receivers import receiver

pytestmark = pytest.mark.long

PAGE_URL = re.search(r'page_url = "([^"]+)"', (Path(__file__).parents[3] / "docs/notify.md").read_text())[1]
"""As the guide has it."""


def hwmark(*words):
    done = CliRunner().invoke(app, list(words))
    assert done.exit_code == 0, done.output
    return done.output


def seen(html):
    """What a reader sees of a page."""
    return unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]*>", "", html)))


def page(lake):
    """Asks the page of a lake at any address."""
    reader = Reader(Lake(lake), Limits(since=timedelta(days=1)), lambda: datetime.now(UTC), 0)
    return TestClient(create_app(reader)).get


@pytest.fixture
def notified(tmp_path, monkeypatch):
    """A lake with a loss and a partition under min ISR, what an Alertmanager got of it, and what a channel got."""
    monkeypatch.setattr(jobs, "check", lambda settings, now, say: CheckSummary(now, []))
    monkeypatch.chdir(tmp_path)
    lake = str(tmp_path / "lake")
    fresh(lake)
    lost(lake)
    frozen(lake)
    with receiver() as there:
        monkeypatch.setenv("CHANNEL", f"json://127.0.0.1:{there.port}/channel")
        am, chat = f'{{ am = {{ url = "{there.url}" }} }}', '{ chat = { url = "env:CHANNEL" } }'
        config = settings(tmp_path, every="30s", alertmanagers=am, channels=chat, page_url=f'"{PAGE_URL}"')
        hwmark("notify", "--lake", lake, "--config", config, "--once")
        (posted,) = [r.json for r in there.requests if r.path == "/api/v2/alerts"]
        messages = [r.json["message"] for r in there.requests if r.path == "/channel"]
    return lake, [a for a in posted if a["labels"]["alertname"] != "HwmarkWatchdog"], messages


def test_every_surface_says_the_same_sentence(notified, tmp_path):
    lake, alerts, messages = notified
    (loss,) = [a for a in alerts if a["labels"]["alertname"] == "HwmarkLoss"]
    sentence, alert_id = loss["annotations"]["summary"], loss["labels"]["alert_id"]
    assert sentence.startswith(
        "prod: LOST: 180 offsets in 1 partition: unclean election of broker 2 after broker 1 at "
    )

    ask, out = page(lake), tmp_path / "report.html"
    hwmark("report", "--lake", lake, "--alert", alert_id, "--out", str(out))
    said = {
        "show verdict": hwmark("show", "verdict", "--lake", lake),
        "show loss": hwmark("show", "loss", "--lake", lake),
        "show alerts as JSON": hwmark("show", "alerts", "--lake", lake, "--format", "json"),
        "check": hwmark("check", "--lake", lake),
        "message": "\n".join(messages),
        "overview": seen(ask("/").text),
        "alert": seen(ask(f"/alert?cluster=prod&alert_id={alert_id}").text),
        "verdict as JSON": ask("/api/v1/verdict").text,
        "alert as JSON": ask(f"/api/v1/incident?alert_id={alert_id}").text,
        "report": seen(out.read_text()),
    }
    said["verdict as JSON"] = "\n".join(
        f"{one['cluster']}{one['scope']}: {one['text']}" for one in json.loads(said["verdict as JSON"])
    )
    assert [surface for surface, text in said.items() if sentence not in text] == []

    assert len(messages) == len(alerts) == 2
    assert {text.splitlines()[0] for text in messages} == {a["annotations"]["summary"] for a in alerts}
    whole = next(line for line in said["show verdict"].splitlines() if sentence in line)
    verdicts = ("show loss", "check", "overview", "alert", "verdict as JSON")
    assert [surface for surface in verdicts if whole not in said[surface]] == []
    judged = re.search(r"prod: judged up to [^,]+", said["show verdict"])[0]
    assert [surface for surface in (*verdicts, "message", "report") if judged not in said[surface]] == []

    steps = json.loads(hwmark("show", "loss", "--lake", lake, "--format", "json"))
    assert len(steps) == 10
    shown = [(step["text"], surface) for step in steps for surface in ("show loss", "alert", "report")]
    assert [(text, surface) for text, surface in shown if text not in said[surface]] == []


def test_a_notification_of_a_loss_leads_to_its_page_and_its_chain(notified):
    lake, alerts, messages = notified
    (loss,) = [a for a in alerts if a["labels"]["alertname"] == "HwmarkLoss"]
    address, command = loss["annotations"]["page"], loss["annotations"]["command"]
    assert command == f"hwmark show loss --cluster prod --id r1 --lake {lake}"
    assert [text for text in messages if f"Page: {address}" in text and f"Type: {command}" in text] != []
    assert loss["generatorURL"] == address
    there = page(lake)(address)
    assert (there.status_code, loss["annotations"]["summary"] in seen(there.text)) == (200, True)
    chain = hwmark(*shlex.split(command)[1:]).splitlines()
    assert [line for line in chain if "elected: unclean election of broker 2 after broker 1" in line] != []
    assert "elected" in there.text
