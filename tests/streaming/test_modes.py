"""Whoever may read a lake on a local disk: what the commands write has the modes of `[lake] umask`."""

import os
import stat
import subprocess
import sys

import pytest

from generators.recordings import traces
from pipelines.setup import jars_dir

LOGS = traces.path("unclean_election")


def hwmark(umask, *words):
    """A command, started where nothing is masked."""
    environment = os.environ | {"HWMARK_RUN__JARS_DIR": jars_dir() or ""}
    environment |= {"HWMARK_LAKE__UMASK": umask} if umask else {}
    call = [sys.executable, "-m", "hwmark", *map(str, words)]
    done = subprocess.run(call, env=environment, umask=0, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def modes(place, wanted):
    """The folders, or files, of `place` and the modes they have."""
    return {str(path): stat.S_IMODE(path.stat().st_mode) for path in [place, *place.rglob("*")] if wanted(path)}


def others(found, mode):
    return {path: oct(found[path]) for path in found if found[path] != mode}


@pytest.mark.spark
@pytest.mark.nightly
@pytest.mark.parametrize(
    ("umask", "source", "file", "folder"), [(None, "arrow", 0o640, 0o750), ("022", "delta", 0o644, 0o755)]
)
def test_every_file_and_folder_of_a_lake_has_the_mode_of_the_setting(
    tmp_path, monkeypatch, umask, source, file, folder
):
    monkeypatch.setenv("HWMARK_RUN__SOURCE", source)
    lake = tmp_path / "lake"
    hwmark(umask, "ingest", "logs", *sorted(LOGS.iterdir()), "--cluster", "c", "--lake", lake)
    hwmark(umask, "run", "--lake", lake, "--once", "--drain")
    hwmark(umask, "check", "--lake", lake)
    hwmark(umask, "maintain", "--lake", lake)
    assert {path.name for path in lake.iterdir()} >= {"_locks", "_run", "bronze", "silver", "gold", "ops"}
    assert others(modes(lake, lambda path: path.is_file()), file) == {}
    assert others(modes(lake, lambda path: path.is_dir()), folder) == {}
