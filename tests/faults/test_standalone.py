"""A standalone Spark, a master and two workers: executors and driver are killed, and silver is that of `replay`.

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
import time
import venv
from contextlib import ExitStack
from pathlib import Path

import pytest

from pipelines.replication.compiled.decorators import kernel_cache
from pipelines.setup import jars_dir
from tests.faults.test_stopping import PATIENCE_S, STARTS_FAST, SUBMITTED, Running, grow
from tests.streaming.test_job import assert_same_as_replay

EXECUTOR = "org.apache.spark.executor.CoarseGrainedExecutorBackend"


class Cluster:
    """Master and workers of the pyspark distribution, each a process; `executors` are those of the workers."""

    def __init__(self, folder, started):
        import pyspark

        self.spark_class = str(Path(pyspark.__file__).parent / "bin" / "spark-class")
        self.folder, self.started = folder, started
        self.address = self._start(
            r"Starting Spark master at (spark://\S+)",
            "org.apache.spark.deploy.master.Master", "--host", "127.0.0.1", "--port", "0",
        )  # fmt: skip
        for _ in range(2):
            self._start(
                "(Successfully registered) with master",
                "org.apache.spark.deploy.worker.Worker", "--cores", "1", "--memory", "1g", self.address,
            )  # fmt: skip

    def _start(self, says, *words):
        """Starts one of them and waits until it says so; what the words were. A pipe that nobody reads would fill."""
        environment = os.environ | {
            "SPARK_WORKER_DIR": str(self.folder / "work"), "SPARK_LOCAL_DIRS": str(self.folder / "local"),
            "PYSPARK_PYTHON": sys.executable, "SPARK_NO_DAEMONIZE": "1",
            "JDK_JAVA_OPTIONS": STARTS_FAST,  # executors inherit it
        }  # fmt: skip
        log = self.folder / f"spark-{len(list(self.folder.glob('spark-*.log')))}.log"
        with log.open("w") as output:
            process = subprocess.Popen(
                [self.spark_class, *words, "--webui-port", "0"],
                env=environment, stdout=subprocess.DEVNULL, stderr=output, start_new_session=True,
            )  # fmt: skip
        self.started.callback(process.wait, PATIENCE_S)
        self.started.callback(process.kill)
        until = time.monotonic() + PATIENCE_S
        while not (found := re.search(says, log.read_text())):
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < until, log.read_text()
            time.sleep(0.1)
        return found[1]

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
    """An environment with hwmark and its compiled kernels, and its archive; what it depends on stays where it is."""
    environment, repository = folder / "env", Path(__file__).parents[2]
    venv.create(environment, symlinks=True)
    (site,) = (environment / "lib").glob("python*/site-packages")
    for package in ("hwmark", "pipelines", "generators", "schemas"):
        shutil.copytree(repository / package, site / package, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(kernel_cache(), site / "pipelines" / "kernels")
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


def _one_batch_without(cluster, number, job):
    """Kills so many executors while a batch is in flight, and waits until that batch is done all the same."""
    batch, executors = job.in_flight(), cluster.executors()
    assert executors
    for executor in executors[:number]:
        os.kill(executor, signal.SIGKILL)
    job.wait_for(lambda: batch in job.numbers("commits") or None)


@pytest.mark.nightly
@pytest.mark.spark
@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="processes are looked for in /proc")
def test_executors_and_driver_killed_on_a_standalone_cluster_and_its_state_resharded(tmp_path):
    lake = tmp_path / "lake"
    with ExitStack() as started:
        cluster = Cluster(tmp_path, started)
        grow(lake, 0)
        program = submitted(cluster, packed(tmp_path))
        job = Running(lake, tmp_path / "submitted", "--interval", "1s", program=program, cwd=tmp_path)
        job.wait_for(lambda: cluster.packed_workers() or None)
        _one_batch_without(cluster, 1, job)
        grow(lake, 1)
        job.in_flight()
        (driver,) = [pid for pid, words in job.alive().items() if re.search(r"python\S* \S*job\.py run", words)]
        os.kill(driver, signal.SIGKILL)
        job.process.wait(PATIENCE_S)
        grow(lake, 2)
        words = ("--master", cluster.address)
        job = Running(lake, tmp_path / "asked-to-end", "--interval", "1s", *words)
        _one_batch_without(cluster, 2, job)
        job.process.terminate()
        assert job.process.wait(PATIENCE_S) == 0, job.log.read_text()
        grow(lake, 3)
        last = Running(lake, tmp_path / "scratch", "--once", "--drain", "--buckets", "8", "--reshard", "8", *words)
        assert last.process.wait(PATIENCE_S) == 0, last.log.read_text()
    assert_same_as_replay(lake)
