"""What Spark keeps on a driver is removed when that ends, also where no warm process is there to do it."""

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from pipelines.errors import UsageError
from pipelines.streaming import scratch

ROOT = Path(scratch.__file__).parents[2]
DRIVER = """
import sys
from pathlib import Path
from pipelines.errors import UsageError
from pipelines.streaming import scratch
scratch.remove_at_end(Path(sys.argv[1]))
print("started", flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("ended_by", [None, signal.SIGKILL])
def test_the_folder_is_removed_however_the_driver_ends(tmp_path, ended_by):
    folder = tmp_path / "kept"
    folder.mkdir()
    (folder / "shuffle").write_text("of Spark")
    command = [sys.executable, "-c", DRIVER, str(folder)]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment) as driver:
        assert driver.stdout.readline() == b"started\n"
        assert folder.is_dir()
        if ended_by is not None:
            driver.send_signal(ended_by)
    until = time.monotonic() + 300  # the limit only ends a test that fails
    while folder.exists() and time.monotonic() < until:
        time.sleep(0.05)
    assert not folder.exists()


@pytest.fixture
def noexec(tmp_path, monkeypatch):
    """A place on a file system that is mounted so; the user's cache is beside it."""
    place = tmp_path / "noexec"
    place.mkdir()
    reached = os.access
    monkeypatch.setattr(
        scratch.os,
        "access",
        lambda path, mode: reached(path, mode) and not (mode == os.X_OK and place in Path(path).parents),
    )
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(scratch, "_of_process", None)
    return place


def test_where_nothing_can_be_run_it_is_in_the_users_cache(tmp_path, noexec, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(noexec))
    monkeypatch.delenv("SPARK_LOCAL_DIRS", raising=False)
    folder = scratch.folder({})
    assert folder.parent == tmp_path / "cache" / "hwmark" / "spark"
    assert scratch.folder({}) == folder
    assert scratch.settings(folder, {})["spark.local.dir"] == str(folder)
    assert list(noexec.iterdir()) == []


def test_where_nothing_can_be_run_anywhere_it_is_refused_by_name(noexec, monkeypatch):
    """Of the library of RocksDB the JVM said "failed to map segment from shared object", in the first batch."""
    monkeypatch.setattr(tempfile, "tempdir", str(noexec))
    monkeypatch.delenv("SPARK_LOCAL_DIRS", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(noexec))
    with pytest.raises(UsageError, match=f"mounted noexec: {noexec}, {noexec}/hwmark/spark"):
        scratch.folder({})


def test_a_disk_that_spark_is_given_stays_its_own_also_where_nothing_can_be_run_on_it(noexec, monkeypatch):
    monkeypatch.delenv("SPARK_LOCAL_DIRS", raising=False)
    given = {"spark.local.dir": str(noexec)}
    folder = scratch.folder(given)
    assert noexec not in folder.parents
    assert "spark.local.dir" not in scratch.settings(folder, given)
    assert f"-Djava.io.tmpdir={folder}" in scratch.settings(folder, given)["spark.driver.extraJavaOptions"]


def test_a_disk_that_spark_is_given_holds_the_folder(tmp_path, monkeypatch):
    monkeypatch.delenv("SPARK_LOCAL_DIRS", raising=False)
    monkeypatch.setattr(scratch, "_of_process", None)
    given = {"spark.local.dir": str(tmp_path / "disk")}
    folder = scratch.folder(given)
    assert folder.parent == tmp_path / "disk"
    assert scratch.settings(folder, given)["spark.local.dir"] == str(folder)


OTHER = """
import sys
from pathlib import Path
from pipelines.errors import UsageError
from pipelines.streaming import scratch
print(scratch.make(Path(sys.argv[1]), "hwmark-test-"), flush=True)
sys.stdin.read()
"""


def test_only_the_folder_of_a_process_that_has_ended_is_removed_whatever_its_number(tmp_path, monkeypatch):
    """Of two containers that share /tmp neither sees the processes of the other."""
    command, environment = [sys.executable, "-c", OTHER, str(tmp_path)], os.environ | {"PYTHONPATH": str(ROOT)}
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment) as other:
        theirs = Path(other.stdout.readline().decode().strip())
        monkeypatch.setattr(os, "kill", lambda *args: (_ for _ in ()).throw(ProcessLookupError))
        foreign = tmp_path / "hwmark-test-1-of-an-earlier-version"
        foreign.mkdir()
        ours = scratch.make(tmp_path, "hwmark-test-")
        assert {path.name for path in tmp_path.iterdir()} == {theirs.name, ours.name, foreign.name}
        monkeypatch.undo()
        other.send_signal(signal.SIGKILL)
    last = scratch.make(tmp_path, "hwmark-test-")
    assert {path.name for path in tmp_path.iterdir()} == {ours.name, last.name, foreign.name}


KILLED = """
import os, sys
from pathlib import Path
from pipelines.errors import UsageError
from pipelines.streaming import scratch
stop = lambda *args: os.kill(os.getpid(), 9)
setattr(*{"open": (os, "open", stop), "rename": (Path, "rename", stop)}[sys.argv[2]])
scratch.make(Path(sys.argv[1]), "hwmark-test-")
"""


@pytest.mark.parametrize("step", ["open", "rename"])
def test_a_folder_whose_process_was_killed_while_it_made_it_is_removed_later(tmp_path, monkeypatch, step):
    """Its name begins with a dot, and it may have no lock: it lay there for ever."""
    command = [sys.executable, "-c", KILLED, str(tmp_path), step]
    assert subprocess.run(command, env=os.environ | {"PYTHONPATH": str(ROOT)}).returncode == -signal.SIGKILL
    (half,) = tmp_path.iterdir()
    ours = scratch.make(tmp_path, "hwmark-test-")
    assert {*tmp_path.iterdir()} == {half, ours}  # another process may be making it just now
    monkeypatch.setattr(scratch, "MADE_WITHIN_S", 0)
    last = scratch.make(tmp_path, "hwmark-test-")
    assert {path.name for path in tmp_path.iterdir()} == {ours.name, last.name}
