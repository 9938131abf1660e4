"""Events a second in an incident: a rolling restart, in which leaders and ISRs change instead of only offsets."""

from __future__ import annotations

import tempfile
from datetime import timedelta

import pyarrow as pa
import pyarrow.compute as pc

from pipelines.bench.engines.engine import Engine
from pipelines.bench.engines.replay import Replay
from pipelines.bench.engines.spark_job import SparkJob
from pipelines.bench.measure.compare import compare
from pipelines.bench.measure.summary import COLUMNS, agreed, head, parts, rows
from pipelines.bench.report.readme import Section
from pipelines.bench.workloads.stalls import LAG_MAX_MS
from pipelines.bench.workloads.workload import Load
from pipelines.commands.progress import Say
from pipelines.commands.show.tables import as_table

BROKERS, PARTITIONS, SECONDS = 12, 10_000, 150
"""So long that every broker has been restarted, and all ISRs are complete again."""
CLOSED_AFTER = timedelta(seconds=60)
ENGINES: tuple[type[Engine], ...] = (Replay, SparkJob)
"""The windows of the others know no leader epochs: they answer for clusters whose leaders stay."""


def measure(
    rounds: int, say: Say, *, brokers: int = BROKERS, partitions: int = PARTITIONS, seconds: int = SECONDS
) -> Section:
    """A cluster whose brokers are restarted one after the other, reconstructed by `replay` and by the Spark job."""
    with tempfile.TemporaryDirectory(prefix="hwmark-bench-") as lake:
        events = _simulate(lake, brokers, partitions, seconds, say)
        compared = compare(Load(lake, events, partitions, seconds), rounds, say, engines=ENGINES)
    columns = [column for column in COLUMNS if column != "ratio"]
    text = [head(compared), "", as_table(rows(compared), columns), *parts(compared), "", agreed(compared)]
    return Section(f"Incident: a rolling restart of {brokers} brokers", "\n".join(text))


def _simulate(lake: str, brokers: int, partitions: int, seconds: int, say: Say) -> int:
    """Writes the telemetry into a new lake; how many events they are."""
    from pipelines.commands.simulate.plan import plan, tiled
    from pipelines.commands.simulate.run import run
    from pipelines.commands.simulate.sinks import bronze_sink
    from pipelines.lake.bronze import append_events, read_events
    from pipelines.settings import Simulate

    asked = Simulate(
        cluster="incident",
        brokers=brokers,
        topics=f"orders:{partitions}x3",
        duration=seconds,
        fault=["10s rolling-restart"],
        lag_max_ms=LAG_MAX_MS,
    )
    planned = tiled(plan(asked))
    run(planned, bronze_sink(planned, lake), say)
    events = read_events(lake)
    append_events(lake, _closing(events), app_id="closing", version=0)
    return len(events)


def _closing(events: pa.Table) -> pa.Table:
    """A last progress of every source, later than all the job waits for: it cannot know that nothing follows."""
    progress = events.filter(pc.equal(events["event_type"], "progress")).sort_by("source_seq")
    numbered = progress.select(["source_id"]).append_column("row", pa.array(range(len(progress)), pa.int64()))
    kept = progress.take(numbered.group_by("source_id").aggregate([("row", "max")])["row_max"])
    last = events.group_by("source_id").aggregate([("source_seq", "max")])
    later = {
        "source_seq": pc.add(last["source_seq_max"].take(pc.index_in(kept["source_id"], last["source_id"])), 1),
        "ts": pc.add(kept["ts"], pa.scalar(CLOSED_AFTER, pa.duration("us"))),
    }
    for name, column in later.items():
        number = kept.schema.get_field_index(name)
        kept = kept.set_column(number, kept.schema.field(number), column.cast(kept.schema.field(number).type))
    return kept
