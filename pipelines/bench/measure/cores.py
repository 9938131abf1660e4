"""What more tasks cost: CPU seconds of append and run at several numbers of tasks, and what N cores would make of it.

One batch each, in a new process on `local[TASKS]`: with the same few cores under all of them, CPU seconds are the work
that more cores and executors would share.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from pipelines.bench.measure.new_process import in_a_new_process
from pipelines.bench.report.readme import Section
from pipelines.bench.workloads.load import rounds
from pipelines.bench.workloads.workload import RULES
from pipelines.commands.show.tables import as_table
from pipelines.lake.bronze import Layout, append_events, opened
from pipelines.lake.bucket_layout import layout_of
from pipelines.setup import jars_dir

if TYPE_CHECKING:
    from pipelines.commands.progress import Say

TASKS = (2, 4, 8, 16)
MILLIONS = (4, 16)
LAYOUTS: tuple[Layout, ...] = ("order", "buckets")
PARTITIONS, STEP_S = 20_000, 10
OF_A_SECOND = 3 * PARTITIONS
CORES = (2, 4, 8, 16, 32)
"""Of the model."""


class Took(NamedTuple):
    """One run: tasks, events in millions, and CPU seconds of appending and reconstructing them."""

    tasks: int
    millions: float
    cpu_seconds: float


class Fit(NamedTuple):
    """CPU seconds = start + each_task * tasks + a_million[tasks] * millions of events."""

    start: float
    each_task: float
    a_million: dict[int, float]


def fitted(runs: Sequence[Took]) -> Fit:
    """A line through the runs of each number of tasks, and one through where those begin."""
    tasks = sorted({run.tasks for run in runs})
    lines = {}
    for count in tasks:
        own = [run for run in runs if run.tasks == count]
        slope, begin = np.polyfit([run.millions for run in own], [run.cpu_seconds for run in own], 1)
        lines[count] = float(slope), float(begin)
    each, start = np.polyfit(tasks, [lines[count][1] for count in tasks], 1)
    return Fit(float(start), float(each), {count: lines[count][0] for count in tasks})


def modelled(fit: Fit, cores: int) -> float:
    """Events a second, in millions, of batches that are long beside their start: so many cores share the work of as
    many tasks. Beyond the largest number of tasks measured a million takes what it takes there."""
    measured = min(cores, max(fit.a_million))
    return cores / fit.a_million[max(tasks for tasks in fit.a_million if tasks <= measured)]


def measure(say: Say, millions: Sequence[float] = MILLIONS, tasks: Sequence[int] = TASKS) -> Section:
    """CPU seconds by layout and number of tasks, what all tasks read, and the model."""
    runs: dict[Layout, list[Took]] = {layout: [] for layout in LAYOUTS}
    read: dict[Layout, dict[int, float]] = {layout: {} for layout in LAYOUTS}
    for layout, took, bytes_read in _runs(say, millions, tasks):
        runs[layout].append(took)
        read[layout][took.tasks] = bytes_read
    fits = {layout: fitted(found) for layout, found in runs.items()}
    return Section("More tasks", "\n\n".join([_measured(fits, read, tasks), _start(fits), _model(fits)]))


def _measured(fits: dict[Layout, Fit], read: dict[Layout, dict[int, float]], tasks: Sequence[int]) -> str:
    columns = ["tasks", *(f"{words}, by {layout}" for layout in LAYOUTS for words in ("CPU s a million", "bytes read"))]
    rows = []
    for count in tasks:
        row = {"tasks": str(count)}
        for layout in LAYOUTS:
            row[f"CPU s a million, by {layout}"] = f"{fits[layout].a_million[count]:.2f}"
            row[f"bytes read, by {layout}"] = f"{read[layout][count]:.2f} x"
        rows.append(row)
    return "append and run together; bytes read by all tasks, as multiples of the files\n\n" + as_table(rows, columns)


def _start(fits: dict[Layout, Fit]) -> str:
    return "; ".join(
        f"by {layout}: {fit.start:.1f} CPU s of start and {fit.each_task:.2f} for each task"
        for layout, fit in fits.items()
    )


def _model(fits: dict[Layout, Fit]) -> str:
    columns = ["cores", *(f"million events a second, by {layout}" for layout in LAYOUTS)]
    rows = [
        {"cores": str(cores)}
        | {columns[k + 1]: f"{modelled(fits[layout], cores):.1f}" for k, layout in enumerate(LAYOUTS)}
        for cores in CORES
    ]
    return (
        "a model from these figures, with a task for each core of one host or of several executors: not measured\n\n"
        + (as_table(rows, columns))
    )


def _runs(say: Say, millions: Sequence[float], tasks: Sequence[int]) -> Iterator[tuple[Layout, Took, float]]:
    """The layouts in turns: (layout, what a run took with its append, how many times the files' bytes were read)."""
    for count in millions:
        with tempfile.TemporaryDirectory(prefix="hwmark-bench-") as folder:
            appended = {}
            for layout in LAYOUTS:
                say(f"{count:g} million events by {layout}")
                appended[layout] = in_a_new_process(_append, str(Path(folder, layout)), count, layout)
            for number in tasks:
                for layout in LAYOUTS:
                    say(f"{count:g} million events by {layout}, {number} tasks")
                    lake = Path(folder, f"{layout}-{number}")
                    shutil.copytree(Path(folder, layout), lake, copy_function=os.link)
                    spent = in_a_new_process(_run, str(lake), number)
                    yield layout, Took(number, count, spent + appended[layout]), read_by_all(str(lake), number)
                    shutil.rmtree(lake)


def _append(lake: str, millions: float, layout: Layout) -> float:
    """CPU seconds of writing so many events, a commit for every STEP_S of them."""
    spent, seconds = 0.0, round(millions * 1e6 / OF_A_SECOND)
    for version, events in enumerate(rounds(PARTITIONS, seconds, step=STEP_S)):
        began = time.process_time()
        append_events(lake, events, app_id="bench", version=version, layout=layout)
        spent += time.process_time() - began
    return spent


def _run(lake: str, tasks: int) -> float:
    """CPU seconds of one batch with everything, from the start of the process."""
    from pipelines.bench.measure.processes import cpu_seconds
    from pipelines.streaming.job import run
    from pipelines.streaming.options import RunOptions
    from pipelines.streaming.session import PASSES_BLOBS, session

    spark = session(master=f"local[{tasks}]", shuffle_partitions=tasks, jars_dir=jars_dir(), conf=PASSES_BLOBS)
    asked = RunOptions(shuffle_partitions=tasks, max_bytes_per_trigger="64g", max_rows_per_trigger=1 << 40)
    if run(lake, RULES, asked).batches != 1:
        raise RuntimeError(f"{lake} was not one batch")
    spent = cpu_seconds(os.getpid()) or 0.0
    spark.stop()
    return spent


def read_by_all(lake: str, tasks: int) -> float:
    """The bytes of row groups and footers that so many tasks of one bucket read, as a multiple of the files' bytes."""
    import pyarrow.parquet as pq

    from pipelines.streaming.source.bronze_source import READ_BY_ALL

    files = read = 0
    for path in opened(lake).file_uris():
        footer = pq.read_metadata(path)
        sizes = [_stored(footer.row_group(k)) for k in range(footer.num_row_groups)]
        layout = layout_of(footer)
        files += sum(sizes) + footer.serialized_size
        if layout is not None and (tasks <= READ_BY_ALL or layout.readers(tasks, tasks) <= READ_BY_ALL):
            read += sum(sizes[k] for task in range(tasks) for k in layout.groups(tasks, [task]))
            read += tasks * footer.serialized_size
        else:
            read += (tasks if tasks <= READ_BY_ALL else 1) * (sum(sizes) + footer.serialized_size)
    return read / files


def _stored(group: object) -> int:
    return sum(group.column(k).total_compressed_size for k in range(group.num_columns))  # type: ignore[attr-defined]
