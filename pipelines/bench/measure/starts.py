"""What it saves that Spark's Python processes start with everything imported: `run --once` in each way, in turns."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

from pipelines.bench.measure.new_process import in_a_new_process
from pipelines.bench.report.readme import Section
from pipelines.bench.workloads.load import rounds
from pipelines.bench.workloads.workload import RULES
from pipelines.commands.show.tables import as_table
from pipelines.lake.bronze import append_events
from pipelines.setup import jars_dir

if TYPE_CHECKING:
    from pipelines.commands.progress import Say

PARTITIONS, SECONDS = 2_000, 3
WAYS = (
    "as Spark starts them",
    "workers forked by a module that has imported it all (a setting)",
    "the driver's forked from a warm process (local masters)",
)
"""Each with all of those before it."""
COLUMNS = ["Python processes", "run --once", "saved", "CPU s", "CPU s saved"]


class Took(NamedTuple):
    """One `run --once` in a new process, from its start."""

    seconds: float
    cpu_seconds: float


def measure(rounds_of_each: int, say: Say) -> Section:
    """Seconds and CPU seconds of the job on a small lake, a new process each, the ways in turns; medians."""
    took: dict[int, list[Took]] = {way: [] for way in range(len(WAYS))}
    with tempfile.TemporaryDirectory(prefix="hwmark-bench-") as folder:
        lake = str(Path(folder, "bronze"))
        for version, events in enumerate(rounds(PARTITIONS, SECONDS, step=SECONDS)):
            append_events(lake, events, app_id="bench", version=version)
        for turn in range(rounds_of_each):
            for way, found in took.items():
                say(f"round {turn + 1} of {rounds_of_each}: {WAYS[way]}")
                found.append(_run(lake, str(Path(folder, f"{turn}-{way}")), way))
    text = (
        f"run --once on {PARTITIONS:,} partitions and {SECONDS} s of their events, JVM's start included; "
        f"medians of {rounds_of_each}, in turns\n\n"
    )
    return Section("Processes that start warm", text + as_table(_rows(took), COLUMNS))


def _rows(took: Mapping[int, Sequence[Took]]) -> list[dict[str, str]]:
    middles = [Took(*(median(values) for values in zip(*took[way], strict=True))) for way in took]
    before = [middles[0], *middles[:-1]]
    return [
        {
            "Python processes": name,
            "run --once": f"{now.seconds:.1f} s",
            "saved": f"{last.seconds - now.seconds:.1f} s",
            "CPU s": f"{now.cpu_seconds:.1f}",
            "CPU s saved": f"{last.cpu_seconds - now.cpu_seconds:.1f}",
        }
        for name, now, last in zip(WAYS, middles, before, strict=True)
    ]


def _run(bronze: str, lake: str, way: int) -> Took:
    shutil.copytree(bronze, lake)
    try:
        return in_a_new_process(_run_once, lake, way, time.time())
    finally:
        shutil.rmtree(lake)


def _run_once(lake: str, way: int, begun: float) -> Took:
    from pipelines.bench.measure.processes import cpu_seconds
    from pipelines.streaming.job import run
    from pipelines.streaming.options import RunOptions
    from pipelines.streaming.session import PASSES_BLOBS, session

    _start_as(way)
    cores = os.cpu_count() or 1
    spark = session(master="local[*]", shuffle_partitions=cores, jars_dir=jars_dir(), conf=PASSES_BLOBS)
    run(lake, RULES, RunOptions(shuffle_partitions=cores))
    took = Took(time.time() - begun, cpu_seconds(os.getpid()) or 0.0)
    spark.stop()
    return took


def _start_as(way: int) -> None:
    """Leaves out of this process's session what comes behind one of the WAYS."""
    from pipelines.streaming import session
    from pipelines.streaming.workers import zygote

    if way < 1:
        session.warm_workers = dict
    if way < 2:
        zygote.start = lambda kept=None: None
