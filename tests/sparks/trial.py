"""The job on other versions of Spark than the lock's: equal tables, bounded batches, checkpoints that go on.

    python -m tests.sparks.trial 4.1.4 4.3.0 delta

Each version is installed beside the environment, into build/spark-VERSION. A backlog of ten limits is read by each
alone, and by each pair over one checkpoint, where the older one is killed, and refused behind the newer one.
`delta` is the environment of requirements-delta.lock, in which Spark reads bronze by `source = "delta"`, and silver as
delta-spark configures it.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from importlib.metadata import version
from itertools import combinations
from pathlib import Path

from deltalake import DeltaTable

from generators.brokerlogs.ingest import read_logs
from generators.recordings import traces
from pipelines.lake.bronze import append_events

REPOSITORY = Path(__file__).parents[2]
OWN = version("pyspark")
TABLES = ("partition_hw", "isr_changes", "replica_sync", "hw_regressions", "telemetry_gaps", "coverage")
LIMIT = 900
PATIENCE_S = 300


DELTA = "delta"
AS_DELTA_SPARK_HAS_IT = """
import sys
from delta import configure_spark_with_delta_pip
from pyspark.sql import SparkSession
builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
builder = builder.config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
builder = builder.config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
spark = configure_spark_with_delta_pip(builder).getOrCreate()
print("rows", spark.read.format("delta").load(sys.argv[1]).count())
"""


class Failed(Exception):
    """A version that did otherwise; the message says how."""


def folder_of(spark):
    """The folder with this pyspark, None for that of the lock."""
    if spark in (OWN, DELTA):
        return None
    folder = REPOSITORY / "build" / f"spark-{spark}"
    if not (folder / "pyspark").is_dir():
        uv = Path(sys.executable).with_name("uv")
        words = [uv, "pip", "install", "-q", "--system-certs", "--no-deps", "--target", folder, f"pyspark=={spark}"]
        subprocess.run(words, check=True)
    return folder


def python_of(spark):
    """The interpreter to run this Spark with."""
    if spark != DELTA:
        return sys.executable
    uv, environment = Path(sys.executable).with_name("uv"), REPOSITORY / "build/spark-delta"
    python = environment / "bin/python"
    install = ["pip", "install", "-q", "--system-certs", "--no-deps", "--require-hashes", "--python"]
    lock = "-r", REPOSITORY / "requirements-delta.lock"
    subprocess.run([uv, "venv", "-q", "--clear", "--python", sys.executable, environment], check=True)
    subprocess.run([uv, *install, python, *lock], check=True)
    subprocess.run([python, "-m", "pipelines.setup", "jars"], check=True, env=os.environ | {"PYTHONPATH": REPOSITORY})
    return python


def lake_of(place, events):
    for first in range(0, events.num_rows, 800):
        append_events(str(place), events.slice(first, 800), app_id=f"trial{first}", version=1)
    return str(place)


def start(spark, lake, *words, python=sys.executable):
    path = os.pathsep.join(map(str, filter(None, [folder_of(spark), REPOSITORY])))
    environment = os.environ | {"PYTHONPATH": path, "HWMARK_RUN__MAX_ROWS_PER_TRIGGER": str(LIMIT)}
    if spark == DELTA:  # which knows a limit by bytes alone, and takes one file at least
        environment |= {"HWMARK_RUN__SOURCE": "delta", "HWMARK_RUN__MAX_BYTES_PER_TRIGGER": "1"}
    command = [python, "-m", "hwmark", "run", "--lake", lake, *words]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def run_to_end(spark, lake, *words, **options):
    """(exit status, output)"""
    process = start(spark, lake, *words, **options)
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
    lake, python = lake_of(place / spark, events), python_of(spark)
    status, said = run_to_end(spark, lake, "--once", "--drain", python=python)
    require(status == 0, f"status {status}: {said}")
    batches = [int(found.replace(",", "")) for found in re.findall(r"batch \d+: ([\d,]+) events?", said)]
    require(sum(batches) == events.num_rows + 1, f"{sum(batches)} events of {events.num_rows} and one more: {said}")
    require(max(batches) <= LIMIT and len(batches) > 10, f"batches of {batches}, at most {LIMIT} were allowed")
    other = {name for name, found in rows(lake).items() if expected and found != expected[name]}
    if spark == DELTA:  # whose batches are files: a stretch of coverage ends with one
        other -= {"coverage"}
    require(not other, f"other rows in {other}")
    if spark == DELTA:
        reading = [python, "-c", AS_DELTA_SPARK_HAS_IT, f"{lake}/silver/partition_hw"]
        read = subprocess.run(reading, capture_output=True, text=True)
        require(read.stdout == f"rows {len(rows(lake)['partition_hw'])}\n", f"delta-spark: {read.stdout}{read.stderr}")
    print(f"spark {spark}: {len(batches)} batches of at most {max(batches)} events, tables equal", flush=True)
    return rows(lake)


def in_turn(older, newer, place, events, expected):
    """The older one is killed in its third batch or later; the newer one ends the backlog, the older is refused."""
    lake = lake_of(place / f"{older}-{newer}", events)
    process = start(older, lake, "--interval", "0.1s")
    until = time.monotonic() + PATIENCE_S
    while not any(Path(lake, "_run").glob("*/commits")) or commits(lake) < 3:
        require(process.poll() is None and time.monotonic() < until, f"{older} made no progress")
        time.sleep(0.2)
    process.send_signal(signal.SIGKILL)
    process.wait()
    time.sleep(5)  # its JVM ends when its driver has
    status, said = run_to_end(newer, lake, "--once", "--drain")
    require(status == 0, f"{newer} after {older}: status {status}: {said}")
    other = {name for name, found in rows(lake).items() if found != expected[name]}
    require(not other, f"{newer} after {older}: other rows in {other}")
    append_events(lake, events.slice(0, 1), app_id="more", version=1)  # where nothing is new no Spark starts
    status, said = run_to_end(older, lake, "--once")
    require(status == 1 and f"Spark {newer} wrote the checkpoint" in said, f"{older} went on: {status} {said}")
    print(f"spark {older} -> {newer}: killed in between, tables equal; {older} is refused then", flush=True)


def main(versions):
    place = REPOSITORY / "build" / "sparks"
    shutil.rmtree(place, ignore_errors=True)
    events = read_logs([traces.path("unclean_election")], "prod")
    try:
        expected = alone(OWN, place, events, None)
        for spark in versions:
            alone(spark, place, events, expected)
        ordered = sorted({OWN, *versions} - {DELTA}, key=lambda spark: tuple(map(int, spark.split("."))))
        for older, newer in combinations(ordered, 2):
            in_turn(older, newer, place, events, expected)
    except Failed as failed:
        sys.exit(f"spark: FAILED: {failed}")


if __name__ == "__main__":
    main(sys.argv[1:])
