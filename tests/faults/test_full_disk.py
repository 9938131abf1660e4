"""A disk that is full is an error of one line, with no trace of a library's before it."""

import os
import subprocess
import sys

import pytest

from pipelines.lake.lake import Lake
from schemas import alerts
from tests.faults.preload import Point, build, compiler, injecting, noted

APPEND = """
import sys
from pipelines.lake.lake import Lake
from schemas import alerts
rows = alerts.ARROW.empty_table()
try:
    Lake(sys.argv[1]).append(alerts.TABLE, rows)
except OSError as error:
    print("refused", error.errno)
"""


@pytest.mark.skipif(compiler() is None, reason="no C compiler: faults cannot be injected")
@pytest.mark.parametrize("call", ["create", "write"])
def test_rows_that_find_no_room_leave_no_trace_and_no_rows(tmp_path, call):
    lake, calls = tmp_path / "lake", tmp_path / "calls"
    Lake(str(lake)).create(alerts.TABLE)
    point = Point("command", "ops/*/part-*.snappy.parquet", call)
    faulty = injecting(build(tmp_path), lake, calls, point, 1, "ENOSPC")
    done = subprocess.run(
        [sys.executable, "-c", APPEND, str(lake)], env=os.environ | faulty, capture_output=True, text=True
    )
    assert any(noted_call.here for noted_call in noted(calls))
    assert (done.stdout, done.stderr) == ("refused 28\n", "")
    assert Lake(str(lake)).open(alerts.TABLE).version() == 0
    Lake(str(lake)).append(alerts.TABLE, alerts.ARROW.empty_table())
    assert Lake(str(lake)).open(alerts.TABLE).version() == 1
