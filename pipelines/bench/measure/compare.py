"""Engines on one load: each in a process of its own, round after round, and no time before they agree."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from pipelines.bench.engines.answer import require_all_same
from pipelines.bench.engines.duckdb_window import DuckDBWindow
from pipelines.bench.engines.engine import ASKED, Asked, Engine
from pipelines.bench.engines.limit import Limit
from pipelines.bench.engines.polars_window import PolarsWindow
from pipelines.bench.engines.replay import Replay
from pipelines.bench.engines.spark_job import PlainSparkJob, SparkJob
from pipelines.bench.engines.spark_window import SparkWindow
from pipelines.bench.measure.measured import Measured, Runner
from pipelines.bench.measure.summary import Comparison
from pipelines.bench.workloads.workload import Load
from pipelines.commands.progress import Say

ENGINES: tuple[type[Engine], ...] = (
    Replay, SparkJob, DuckDBWindow, PolarsWindow, SparkWindow, PlainSparkJob, Limit,
)  # fmt: skip


def compare(
    load: Load, rounds: int, say: Say, *, engines: Sequence[type[Engine]] = ENGINES, asked: Asked = ASKED
) -> Comparison:
    """So many rounds of each engine after one that warms it, interleaved. Raises Disagreement."""
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="hwmark-bench-"))
        runners = []
        for engine in engines:
            say(f"starting {engine.NAME}, and a round of it to warm it")
            runners.append(Runner(engine, load.lake, str(Path(folder, engine.__name__)), asked))
            stack.callback(runners[-1].close)
            runners[-1].measure()
        made = []
        for number in range(rounds):
            say(f"round {number + 1} of {rounds}")
            made.append([runner.measure() for runner in runners])
            _agree(engines, made[-1])
        say("one more round for the memory")
        peaks = [runner.peak_bytes() for runner in runners]
    return Comparison(load, asked, engines, made, peaks)


def _agree(engines: Sequence[type[Engine]], measured: Sequence[Measured]) -> None:
    require_all_same({engine.NAME: m.answers for engine, m in zip(engines, measured, strict=True)})
