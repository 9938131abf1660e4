"""A real Alertmanager groups, silences and resolves an incident, and outlives a dead hwmark without an all-clear."""

import shutil
import subprocess
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.notify.processes import alertmanager, hwmark, needs_alertmanager, notifier
from tests.unit.notify.notified import fresh, frozen, lost, settings
from tests.unit.notify.receivers import receiver, until

pytestmark = needs_alertmanager


@pytest.fixture
def manager(tmp_path):
    with receiver() as hook, alertmanager(tmp_path / "am", hook) as one:
        yield one


@pytest.fixture
def lake(tmp_path):
    """Cluster prod lost records, and is under min ISR."""
    place = str(tmp_path / "lake")
    fresh(place)
    lost(place)
    frozen(place)
    return place


def configured(tmp_path, *managers, **how):
    urls = ", ".join(f'am{n} = {{ url = "{one.url}" }}' for n, one in enumerate(managers))
    return settings(tmp_path, alertmanagers=f"{{ {urls} }}", **how)


def until_while_fresh(lake, holds):
    """Waits until `holds()` is true, while the cluster reports every second or so.

    More often would make the logs of the tables so long that on a slow machine nobody reads them before they are stale.
    """

    def reported_and_holds():
        fresh(lake)
        time.sleep(1)
        return holds()

    until(reported_and_holds)


def test_an_incident_is_grouped_silenced_and_resolved(manager, lake, tmp_path):
    config = configured(tmp_path, manager)
    hwmark("--lake", lake, "--config", config, "--once")
    until(lambda: manager.states_of("HwmarkLoss"))
    incident = next(r.json for r in manager.receiver.requests if r.json["groupLabels"] == {"cluster": "prod"})
    assert {alert["labels"]["alertname"] for alert in incident["alerts"]} == {"HwmarkLoss", "HwmarkUnderMinIsr"}

    now = datetime.now(UTC)
    silence = {
        "matchers": [{"name": "alertname", "value": "HwmarkUnderMinIsr", "isRegex": False}], "comment": "known",
        "createdBy": "oncall", "startsAt": now.isoformat(), "endsAt": (now + timedelta(hours=1)).isoformat(),
    }  # fmt: skip
    manager.ask("silences", silence)
    before = manager.alerts()["HwmarkUnderMinIsr"]
    frozen(lake, 398, partition=1)  # the incident grows
    fresh(lake)
    hwmark("--lake", lake, "--config", config, "--once")
    after = manager.alerts()["HwmarkUnderMinIsr"]
    assert after["annotations"]["summary"] != before["annotations"]["summary"]
    assert (after["fingerprint"], after["status"]["state"]) == (before["fingerprint"], "suppressed")

    for partition in (0, 1):
        frozen(lake, 0, "thaw", partition)
    fresh(lake)
    hwmark("--lake", lake, "--config", config, "--once")
    assert "HwmarkUnderMinIsr" not in manager.alerts()
    assert manager.alerts()["HwmarkLoss"]["status"]["state"] == "active"
    assert manager.states_of("HwmarkLoss")[-1] == "firing"


def test_an_end_is_sent_once_an_alertmanager_is_back(manager, lake, tmp_path):
    config = configured(tmp_path, manager)
    hwmark("--lake", lake, "--config", config, "--once")
    until(lambda: "firing" in manager.states_of("HwmarkUnderMinIsr"))
    manager.stop()
    frozen(lake, 0, "thaw")
    fresh(lake)
    assert "am0: not accepted: no connection" in hwmark("--lake", lake, "--config", config, "--once", status=1)
    manager.start()
    hwmark("--lake", lake, "--config", config, "--once")
    until(lambda: "resolved" in manager.states_of("HwmarkUnderMinIsr"))


def test_with_hwmark_dead_the_watchdog_ends_and_no_alert_does(manager, lake, tmp_path):
    config = configured(tmp_path, manager, every="500ms", hold="1h")
    with notifier(tmp_path / "out", "--lake", lake, "--config", config):
        until(lambda: "firing" in manager.states_of("HwmarkWatchdog") and "firing" in manager.states_of("HwmarkLoss"))
    until(lambda: "resolved" in manager.states_of("HwmarkWatchdog"))
    assert manager.alerts()["HwmarkLoss"]["status"]["state"] == "active"
    assert "HwmarkWatchdog" not in manager.alerts()
    assert {*manager.states_of("HwmarkLoss"), *manager.states_of("HwmarkUnderMinIsr")} == {"firing"}


def test_the_watchdog_ends_where_a_source_is_silent(manager, tmp_path):
    lake, config = str(tmp_path / "lake"), tmp_path / "rules.toml"
    fresh(lake)
    config.write_text("[stale_source]\nstale_after_s = 6\n")
    file = configured(tmp_path, manager)
    with open(file, "a") as more:
        more.write(f'[alerts]\nrules_file = "{config}"\n')
    with notifier(tmp_path / "out", "--lake", lake, "--config", file):
        until_while_fresh(lake, lambda: "firing" in manager.states_of("HwmarkWatchdog"))
        until(lambda: "firing" in manager.states_of("HwmarkStaleSource"))
        # On a slow machine it also ends, and fires again, between two rounds; what counts is how it ends up.
        until(lambda: manager.states_of("HwmarkWatchdog")[-1] == "resolved")
        before = len(manager.states_of("HwmarkWatchdog"))
        until_while_fresh(lake, lambda: "firing" in manager.states_of("HwmarkWatchdog")[before:])


def test_every_alertmanager_gets_everything_while_one_is_dead(manager, lake, tmp_path):
    with receiver() as gone:
        dead = gone
    hwmark("--lake", lake, "--config", configured(tmp_path, dead, manager, every="10s"), "--once", status=1)
    assert {"HwmarkLoss", "HwmarkUnderMinIsr", "HwmarkWatchdog"} <= set(manager.alerts())


def test_a_lake_of_two_episodes_at_once_keeps_one_alert_firing(manager, tmp_path):
    """What ended and what fires have the same labels: the end of one is not that of the other."""
    lake, config = str(tmp_path / "lake"), configured(tmp_path, manager)
    fresh(lake)
    frozen(lake, 1200)
    hwmark("--lake", lake, "--config", config, "--once")
    frozen(lake, 800, "thaw")
    frozen(lake, 500)
    fresh(lake)
    hwmark("--lake", lake, "--config", config, "--once")
    assert manager.alerts()["HwmarkUnderMinIsr"]["status"]["state"] == "active"


@pytest.mark.skipif(shutil.which("amtool") is None, reason="no amtool (Debian: prometheus-alertmanager)")
@pytest.mark.parametrize(
    ("alert", "receiver"),
    [
        (["alertname=HwmarkWatchdog", "severity=none"], "deadman"),
        (["alertname=HwmarkLoss", "severity=critical", "cluster=prod"], "oncall"),
        (["alertname=HwmarkIncident", "severity=info", "cluster=prod", "incident=a1"], "nobody"),
        (["alertname=HwmarkGap", "severity=warning", "cluster=prod"], "team"),
    ],
)
def test_the_routes_that_are_shipped(alert, receiver):
    routes = Path(__file__).parents[2] / "conf/alertmanager-hwmark.yml"
    call = ["amtool", "config", "routes", "test", f"--config.file={routes}", f"--verify.receivers={receiver}", *alert]
    done = subprocess.run(call, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, f"{receiver}\n")
