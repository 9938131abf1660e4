"""`hwmark run` killed at any moment while bronze grows, resumed, and drained: silver is that of `replay`."""

import os
import random
import subprocess
import sys
import time

import numpy as np
import pyarrow as pa
import pytest

from generators.brokerlogs.ingest import read_logs
from generators.recordings import traces
from pipelines.lake.bronze import append_events, read_events
from pipelines.lake.lake import Lake
from pipelines.replication import replay
from pipelines.setup import jars_dir
from pipelines.streaming.tables import KINDS
from tests.streaming.shell import added_up, same_rows

COMMITS = 6


def command(lake, *options):
    """A job, and the file that has what it says: a pipe that nobody reads stops it once it is full."""
    environment = os.environ | {"HWMARK_RUN__JARS_DIR": jars_dir() or ""}
    words = [sys.executable, "-m", "hwmark", "run", "--lake", str(lake), "--buckets", "4", *options]
    log = lake.with_suffix(".log")
    with log.open("w") as output:
        return subprocess.Popen(words, env=environment, stdout=subprocess.DEVNULL, stderr=output), log


def in_commits(events, number):
    """The events in order of time, cut into so many commits."""
    order = np.argsort(events["ts"].cast(pa.int64()).to_numpy(), kind="stable")
    return [events.take(pa.array(rows)) for rows in np.array_split(order, number)]


def batches_done(lake):
    return sum(1 for entry in lake.glob("_run/*/offsets/*") if entry.name.isdigit())


def killed(lake, chance):
    """Starts the job, waits for a new batch to begin, and kills it at some moment after that."""
    before, (job, log) = batches_done(lake), command(lake, "--interval", "1s")
    while batches_done(lake) == before and job.poll() is None:
        time.sleep(0.05)
    assert job.poll() is None, log.read_text()
    time.sleep(chance.uniform(0, 4))
    job.kill()
    job.wait()


@pytest.mark.spark
@pytest.mark.parametrize("kills", [1, pytest.param(3, marks=pytest.mark.nightly)])
def test_killed_at_any_moment_and_resumed(tmp_path, kills):
    chance, lake = random.Random(1), tmp_path / "lake"
    commits = in_commits(read_logs([traces.path("slow_follower")], "slow_follower"), COMMITS)
    for version, events in enumerate(commits):
        append_events(str(lake), events, app_id="test", version=version)
        if version % 2 == 0 and version // 2 < kills:
            killed(lake, chance)
    last, log = command(lake, "--once", "--drain")
    assert last.wait() == 0, log.read_text()
    expected = replay(read_events(str(lake)))
    for kind in KINDS:
        found, want = Lake(str(lake), {}).open(kind).to_pyarrow_table(), getattr(expected, kind)
        if kind == "minute_stats":
            assert added_up(found) == added_up(want)
        else:
            assert same_rows(found, but=["quarantined_at"]) == same_rows(want, but=["quarantined_at"]), kind
