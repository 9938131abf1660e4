"""Checks as processes, killed between what they write, and several at once: what a lake has is told by one of them."""

import signal
import subprocess
import sys

import pytest

from pipelines.alerting.state import from_arrow
from pipelines.lake.lake import Lake
from schemas import alerts
from tests.unit.project.lakes import at, drained, health, loss, sound, write

pytestmark = pytest.mark.nightly

PROGRAM = f"""
import os, signal, sys
from datetime import datetime
from pipelines.alerting import evaluate, step
from pipelines.commands import clock
from pipelines.lake.lake import Lake
from hwmark.__main__ import main

clock.now = lambda: datetime.fromisoformat("{at(60).isoformat()}")
point = sys.argv.pop(1)

def dies(act, when=lambda *given: True, first=False):
    def call(*given, **more):
        if first and when(*given):
            os.kill(os.getpid(), signal.SIGKILL)
        act(*given, **more)
        if when(*given):
            os.kill(os.getpid(), signal.SIGKILL)
    return call

if point in ("ops/quality_results", "ops/alerts"):
    Lake.append = dies(Lake.append, lambda lake, table, rows: table.path == point)
elif point == "step":
    evaluate.take_step = dies(evaluate.take_step)
elif point == "position":
    step.set_told = dies(step.set_told, first=True)
main()
"""


@pytest.fixture
def lake(tmp_path):
    path = str(tmp_path / "lake")
    sound(path, health("orders", 0))
    drained(path)
    write(path, "hw_regressions", loss(ts=at(30)))
    return path


def start(lake, point=""):
    words = ["check", "--lake", lake, "--fail-on-alert", "--fail-on-check"]
    command = [sys.executable, "-c", PROGRAM, point, *words]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def check(lake, point=""):
    process = start(lake, point)
    output, _ = process.communicate()
    return process.returncode, output


def told_rows(lake):
    return [(state.rule, state.state) for state in from_arrow(Lake(lake).read(alerts.TABLE, alerts.ARROW))]


@pytest.mark.parametrize("point", ["ops/quality_results", "ops/alerts", "step", "position"])
def test_what_a_check_that_was_killed_found_is_told_by_the_next(lake, point):
    assert check(lake, point)[0] == -signal.SIGKILL
    status, output = check(lake)
    assert (status, "FIRING critical loss" in output) == (3, True)
    assert "FAILED silver/hw_regressions no_unclean_loss" in output
    assert told_rows(lake) == [("loss", "firing")]
    assert "1 of 1 new row" not in check(lake)[1]


@pytest.mark.parametrize("together", [2, 4])
def test_checks_at_once_tell_and_write_each_thing_once(lake, together):
    processes = [start(lake) for _ in range(together)]
    outputs = [process.communicate()[0] for process in processes]
    statuses = [process.returncode for process in processes]
    assert set(statuses) <= {3, 75}, outputs
    assert [("FIRING critical loss" in output) for output in outputs] == [status == 3 for status in statuses]
    assert any("FIRING critical loss" in output for output in outputs)
    assert told_rows(lake) == [("loss", "firing")]
    assert any("FAILED silver/hw_regressions no_unclean_loss" in output for output in outputs)
    assert "1 of 1 new row" not in check(lake)[1]
