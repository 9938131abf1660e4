"""The job beside a cluster that goes on: how long until an event stands in gold, and whether the job keeps up."""

from __future__ import annotations

import math
import multiprocessing
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.synchronize import Event
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

import numpy as np

from pipelines.bench.measure.live_log import SAMPLED, Arrivals, arrivals
from pipelines.bench.measure.measured import watching
from pipelines.bench.measure.processes import cpu_seconds
from pipelines.bench.report.readme import BACKLOG, Point, Section
from pipelines.bench.workloads.live_source import APP, Stream, append_each_second
from pipelines.bench.workloads.workload import RULES
from pipelines.commands.show.tables import as_table
from pipelines.lake.bronze import bronze

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

    from pipelines.commands.progress import Say

INTERVAL_S = 2.0
WARM_BATCHES = 4
"""The JVM's first, and those that catch up with what was appended meanwhile, are not counted."""
PATIENCE_S = 300.0
"""How long to wait for the first batches, and for what is unread at the end: longer than any machine should need."""
MEMORY_EVERY_S = 5.0
"""Looking at a JVM's memory takes up to 0.1 s of a core, which the job then has not."""
SHARES = (50, 95, 99)
COLUMNS = ["from append to gold", "events", "p50", "p95", "p99", "most"]


@dataclass(frozen=True)
class Ended:
    """One batch: seconds since the start at its end, what it did, and commits of bronze it left unread."""

    at: float
    events: int
    seconds: float
    behind: int


@dataclass(frozen=True)
class Run:
    """From when the job was `warm` (seconds since the start): its batches, CPU seconds a second and largest memory."""

    warm: float
    batches: list[Ended]
    job_cpu: float | None
    job_peak_bytes: int | None
    source_cpu: float | None


def measure(rate: int, seconds: float, say: Say) -> Section:
    """`rate` events a second for so long, once the job is warm. Raises RuntimeError where a process ends."""
    with tempfile.TemporaryDirectory(prefix="hwmark-bench-") as folder:
        lake = Path(folder, "lake")
        bronze(str(lake))
        stream = Stream(str(lake), rate, time.time() + 1)
        run = _beside_each_other(stream, seconds, say)
        say("reading from the logs when what stood in gold")
        (checkpoint,) = (p.parent for p in (lake / "_run").glob("*/offsets"))
        found = arrivals(lake, checkpoint, APP, math.ceil(run.warm))
    points = [Point(BACKLOG, f"{rate:,} events/s", b.at - run.warm, b.behind) for b in run.batches]
    return Section(f"Live, {rate:,} events/s", _text(stream, seconds, found, run), points)


def _beside_each_other(stream: Stream, seconds: float, say: Say) -> Run:
    """The job and the cluster in processes of their own; what both did from when the job was warm."""
    context = multiprocessing.get_context("spawn")
    stop_job, stop_source = context.Event(), context.Event()
    ours, theirs = context.Pipe(duplex=False)
    job = context.Process(target=_job, args=(stream, stop_job, theirs))
    source = context.Process(target=append_each_second, args=(stream, stop_source))
    pids = []
    try:
        for process in (job, source):
            process.start()
            pids.append(process.pid or 0)
        theirs.close()
        say(f"{stream.rate:,} events/s of {stream.partitions:,} partitions; {WARM_BATCHES} batches to warm the job")
        batches = _ended(ours, PATIENCE_S, lambda finished: len(finished) >= WARM_BATCHES)
        warm, before = time.time() - stream.begins, [cpu_seconds(pid) for pid in pids]
        say(f"warm after {warm:.0f} s, counting for {seconds:.0f} s")
        with watching(pids[0], MEMORY_EVERY_S) as peak:
            batches = _ended(ours, seconds)
        after = [cpu_seconds(pid) for pid in pids]
        stop_source.set()
        source.join()
        say("what is left of it")
        batches += _ended(ours, PATIENCE_S, lambda finished: bool(finished) and finished[-1].behind == 0)
    finally:
        for stop in (stop_job, stop_source):
            stop.set()
        for process in (job, source):
            process.join()
    cpu = [None if b is None or a is None else (a - b) / seconds for b, a in zip(before, after, strict=True)]
    return Run(warm, batches, cpu[0], peak(), cpu[1])


def _ended(pipe: Connection, seconds: float, enough: Callable[[list[Ended]], bool] | None = None) -> list[Ended]:
    """The batches that end in so many seconds, or until they are enough. Raises RuntimeError where the job ended."""
    finished: list[Ended] = []
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0 and not (enough and enough(finished)):
        try:
            if pipe.poll(left):
                finished.append(Ended(*pipe.recv()))
        except EOFError:
            raise RuntimeError("the job of the live benchmark ended by itself") from None
    return finished


def _job(stream: Stream, stop: Event, pipe: Connection) -> None:
    """`hwmark run --interval 2s`, gold in every batch."""
    import os
    import threading

    from pipelines.setup import jars_dir
    from pipelines.streaming.job import run
    from pipelines.streaming.options import RunOptions

    stopping = threading.Event()

    def pass_on() -> None:
        stop.wait()
        stopping.set()

    threading.Thread(target=pass_on, daemon=True).start()
    run(
        stream.lake,
        RULES,
        RunOptions(
            once=False,
            interval=INTERVAL_S,
            master="local[*]",
            shuffle_partitions=os.cpu_count() or 1,
            gold_interval_s=0,
            gold_retention_s=86_400.0,  # which version of gold had what is read in its files afterwards
            # What each batch read is looked up in its offsets afterwards: none of them is to be cleared away.
            spark_conf={"spark.sql.streaming.minBatchesToRetain": "1000000"},
            jars_dir=jars_dir(),
        ),
        on_batch=lambda b: pipe.send((time.time() - stream.begins, b.events, b.seconds, b.versions_behind)),
        stop=stopping,
    )


def _text(stream: Stream, seconds: float, found: Arrivals, run: Run) -> str:
    kinds = {"waited for nobody": ~found.waited, "waited for another source": found.waited}
    lines = [_latency(name, found.events[which], found.seconds[which]) for name, which in kinds.items()]
    head = (
        f"{stream.rate:,} events/s of {stream.partitions:,} partitions, counted for {seconds:.0f} s once the job was "
        f"warm; a batch every {INTERVAL_S:.0f} s, gold in each; one partition in {SAMPLED} is looked at"
    )
    lost = f"; {found.lost:,} of the events looked at were not in gold when it ended" if found.lost else ""
    return "\n".join([head, "", as_table(lines, COLUMNS), "", _kept_up(run.batches) + lost, _used(run)])


def _latency(name: str, events: np.ndarray, seconds: np.ndarray) -> dict[str, str | None]:
    """Shares of events, not of rows."""
    row: dict[str, str | None] = dict.fromkeys(COLUMNS)
    row |= {"from append to gold": name, "events": f"{int(events.sum()):,}"}
    if len(seconds):
        order = np.argsort(seconds)
        reached = np.cumsum(events[order]) / events.sum()
        at = [seconds[order][np.searchsorted(reached, share / 100)] for share in SHARES]
        row |= {f"p{s}": f"{v:.1f} s" for s, v in zip(SHARES, at, strict=True)} | {"most": f"{seconds.max():.1f} s"}
    return row


def _kept_up(batches: Sequence[Ended]) -> str:
    """How the backlog went: in the first third of the batches and in the last."""
    if len(batches) < 3:
        return f"{len(batches)} batches: too few to see whether a backlog grows"
    third = len(batches) // 3
    first, last = (median(b.behind for b in part) for part in (batches[:third], batches[-third:]))
    took = median(b.seconds for b in batches)
    return (
        f"{len(batches)} batches of {median(b.events for b in batches):,.0f} events took {took:.1f} s each (medians); "
        f"commits of a second unread at the end of one: {first:g} in the first third, {last:g} in the last, at most "
        f"{max(b.behind for b in batches)}"
    )


def _used(run: Run) -> str:
    if run.job_cpu is None or run.source_cpu is None:
        return "this system does not report CPU seconds"
    peak = f", at most {run.job_peak_bytes / 1e9:.1f} GB" if run.job_peak_bytes else ""
    job = f"CPU seconds a second: the job {run.job_cpu:.2f}{peak}"
    return f"{job}; the cluster that appends, beside it, {run.source_cpu:.2f}"
