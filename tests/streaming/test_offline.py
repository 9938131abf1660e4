"""After set-up, the job needs no network."""

import os
import shutil
import subprocess
import sys

import pytest

from pipelines.lake.bronze import append_events
from pipelines.lake.lake import Lake
from pipelines.setup import jars_dir
from tests.streaming.events import history

CLOSED = "http://127.0.0.1:9"
PROXIES = dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"), CLOSED)
JAVA = "-Dhttp.proxyHost=127.0.0.1 -Dhttp.proxyPort=9 -Dhttps.proxyHost=127.0.0.1 -Dhttps.proxyPort=9"


def without_network():
    """A prefix that takes the network away from a command but for the loopback device, where the system can."""
    up = ["unshare", "--user", "--map-root-user", "--net", "sh", "-c", 'ip link set lo up && exec "$@"', "sh"]
    able = shutil.which("unshare") and subprocess.run([*up, "true"], capture_output=True).returncode == 0
    return up if able else []


@pytest.mark.spark
@pytest.mark.nightly
def test_the_job_runs_without_a_network(tmp_path):
    jars = jars_dir()
    if jars is None:
        pytest.skip("Delta's jars were never fetched: make setup")
    lake, empty = tmp_path / "lake", tmp_path / "home"
    empty.mkdir()
    append_events(str(lake), history(partitions=2, rounds=5), app_id="test", version=0)
    # An empty home: nothing that Ivy or Maven kept from earlier runs can stand in for the network.
    environment = os.environ | PROXIES | {"HOME": str(empty), "JAVA_TOOL_OPTIONS": f"{JAVA} -Duser.home={empty}"}
    words = [sys.executable, "-m", "hwmark", "run", "--lake", str(lake), "--once", "--drain"]
    done = subprocess.run(
        [*without_network(), *words],
        env=environment | {"HWMARK_RUN__JARS_DIR": jars},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert Lake(str(lake), {}).open("partition_hw").to_pyarrow_table().num_rows > 0
