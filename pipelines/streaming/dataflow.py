"""The streaming query: bronze packed for its buckets, facts of each bucket, and the sink that commits them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from pipelines.lake.lake import Lake
from pipelines.replication import Rules
from pipelines.streaming.checkpoint import offsets
from pipelines.streaming.checkpoint.manifest import Manifests
from pipelines.streaming.checkpoint.query import Query, rules_of
from pipelines.streaming.hadoop import spark_uri
from pipelines.streaming.source.bronze_log import BronzeLog
from pipelines.streaming.source.closings import count_closings
from pipelines.streaming.source.skipped import skipped
from schemas import replication_events

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from pipelines.replication import Reconstructor


def packed_bronze(
    spark: SparkSession, lake: Lake, query: Query, max_bytes: str, max_rows: int, only_planned: bool = False
) -> DataFrame:
    """Bronze as a stream of rows (key, kind, blob) for every bucket, and the batch's time: the same when replayed."""
    from pyspark.sql import functions as F

    from pipelines.streaming.source.bronze_source import PACKED_SQL

    if query.source == "delta":
        packed = delta_source(spark, lake, query, max_bytes).mapInArrow(partial(_pack, keys=query.keys), PACKED_SQL)
    else:
        packed = arrow_source(spark, lake, query, byte_count(max_bytes), max_rows, only_planned)
    return packed.withColumn("at", F.unix_micros(F.current_timestamp()))


def arrow_source(
    spark: SparkSession, lake: Lake, query: Query, max_bytes: int, max_rows: int, only_planned: bool = False
) -> DataFrame:
    """Bronze through our own source, which packs it while reading."""
    from pipelines.streaming.source.bronze_source import FORMAT, BronzeSource, SourceSettings

    uri, options = lake.uri("replication_events"), dict(lake.storage_options)
    settings = SourceSettings(
        uri,
        query.keys,
        query.shuffle_partitions,
        max_bytes,
        max_rows,
        options,
        accepted=offsets.accepted_removals(lake),
        skipped=skipped(lake),
        closings=count_closings(lake),
        start=query.start,
        only_planned=only_planned,
        planned=offsets.planned_offset(lake, query.query_id),
    )
    spark.dataSource.register(BronzeSource)
    return spark.readStream.format(FORMAT).option("settings", settings.option()).load()


def delta_source(spark: SparkSession, lake: Lake, query: Query, max_bytes_per_trigger: str) -> DataFrame:
    """Bronze row by row through delta-spark, commit by commit from the first on, without compacted files.

    Delta would read a snapshot in order of its files' times, compacted rows last. Raises UsageError if the query is new
    and bronze no longer has all rows that its commits added.
    """
    from pyspark.sql import functions as F

    uri = lake.uri("replication_events")
    if offsets.last(lake.files(), query.query_id, "offsets") < 0:
        BronzeLog(uri, lake.storage_options).require_every_commit()
    rows = (
        spark.readStream.format("delta")
        .option("startingVersion", 0)
        .option("maxBytesPerTrigger", max_bytes_per_trigger)
        .option("maxFilesPerTrigger", 1_000_000)
        .option("skipChangeCommits", "true")
        .load(spark_uri(uri))
    )
    there = set(rows.columns)
    return rows.select(
        *(
            (F.col(f.name) if f.name in there else F.lit(None)).cast(f.dataType).alias(f.name)
            for f in replication_events.spark()
        )
    )


def byte_count(words: str) -> int:
    """The number of bytes in Spark's notation: 512m, 2g. Raises ValueError with a wrong value."""
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

    known = Manifests(lake, query.query_id).pending(offsets.last(lake.files(), query.query_id, "commits"))
    pending = None if known is None else (known.batch_id, rules_of(known.rules))
    begins_as = None if query.start is None else query.query_id
    processor = BucketProcessor(
        rules, query.keys, health_every, lake, query.shuffle_partitions, reconstructor, pending, begins_as
    )
    return packed.groupBy("key").transformWithStateInPandas(
        processor, outputStructType=OUTPUT, outputMode="Append", timeMode="None"
    )


def start(
    facts: DataFrame, lake: Lake, query: Query, interval: float | None, role_token: str | None = None
) -> StreamingQuery:
    """Start the query into the sink; it runs to the end of the data if `interval` is None.

    With a `role_token`, the sink commits only while the role is held under it.
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
