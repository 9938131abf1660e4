"""Polars: window expressions over the Parquet files of bronze, rows to Parquet."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipelines.bench.engines.engine import Writer, parquet_files
from pipelines.bench.engines.windows import COLUMNS
from pipelines.bench.workloads.workload import RULES

if TYPE_CHECKING:
    import polars as pl

PARTITION = ["topic", "partition"]
REPLICA = [*PARTITION, "replica_id"]


class PolarsWindow(Writer):
    """What `windows` says in SQL, as expressions; sorted once, so that windows need not sort."""

    NAME = "Polars windows"
    COUNTED = "bronze's Parquet files to the rows of the three questions in Parquet, nothing else, all cores"

    def run(self) -> None:
        import polars as pl

        events = pl.scan_parquet(parquet_files(str(self.bronze.parent.parent))).select(COLUMNS)
        known = _known(events.with_columns(us=pl.col("ts").dt.epoch("us")))
        _high_watermarks(known, self.asked.resolution_us).write_parquet(self.file("HWs"))
        _isr_changes(events).write_parquet(self.file("ISR changes"))
        _out_of_sync(known, RULES.lag_max_ms * 1000).write_parquet(self.file("stretches out of sync"))


def _known(events: pl.LazyFrame) -> pl.DataFrame:
    """At each event of a partition: the HW, and what the leader knew of its own log."""
    import polars as pl

    kind, isr = pl.col("event_type"), pl.col("isr")
    replicas = [pl.col("replicas").list.get(k) for k in (1, 2)]
    led = events.filter(kind == "leader").select(*PARTITION, replicas="isr")
    reported = events.join(led, on=PARTITION).select(
        *PARTITION, "seq", "us", "event_type", "replica_id", "leo",
        leader=pl.when(kind == "append").then("leader_leo").when(kind == "leader").then("leo"),
        **{f"leo_{k}": pl.when(pl.col("replica_id") == replicas[k]).then("leo") for k in (0, 1)},
        **{f"in_{k}": pl.when(kind.is_in(["leader", "isr"])).then(isr.list.contains(replicas[k])) for k in (0, 1)},
    )  # fmt: skip
    carried = ["leader", "leo_0", "leo_1", "in_0", "in_1"]
    filled = reported.sort(*PARTITION, "seq").with_columns(pl.col(carried).forward_fill().over(PARTITION))
    counted = [pl.when(f"in_{k}").then(pl.col(f"leo_{k}").fill_null(0)) for k in (0, 1)]
    return filled.select(
        *PARTITION, "us", "event_type", "replica_id", "leo",
        leader_leo="leader", hw=pl.min_horizontal("leader", *counted),
    ).collect()  # fmt: skip


def _high_watermarks(known: pl.DataFrame, resolution_us: int) -> pl.DataFrame:
    import polars as pl

    us = pl.col("us") // resolution_us * resolution_us if resolution_us else pl.col("us")
    last = known.lazy().group_by(*PARTITION, us).agg(pl.col("hw").max()).sort(*PARTITION, "us")
    before = pl.col("hw").shift(1).over(PARTITION).fill_null(0)
    return last.filter(pl.col("hw") > before).collect()


def _isr_changes(events: pl.LazyFrame) -> pl.DataFrame:
    import polars as pl

    reported = events.filter(pl.col("event_type").is_in(["leader", "isr"])).sort(*PARTITION, "seq")
    beside = reported.select(
        *PARTITION, us=pl.col("ts").dt.epoch("us"), isr_after="isr", isr_before=pl.col("isr").shift(1).over(PARTITION)
    )
    return beside.filter(pl.col("isr_before").is_not_null() & (pl.col("isr_before") != pl.col("isr_after"))).collect()


def _out_of_sync(known: pl.DataFrame, lag_us: int) -> pl.DataFrame:
    import polars as pl

    leo, us = pl.col("leo"), pl.col("us")
    fetches = known.lazy().filter(pl.col("event_type") == "fetch")
    beside = fetches.with_columns(
        leader_before=pl.col("leader_leo").shift(1).over(REPLICA), us_before=us.shift(1).over(REPLICA)
    )
    now = pl.when(leo >= pl.col("leader_leo")).then(us).when(leo >= pl.col("leader_before")).then("us_before")
    caught = beside.with_columns(caught_up=now.forward_fill().over(REPLICA))
    judged = caught.with_columns(
        is_out=us > pl.col("caught_up") + lag_us, caught_before=pl.col("caught_up").shift(1).over(REPLICA)
    ).with_columns(was_out=pl.col("is_out").shift(1).over(REPLICA).fill_null(False))
    began = pl.when(~pl.col("was_out")).then(pl.col("caught_before") + lag_us + 1000)
    edges = judged.filter(us > pl.col("caught_before") + lag_us).with_columns(since=began)
    ended = edges.with_columns(pl.col("since").forward_fill().over(REPLICA)).filter(~pl.col("is_out"))
    return ended.select(*REPLICA, "since", until="us").collect()
