"""`hwmark run` asked to stop ends after the batch in flight; however it ends, nothing of it is left behind."""

import os
import signal
import subprocess
import sys
import time
import uuid
from contextlib import suppress
from pathlib import Path

import pytest

from generators.brokerlogs.ingest import read_logs
from generators.recordings import traces
from pipelines.lake.bronze import append_events
from pipelines.setup import jars_dir
from pipelines.streaming.class_archive import JAVA_OPTIONS
from pipelines.streaming.session import PASSES_BLOBS
from tests.streaming.test_job import assert_same_as_replay
from tests.streaming.test_kill import in_commits

PATIENCE_S = 600
"""Until a wait counts as a hang: a batch that starts two executors anew took 170 s of a slow machine's two cores."""
STARTS_FAST = PASSES_BLOBS[JAVA_OPTIONS]
"""What the driver's JVM gets, for every JVM here: none lives longer than a minute, which would go into compiling."""
EVENTS = read_logs([traces.path("slow_follower")], "slow_follower")
PARTS = in_commits(EVENTS, 7)

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="processes are looked for in /proc"),
]


class Running:
    """A job in a process group of its own; its processes are known by a variable that all of them inherit."""

    def __init__(self, lake, scratch, *words, program=(sys.executable, "-m", "hwmark"), cwd=None):
        self.lake, self.scratch, self.mark = lake, scratch, f"OF_THIS_JOB={uuid.uuid4().hex}"
        scratch.mkdir()
        environment = os.environ | dict([self.mark.split("=")]) | {
            "HWMARK_RUN__JARS_DIR": jars_dir() or "",
            "PYSPARK_PYTHON": sys.executable,
            "TMPDIR": str(scratch),
            "SPARK_LOCAL_DIRS": str(scratch),
            "JDK_JAVA_OPTIONS": f"-Djava.io.tmpdir={scratch} -XX:-UsePerfData {STARTS_FAST}",
        }  # fmt: skip
        self.before = self.numbers("offsets")
        # A file, since a pipe that nobody reads stops Spark once it is full: traces of lost tasks are long.
        self.log = scratch.with_suffix(".log")
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                [*program, "run", "--lake", str(lake), "--buckets", "4", *words],
                env=environment, cwd=cwd, start_new_session=True, stdout=subprocess.DEVNULL, stderr=log,
            )  # fmt: skip

    def numbers(self, folder):
        return {int(entry.name) for entry in self.lake.glob(f"_run/*/{folder}/*") if entry.name.isdigit()}

    def in_flight(self):
        """Waits until a new batch is being worked on; its number."""
        return self.wait_for(lambda: max(self.numbers("offsets") - self.numbers("commits") - self.before, default=None))

    def wait_for(self, what):
        until = time.monotonic() + PATIENCE_S
        while time.monotonic() < until:
            assert self.process.poll() is None, self.log.read_text()
            if (found := what()) is not None:
                return found
            time.sleep(0.02)
        raise AssertionError(f"it did not happen: {self.log.read_text()[-9999:]}")

    def alive(self):
        """Processes that were started by the job, or by what it started, and have not ended."""
        found = {}
        for entry in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if self.mark.encode() in (entry / "environ").read_bytes().split(b"\0"):
                    found[int(entry.name)] = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        return found

    def jvm(self):
        found = self.alive()
        pids = [pid for pid, words in found.items() if "org.apache.spark.deploy.SparkSubmit" in words]
        assert len(pids) == 1, found
        return pids[0]

    def ends(self):
        """Status and what it said, once nothing of it is left."""
        self.process.wait(PATIENCE_S)
        until = time.monotonic() + PATIENCE_S
        while (left := self.alive()) or (lying := sorted(map(str, self.scratch.rglob("*")))):
            assert time.monotonic() < until, (left, lying)
            time.sleep(0.2)
        return self.process.returncode, self.log.read_text()


def grow(lake, version):
    append_events(str(lake), PARTS[version], app_id="test", version=version)


ASKED = {
    "SIGTERM": lambda job: job.process.terminate(),
    "SIGTERM to the process group": lambda job: os.killpg(job.process.pid, signal.SIGTERM),
    "Ctrl-C": lambda job: os.killpg(job.process.pid, signal.SIGINT),
}
ENDED = {
    "the driver killed": lambda job: job.process.kill(),
    "the JVM killed": lambda job: os.kill(job.jvm(), signal.SIGKILL),
}


@pytest.mark.parametrize(
    "ways", [("SIGTERM", "the JVM killed"), pytest.param((*ASKED, *ENDED), marks=pytest.mark.nightly)]
)
def test_asked_to_stop_it_ends_the_batch_and_killed_it_leaves_nothing(tmp_path, ways):
    lake = tmp_path / "lake"
    for number, name in enumerate(ways):
        grow(lake, number)
        job = Running(lake, tmp_path / f"scratch-{number}", "--interval", "1s")
        batch = job.in_flight()
        (ASKED | ENDED)[name](job)
        status, said = job.ends()
        if name in ASKED:
            assert (status, batch in job.numbers("commits")) == (0, True), (name, said)
        else:
            assert status != 0, name
        if name == "the JVM killed":
            assert said.splitlines()[-1].startswith("hwmark: the JVM of Spark was killed or died"), said
            assert "Traceback" not in said
    grow(lake, len(ways))
    assert Running(lake, tmp_path / "scratch", "--once", "--drain").ends()[0] == 0
    assert_same_as_replay(lake)


SUBMITTED = "from hwmark.__main__ import main\nmain()\n"


@pytest.mark.nightly
def test_sigterm_to_the_jvm_of_spark_submit_and_the_next_run_goes_on(tmp_path):
    import pyspark

    lake, script = tmp_path / "lake", tmp_path / "job.py"
    script.write_text(SUBMITTED)
    jars = jars_dir()
    submit = [str(Path(pyspark.__file__).parent / "bin" / "spark-submit"), "--master", "local[2]"]
    submit += [
        "--jars",
        ",".join(map(str, Path(jars).glob("*.jar"))),
        "--conf",
        f"spark.pyspark.python={sys.executable}",
    ]
    grow(lake, 0)
    job = Running(lake, tmp_path / "submitted", "--interval", "1s", program=[*submit, str(script)])
    job.in_flight()
    job.process.terminate()
    # A JVM of spark-submit that is asked to end says so with its status.
    assert job.ends()[0] == 128 + signal.SIGTERM
    grow(lake, 1)
    assert Running(lake, tmp_path / "scratch", "--once", "--drain").ends()[0] == 0
    assert_same_as_replay(lake)
