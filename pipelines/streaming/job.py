"""The streaming job: bronze in, silver and gold out, in one query that can be stopped and killed at any point."""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from pipelines.errors import UsageError
from pipelines.lake.lake import Lake
from pipelines.lake.lease import LeaseLost
from pipelines.lake.roles import hold
from pipelines.replication import Reconstructor, Rules
from pipelines.streaming import hadoop
from pipelines.streaming.checkpoint import offsets
from pipelines.streaming.checkpoint.damage import explained, require_readable
from pipelines.streaming.checkpoint.manifest import Manifests, resume
from pipelines.streaming.checkpoint.moved import follow_move
from pipelines.streaming.checkpoint.query import Query, open_query, recorded, rules_of
from pipelines.streaming.follow import Batch, InFlight, RunFailed, RunSummary, follow
from pipelines.streaming.hadoop import spark_uri
from pipelines.streaming.signals import stoppable
from pipelines.streaming.source.closings import count_closings
from pipelines.streaming.source.drain import close_sources
from pipelines.streaming.source.skipped import skip_file, skipped
from pipelines.streaming.source.suitable import require_suitable
from pipelines.streaming.stateful.bucket_keys import bucket_keys
from pipelines.streaming.tables import ROLE, create_tables
from schemas import replication_events

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

log = logging.getLogger("hwmark.run")

SOURCES = ("arrow", "delta")
INTERVAL_S = 10.0
SLOW = 3
"""A batch that takes so many times its interval says how far it is, and again each time it took as long."""
STARTS = 5
NOT_STARTED = "Python worker failed to connect back"
"""Spark gives the planner of a Python source ten seconds to start, whatever is set; by then nothing has been done."""


def run(
    lake: str,
    rules: Rules,
    *,
    once: bool = True,
    interval: float | None = None,
    drain: bool = False,
    rebuild: bool = False,
    accept_removal: int | None = None,
    skip_files: Sequence[str] = (),
    buckets: int | None = None,
    master: str = "local[2]",
    shuffle_partitions: int = 2,
    source: str = "arrow",
    jars_dir: str | None = None,
    max_bytes_per_trigger: str = "256m",
    max_rows_per_trigger: int = 8_000_000,
    gold_interval_s: float | None = None,
    storage_options: Mapping[str, str] | None = None,
    spark_conf: Mapping[str, str] | None = None,
    log_file: str | None = None,
    on_batch: Callable[[Batch], None] | None = None,
    on_slow: Callable[[InFlight], None] | None = None,
    stop: threading.Event | None = None,
) -> RunSummary:
    """Runs the query to the end of bronze (`once`), or every `interval` seconds until `stop` or SIGTERM.

    `source`: how bronze is read, one of SOURCES; `drain` first closes all sources; `rebuild` starts silver anew;
    `accept_removal`: a version of bronze that took rows out and may be read past from now on; `skip_files`: files of
    bronze that cannot be read and are not from now on.
    `buckets`: shards of the state of a new lake, by default one for each of `shuffle_partitions`.
    `gold_interval_s`: seconds between writes of `gold/partition_health`, by default every batch of a run `once` and
    10 s else. A session that is already running is used and left running. Raises RoleHeld, LeaseLost, StateMismatch,
    UnsuitableSpark, RunFailed, UsageError.
    """
    from pipelines.streaming.session import session

    if skip_files and source != "arrow":
        raise UsageError('--skip-file is for source = "arrow"; with source = "delta" it would not leave the file out')
    place = Lake(_absolute(lake), dict(storage_options or {}))
    continuous = interval is not None or not once
    stopping = stop or threading.Event()
    with (
        stoppable(stopping) as install_handlers,
        hold(place.root, ROLE, place.storage_options) as held,
        _session_to_stop() as stop_later,
    ):
        _ready(place)
        if (known := recorded(place)) is not None and not rebuild:
            _recover(place, known.query_id)
        create_tables(place)
        query = open_query(place, rules, buckets, shuffle_partitions, source, rebuild=rebuild)
        every = interval or INTERVAL_S
        offsets.remember_interval(place, every if continuous else None)
        if accept_removal is not None:
            offsets.accept_removal(place, accept_removal)
        for path in skip_files:
            log.warning("%s", skip_file(place, path))
        if drain:
            close_sources(place)
        spark = session(
            master=master,
            shuffle_partitions=shuffle_partitions,
            jars_dir=jars_dir,
            conf=_spark_conf(place, source) | dict(spark_conf or {}),
            log_file=log_file,
        )
        stop_later(spark)
        install_handlers()
        health_every = gold_interval_s if gold_interval_s is not None else 10.0 if continuous else 0.0
        packed = packed_bronze(spark, place, query, max_bytes_per_trigger, max_rows_per_trigger)
        facts = reconstruct(packed, rules, query, health_every, place)
        return _follow_to_end(
            lambda: start(facts, place, query, every if continuous else None, held.token),
            lambda running: follow(running, place, on_batch, stopping, held, on_slow, SLOW * every),
            lambda message: explained(message, place, query.query_id),
        )


def _follow_to_end(
    begin: Callable[[], StreamingQuery],
    follow_one: Callable[[StreamingQuery], RunSummary],
    explain: Callable[[str], str],
) -> RunSummary:
    """Starts the query and follows it, anew where Spark gave the planner of the source no time to start."""
    from py4j.protocol import Py4JNetworkError

    for attempt in range(STARTS):
        running = begin()
        try:
            return follow_one(running)
        except LeaseLost:
            running.stop()
            raise
        except (Py4JNetworkError, ConnectionError) as lost:
            raise RunFailed("Spark's JVM has ended, and what it was at is done by the next run") from lost
        except RunFailed as failed:
            if NOT_STARTED not in str(failed) or attempt == STARTS - 1:
                raise RunFailed(explain(str(failed))) from failed
            log.warning("%s The machine is busy: starting again", failed)
    raise AssertionError("the last attempt returns or raises")


def _recover(lake: Lake, query_id: str) -> None:
    """Has checkpoint, manifests and tables of a query belong together after a kill, or a move of the lake.

    Raises StateMismatch where they cannot.
    """
    for restored in resume(lake, query_id):
        log.warning("%s", restored)
    require_readable(lake, query_id)
    if follow_move(lake, query_id):
        log.warning("the lake was moved to %s: its state is read there", lake.root)


def _spark_conf(lake: Lake, source: str) -> dict[str, str]:
    """Spark's settings for this lake and this way of reading bronze."""
    from pipelines.streaming.session import PASSES_BLOBS

    jvm = PASSES_BLOBS if source == "arrow" else {}
    return {**jvm, **hadoop.settings(lake.storage_options), **hadoop.local_checkpoints(lake.root)}


def _ready(lake: Lake) -> None:
    """Has bronze exist, in whichever columns its writers made it. Raises UnsuitableColumnsError."""
    table = lake.create(replication_events.TABLE)
    require_suitable(table.table_uri, table.schema(), table.metadata().partition_columns)


def packed_bronze(spark: SparkSession, lake: Lake, query: Query, max_bytes: str, max_rows: int) -> DataFrame:
    """Bronze as a stream of rows (key, kind, blob) for every bucket, and the batch's time: the same when replayed."""
    from pyspark.sql import functions as F

    from pipelines.streaming.source.bronze_source import PACKED_SQL

    keys = bucket_keys(query.buckets, query.shuffle_partitions)
    if query.source == "delta":
        packed = delta_source(spark, lake, max_bytes).mapInArrow(partial(_pack, keys=keys), PACKED_SQL)
    else:
        packed = arrow_source(spark, lake, query, keys, byte_count(max_bytes), max_rows)
    return packed.withColumn("at", F.unix_micros(F.current_timestamp()))


def arrow_source(
    spark: SparkSession, lake: Lake, query: Query, keys: list[int], max_bytes: int, max_rows: int
) -> DataFrame:
    """Bronze packed where it is read."""
    from pipelines.streaming.source.bronze_source import FORMAT, BronzeSource, SourceSettings

    uri, options = lake.uri("replication_events"), dict(lake.storage_options)
    settings = SourceSettings(
        uri,
        keys,
        query.shuffle_partitions,
        max_bytes,
        max_rows,
        options,
        accepted=offsets.accepted_removals(lake),
        skipped=skipped(lake),
        closings=count_closings(lake),
    )
    spark.dataSource.register(BronzeSource)
    return spark.readStream.format(FORMAT).option("settings", settings.option()).load()


def delta_source(spark: SparkSession, lake: Lake, max_bytes_per_trigger: str) -> DataFrame:
    """Bronze row by row through delta-spark, in the order of its commits; files that `maintain` rewrote are no news."""
    from pyspark.sql import functions as F

    rows = (
        spark.readStream.format("delta")
        .option("maxBytesPerTrigger", max_bytes_per_trigger)
        .option("maxFilesPerTrigger", 1_000_000)
        .option("skipChangeCommits", "true")
        .load(spark_uri(lake.uri("replication_events")))
    )
    there = set(rows.columns)
    return rows.select(
        *(
            (F.col(f.name) if f.name in there else F.lit(None)).cast(f.dataType).alias(f.name)
            for f in replication_events.spark()
        )
    )


def byte_count(words: str) -> int:
    """Bytes as Spark writes them: 512m, 2g. Raises ValueError naming what is none."""
    found = re.fullmatch(r"(\d+)([kmgt]?)b?", words.strip().lower())
    if not found:
        raise ValueError(f"max_bytes_per_trigger is {words!r}: write a number of bytes such as 512m or 2g")
    return int(found[1]) << " kmgt".index(found[2] or " ") * 10


def reconstruct(
    packed: DataFrame,
    rules: Rules,
    query: Query,
    health_every: float,
    lake: Lake,
    reconstructor: type[Reconstructor] | None = None,
) -> DataFrame:
    """Facts as rows (kind, blob), one stateful key per bucket."""
    from pipelines.streaming.stateful.bucket_processor import OUTPUT, BucketProcessor

    keys = bucket_keys(query.buckets, query.shuffle_partitions)
    known = Manifests(lake, query.query_id).pending(offsets.last(lake.files(), query.query_id, "commits"))
    pending = None if known is None else (known.batch_id, rules_of(known.rules))
    processor = BucketProcessor(rules, keys, health_every, lake, query.shuffle_partitions, reconstructor, pending)
    return packed.groupBy("key").transformWithStateInPandas(
        processor, outputStructType=OUTPUT, outputMode="Append", timeMode="None"
    )


def start(
    facts: DataFrame, lake: Lake, query: Query, interval: float | None, role_token: str | None = None
) -> StreamingQuery:
    """The running query into the sink; to the end of the data when `interval` is None.

    The sink commits only while the role is held under `role_token`, where there is one.
    """
    from pipelines.streaming.sinks.sink import FORMAT, LakeSink, SinkSettings

    settings = SinkSettings(
        lake.root, query.query_id, query.buckets, query.rebuild, dict(lake.storage_options), role_token, query.rules
    )
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


def _pack(batches: Iterator[pa.RecordBatch], keys: Sequence[int]) -> Iterator[pa.RecordBatch]:
    from pipelines.streaming.source.blobs import pack

    return pack(batches, keys)


def _absolute(lake: str) -> str:
    return lake if "://" in lake else str(Path(lake).absolute())


@contextmanager
def _session_to_stop() -> Iterator[Callable[[SparkSession], None]]:
    """Stops the session at the end, unless it was running before."""
    from py4j.protocol import Py4JError
    from pyspark.sql import SparkSession

    borrowed = SparkSession.getActiveSession() is not None
    mine: list[SparkSession] = []
    try:
        yield mine.append
    finally:
        for spark in mine if not borrowed else ():
            with suppress(Py4JError, OSError):  # its JVM may have ended before
                spark.stop()
