"""The state that Spark keeps of a query, bucket by bucket: what another query begins with."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipelines.streaming.checkpoint import offsets
from pipelines.streaming.checkpoint.beginning import first_state
from pipelines.streaming.checkpoint.query import Query, StateMismatch
from pipelines.streaming.hadoop import spark_uri
from pipelines.streaming.stateful.bucket_processor import VARIABLE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pipelines.lake.lake import Lake


def stored_state(spark: SparkSession, lake: Lake, query: Query) -> list[bytes]:
    """The blobs of all buckets after the last batch that a query has committed, in order.

    Raises StateMismatch where a bucket has none.
    """
    committed = offsets.last(lake.files(), query.query_id, "commits")
    if committed < 0:
        return [first_state(lake, query.query_id, bucket) for bucket in range(query.buckets)]
    # Who opens a state reports it to a coordinator, which Spark starts with its manager of queries: a session that has
    # had no query has none until somebody asks for it.
    _ = spark.streams.active
    rows = (
        spark.read.format("statestore")
        .option("stateVarName", VARIABLE)
        .option("batchId", committed)
        .load(spark_uri(query.checkpoint(lake.root)))
        .select("key.key", "value.blob")
    )
    by_key = {row["key"]: bytes(row["blob"]) for row in rows.toLocalIterator()}
    if sorted(by_key) != sorted(query.keys):
        raise StateMismatch(
            f"the state of lake {lake.root} after batch {committed} has {len(by_key)} of {query.buckets} buckets: "
            "start silver anew from bronze with `hwmark run --rebuild`"
        )
    return [by_key[key] for key in query.keys]
