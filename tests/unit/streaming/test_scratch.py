"""What Spark keeps on a driver is removed when that ends, also where no warm process is there to do it."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pipelines.streaming import scratch

ROOT = Path(scratch.__file__).parents[2]
DRIVER = """
import sys
from pathlib import Path
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
