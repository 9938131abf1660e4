"""From log line to gold row, per telemetry level: the same simulated cluster, as its brokers' logs would show it."""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pyarrow.parquet as pq

from generators.brokerlogs.ingest import ReadOptions, ingest_logs
from generators.brokerlogs.tailing.coalesce import longest
from generators.simulator.clients.load import Driver
from generators.simulator.cluster.simulation import Simulation
from generators.simulator.telemetry.kafka_logs import KafkaLogs
from generators.simulator.telemetry.levels import FULL, INFO, LEAN
from pipelines.bench.engines.engine import size_of
from pipelines.bench.report.readme import Section
from pipelines.commands.show.tables import as_table
from pipelines.commands.simulate.plan import Plan, plan
from pipelines.replication import Rules
from pipelines.settings import Simulate
from pipelines.setup import jars_dir

if TYPE_CHECKING:
    from pipelines.commands.progress import Say

CLUSTER = Simulate(brokers=3, partitions=60, duration=30, load=["steady:300"], seed=1)
LEVELS = {FULL: "full TRACE (3)", LEAN: "lean TRACE (2)", INFO: "stock INFO (0)"}
READINGS = [
    *((name, level, longest(Rules().lag_max_ms)) for level, name in LEVELS.items()),
    (f"{LEVELS[FULL]}, every fetch a row", FULL, 0),
]
"""How the logs are read: a name, the level and the milliseconds of unchanged fetches that become one row."""
DAY_S = 86_400
COLUMNS = [
    "level", "lines", "log", "events", "facts", "lines/s", "ingest CPU s", "run CPU s",
    "CPU s a million lines", "bronze", "silver", "log a broker and day", "stored a broker and day",
]  # fmt: skip


class Read(NamedTuple):
    """One level: lines and bytes of log, rows of bronze and silver, seconds, CPU seconds, bytes of the rows stored."""

    lines: int
    log_bytes: int
    events: int
    facts: int
    seconds: float
    ingest_cpu: float
    run_cpu: float
    bronze_bytes: int
    silver_bytes: int


def measure(say: Say) -> Section:
    """Writes the logs, then reads each level's into a lake of its own and reconstructs it."""
    from pipelines.streaming.session import PASSES_BLOBS, session

    planned = plan(CLUSTER)
    with tempfile.TemporaryDirectory(prefix="hwmark-bench-") as folder:
        say(f"simulating {planned.partitions} partitions for {planned.seconds:.0f} s, and writing its logs")
        logs = {level: Path(folder, "logs", str(level)) for level in LEVELS}
        write_logs(planned, logs)
        spark = session(
            master="local[*]",
            shuffle_partitions=os.cpu_count() or 1,
            jars_dir=jars_dir(),
            conf=PASSES_BLOBS,
        )
        try:
            say("a first reading, to warm it")
            _read(logs[LEAN], Path(folder, "warm"), longest(Rules().lag_max_ms))
            rows: list[dict[str, str]] = []
            for name, level, coalesce_ms in READINGS:
                say(f"reading {name}")
                rows.append(_row(name, _read(logs[level], Path(folder, f"lake-{len(rows)}"), coalesce_ms), planned))
        finally:
            spark.stop()
    brokers, minutes = len(planned.settings.brokers), planned.seconds / 60
    head = (
        f"{brokers} brokers, {planned.partitions} partitions, {CLUSTER.load[0]} records a second "
        f"for {minutes:g} min; every HW change kept, unchanged fetches coalesced but in the last row. "
        "Stored: the columns of bronze and silver as they are written; the "
        "files' own heads, and gold, do not grow with time"
    )
    return Section("From log line to gold row", f"{head}\n\n{as_table(rows, COLUMNS)}")


def write_logs(planned: Plan, folders: dict[int, Path]) -> None:
    """One run of a cluster, its brokers' logs at each level into that level's folder."""
    simulation = Simulation(planned.settings)
    logs = [KafkaLogs(planned.settings, folder, level) for level, folder in folders.items()]
    for log in logs:
        log.follow(simulation)
        simulation.observers.append(log)
    simulation.start()
    Driver(simulation, planned.loads, planned.seconds, planned.settings.seed)
    simulation.run(planned.seconds)
    for log in logs:
        log.close()


def _read(logs: Path, lake: Path, coalesce_ms: int) -> Read:
    """`hwmark ingest logs` and `hwmark run --once --drain`, in this process and its warm session."""
    from pipelines.bench.measure.processes import cpu_seconds
    from pipelines.lake.lake import Lake
    from pipelines.streaming.job import run
    from pipelines.streaming.options import RunOptions
    from pipelines.streaming.tables import KINDS

    def cpu() -> float:
        return cpu_seconds(os.getpid()) or 0.0

    began, started = time.perf_counter(), cpu()
    result = ingest_logs([logs], cluster="bench", lake=str(lake), options=ReadOptions(coalesce_ms=coalesce_ms))
    ingested = cpu()
    options = RunOptions(drain=True, shuffle_partitions=os.cpu_count() or 1)
    run(str(lake), Rules(), options, on_batch=lambda batch: None)
    seconds, ended = time.perf_counter() - began, cpu()
    tables = Lake(str(lake), {})
    return Read(
        lines=result.line_count,
        log_bytes=size_of(logs),
        events=result.events,
        facts=sum(tables.rows(kind).count_rows() for kind in KINDS),
        seconds=seconds,
        ingest_cpu=ingested - started,
        run_cpu=ended - ingested,
        bronze_bytes=column_bytes(lake / "bronze"),
        silver_bytes=column_bytes(lake / "silver"),
    )


def column_bytes(folder: Path) -> int:
    """Compressed bytes of the columns in the Parquet files below a folder."""
    metadata = [pq.ParquetFile(file).metadata for file in folder.rglob("*.parquet") if "_delta_log" not in file.parts]
    groups = [m.row_group(k) for m in metadata for k in range(m.num_row_groups)]
    return sum(group.column(c).total_compressed_size for group in groups for c in range(group.num_columns))


def _row(level: str, result: Read, planned: Plan) -> dict[str, str]:
    days = len(planned.settings.brokers) * planned.seconds / DAY_S
    return {
        "level": level,
        "lines": f"{result.lines:,}",
        "log": f"{result.log_bytes / 1e6:.1f} MB",
        "events": f"{result.events:,}",
        "facts": f"{result.facts:,}",
        "lines/s": f"{result.lines / result.seconds:,.0f}",
        "ingest CPU s": f"{result.ingest_cpu:.1f}",
        "run CPU s": f"{result.run_cpu:.1f}",
        "CPU s a million lines": f"{(result.ingest_cpu + result.run_cpu) / max(result.lines, 1) * 1e6:.1f}",
        "bronze": f"{result.bronze_bytes / 1e6:.2f} MB",
        "silver": f"{result.silver_bytes / 1e6:.2f} MB",
        "log a broker and day": f"{result.log_bytes / days / 1e6:,.0f} MB",
        "stored a broker and day": f"{(result.bronze_bytes + result.silver_bytes) / days / 1e6:,.0f} MB",
    }
