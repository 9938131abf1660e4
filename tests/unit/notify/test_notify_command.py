"""`hwmark notify`: exit statuses, one line for what is wrong, --dry-run, --test, and how it words an end."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from pipelines.alerting.state import AlertState
from pipelines.cli import app
from pipelines.commands import jobs
from pipelines.commands.notify.groups import Groups
from pipelines.errors import UsageError
from pipelines.notify.episodes import INCIDENT, Episode
from pipelines.notify.incidents import NOT_ASKED
from pipelines.notify.look import Round
from pipelines.quality.results import CheckSummary
from pipelines.settings import load
from tests.unit.alerting.evidence_rows import at
from tests.unit.notify.notified import fresh, lost, settings
from tests.unit.notify.receivers import receiver
from tests.unit.project.lakes import reported

pytestmark = pytest.mark.long


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def lake(tmp_path):
    place = str(tmp_path / "lake")
    fresh(place)
    return place


@pytest.fixture
def there(monkeypatch):
    """A receiver, which CHANNEL and BEAT name."""
    with receiver() as one:
        monkeypatch.setenv("CHANNEL", f"json://127.0.0.1:{one.port}/channel")
        monkeypatch.setenv("BEAT", f"{one.url}/beat")
        yield one


def hwmark(*words):
    return CliRunner().invoke(app, list(words))


def everything(folder, there):
    return settings(
        folder, every="30s", alertmanagers=f'{{ am = {{ url = "{there.url}" }} }}',
        channels='{ oncall = { url = "env:CHANNEL" } }', heartbeat='"env:BEAT"',
    )  # fmt: skip


def files(folder):
    return sorted((str(path), path.stat().st_mtime_ns) for path in Path(folder).rglob("*"))


def test_a_round_reaches_every_channel_and_a_second_one_repeats_no_message(lake, there, tmp_path):
    lost(lake)
    words = ("notify", "--lake", lake, "--config", everything(tmp_path, there), "--once")
    for messages in (1, 0):
        there.requests.clear()
        assert hwmark(*words).exit_code == 0
        assert sorted(r.path for r in there.requests) == ["/api/v2/alerts", "/beat", *["/channel"] * messages]


def test_a_single_round_asks_for_the_groups_of_a_loss_once_it_was_told(lake, there, tmp_path, monkeypatch):
    """From cron no group was ever asked for: the round after the message was in another process."""
    monkeypatch.setenv("HWMARK_WATCH__BOOTSTRAP", "localhost:1")
    monkeypatch.setenv("HWMARK_WATCH__CLUSTER", "prod")
    lost(lake)
    config = settings(tmp_path, every="30s", per="incident", channels='{ oncall = { url = "env:CHANNEL" } }')
    said = hwmark("notify", "--lake", lake, "--config", config, "--once").output
    assert said.index("oncall: sent LOST prod") < said.index("consumer groups not asked for: ")


def test_groups_that_were_not_kept_are_asked_for_again_after_a_minute_then_two(lake, monkeypatch):
    """Once the answer met another evaluation, "not asked" stood with the incident for as long as that was open."""
    asked = []
    monkeypatch.setattr("pipelines.commands.show.lost_reads.text", lambda *given: asked.append(given[-1]) or "not kept")
    watch = {"bootstrap": "localhost:1", "cluster": "prod"}
    groups = Groups(load(flags={"watch": watch, "lake": {"path": lake}}), lambda text: None)

    def see(seconds, **labels):
        one = AlertState("i", INCIDENT, "critical", "firing", "s", at(0), at(0), "LOST", {"cluster": "prod"} | labels)
        groups.see(Round(at(seconds), (Episode(one, one),)))
        groups.ask(at(seconds))

    for seconds in range(0, 600, 5):
        see(seconds, groups=NOT_ASKED)
    assert asked == [at(0), at(60), at(180), at(420)]
    see(600, groups="billing read what is gone")
    see(605, groups=NOT_ASKED)
    assert asked[4:] == [at(605)], "what was offline and lost something then is asked for at once"


def test_what_was_not_accepted_is_status_1_and_named(lake, there, tmp_path):
    there.answer = lambda request: 503 if request.path == "/channel" else 200
    lost(lake)
    done = hwmark("notify", "--lake", lake, "--config", everything(tmp_path, there), "--once")
    assert done.exit_code == 1
    assert done.output.endswith("hwmark: not everything was accepted by oncall\n")
    assert "notify: oncall: attempt 1 not accepted: HTTP 503: [FIRING] critical loss: prod (" in done.output


def test_a_login_page_is_no_alertmanager(lake, there, tmp_path):
    there.answer = lambda request: (302, {"Location": "/login"}) if request.method == "POST" else 200
    config = settings(tmp_path, alertmanagers=f'{{ am = {{ url = "{there.url}" }} }}')
    done = hwmark("notify", "--lake", lake, "--config", config, "--once")
    assert (done.exit_code, [r.method for r in there.requests]) == (1, ["POST"])
    assert "am: not accepted: HTTP 302" in done.output


def test_nothing_is_fine_where_nothing_is_judged(there, tmp_path):
    lake = str(tmp_path / "new")
    reported(lake, 1)
    done = hwmark("notify", "--lake", lake, "--config", everything(tmp_path, there), "--once")
    assert "/beat" not in [r.path for r in there.requests]
    (posted,) = [r.json for r in there.requests if r.path == "/api/v2/alerts"]
    assert {alert["labels"]["alertname"] for alert in posted} == {"HwmarkStaleSource"}, "the job may yet be starting"
    assert "notify: watchdog withheld: prod: NOT JUDGED: nothing of it is reconstructed" in done.output


def test_a_dry_run_prints_everything_and_sends_and_writes_nothing(lake, there, tmp_path):
    lost(lake)
    config, before = everything(tmp_path, there), files(lake)
    done = hwmark("notify", "--lake", lake, "--config", config, "--dry-run")
    assert (done.exit_code, there.requests, files(lake)) == (0, [], before)
    assert '"alertname": "HwmarkLoss"' in done.output
    assert '"alertname": "HwmarkWatchdog"' in done.output
    assert "oncall:\n[FIRING] critical loss: prod (" in done.output
    assert done.output.endswith("heartbeat\n")


def test_a_test_message_needs_no_lake_and_passes_every_channel(there, tmp_path):
    config = everything(tmp_path, there)
    done = hwmark("notify", "--test", "--config", config)
    assert (done.exit_code, done.output) == (0, "am: accepted\noncall: accepted\n")
    assert [r.path for r in there.requests] == ["/api/v2/alerts", "/channel"], "a test is no heartbeat"
    assert there.requests[0].json[0]["labels"]["alertname"] == "HwmarkTest"
    assert there.requests[1].json["title"] == "hwmark: a test"
    there.answer = lambda request: 404
    done = hwmark("notify", "--test", "--config", config)
    assert done.exit_code == 1
    assert done.output.splitlines() == [
        "am: not accepted: HTTP 404", "oncall: not accepted: HTTP 404",
        "hwmark: not everything was accepted by am, oncall",
    ]  # fmt: skip


def test_a_failing_channel_is_an_alert_of_the_others(lake, there, tmp_path):
    config = Path(everything(tmp_path, there))
    rules = tmp_path / "rules.toml"
    rules.write_text("[notify_failing]\nafter_s = 0\n")
    config.write_text(config.read_text() + f'[alerts]\nrules_file = "{rules}"\n')
    there.answer = lambda request: 410 if request.path == "/channel" else 200
    lost(lake)
    words = ("notify", "--lake", lake, "--config", str(config), "--once")
    assert hwmark(*words).exit_code == 1
    assert hwmark(*words).exit_code == 1
    posted = [r.json for r in there.requests if r.path == "/api/v2/alerts"][-1]
    (failing,) = [a for a in posted if a["labels"]["alertname"] == "HwmarkNotifyFailing"]
    assert failing["labels"].keys() == {"alertname", "alert_id", "severity"}
    assert failing["annotations"]["summary"].startswith("notifications to oncall fail since ")
    assert failing["annotations"]["summary"].endswith(" UTC: HTTP 410")
    assert failing["annotations"]["command"] == f"hwmark show alerts --lake {lake}"


NOBODY = "notify has nobody to notify"


@pytest.mark.parametrize(
    ("sections", "words", "said"),
    [
        ({}, [], NOBODY),
        ({"channels": '{ c = { url = "env:NOT_THERE" } }'}, [], "notify.channels.c.url is 'env:NOT_THERE', but "),
        ({"channels": '{ c = { url = "env:WRONG" } }'}, [], "Secret(env:WRONG) contains no URL that Apprise knows"),
        ({"channels": '{ c = { url = "slack://s3cr3t" } }'}, [], "a secret must not stand in settings: write env:NAME"),
        ({"heartbeat": '"https://hc/s3cr3t"'}, [], "notify.heartbeat is wrong: a secret must not stand in settings"),
        ({"alertmanagers": '{ a = { url = "http://me:s3cr3t@h" } }'}, [], "without a user or password in it"),
        ({"alertmanagers": '{ a = { url = "s3cr3t" } }'}, [], "alertmanagers.a.url is wrong: write http://HOST:PORT"),
        ({"alertmanagers": '{ c = { url = "http://h" } }', "channels": '{ c = { url = "env:X" } }'}, [],
         "notify has two channels named c"),
        ({"channels": '{ heartbeat = { url = "env:X" } }'}, [], "notify has two channels named heartbeat"),
        ({"channels": '{ c = { url = "env:X", severity = "s3cr3t" } }'}, [], "channels.c.severity is wrong: Input"),
        ({"hold": "2s"}, [], "notify.hold is 2 s: it must exceed 4 x notify.every (2 s)"),
        ({"labels": '{ alertname = "x" }'}, [], "notify.labels has alertname, which hwmark sets"),
        ({"labels": '{ "a-b" = "x" }'}, [], "labels.a-b"),
        ({}, ["--every", "soon"], "--every is 'soon'"),
        ({}, ["--test"], "--once, --dry-run and --test exclude each other"),
    ],
)  # fmt: skip
def test_wrong_settings_are_one_line_and_status_2(lake, tmp_path, monkeypatch, sections, words, said):
    monkeypatch.setenv("WRONG", "nothing://s3cr3t")
    done = hwmark("notify", "--lake", lake, "--config", settings(tmp_path, **sections), "--once", *words)
    assert done.exit_code == 2
    assert said in done.output
    assert (done.output.count("\n"), "s3cr3t" in done.output) == (1, False)


def test_settings_of_a_secret_repeat_nothing_from_the_environment(monkeypatch):
    monkeypatch.setenv("HWMARK_NOTIFY__CHANNELS", json.dumps({"c": {"url": "slack://s3cr3t"}}))
    with pytest.raises(UsageError) as refused:
        load()
    assert "s3cr3t" not in str(refused.value)


def test_the_words_of_an_end_are_those_of_the_command(lake, there, tmp_path, monkeypatch):
    monkeypatch.setattr(jobs, "check", lambda settings, now, say: CheckSummary(now, []))
    rules = tmp_path / "rules.toml"
    rules.write_text("[loss]\nresolve_after_s = 3600\n")
    monkeypatch.setenv("HWMARK_ALERTS__RULES_FILE", str(rules))
    config = everything(tmp_path, there)
    lost(lake)
    assert hwmark("notify", "--lake", lake, "--config", config, "--once").exit_code == 0
    rules.write_text("[loss]\nresolve_after_s = 0\n")
    there.requests.clear()
    line = next(line for line in hwmark("check", "--lake", lake).output.splitlines() if "critical loss" in line)
    assert hwmark("notify", "--lake", lake, "--config", config, "--once").exit_code == 0
    (message,) = [r.json for r in there.requests if r.path == "/channel"]
    assert line.startswith("NO LONGER NOTIFIED critical loss: ")
    assert message["title"].startswith("[NO LONGER NOTIFIED] critical loss: ")
    assert message["type"] == "info"
