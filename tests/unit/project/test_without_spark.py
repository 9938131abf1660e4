"""Whoever only reads a lake needs no pyspark; a command that needs it names what to install."""

import re
import shutil
import signal
import subprocess
import sys
import urllib.request

import pytest

from tests.no_spark import ABSENT, without_spark
from tests.unit.project.lakes import health, reported, sound

pytestmark = pytest.mark.long


@pytest.fixture
def lake(tmp_path):
    path = str(tmp_path / "lake")
    sound(path, health("orders", 0))
    return path


def test_what_needs_spark_names_the_package(tmp_path):
    reported(str(tmp_path), 1)
    shutil.rmtree(tmp_path / "silver")
    done = without_spark("run", "--once", "--lake", str(tmp_path))
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        "hwmark: pyspark is not installed here: `pip install 'hwmark[spark]'` brings it"
    )


@pytest.mark.nightly
@pytest.mark.parametrize(
    "command",
    [
        pytest.param(("show", "verdict"), id="show"),
        pytest.param(("check",), id="check"),
        pytest.param(("report", "--since", "1h", "--out", "report.html"), id="report"),
        pytest.param(("notify", "--once"), id="notify"),
        pytest.param(("gate", "--broker", "3", "--controllers-apart"), id="gate"),
        pytest.param(("maintain",), id="maintain"),
        pytest.param(("catalog",), id="catalog"),
    ],
)
def test_readers_need_none(lake, command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HWMARK_NOTIFY__CHANNELS", '{"sink": {"url": "env:SINK", "severity": "critical"}}')
    monkeypatch.setenv("SINK", "json://127.0.0.1:9")
    done = without_spark(*command, "--lake", lake)
    assert "pyspark" not in done.stdout + done.stderr, done.stderr
    assert done.returncode in (0, 4), done.stderr


@pytest.mark.nightly
def test_the_page_needs_none(lake):
    words = [sys.executable, "-c", ABSENT, "dashboard", "--lake", lake, "--port", "0"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as serving:
        try:
            address = re.match(r"http://\S+", serving.stdout.readline())[0]
            assert urllib.request.urlopen(address, timeout=20).status == 200
        finally:
            serving.send_signal(signal.SIGINT)
