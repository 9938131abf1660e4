"""Commands mask modes as `[lake] umask` says; whoever calls from Python has a mask of his own."""

import os
import stat

import pytest
from typer.testing import CliRunner

from generators.brokerlogs.ingest import ingest_logs
from generators.recordings import traces
from pipelines.cli import app
from pipelines.streaming.hadoop import file_modes

LOGS = str(traces.path("unclean_election") / "broker-1")


@pytest.fixture
def unmasked():
    before = os.umask(0)
    yield
    os.umask(before)


def modes(lake):
    return {stat.S_IMODE(path.stat().st_mode) for path in lake.rglob("*")}


def mask():
    now = os.umask(0)
    os.umask(now)
    return now


def test_a_command_masks_what_it_writes_and_nothing_after_it(tmp_path, unmasked):
    lake = tmp_path / "lake"
    done = CliRunner().invoke(app, ["ingest", "logs", LOGS, "--cluster", "c", "--lake", str(lake)])
    assert done.exit_code == 0, done.output
    assert modes(lake) == {0o640, 0o750}
    assert mask() == 0


def test_a_command_masks_as_the_setting_says(tmp_path, unmasked, monkeypatch):
    monkeypatch.setenv("HWMARK_LAKE__UMASK", "002")
    lake = tmp_path / "lake"
    CliRunner().invoke(app, ["ingest", "logs", LOGS, "--cluster", "c", "--lake", str(lake)])
    assert modes(lake) == {0o664, 0o775}


def test_a_call_from_python_leaves_the_mask_of_the_caller(tmp_path, unmasked):
    os.umask(0o077)
    ingest_logs([LOGS], cluster="c", lake=str(tmp_path / "lake"))
    assert modes(tmp_path / "lake") == {0o600, 0o700}
    assert mask() == 0o077


@pytest.mark.parametrize("umask", [0o027, 0o002, 0])
def test_hadoop_is_told_the_mask_of_the_process(unmasked, umask):
    os.umask(umask)
    assert file_modes() == {"spark.hadoop.fs.permissions.umask-mode": f"{umask:03o}"}
    assert mask() == umask
