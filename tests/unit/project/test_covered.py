"""What `hwmark show verdict` reads of silver/coverage."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from pipelines.cli import app
from tests.unit.project.lakes import at, health, job_has_read, reported, write

DAY = 86_400


@pytest.fixture(autouse=True)
def wall_clock(monkeypatch):
    monkeypatch.setattr("pipelines.commands.clock.now", lambda: at(85))


def history(lake, *stretches, down=None):
    """The verdict on brokers 1 to 3; starts on the third could be seen in these stretches (seconds)."""
    write(lake, "partition_health", health("orders", 0))
    reported(lake, 1, 2)
    reported(lake, 3, source_id="broker-3/server.log")
    of_3 = {"broker_id": 3, "source_id": "broker-3/server.log", "kind": "terms"}
    write(lake, "coverage", *(of_3 | {"from_ts": at(since), "to_ts": at(until)} for since, until in stretches))
    if down is not None:
        write(lake, "brokers", {"broker_id": 3, "state": "fenced", "state_ts": at(down)})
    job_has_read(lake)
    return CliRunner().invoke(app, ["show", "verdict", "--lake", lake]).output


def test_the_last_stretch_of_a_broker_that_is_down_for_days_counts(tmp_path):
    assert "no loss is known" in history(str(tmp_path / "lake"), (-9 * DAY, -3 * DAY), down=-3 * DAY)


def test_a_stretch_of_days_ago_says_nothing_of_a_broker_that_may_live(tmp_path):
    text = history(str(tmp_path / "lake"), (-9 * DAY, -3 * DAY))
    assert "a loss is not excluded" in text
    assert "nothing of broker 3 was read after 2026-08-29 12:00:00 UTC" in text


def test_what_a_watcher_missed_is_not_missing_in_the_logs(tmp_path):
    lake = str(tmp_path / "lake")
    write(lake, "telemetry_gaps", {"kind": "gap", "ts": at(5), "source_id": "watch/main/broker-3"})
    assert "no loss is known" in history(lake, (-9 * DAY, 60))
    write(lake, "telemetry_gaps", {"kind": "gap", "ts": at(5), "source_id": "broker-3/server.log"})
    assert "a loss is not excluded" in CliRunner().invoke(app, ["show", "verdict", "--lake", lake]).output
