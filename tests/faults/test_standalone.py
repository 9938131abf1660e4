"""A standalone Spark, a master and two workers: executors and driver are killed, silver is that of `replay`.

The first job is given to spark-submit with a packed environment, as docs/operations.md has it.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import tarfile
import venv
from contextlib import ExitStack
from pathlib import Path

import pytest

from pipelines.setup import jars_dir
from tests.faults.test_stopping import PATIENCE_S, SUBMITTED, Running, grow
from tests.streaming.test_job import assert_same_as_replay

EXECUTOR = "org.apache.spark.executor.CoarseGrainedExecutorBackend"


class Cluster:
    """Master and workers of the pyspark distribution, each a process; `executors` are those of the workers."""

    def __init__(self, folder, started):
        import pyspark

        self.spark_class = str(Path(pyspark.__file__).parent / "bin" / "spark-class")
        self.folder, self.started = folder, started
        master = self._start("org.apache.spark.deploy.master.Master", "--host", "127.0.0.1", "--port", "0")
        self.address = self._said(master, r"Starting Spark master at (spark://\S+)")
        for _ in range(2):
            worker = self._start(
                "org.apache.spark.deploy.worker.Worker", "--cores", "1", "--memory", "1g", self.address
            )
            self._said(worker, r"(Successfully registered) with master")

    def _start(self, *words):
        environment = os.environ | {
            "SPARK_WORKER_DIR": str(self.folder / "work"), "SPARK_LOCAL_DIRS": str(self.folder / "local"),
            "PYSPARK_PYTHON": sys.executable, "SPARK_NO_DAEMONIZE": "1",
        }  # fmt: skip
        process = subprocess.Popen(
            [self.spark_class, *words, *(["--webui-port", "0"])],
            env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True,
        )  # fmt: skip
        self.started.callback(process.wait, PATIENCE_S)
        self.started.callback(process.kill)
        return process

    def _said(self, process, words):
        for line in process.stderr:
            if found := re.search(words, line):
                return found[1]
        raise AssertionError(f"it ended before it said {words}")

    def executors(self):
        return self._of_executors(EXECUTOR)

    def packed_workers(self):
        """Python processes of executors that run from the archive unpacked beside them."""
        return self._of_executors("./env/bin/python")

    def _of_executors(self, named):
        found = []
        for entry in Path("/proc").glob("[0-9]*"):
            try:
                words = (entry / "cmdline").read_bytes().decode(errors="replace")
            except OSError:
                continue
            if named in words and self._is_mine(entry):
                found.append(int(entry.name))
        return found

    def _is_mine(self, entry):
        try:
            return os.readlink(entry / "cwd").startswith(str(self.folder / "work"))
        except OSError:
            return False


def packed(folder):
    """An environment with hwmark in it, and its archive; what it depends on stays where it is: that is 850 MB."""
    environment, repository = folder / "env", Path(__file__).parents[2]
    venv.create(environment, symlinks=True)
    (site,) = (environment / "lib").glob("python*/site-packages")
    for package in ("pipelines", "generators", "schemas"):
        shutil.copytree(repository / package, site / package, ignore=shutil.ignore_patterns("__pycache__"))
    (site / "dependencies.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")
    with tarfile.open(folder / "env.tar.gz", "w:gz", compresslevel=1) as archive:
        archive.add(environment, ".")
    return folder / "env.tar.gz"


def submitted(cluster, archive):
    """spark-submit to the cluster with this environment, from the folder that has it unpacked for the driver."""
    script = archive.with_name("job.py")
    script.write_text(SUBMITTED)
    return [
        cluster.spark_class.replace("spark-class", "spark-submit"), "--master", cluster.address,
        "--archives", f"{archive}#env", "--jars", ",".join(map(str, Path(jars_dir()).glob("*.jar"))),
        "--conf", "spark.pyspark.python=./env/bin/python",
        "--conf", f"spark.pyspark.driver.python={archive.parent}/env/bin/python", str(script),
    ]  # fmt: skip


@pytest.mark.spark
@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="processes are looked for in /proc")
def test_executors_and_driver_killed_on_a_standalone_cluster(tmp_path):
    lake = tmp_path / "lake"
    with ExitStack() as started:
        cluster = Cluster(tmp_path, started)
        words = ("--master", cluster.address)
        for number in range(3):
            grow(lake, number)
            if number == 0:
                program = submitted(cluster, packed(tmp_path))
                job = Running(lake, tmp_path / "submitted", "--interval", "1s", program=program, cwd=tmp_path)
            else:
                job = Running(lake, tmp_path / f"scratch-{number}", "--interval", "1s", *words)
            job.in_flight()
            if number == 0:
                job.wait_for(lambda: cluster.packed_workers() or None)
            if number < 2:
                for executor in cluster.executors()[: number + 1]:
                    os.kill(executor, signal.SIGKILL)
                batch = max(job.numbers("offsets"))
                job.wait_for(lambda batch=batch, job=job: batch in job.numbers("commits") or None)
                job.process.terminate()
                # A JVM of spark-submit that is asked to end says so with its status.
                assert job.process.wait(PATIENCE_S) == (0 if number else 128 + signal.SIGTERM)
            else:
                job.process.kill()
                job.process.wait(PATIENCE_S)
        grow(lake, 3)
        last = Running(lake, tmp_path / "scratch", "--once", "--drain", *words)
        _, said = last.process.communicate(timeout=PATIENCE_S)
        assert last.process.returncode == 0, said
    assert_same_as_replay(lake)
