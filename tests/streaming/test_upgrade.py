"""The wheel of f6b275e with job, watcher and dashboard on one lake: stopped, upgraded, gone on with, and the way back.

docs/compatibility.md tells all of it; where it is another, this fails.
"""

import gzip
import subprocess
import sys
import tarfile
import time
from hashlib import sha256
from itertools import count
from pathlib import Path
from shutil import copytree, move
from urllib.request import urlopen

import pytest

from generators.recordings import traces
from pipelines.lake.lake import Lake
from pipelines.local_kafka.processes import end, start, wait_until
from tests.cluster.fake_kafka import FakeCluster
from tests.metrics.servers import free_port

COMMIT = "f6b275e"
ROOT = Path(__file__).parents[2]
SILVER = ("partition_hw", "isr_changes", "replica_sync", "hw_regressions", "telemetry_gaps")
PATIENCE_S = 180
FACTS = """
import os, sys
from pipelines.lake.bronze import read_events
from pipelines.lake.lake import Lake
from pipelines.replication import replay
expected, lake = replay(read_events(sys.argv[1])), Lake(sys.argv[1], {})
for kind in sys.argv[2:]:
    want = getattr(expected, kind)
    rows = lake.open(kind).to_pyarrow_table().select(want.column_names).to_pylist()
    assert sorted(map(str, rows)) == sorted(map(str, want.to_pylist())), kind
os._exit(0)
"""
"""Whether silver is the replay of bronze, by whichever version it is run with; threads of readers may abort an end."""


class Version:
    """One version of hwmark, and the commands of it; what they say goes to a log."""

    def __init__(self, packages, module, log):
        self.program, self.log = f"from {module} import main; main()", log
        self.environment = {"PYTHONPATH": str(packages)}

    def start(self, *words, program=None):
        return start([sys.executable, "-P", "-c", program or self.program, *words], self.log, self.environment)

    def call(self, *words, **program):
        """(exit status, output)"""
        before = self.log.stat().st_size if self.log.exists() else 0
        status = self.start(*words, **program).wait(PATIENCE_S)
        return status, self.log.read_bytes()[before:].decode()


@pytest.fixture
def old(tmp_path):
    source, packages = tmp_path / "source", tmp_path / "packages"
    archive = ["git", "-C", ROOT, "archive", COMMIT, "-o", tmp_path / "source.tar"]
    if subprocess.run(archive, capture_output=True).returncode:
        pytest.skip(f"this clone has no commit {COMMIT}")
    with tarfile.open(tmp_path / "source.tar") as packed:
        packed.extractall(source, filter="data")
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-t", "wheel"], cwd=source, check=True)
    uv, (wheel,) = Path(sys.executable).with_name("uv"), (source / "dist").glob("*.whl")
    subprocess.run([uv, "pip", "install", "-q", "--no-deps", "--target", packages, wheel], check=True)
    return Version(packages, "pipelines.cli", tmp_path / "old.log")


def batches(lake):
    return sum(1 for entry in lake.glob("_run/*/commits/*") if entry.name.isdigit())


def rows(lake):
    """The present rows of silver, but for columns that the earlier version does not have."""
    table = Lake(str(lake)).open("partition_hw").to_pyarrow_table()
    return {tuple(row.values()) for row in table.select(["topic", "partition", "ts", "kind", "hw"]).to_pylist()}


def digests(lake):
    """Digests of all files, but for who holds the lake."""
    files = (path for path in lake.rglob("*") if path.is_file() and "_locks" not in path.parts)
    return {str(path.relative_to(lake)): sha256(path.read_bytes()).hexdigest() for path in files}


def answers(port):
    try:
        with urlopen(f"http://127.0.0.1:{port}/api/v1/verdict", timeout=5) as answer:
            return b"fake" in answer.read()
    except OSError:
        return False


class Watched:
    """Brokers whose partitions get records, and the command that watches them."""

    def __init__(self, cluster):
        self.cluster, self.ends = cluster, count(10)
        cluster.topic("orders", [1, 2], [2, 3])
        host, port = cluster.bootstrap()
        self.words = "watch", "--bootstrap", f"{host}:{port}", "--interval", "1s"

    def grow(self):
        for partition in self.cluster.topics["orders"].partitions:
            partition.write(next(self.ends))


class Logs:
    """Logs of a recording that get lines in order of time, and the command that follows them."""

    def __init__(self, folder):
        self.words = "ingest", "logs", str(folder), "--cluster", "fake", "--follow"
        self.rest = {}
        for log in sorted(traces.path("unclean_election").glob("broker-*/*.log.gz")):
            with gzip.open(log, "rt") as lines:
                self.rest[folder / log.parent.name / log.stem] = lines.readlines()
            (folder / log.parent.name).mkdir(parents=True, exist_ok=True)

    def grow(self):
        for path, lines in self.rest.items():
            with path.open("a") as log:
                log.writelines(lines[:15])
            del lines[:15]


def serve(version, lake, source):
    """Have a reader of the source, job and dashboard run until two batches are done and the page answers."""
    port, before, about = free_port(), batches(lake), ("--lake", str(lake))
    source.grow()
    running = [version.start(*source.words, *about)]
    wait_until(lambda: any(lake.glob("bronze/*/_delta_log/*.json")), 60, "a lake")
    running.append(version.start("run", "--interval", "1s", "--buckets", "2", *about))
    running.append(version.start("dashboard", "--port", str(port), *about))
    until = time.monotonic() + PATIENCE_S
    while not (batches(lake) >= before + 2 and answers(port)):
        source.grow()
        assert time.monotonic() < until, version.log.read_text()
        assert [process.poll() for process in running] == [None] * 3, version.log.read_text()
        time.sleep(1)
    assert [end(process, 60) for process in running] == [0, 0, 0], version.log.read_text()


@pytest.fixture
def new(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # settings of the checkout are not known to the earlier version
    return Version(ROOT, "hwmark.__main__", tmp_path / "new.log")


@pytest.mark.spark
@pytest.mark.nightly
def test_a_running_lake_of_logs_is_upgraded_and_goes_on(old, new, tmp_path):
    lake, logs = tmp_path / "lake", Logs(tmp_path / "logs")
    serve(old, lake, logs)
    before = rows(lake)
    copytree(lake / "_run", tmp_path / "copy")
    serve(new, lake, logs)
    assert len(before) > 10
    assert before < rows(lake)
    move(lake / "_run", tmp_path / "newer")
    copytree(tmp_path / "copy", lake / "_run")
    status, said = new.call("run", "--once", "--drain", "--lake", str(lake))
    assert status == 1, said
    assert "an older copy of _run was put back" in said
    assert new.call("run", "--once", "--drain", "--rebuild", "--lake", str(lake))[0] == 0
    assert new.call(str(lake), *SILVER, program=FACTS) == (0, "")


@pytest.mark.spark
@pytest.mark.nightly
def test_a_watched_lake_is_refused_by_both_and_rebuilt_by_either(old, new, tmp_path):
    lake, anew = tmp_path / "lake", ("run", "--once", "--drain", "--rebuild", "--lake", str(tmp_path / "lake"))
    with FakeCluster() as cluster:
        watched = Watched(cluster)
        serve(old, lake, watched)
        copytree(lake / "_run", tmp_path / "copy")
        held = digests(lake / "silver")
        status, said = new.call("run", "--once", "--drain", "--lake", str(lake))
        assert status == 1, said
        assert "state steady is not known to this version: use the version of hwmark that wrote it, or start" in said
        assert held.items() <= digests(lake / "silver").items()  # beside them a new table without rows
        assert new.call("show", "verdict", "--lake", str(lake))[0] == 0
        assert new.call(*anew)[0] == 0
        serve(new, lake, watched)
    assert new.call("run", "--once", "--drain", "--lake", str(lake))[0] == 0
    assert new.call(str(lake), *SILVER, program=FACTS) == (0, "")

    held = digests(lake)
    for words in ("run --once", "run --once --rebuild", "show verdict", "check", "report --out report.html"):
        status, said = old.call(*words.split(), "--lake", str(lake))
        unknown = "a_later_hwmark_wrote_this_lake" if words.startswith("run") else "file"
        assert said.endswith(f"got an unexpected keyword argument '{unknown}' (--debug shows the trace)\n")
        assert (status, len(said.splitlines())) == (1, 1), said
    assert digests(lake) == held

    move(lake / "_run", tmp_path / "newer")
    copytree(tmp_path / "copy", lake / "_run")
    assert old.call(*anew)[0] == 0
    assert old.call(str(lake), *SILVER, program=FACTS) == (0, "")
    move(lake / "_run", tmp_path / "away")
    status, said = old.call("run", "--once", "--drain", "--lake", str(lake))
    assert status == 1, said
    assert "has rows, and no record of the query that wrote them: start it anew" in said
    assert old.call(*anew)[0] == 0
    assert old.call(str(lake), *SILVER, program=FACTS) == (0, "")
