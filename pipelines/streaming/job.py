"""The streaming job: bronze in, silver and gold out, in one query that can be stopped and killed at any point."""

from __future__ import annotations

import json
import logging
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from generators.lake import bronze
from generators.lock import hold
from pipelines.replication import Reconstructor, Rules
from pipelines.streaming.drain import close_sources
from pipelines.streaming.identity import Query, open_query
from pipelines.streaming.numbering import bucket_keys
from pipelines.streaming.tables import Lake
from schemas import replication_events

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

log = logging.getLogger("hwmark.run")

PACKED = "key int, kind string, blob binary"
POLL_S = 0.2


@dataclass(frozen=True)
class Batch:
    """One finished micro-batch; `versions_behind` commits of bronze were not yet read when it ended."""

    batch_id: int
    events: int
    seconds: float
    events_per_second: float
    versions_behind: int


@dataclass(frozen=True)
class RunSummary:
    """What one run did; `stopped`: it was asked to stop before the end of the data."""

    batches: int = 0
    events: int = 0
    seconds: float = 0.0
    stopped: bool = False


def run(
    lake: str,
    rules: Rules,
    *,
    once: bool = True,
    interval: float | None = None,
    drain: bool = False,
    rebuild: bool = False,
    buckets: int = 32,
    master: str = "local[2]",
    shuffle_partitions: int = 2,
    jars_dir: str | None = None,
    max_bytes_per_trigger: str = "512m",
    gold_interval_s: float | None = None,
    storage_options: Mapping[str, str] | None = None,
    spark_conf: Mapping[str, str] | None = None,
    log_file: str | None = None,
    on_batch: Callable[[Batch], None] | None = None,
    stop: threading.Event | None = None,
) -> RunSummary:
    """Runs the query to the end of bronze (`once`), or every `interval` seconds until `stop` or SIGTERM.

    `drain` first closes all sources; `rebuild` starts silver anew. `gold_interval_s`: seconds between writes of
    `gold/partition_health`, by default every batch of a run `once` and 10 s else. A session that is already
    running is used and left running. Raises RoleHeld, StateMismatch, UnsuitableSpark.
    """
    from pipelines.streaming.session import session

    place = Lake(_absolute(lake), dict(storage_options or {}))
    continuous = interval is not None or not once
    with hold(place.root, "run"), _stoppable(stop or threading.Event()) as stopping, _session_to_stop() as stop_later:
        bronze(place.root, place.storage_options)
        place.create()
        query = open_query(place, buckets, shuffle_partitions, rebuild=rebuild)
        if drain:
            close_sources(place.root, place.storage_options)
        spark = session(
            master=master,
            shuffle_partitions=shuffle_partitions,
            jars_dir=jars_dir,
            conf=spark_conf,
            log_file=log_file,
        )
        stop_later(spark)
        health_every = gold_interval_s if gold_interval_s is not None else 10.0 if continuous else 0.0
        packed = pack(source(spark, place, max_bytes_per_trigger), query)
        running = start(
            reconstruct(packed, rules, query, health_every), place, query, interval or 10.0 if continuous else None
        )
        return _follow(running, place, on_batch or _log_batch, stopping)


def source(spark: SparkSession, lake: Lake, max_bytes_per_trigger: str) -> DataFrame:
    """Bronze as a stream, in the order of its commits; files that `optimize` rewrote are no news."""
    return (
        spark.readStream.format("delta")
        .option("maxBytesPerTrigger", max_bytes_per_trigger)
        .option("maxFilesPerTrigger", 1_000_000)
        .option("ignoreDeletes", "true")
        .load(spark_uri(lake.uri("replication_events")))
        .select(*replication_events.ARROW.names)
    )


def pack(events: DataFrame, query: Query) -> DataFrame:
    """Events as rows (key, kind, blob) for every bucket, and the batch's time: the same when it is replayed."""
    from pyspark.sql import functions as F

    keys = bucket_keys(query.buckets, query.shuffle_partitions)
    packed = events.mapInArrow(partial(_pack, keys=keys), PACKED)
    return packed.withColumn("at", F.unix_micros(F.current_timestamp()))


def reconstruct(
    packed: DataFrame,
    rules: Rules,
    query: Query,
    health_every: float,
    reconstructor: type[Reconstructor] = Reconstructor,
) -> DataFrame:
    """Facts as rows (kind, blob), one stateful key per bucket."""
    from pipelines.streaming.bucket_processor import OUTPUT, BucketProcessor

    keys = bucket_keys(query.buckets, query.shuffle_partitions)
    processor = BucketProcessor(rules, keys, health_every, reconstructor)
    return packed.groupBy("key").transformWithStateInPandas(
        processor, outputStructType=OUTPUT, outputMode="Append", timeMode="None"
    )


def start(facts: DataFrame, lake: Lake, query: Query, interval: float | None) -> StreamingQuery:
    """The running query into the sink; to the end of the data when `interval` is None."""
    from pipelines.streaming.sink import FORMAT, LakeSink, SinkSettings

    settings = SinkSettings(lake.root, query.query_id, query.buckets, query.rebuild, dict(lake.storage_options))
    facts.sparkSession.dataSource.register(LakeSink)
    writer = (
        facts.writeStream.format(FORMAT)
        .queryName("hwmark")
        .option("settings", settings.option())
        .option("checkpointLocation", spark_uri(query.checkpoint(lake.root)))
    )
    if interval is None:
        return writer.trigger(availableNow=True).start()
    return writer.trigger(processingTime=f"{interval} seconds").start()


def spark_uri(uri: str) -> str:
    """The address that Hadoop's file systems use for what the Rust side calls `uri`."""
    return uri.replace("s3://", "s3a://", 1) if uri.startswith("s3://") else uri


def _pack(batches: Iterator[pa.RecordBatch], keys: Sequence[int]) -> Iterator[pa.RecordBatch]:
    from pipelines.streaming.packing import pack

    return pack(batches, keys)


def _follow(
    running: StreamingQuery, lake: Lake, on_batch: Callable[[Batch], None], stopping: threading.Event
) -> RunSummary:
    """Tells of each batch as it ends, until the query ends or, asked to stop, until the batch in flight has ended."""
    begun, summary, seen, last = time.monotonic(), RunSummary(), -1, None
    while running.isActive or last != seen:
        last = seen
        for progress in _since(running, seen):
            seen = progress["batchId"]
            batch = _batch(progress, lake)
            summary = replace(summary, batches=summary.batches + 1, events=summary.events + batch.events)
            on_batch(batch)
        if stopping.is_set() and (seen != last or not running.status["isTriggerActive"]):
            running.stop()
            summary = replace(summary, stopped=True)
            break
        stopping.wait(POLL_S)
    if (failure := running.exception()) is not None:
        raise RuntimeError(_cause(str(failure))) from failure
    return replace(summary, seconds=time.monotonic() - begun)


def _since(running: StreamingQuery, seen: int) -> list[dict[str, Any]]:
    """Progress of the batches with an id above `seen` that did something."""
    return [p for p in map(_as_dict, running.recentProgress) if p["batchId"] > seen and "addBatch" in p["durationMs"]]


def _as_dict(progress: Any) -> dict[str, Any]:
    return progress if isinstance(progress, dict) else json.loads(progress.json)


def _batch(progress: Mapping[str, Any], lake: Lake) -> Batch:
    events, seconds = int(progress["numInputRows"]), progress["durationMs"]["triggerExecution"] / 1000
    return Batch(progress["batchId"], events, seconds, events / seconds if seconds else 0.0, _behind(progress, lake))


def _behind(progress: Mapping[str, Any], lake: Lake) -> int:
    offset = progress["sources"][0]["endOffset"]
    offset = json.loads(offset) if isinstance(offset, str) else offset
    # An offset (version, index -1) means: all versions before this one are read.
    read = offset["reservoirVersion"] - (1 if offset["index"] < 0 else 0)
    return max(0, int(lake.open("replication_events").version()) - int(read))


def _log_batch(batch: Batch) -> None:
    log.info(
        "batch %d: %d events, %.0f events/s, %d commits of bronze behind",
        batch.batch_id,
        batch.events,
        batch.events_per_second,
        batch.versions_behind,
    )


def _cause(message: str) -> str:
    """The last line of a Python worker's trace, or the first line of what Spark says."""
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    errors = [line for line in lines if line.split(":")[0].endswith(("Error", "Exception", "Mismatch"))]
    return (errors or lines or ["the streaming query failed"])[-1 if errors else 0]


def _absolute(lake: str) -> str:
    return lake if "://" in lake else str(Path(lake).absolute())


@contextmanager
def _stoppable(stop: threading.Event) -> Iterator[threading.Event]:
    """SIGTERM and SIGINT set `stop` while inside; only the main thread can be signalled."""
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    before = {number: signal.signal(number, lambda *_: stop.set()) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _session_to_stop() -> Iterator[Callable[[SparkSession], None]]:
    """Stops the session at the end, unless it was running before."""
    from pyspark.sql import SparkSession

    borrowed = SparkSession.getActiveSession() is not None
    mine: list[SparkSession] = []
    try:
        yield mine.append
    finally:
        for spark in mine if not borrowed else ():
            spark.stop()
