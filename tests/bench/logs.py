"""From log line to gold row, by level of telemetry: the same simulated cluster, as its brokers' logs would show it."""

import os
import tempfile
import time
from pathlib import Path

from generators.brokerlogs.ingest import ReadOptions, ingest_logs
from generators.brokerlogs.tailing.coalesce import longest
from generators.simulator.telemetry.levels import FULL, INFO, LEAN
from pipelines.commands.show.tables import as_table
from pipelines.commands.simulate.plan import plan
from pipelines.commands.simulate.run import run
from pipelines.replication import Rules
from pipelines.settings import Simulate
from pipelines.setup import jars_dir
from tests.bench.engines import size_of
from tests.bench.processes import cpu_seconds
from tests.simulated.kafka_logs import LogFiles

COALESCE_MS = longest(Rules().lag_max_ms)
READINGS = {
    "full TRACE (3)": (FULL, COALESCE_MS),
    "lean TRACE (2)": (LEAN, COALESCE_MS),
    "stock INFO (0)": (INFO, COALESCE_MS),
    "full TRACE (3), every fetch a row": (FULL, 0),
}
"""The level of logs, and how many milliseconds of unchanged fetches become one row."""
COLUMNS = ["level", "lines", "log", "events", "lines/s", "ingest CPU s", "run CPU s", "bronze", "silver"]


def measure(seconds=30):
    """The table of each level's logs, read into a lake of its own and reconstructed in one warm session."""
    from pipelines.streaming.session import PASSES_BLOBS, session

    tasks, rows = os.cpu_count() or 1, []
    spark = session(master="local[*]", shuffle_partitions=tasks, jars_dir=jars_dir(), conf=PASSES_BLOBS)
    with tempfile.TemporaryDirectory(prefix="hwmark-bench-") as folder:
        for level in (FULL, LEAN, INFO):
            asked = Simulate(partitions=60, duration=seconds, load=["steady:300"], level=level)
            run(plan(asked), LogFiles(Path(folder, f"logs-{level}")), lambda words: None)
        _read(Path(folder, f"logs-{LEAN}"), Path(folder, "warm"), COALESCE_MS, tasks)
        for name, (level, coalesce_ms) in READINGS.items():
            lake = Path(folder, name)
            rows.append({"level": name, **_read(Path(folder, f"logs-{level}"), lake, coalesce_ms, tasks)})
    spark.stop()
    return f"3 brokers, 60 partitions, 300 records a second for {seconds} s; every HW\n\n{as_table(rows, COLUMNS)}"


def _read(logs, lake, coalesce_ms, tasks):
    """What `hwmark ingest logs` and `hwmark run --once --drain` take."""
    from pipelines.streaming.job import run
    from pipelines.streaming.options import RunOptions

    began, cpu = time.perf_counter(), [cpu_seconds(os.getpid())]
    result = ingest_logs([logs], cluster="bench", lake=str(lake), options=ReadOptions(coalesce_ms=coalesce_ms))
    cpu.append(cpu_seconds(os.getpid()))
    run(str(lake), Rules(), RunOptions(drain=True, shuffle_partitions=tasks), on_batch=lambda batch: None)
    seconds = time.perf_counter() - began
    cpu.append(cpu_seconds(os.getpid()))
    return {
        "lines": f"{result.line_count:,}",
        "log": f"{size_of(logs) / 1e6:.1f} MB",
        "events": f"{result.events:,}",
        "lines/s": f"{result.line_count / seconds:,.0f}",
        "ingest CPU s": f"{cpu[1] - cpu[0]:.1f}",
        "run CPU s": f"{cpu[2] - cpu[1]:.1f}",
        "bronze": f"{size_of(lake / 'bronze') / 1e6:.2f} MB",
        "silver": f"{size_of(lake / 'silver') / 1e6:.2f} MB",
    }
