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
from signal import SIGTERM
from urllib.request import urlopen

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from pipelines.commands.exits import GATE_NOT_KNOWN
from pipelines.commands.show.options import What
from pipelines.setup import jars_dir
from schemas import partition_hw, tables

ENDS = int(os.environ.get("ENDS", "20"))
FILES, SCHEMA = 40, partition_hw.ARROW
STAND_INS = {"string": "x", "int32": 0, "int64": 0, "bool": False, "timestamp[us, tz=UTC]": 0}
HWMARK = (sys.executable, "-m", "hwmark")
READING = {
    ("check",): 0,
    **{("show", what): 0 for what in What if what is not What.loss},
    ("notify", "--dry-run"): 0,
    ("whatif", "--since", "all", "--lag-max-ms", "10000"): 0,
    ("report", "--since", "all"): 0,
    ("gate", "--broker", "1"): GATE_NOT_KNOWN,  # the lake is old
}
"""Each command that reads, and the status that it ends with."""
ALONE = ("check", "notify")
"""These hold a role: one at a time."""
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


@pytest.mark.sampled(2)
def test_a_process_that_has_read_a_table_ends_with_its_own_status(lake):
    command = [sys.executable, "-c", READ, str(lake)]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        ends = list(pool.map(lambda _: run(command), range(ENDS)))
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
def test_a_command_that_reads_ends_with_its_own_status(judged, words, monkeypatch):
    monkeypatch.setenv("HWMARK_NOTIFY__HEARTBEAT", "http://127.0.0.1:1/")  # `notify` has somebody to notify
    command = [*HWMARK, *words, "--lake", str(judged)]
    with ThreadPoolExecutor(1 if words[0] in ALONE else AT_ONCE) as pool:
        ends = list(pool.map(lambda _: run(command, cwd=judged.parent), range(ENDS // 10)))
    wrong = [end for end in ends if end.returncode != READING[words] or complaints(end.stderr)]
    assert [(end.returncode, end.stderr[-500:]) for end in wrong] == []


@pytest.mark.spark
def test_the_page_ends_with_its_own_status(judged):
    def end(_):
        command = [*HWMARK, "dashboard", "--lake", str(judged), "--port", "0"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as page:
            place = page.stdout.readline().split()[0]
            for path in ("", "api/v1/partitions", "metrics"):
                with urlopen(place + path) as answer:
                    assert answer.read()
            page.send_signal(SIGTERM)
            return page.wait(), page.stderr.read()

    with ThreadPoolExecutor(AT_ONCE) as pool:
        ends = list(pool.map(end, range(ENDS // 10)))
    assert [(status, said[-500:]) for status, said in ends if status or complaints(said)] == []


def run(command, **options):
    return subprocess.run(command, capture_output=True, text=True, check=False, **options)


def complaints(stderr):
    """Lines but those that say, on a busy machine, that a command is still at work."""
    return [line for line in stderr.splitlines() if not line.endswith(" s so far")]
