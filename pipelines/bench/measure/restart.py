"""What it costs to stop and start again with the state of many partitions, and how large that state is."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from pipelines.bench.engines.engine import size_of
from pipelines.bench.measure.new_process import in_a_new_process
from pipelines.bench.report.readme import Section
from pipelines.bench.workloads.load import rounds
from pipelines.bench.workloads.stalls import EPOCH_S
from pipelines.bench.workloads.workload import RULES, STALLED
from pipelines.commands.show.tables import as_table
from pipelines.lake.bronze import append_events
from pipelines.setup import jars_dir

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pipelines.commands.progress import Say

STEP_S = 3
COLUMNS = [
    "partitions", "restart", "of it the batch", "events in it", "CPU s",
    "state", "a partition", "buffers", "checkpoint on disk",
]  # fmt: skip


class Started(NamedTuple):
    """One process from its start to the end of a run: seconds, and bytes of state per partition and of buffers."""

    seconds: float
    batch_seconds: float
    events: int
    cpu_seconds: float
    state_bytes: int
    buffered_bytes: int
    checkpoint_bytes: int


def measure(partitions: Sequence[int], say: Say) -> Section:
    """A second of events read by a new process, after one that read EPOCH_S seconds of so many partitions."""
    rows = [_row(count, _measured(count, say)) for count in partitions]
    text = (
        f"a process reads {EPOCH_S} s of events and ends; a new one starts its JVM, restores the state and reads 1 s "
        "more. State: the buckets' blobs as Spark keeps them; buffers are the events in them that wait for others\n\n"
    )
    return Section("Restart and state", text + as_table(rows, COLUMNS))


def _measured(partitions: int, say: Say) -> Started:
    with tempfile.TemporaryDirectory(prefix="hwmark-bench-") as lake:
        parts = rounds(partitions, EPOCH_S + 1, step=STEP_S, stalled=STALLED)
        for version, events in enumerate(parts):
            # The last part is the one second that does not fill a step.
            if version * STEP_S == EPOCH_S:
                say(f"{partitions:,} partitions: the run before")
                in_a_new_process(_run, lake, time.time())
            append_events(lake, events, app_id="bench", version=version)
        say(f"{partitions:,} partitions: the restart")
        return in_a_new_process(_run, lake, time.time())


def _run(lake: str, begun: float) -> Started:
    from pipelines.bench.measure.processes import cpu_seconds
    from pipelines.streaming.follow import Batch
    from pipelines.streaming.job import run
    from pipelines.streaming.options import RunOptions
    from pipelines.streaming.session import PASSES_BLOBS, session

    batches: list[Batch] = []
    cores = os.cpu_count() or 1
    jars = jars_dir()
    spark = session(master="local[*]", shuffle_partitions=cores, jars_dir=jars, conf=PASSES_BLOBS)
    run(lake, RULES, RunOptions(shuffle_partitions=cores), on_batch=batches.append)
    seconds, cpu = time.time() - begun, cpu_seconds(os.getpid()) or 0.0
    (checkpoint,) = (p.parent for p in Path(lake, "_run").glob("*/offsets"))
    state, buffered = state_bytes(spark, checkpoint)
    spark.stop()
    took, events = sum(b.seconds for b in batches), sum(b.events for b in batches)
    return Started(seconds, took, events, cpu, state, buffered, size_of(checkpoint / "state"))


def state_bytes(spark: SparkSession, checkpoint: Path) -> tuple[int, int]:
    """Bytes of all buckets' state in a checkpoint, without and of the events that wait in it."""
    from pipelines.replication import Reconstructor

    store = spark.read.format("statestore").option("stateVarName", "bucket").load(str(checkpoint))
    total = buffered = 0
    for row in store.select("value.blob").toLocalIterator():
        held = Reconstructor.restore(bytes(row.blob))
        if held.state.waiting.num_rows:
            held.state.waiting = held.state.waiting.slice(0, 0)
            buffered += len(row.blob) - len(held.snapshot())
        total += len(row.blob)
    return total - buffered, buffered


def _row(partitions: int, started: Started) -> dict[str, str]:
    return {
        "partitions": f"{partitions:,}",
        "restart": f"{started.seconds:.1f} s",
        "of it the batch": f"{started.batch_seconds:.1f} s",
        "events in it": f"{started.events:,}",
        "CPU s": f"{started.cpu_seconds:.1f}",
        "state": f"{started.state_bytes / 1e6:.1f} MB",
        "a partition": f"{started.state_bytes / partitions:.0f} B",
        "buffers": f"{started.buffered_bytes / 1e6:.1f} MB",
        "checkpoint on disk": f"{started.checkpoint_bytes / 1e6:.1f} MB",
    }
