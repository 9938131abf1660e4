"""The job on other versions of Spark than the lock's: equal tables, bounded batches, checkpoints that go on.

    python -m tests.sparks.trial 4.1.4 4.3.0

Each version is installed beside the environment, into build/spark-VERSION. A backlog of ten limits is read by each
alone, and by all of them in turn over one checkpoint, where each but the last is killed; an older one is then refused.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path

from deltalake import DeltaTable

from generators.brokerlogs.ingest import read_logs
from generators.recordings import traces
from pipelines.lake.bronze import append_events

REPOSITORY = Path(__file__).parents[2]
OWN = version("pyspark")
TABLES = ("partition_hw", "isr_changes", "replica_sync", "hw_regressions", "telemetry_gaps", "coverage")
ROWS, LIMIT = 9168, 900
PATIENCE_S = 300


class Failed(Exception):
    """A version that did otherwise; the message says how."""


def folder_of(spark):
    """The folder with this pyspark, None for that of the lock."""
    if spark == OWN:
        return None
    folder = REPOSITORY / "build" / f"spark-{spark}"
    if not (folder / "pyspark").is_dir():
        uv = Path(sys.executable).with_name("uv")
        words = [uv, "pip", "install", "-q", "--system-certs", "--no-deps", "--target", folder, f"pyspark=={spark}"]
        subprocess.run(words, check=True)
    return folder


def lake_of(place, events):
    for commit in range(12):
        append_events(str(place), events.slice(commit * 800, 800), app_id=f"trial{commit}", version=1)
    return str(place)


def start(spark, lake, *words):
    path = os.pathsep.join(map(str, filter(None, [folder_of(spark), REPOSITORY])))
    environment = os.environ | {"PYTHONPATH": path, "HWMARK_RUN__MAX_ROWS_PER_TRIGGER": str(LIMIT)}
    command = [sys.executable, "-m", "hwmark", "run", "--lake", lake, *words]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def run_to_end(spark, lake, *words):
    """(exit status, output)"""
    process = start(spark, lake, *words)
    said, _ = process.communicate(timeout=PATIENCE_S)
    return process.returncode, said


def rows(lake):
    """The rows of silver, but for which batch wrote them."""
    found = {}
    for name in TABLES:
        table = DeltaTable(f"{lake}/silver/{name}").to_pyarrow_table()
        columns = [column for column in table.column_names if column != "batch_id"]
        found[name] = sorted(map(str, table.select(columns).to_pylist()))
    return found


def commits(lake):
    (folder,) = Path(lake, "_run").glob("*/commits")
    return sum(entry.name.isdigit() for entry in folder.iterdir())


def require(condition, said):
    if not condition:
        raise Failed(said)


def alone(spark, place, events, expected):
    lake = lake_of(place / spark, events)
    status, said = run_to_end(spark, lake, "--once", "--drain")
    require(status == 0, f"status {status}: {said}")
    batches = [int(found.replace(",", "")) for found in re.findall(r"batch \d+: ([\d,]+) events", said)]
    require(sum(batches) == ROWS + 1, f"{sum(batches)} events of {ROWS} and a closing row: {said}")
    require(max(batches) <= LIMIT and len(batches) > 10, f"batches of {batches}, at most {LIMIT} were allowed")
    other = {name for name, found in rows(lake).items() if expected and found != expected[name]}
    require(not other, f"other rows in {other}")
    print(f"spark {spark}: {len(batches)} batches of at most {max(batches)} events, tables equal", flush=True)
    return rows(lake)


def in_turn(sparks, place, events, expected):
    """Each but the last is killed in its third batch or later; the last ends the backlog, the first is refused."""
    lake = lake_of(place / "in-turn", events)
    for spark in sparks[:-1]:
        before = commits(lake) if Path(lake, "_run").is_dir() and any(Path(lake, "_run").glob("*/commits")) else 0
        process = start(spark, lake, "--interval", "0.1s")
        until = time.monotonic() + PATIENCE_S
        while not any(Path(lake, "_run").glob("*/commits")) or commits(lake) < before + 3:
            require(process.poll() is None and time.monotonic() < until, f"{spark} made no progress")
            time.sleep(0.2)
        process.send_signal(signal.SIGKILL)
        process.wait()
        time.sleep(5)  # its JVM ends when its driver has
    status, said = run_to_end(sparks[-1], lake, "--once", "--drain")
    require(status == 0, f"{sparks[-1]} after {sparks[:-1]}: status {status}: {said}")
    other = {name for name, found in rows(lake).items() if found != expected[name]}
    require(not other, f"after {', '.join(sparks)}: other rows in {other}")
    status, said = run_to_end(sparks[0], lake, "--once")
    require(status == 1 and f"Spark {sparks[-1]} wrote the checkpoint" in said, f"{sparks[0]} went on: {status} {said}")
    print(f"spark {' -> '.join(sparks)}: killed in between, tables equal; {sparks[0]} is refused then", flush=True)


def main(versions):
    place = REPOSITORY / "build" / "sparks"
    shutil.rmtree(place, ignore_errors=True)
    events = read_logs([traces.path("unclean_election")], "prod")
    assert events.num_rows == ROWS
    try:
        expected = alone(OWN, place, events, None)
        for spark in versions:
            alone(spark, place, events, expected)
        ordered = sorted({OWN, *versions}, key=lambda spark: tuple(map(int, spark.split("."))))
        if len(ordered) > 1:
            in_turn(ordered, place, events, expected)
    except Failed as failed:
        sys.exit(f"spark: FAILED: {failed}")


if __name__ == "__main__":
    main(sys.argv[1:])
