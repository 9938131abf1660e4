"""Workers import the pyspark that is installed, unless Spark's own is another one."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pyspark
import pytest

import pipelines
from pipelines.streaming import session, workers

ROOT = Path(workers.__file__).parents[3]


def zipped(folder, version):
    with zipfile.ZipFile(folder / "pyspark.zip", "w") as file:
        file.writestr("pyspark/__init__.py", "FROM_ZIP = True\n")
        file.writestr("pyspark/version.py", version)
    return str(folder / "pyspark.zip")


def found(path, words, *arguments, **environment):
    """What a new interpreter prints with this path, as Spark would start it."""
    command = [sys.executable, "-c", words, *arguments]
    paths = os.pathsep.join(map(str, path))
    done = subprocess.run(command, env=os.environ | environment | {"PYTHONPATH": paths}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


IS_ZIPPED = """
from pipelines.streaming.workers.installed import prefer_installed
prefer_installed()
import pyspark
print(hasattr(pyspark, "FROM_ZIP"))
"""


@pytest.mark.parametrize("same", [True, False])
def test_the_zip_gives_way_to_an_installed_pyspark_of_its_version_only(tmp_path, same):
    version = Path(pyspark.__file__).with_name("version.py").read_text()
    spark = zipped(tmp_path, version if same else "__version__: str = '0.0.1'\n")
    assert found([spark, ROOT], IS_ZIPPED) == str(not same)


def test_a_zip_that_is_missing_or_broken_is_left_alone(tmp_path):
    (tmp_path / "pyspark.zip").write_text("no zip")
    path = [tmp_path / "pyspark.zip", tmp_path / "py4j-0.1-src.zip", ROOT]
    prefer = "from pipelines.streaming.workers.installed import prefer_installed; prefer_installed()"
    assert found(path, f"{prefer}; import sys; print(sys.path[1])") == str(tmp_path / "pyspark.zip")


def test_workers_that_get_hwmark_as_a_zip_are_started_by_sparks_own_daemon(monkeypatch):
    assert session.warm_workers() == {"spark.python.daemon.module": "pipelines.streaming.workers.daemon"}
    monkeypatch.setattr(pipelines, "__file__", "/job/hwmark.zip/pipelines/__init__.py")
    assert session.warm_workers() == {}


DAEMON = """
import pathlib, sys
from pipelines.streaming.workers import daemon
import pyspark.daemon
tasks = pathlib.Path("/proc/self/task")
pyspark.daemon.manager = lambda: print(*[(task / "comm").read_text().strip() for task in tasks.iterdir()], sep="|")
daemon.NEEDED += ("no.such.module",)
daemon.main("pyspark.worker")
print(*sorted({"numba", "pandas", "pipelines.streaming.sinks.sink"} & set(sys.modules)))
"""


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="counts threads in /proc")
def test_what_tasks_need_is_imported_before_workers_are_forked_and_no_thread_is_running():
    threads, imported = found([ROOT], DAEMON).splitlines()
    # Threads do not live on in a fork; jemalloc makes its own anew there.
    assert len([name for name in threads.split("|") if name != "jemalloc_bg_thd"]) == 1
    assert imported == "numba pandas pipelines.streaming.sinks.sink"
