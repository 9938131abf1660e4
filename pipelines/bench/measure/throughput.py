"""Events a second: all engines at one size, the fast ones over sizes, the Spark job over cores."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from pipelines.bench.engines.answer import require_all_same
from pipelines.bench.engines.duckdb_window import DuckDBWindow
from pipelines.bench.engines.engine import Asked, Engine
from pipelines.bench.engines.limit import Limit
from pipelines.bench.engines.polars_window import PolarsWindow
from pipelines.bench.engines.replay import Replay
from pipelines.bench.engines.spark_job import SparkJob
from pipelines.bench.measure.compare import ENGINES, compare
from pipelines.bench.measure.summary import COLUMNS, Comparison, head, resolution, rows, summary
from pipelines.bench.report.readme import GROWTH, THROUGHPUT, Point, Section
from pipelines.bench.workloads.workload import DENSE, SPARSE, Load, write
from pipelines.commands.progress import Say
from pipelines.commands.show.tables import as_table

FEW: tuple[type[Engine], ...] = (Replay, SparkJob, DuckDBWindow, PolarsWindow, Limit)
"""Without the two that take longest and are compared with once."""
SIZED: tuple[type[Engine], ...] = (Replay, SparkJob, DuckDBWindow)
MASTERS = {"1 core": Asked(master="local[1]", cores=1), "2 cores": Asked(master="local[2]", cores=2),
           "2 cores, executors of 1": Asked(master="local-cluster[2,1,2048]", cores=2)}  # fmt: skip
_DENSITY = {DENSE: "dense", SPARSE: "sparse"}


@contextmanager
def made(events: int, partitions: int | None, appends: int, say: Say) -> Iterator[Load]:
    """A load in a lake that is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="hwmark-bench-") as lake:
        say(f"making {events:,} events")
        yield write(lake, events, partitions, appends)


def engines(
    events: int,
    rounds: int,
    say: Say,
    *,
    partitions: int | None = None,
    appends: int = DENSE,
    asked: Asked,
    of: Sequence[type[Engine]] = ENGINES,
) -> Section:
    """One comparison of engines, with a bar for each."""
    with made(events, partitions, appends, say) as load:
        compared = compare(load, rounds, say, engines=of, asked=asked)
    what = f"{_DENSITY[appends]}, HW at {resolution(asked)}"
    bars = [Point(THROUGHPUT, e.NAME, what, compared.speed(e.NAME) / 1e6) for e in of]
    return Section(f"Engines, {load.partitions:,} partitions, {what}", summary(compared), bars)


def sizes(events: int, rounds: int, say: Say, partitions: Sequence[int]) -> Section:
    """The same events a partition and second, of ever more partitions."""
    texts, points, speeds = [], [], {}
    for count in partitions:
        with made(events, count, DENSE, say) as load:
            compared = compare(load, rounds, say, engines=SIZED)
        texts.append(f"{head(compared)}\n\n{as_table(rows(compared), COLUMNS)}")
        points += [Point(GROWTH, e.NAME, count / 1000, compared.speed(e.NAME) / 1e6) for e in SIZED]
        speeds[count] = compared.speed(SparkJob.NAME)
    first, last = partitions[0], partitions[-1]
    texts.append(
        f"The Spark job at {last:,} partitions has {speeds[last] / speeds[first]:.2f} of its speed at {first:,}."
    )
    return Section("By number of partitions", "\n\n".join(texts), points)


def scaling(events: int, rounds: int, say: Say) -> Section:
    """The Spark job on one core and on two, in one process and in executors of their own."""
    compared: dict[str, Comparison] = {}
    with made(events, None, DENSE, say) as load:
        for name, asked in MASTERS.items():
            say(name)
            compared[name] = compare(load, rounds, say, engines=[SparkJob], asked=asked)
    require_all_same({name: c.rounds[-1][-1].answers for name, c in compared.items()})
    base = compared["1 core"].speed(SparkJob.NAME)
    lines = []
    for name, c in compared.items():
        grown = f"{c.speed(SparkJob.NAME) / base:.2f}"
        lines.append({"where": name, "master": MASTERS[name].master, **rows(c)[0], "to 1 core": grown})
    columns = ["where", "master", *(c for c in COLUMNS if c not in ("engine", "ratio")), "to 1 core"]
    return Section("The Spark job by cores", f"{head(compared['1 core'])}\n\n{as_table(lines, columns)}")
