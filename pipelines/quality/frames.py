"""What the suites look at: the new rows of a table, with the differences that are judged as columns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from pipelines.lake.lake import Lake
from pipelines.quality.changes import Change
from pipelines.streaming.hadoop import spark_uri
from schemas.declaration import Table

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame, SparkSession

CONTEXT = "INTERVAL 1 HOUR"
"""Older rows taken along, so that the first new HW of a term is held against the one before."""
WHERE = ("cluster", "topic", "topic_id", "partition")


@dataclass(frozen=True)
class New:
    """What is new in one table of a lake, read by Spark; `events` is the number of events it is measured by.

    `as_declared`: its files have all of its declared columns in the declared types.
    """

    spark: SparkSession
    lake: Lake
    table: Table
    change: Change
    events: int
    silent: pa.Table
    as_declared: bool = True

    @property
    def uri(self) -> str:
        return spark_uri(self.lake.uri(self.table))

    def rows(self) -> DataFrame:
        """The new rows.

        Delta's batch reader has no range of versions without a change feed, and its stream refuses a table
        that was overwritten: the files that the log names are read as they are (no table of ours has deletion
        vectors, column mapping or partitions); all of a table, and one that another engine has made, through Delta, at
        the version judged.
        """
        if self.change.files is None:
            return self.whole()
        if not self.as_declared:
            return self.whole(_from_files(self.change.files))
        return self.spark.read.schema(self.table.spark()).parquet(*(f"{self.uri}/{name}" for name in self.change.files))

    def whole(self, only: Column | None = None) -> DataFrame:
        """The table as it was at the version judged, its declared columns."""
        from pyspark.sql import functions as F

        rows = self.spark.read.format("delta").option("versionAsOf", self.change.version_to).load(self.uri)
        there, declared = set(rows.columns), self.table.spark()
        return (rows if only is None else rows.where(only)).select(
            *((F.col(f.name) if f.name in there else F.lit(None)).cast(f.dataType).alias(f.name) for f in declared)
        )


def as_it_is(new: New) -> DataFrame:
    """The new rows."""
    return new.rows()


def events(new: New) -> DataFrame:
    """isr_outside_ar: members of the ISR that are not assigned."""
    from pyspark.sql import functions as F

    return new.rows().withColumn("isr_outside_ar", F.size(F.array_except("isr", "replicas")))


def health(new: New) -> DataFrame:
    """isr_outside_ar as in `events`; hw_above_leo: offsets by which the HW exceeds the leader's LEO."""
    from pyspark.sql import functions as F

    return new.rows().select(
        "*",
        F.size(F.array_except("isr", "ar")).alias("isr_outside_ar"),
        (F.col("hw") - F.col("leader_leo")).alias("hw_above_leo"),
    )


def verdicts(new: New) -> DataFrame:
    """The last revision of each new verdict of critical severity: a loss that is only possible is for the alerts."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    latest = Window.partitionBy("cluster", "regression_id").orderBy(F.col("revision").desc())
    return (
        new.rows()
        .withColumn("place", F.row_number().over(latest))
        .filter((F.col("place") == 1) & (F.col("severity") == "critical"))
    )


def hw(new: New) -> DataFrame:
    """hw_step: what the HW rose since the row before in its term; hw_above_leo as in `health`."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    # Of a term and of one instant the lower HW is taken to be the earlier: rows of a table have no order.
    by_time = (F.col("ts"), F.col("kind") != "term_start", F.col("hw"), ~F.col("is_new"))
    epoch = Window.partitionBy(*WHERE, "leader_id", "leader_epoch").orderBy(*by_time)
    term = Window.partitionBy(*WHERE, "leader_id", "leader_epoch", "term").orderBy(*by_time)
    moves = F.col("kind").isin("advance", "term_start") & F.col("hw").isNotNull()
    # A report left over shows the value reconstructed then: lower than before where it had been one's only witness.
    known = moves | (F.col("kind") == "report")
    before = F.last(F.when(known, F.col("hw")), ignorenulls=True).over(term.rowsBetween(Window.unboundedPreceding, -1))
    return (
        _with_context(new)
        .withColumn("term", F.count(F.when(F.col("kind") == "term_start", 1)).over(epoch))
        .withColumn("hw_step", F.when(moves, F.col("hw") - before))
        .withColumn("hw_above_leo", F.col("hw") - F.col("leader_leo"))
        .filter("is_new")
    )


def _with_context(new: New) -> DataFrame:
    """The new rows, and as not `is_new` those of the hour before the first of them."""
    from pyspark.sql import functions as F

    fresh = new.rows().withColumn("is_new", F.lit(True))
    if new.change.files is None:
        return fresh
    start = new.rows().agg(F.min("ts") - F.expr(CONTEXT)).collect()[0][0]
    older = new.whole((F.col("ts") >= F.lit(start)) & ~_from_files(new.change.files))
    return fresh.unionByName(older.withColumn("is_new", F.lit(False)))


def _from_files(files: tuple[str, ...]) -> Column:
    from pyspark.sql import functions as F

    return F.col("_metadata.file_name").isin([name.rpartition("/")[2] for name in files])


def quarantine_share(new: New) -> DataFrame:
    """One row: quarantined, events, share of the two, and the reasons with the number of rows they are given for."""
    from pyspark.sql import functions as F

    reasons = new.rows().select(F.explode("reasons").alias("reason")).groupBy("reason").count()
    worst = reasons.orderBy(F.desc("count")).limit(5)
    counted = F.collect_list(F.concat_ws(": ", "reason", "count"))
    quarantined = new.change.rows
    return worst.agg(F.concat_ws("; ", counted).alias("reasons")).select(
        "reasons",
        F.lit(quarantined).alias("quarantined"),
        F.lit(new.events).alias("events"),
        F.lit(quarantined / max(new.events, quarantined)).alias("share"),
    )


def sources(new: New) -> DataFrame:
    """One row a source: reported_to, and silent_s, null where its cluster was closed after that."""
    return new.spark.createDataFrame(new.silent)


def silences(rows: Iterable[Mapping[str, object]]) -> pa.Table:
    """Sources (`alerting.silence.sources`) as the table that `sources` judges."""
    import pyarrow as pa

    schema = pa.schema([("cluster", pa.string()), ("source_id", pa.string()), ("reported_to", pa.string()),
                        ("silent_s", pa.float64())])  # fmt: skip
    return pa.Table.from_pylist([_silence(row) for row in rows], schema=schema)


def _silence(row: Mapping[str, object]) -> dict[str, object]:
    reported_to, silent = int(str(row["reported_to"])), int(str(row["silent"]))
    return {
        "cluster": row["cluster"],
        "source_id": row["source_id"],
        "reported_to": datetime.fromtimestamp(reported_to / 1e6, UTC).isoformat(),
        "silent_s": None if row["closed"] else silent / 1e6,
    }
