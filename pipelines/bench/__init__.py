"""`hwmark bench`: `replay` and the Spark job beside a DuckDB window query, on the same events, in one run."""

from __future__ import annotations

import tempfile
from pathlib import Path

from pipelines.bench.answer import require_same
from pipelines.bench.duckdb_window import DuckDBWindow
from pipelines.bench.measured import Engine, Measured, Runner
from pipelines.bench.replayed import Replay
from pipelines.bench.spark_job import SparkJob
from pipelines.bench.summary import summary
from pipelines.bench.workload import write
from pipelines.console import progress

ENGINES: tuple[type[Engine], ...] = (Replay, SparkJob, DuckDBWindow)
ROUNDS = 3


def main(events: int) -> None:
    """Prints one table of engines, once they agree on every HW. Raises Disagreement where they do not."""
    with progress("bench") as say, tempfile.TemporaryDirectory(prefix="hwmark-bench-") as folder:
        say(f"making {events:,} events")
        load = write(str(Path(folder, "events")), events)
        runners = []
        try:
            for engine in ENGINES:
                say(f"starting {engine.NAME}, and a round of it to warm it")
                runners.append(Runner(engine, load.lake, str(Path(folder, engine.__name__))))
                runners[-1].measure()
            rounds: list[list[Measured]] = []
            for number in range(ROUNDS):
                say(f"round {number + 1} of {ROUNDS}")
                rounds.append([runner.measure() for runner in runners])
                require_same({engine.NAME: m.answer for engine, m in zip(ENGINES, rounds[-1], strict=True)})
        finally:
            for runner in runners:
                runner.close()
    print(summary(load, ENGINES, rounds))
