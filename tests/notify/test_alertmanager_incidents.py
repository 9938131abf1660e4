"""A real Alertmanager with the shipped configuration: what it sends of one incident, and to whom."""

import time
from datetime import UTC, datetime, timedelta

import pytest

from pipelines.notify.alertmanager import Alertmanager
from tests.notify.processes import alertmanager, hwmark, needs_alertmanager, shipped_config
from tests.unit.notify.notified import LINKS, ago, fresh, frozen, lost, settings
from tests.unit.notify.receivers import receiver, until
from tests.unit.notify.test_plays import DEATHS, Play, die_twice, flap, lose_20_of_200_clusters
from tests.unit.project import lakes

pytestmark = needs_alertmanager

RULES = """\
[under_min_isr]
severity = "warning"
[loss]
resolve_after_s = 1
"""


@pytest.fixture
def manager(tmp_path):
    with receiver() as hook, alertmanager(tmp_path / "am", hook, shipped_config(hook)) as one:
        yield one


@pytest.fixture
def look(manager, tmp_path):
    """Looks at a lake whose cluster reports just now, and tells the Alertmanager."""
    lake, rules = str(tmp_path / "lake"), tmp_path / "rules.toml"
    rules.write_text(RULES)
    config = settings(tmp_path, per="incident", alertmanagers=f'{{ am = {{ url = "{manager.url}" }} }}')
    with open(config, "a") as more:
        more.write(f'[owners]\n"o*" = {{ team = "data" }}\n[alerts]\nrules_file = "{rules}"\n')

    def look():
        fresh(lake)
        hwmark("--lake", lake, "--config", config, "--once")

    look.lake, look.config = lake, config
    return look


def got(manager, whom):
    """The state, and the severities that fire, of each notification about an incident that a receiver got."""
    each = [request.json for request in list(manager.receiver.requests) if request.path == f"/{whom}"]
    return [
        (one["status"], *sorted(alert["labels"]["severity"] for alert in one["alerts"] if alert["status"] == "firing"))
        for one in each
        if one["commonLabels"].get("alertname") == "HwmarkIncident"
    ]


def test_an_incident_is_opened_and_raised_by_one_notification_each(manager, look):
    frozen(look.lake)
    look()
    until(lambda: got(manager, "team") == [("firing", "warning")])
    lost(look.lake, 5, topic="orders", partition=0)
    look()
    # Its first loss is an alert of its own, in the same notification.
    until(lambda: got(manager, "oncall") == [("firing", "critical", "critical")])
    alerts = [one for one in manager.ask("alerts") if one["labels"]["alertname"] == "HwmarkIncident"]
    assert len({one["labels"]["incident"] for one in alerts}) == 1
    states = {one["labels"]["severity"]: one["status"]["state"] for one in alerts}
    assert states == {"critical": "active", "warning": "suppressed"}
    assert {one["labels"]["owner"] for one in alerts} == {"data"}
    assert "LOST prod: unclean election, 180 offsets of orders" in {one["annotations"]["summary"] for one in alerts}
    for _ in range(3):
        look()
    time.sleep(2)  # four intervals in which more could be sent
    assert (len(got(manager, "team")), len(got(manager, "oncall"))) == (1, 1)


def test_a_silence_of_an_incident_holds_while_it_grows(manager, look):
    frozen(look.lake)
    look()
    until(lambda: got(manager, "team"))
    (before,) = (one for one in manager.ask("alerts") if one["labels"]["alertname"] == "HwmarkIncident")
    now = datetime.now(UTC)
    silence = {
        "matchers": [{"name": "incident", "value": before["labels"]["incident"], "isRegex": False}],
        "comment": "known", "createdBy": "oncall", "startsAt": now.isoformat(),
        "endsAt": (now + timedelta(hours=1)).isoformat(),
    }  # fmt: skip
    manager.ask("silences", silence)
    frozen(look.lake, 398, partition=1)
    look()
    (after,) = (one for one in manager.ask("alerts") if one["labels"]["alertname"] == "HwmarkIncident")
    assert (after["fingerprint"], after["status"]["state"]) == (before["fingerprint"], "suppressed")
    assert after["annotations"]["summary"] != before["annotations"]["summary"]


def test_one_that_restarts_is_told_again_of_what_is_open(manager, look):
    frozen(look.lake)
    look()
    until(lambda: got(manager, "team"))
    manager.stop()
    manager.start()
    look()
    assert [one["labels"]["severity"] for one in manager.ask("alerts") if "incident" in one["labels"]] == ["warning"]


def play_to(manager):
    """A play whose rounds an Alertmanager gets, as if each were now."""

    def channel(desk):
        def send(alerts):
            behind = datetime.now(UTC) - desk.clock.now
            times = ("startsAt", "endsAt")
            moved = [
                alert | {name: (datetime.fromisoformat(alert[name]) + behind).isoformat() for name in times}
                for alert in alerts
            ]
            manager.ask("alerts", moved)

        return Alertmanager(desk.post(), LINKS, send)

    return Play(channel)


def summaries(manager, whom):
    """The first lines of the alerts that fire, in each notification about an incident that a receiver got."""
    each = [request.json for request in list(manager.receiver.requests) if request.path == f"/{whom}"]
    fires = ([a["annotations"]["summary"] for a in one["alerts"] if a["status"] == "firing"] for one in each)
    named = (one["commonLabels"].get("alertname") == "HwmarkIncident" for one in each)
    return [said for said, is_incident in zip(fires, named, strict=True) if is_incident]


def test_20_of_200_clusters_down_are_20_notifications_and_none_of_the_others(manager):
    down = lose_20_of_200_clusters(play_to(manager))
    until(lambda: len(summaries(manager, "oncall")) >= len(down))
    time.sleep(2)  # four intervals in which more could be sent
    assert sorted(summaries(manager, "oncall")) == [[f"OFFLINE {one}: broker 1, 1 partition of orders"] for one in down]
    assert summaries(manager, "team") == []


def test_a_broker_that_flaps_for_ten_minutes_is_one_notification_and_its_end(manager):
    flap(play_to(manager), lasting=600)
    until(lambda: ("resolved",) in got(manager, "oncall"))
    time.sleep(2)  # four intervals in which more could be sent
    assert [state for state, *_ in got(manager, "oncall")] == ["firing", "resolved"]
    assert summaries(manager, "team") == []


def test_a_second_death_after_days_is_a_second_notification_and_the_first_is_not_sent_again(manager):
    die_twice(play_to(manager))
    until(lambda: len(summaries(manager, "team")) + len(summaries(manager, "oncall")) >= 2)
    time.sleep(2)  # four intervals in which more could be sent
    assert (summaries(manager, "team"), summaries(manager, "oncall")) == ([[DEATHS[0]]], [[DEATHS[1]]])


def test_what_a_restart_leaves_unproven_is_nobodys_notification(manager, look):
    """A rolling restart under downtimes was a notification for each partition of one replica."""
    lost(look.lake, 5, **{"class": "loss_not_excluded", "severity": "info", "lost_from": None, "lost_to": None})
    look()
    until(
        lambda: [one["labels"]["severity"] for one in manager.ask("alerts") if "incident" in one["labels"]] == ["info"]
    )
    time.sleep(2)  # four intervals in which it could be sent
    assert [request.path for request in list(manager.receiver.requests) if request.path != "/deadman"] == []


def test_a_watcher_that_is_cut_off_is_one_notification_that_blames_no_broker(manager, look):
    fresh(look.lake, brokers=())
    rows = [
        {"broker_id": broker, "source_id": f"watch/w/broker-{broker}", "event_type": "progress", "level": 1,
         "partition": -1, "topic": None, "ts": ago(120), "detail": "holds 10 s"}
        for broker in (1, 2, 3)
    ]  # fmt: skip
    lakes.write(look.lake, "replication_events", *rows)
    lakes.job_has_read(look.lake)
    for _ in range(3):
        hwmark("--lake", look.lake, "--config", look.config, "--once")
    until(lambda: summaries(manager, "oncall"))
    time.sleep(2)  # four intervals in which more could be sent
    assert summaries(manager, "oncall") == [["WATCHER CUT OFF hwmark: prod"]]
