"""A process that has read a table ends with its own status: nothing aborts it on the way out.

ENDS=300 pytest tests/faults/test_reader_ends.py tries as many, and a tenth of them of each command that reads.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from pipelines.setup import jars_dir
from schemas import partition_hw, tables

ENDS = int(os.environ.get("ENDS", "20"))
FILES, SCHEMA = 40, partition_hw.ARROW
STAND_INS = {"string": "x", "int32": 0, "int64": 0, "bool": False, "timestamp[us, tz=UTC]": 0}
HWMARK = (sys.executable, "-m", "pipelines.cli")
READING = [
    ("check",),
    *(("show", what) for what in ("verdict", "hw", "isr", "sync", "regressions", "alerts", "health")),
]
LAKES = Path(__file__).parents[1] / "lakes"
AT_ONCE = 6
"""More than there are cores: a thread that is late is what aborts."""
READ = """
import sys
from pipelines.lake.lake import Lake
from schemas import partition_hw
print(Lake(sys.argv[1]).read(partition_hw.TABLE, partition_hw.ARROW).num_rows)
"""


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    """A table of many small files, whose readers are many threads."""
    lake = tmp_path_factory.mktemp("lake")
    uri = str(lake / tables()["partition_hw"].path)
    row = {name: STAND_INS.get(str(kind)) for name, kind in zip(SCHEMA.names, SCHEMA.types, strict=True)}
    for _ in range(FILES):
        write_deltalake(uri, pa.Table.from_pylist([row], SCHEMA), mode="append")
    return lake


def test_a_process_that_has_read_a_table_ends_with_its_own_status(lake):
    command = [sys.executable, "-c", READ, str(lake)]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        ends = list(
            pool.map(lambda _: subprocess.run(command, capture_output=True, text=True, check=False), range(ENDS))
        )
    assert [end.stderr[-500:] for end in ends if end.returncode] == []


@pytest.fixture(scope="module")
def judged(tmp_path_factory):
    """A lake of which `check` has judged everything: from then on it reads, and starts no Spark."""
    folder = tmp_path_factory.mktemp("judged")
    with tarfile.open(LAKES / "f0eef1c.tar.xz") as packed:
        packed.extractall(folder, filter="data")
    jars = {"HWMARK_RUN__JARS_DIR": jars_dir() or ""}
    done = subprocess.run([*HWMARK, "check", "--lake", folder / "lake"], env=os.environ | jars, capture_output=True)
    assert done.returncode == 0, done.stderr
    return folder / "lake"


@pytest.mark.spark
@pytest.mark.parametrize("words", READING, ids=" ".join)
def test_a_command_that_reads_ends_with_its_own_status(judged, words):
    command = [*HWMARK, *words, "--lake", str(judged)]
    with ThreadPoolExecutor(1 if words == ("check",) else AT_ONCE) as pool:  # check holds a role
        ends = list(
            pool.map(lambda _: subprocess.run(command, capture_output=True, text=True, check=False), range(ENDS // 10))
        )
    assert [(end.returncode, end.stderr[-500:]) for end in ends if end.returncode or complaints(end.stderr)] == []


def complaints(stderr):
    """Lines but those that say, on a busy machine, that a command is still at work."""
    return [line for line in stderr.splitlines() if not line.endswith(" s so far")]
