"""The job beside a cluster that goes on: how long until an event stands in gold, and whether the job keeps up."""

import math
import multiprocessing
import os
import tempfile
import threading
import time
from pathlib import Path
from statistics import median
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pipelines.commands.show.tables import as_table
from pipelines.lake.bronze import append_events, bronze
from pipelines.lake.delta_log import actions
from pipelines.lake.file_systems import file_system
from pipelines.setup import jars_dir
from schemas import partition_health, replication_events
from tests.bench.load import PER_APPEND, RULES, rounds
from tests.bench.processes import cpu_seconds, watching

APP = "bench-live"
INTERVAL_S, A_DAY = 2.0, 86_400
WARM_BATCHES = 4
"""The JVM's first, and those that catch up with what was appended meanwhile, are not counted."""
PATIENCE_S = 300.0
SAMPLED = 20
"""One partition in so many is looked at."""


class Ended(NamedTuple):
    """A batch: its end in seconds since the start, its events and seconds, and commits of bronze it left unread."""

    at: float
    events: int
    seconds: float
    behind: int


def append_each_second(lake, rate, begins, stop):
    """Version n of APP is the n-th second, appended when it is over."""
    tables = rounds(max(1, rate // PER_APPEND), A_DAY, step=1, faults=(), start_us=(begins - 1) * 1_000_000)
    for number, events in enumerate(tables):
        if stop.wait(max(0.0, begins + number + 1 - time.time())):
            return
        append_events(lake, events, app_id=APP, version=number)


def run_job(lake, begins, stop, pipe):
    """Follows the lake as `hwmark run --interval 2s` does, with gold in every batch."""
    from pipelines.streaming.job import run
    from pipelines.streaming.options import RunOptions

    stopping = threading.Event()
    threading.Thread(target=lambda: stop.wait() and stopping.set(), daemon=True).start()
    options = RunOptions(
        once=False, interval=INTERVAL_S, master="local[*]", shuffle_partitions=os.cpu_count() or 1, gold_interval_s=0,
        gold_retention_s=A_DAY, jars_dir=jars_dir(),
    )  # fmt: skip
    told = lambda b: pipe.send(Ended(time.time() - begins, b.events, b.seconds, b.versions_behind))  # noqa: E731
    run(lake, RULES, options, on_batch=told, stop=stopping)


def measure(rate, seconds):
    """The report of `rate` events a second for so long, once the job is warm. Raises RuntimeError if it ends."""
    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory(prefix="hwmark-bench-") as lake:
        bronze(lake)
        stop_job, stop_source, begins = context.Event(), context.Event(), round(time.time()) + 10
        ours, theirs = context.Pipe(duplex=False)
        job = context.Process(target=run_job, args=(lake, begins, stop_job, theirs))
        source = context.Process(target=append_each_second, args=(lake, rate, begins, stop_source))
        try:
            job.start()
            source.start()
            theirs.close()
            _batches(ours, PATIENCE_S, lambda finished: len(finished) >= WARM_BATCHES)
            warm, before = time.time() - begins, [cpu_seconds(process.pid) for process in (job, source)]
            with watching(job.pid, 5.0) as peak:
                batches = _batches(ours, seconds)
            cpu = [
                (cpu_seconds(process.pid) - was) / seconds for process, was in zip((job, source), before, strict=True)
            ]
            stop_source.set()
            source.join()
            batches += _batches(ours, PATIENCE_S, lambda finished: finished and finished[-1].behind == 0)
        finally:
            for process, stop in ((source, stop_source), (job, stop_job)):
                stop.set()
                process.join()
        events, waited = arrivals(Path(lake), math.ceil(warm))
    return "\n\n".join(
        [
            f"{rate:,} events/s, counted for {seconds:g} s once the job was warm; a batch every {INTERVAL_S:g} s, gold "
            f"in each; one partition in {SAMPLED} is looked at",
            latency(events, waited),
            kept_up(batches),
            f"CPU seconds a second: the job {cpu[0]:.2f}, at most {peak() / 1e9:.1f} GB; the source {cpu[1]:.2f}",
        ]
    )


def _batches(pipe, seconds, enough=lambda finished: False):
    """The batches that end in so many seconds, or until they are enough."""
    finished, until = [], time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0 and not enough(finished):
        try:
            if pipe.poll(left):
                finished.append(pipe.recv())
        except EOFError:
            raise RuntimeError("the job of the live benchmark ended by itself") from None
    return finished


def arrivals(lake, first):
    """(events, seconds until gold told of the last of them) for partitions and commits of APP from version `first` on.

    Both are arrays; the seconds are infinite where gold never did.
    """
    golds = []
    for at, files, _ in _commits(lake / partition_health.TABLE.path):
        rows = _sampled(files, "last_event_ts")
        golds.append((at, dict(zip(_keys(rows), rows["last_event_ts"].to_pylist(), strict=True))))
    events, waited = [], []
    for at, files, version in _commits(lake / replication_events.TABLE.path):
        if version < first:
            continue
        rows = _sampled(files, "ts").group_by(["topic", "partition"]).aggregate([("ts", "max"), ("ts", "count")])
        for key, last, count in zip(_keys(rows), rows["ts_max"].to_pylist(), rows["ts_count"].to_pylist(), strict=True):
            told = (
                gold_at for gold_at, known in golds if gold_at >= at and known.get(key, last) >= last and key in known
            )
            events.append(count)
            waited.append(next(told, math.inf) - at)
    return np.array(events), np.array(waited)


def _commits(table):
    """(time of the log's file, files added, version of APP or -1) of each commit that added files."""
    for file in sorted((table / "_delta_log").glob("*.json")):
        done = actions(file_system(str(table)), int(file.stem))
        files = [table / action["add"]["path"] for action in done if "add" in action]
        versions = [action["txn"]["version"] for action in done if action.get("txn", {}).get("appId") == APP]
        if files:
            yield file.stat().st_mtime, files, max(versions, default=-1)


def _sampled(files, column):
    rows = pa.concat_tables(pq.read_table(file, columns=["topic", "partition", column]) for file in files)
    number = rows["partition"]
    return rows.filter(
        pc.and_(pc.equal(pc.multiply(pc.divide(number, SAMPLED), SAMPLED), number), rows["topic"].is_valid())
    )


def _keys(rows):
    return list(zip(rows["topic"].to_pylist(), rows["partition"].to_pylist(), strict=True))


def latency(events, waited):
    """Shares of events, not of rows."""
    there = np.isfinite(waited)
    row = {
        "from append to gold": "all",
        "events": f"{events[there].sum():,}",
        "never in gold": f"{events[~there].sum():,}",
    }
    if there.any():
        order = np.argsort(waited[there])
        reached = np.cumsum(events[there][order]) / events[there].sum()
        for share in (50, 95, 99):
            row[f"p{share}"] = f"{waited[there][order][np.searchsorted(reached, share / 100)]:.1f} s"
        row["most"] = f"{waited[there].max():.1f} s"
    return as_table([row], list(row))


def kept_up(batches):
    """How the backlog went: in the first third of the batches and in the last."""
    third = max(1, len(batches) // 3)
    first, last = (median(batch.behind for batch in part) for part in (batches[:third], batches[-third:]))
    return (
        f"{len(batches)} batches of {median(b.events for b in batches):,.0f} events took "
        f"{median(b.seconds for b in batches):.1f} s each (medians); commits of a second unread at the end of one: "
        f"{first:g} in the first third, {last:g} in the last, at most {max(b.behind for b in batches)}"
    )
