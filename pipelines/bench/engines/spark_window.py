"""Spark SQL, as most would write it: windows over the Delta table, in batch, rows to Parquet."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipelines.bench.engines import windows
from pipelines.bench.engines.engine import ASKED, Asked, Writer
from pipelines.bench.engines.spark_job import cores
from pipelines.bench.workloads.workload import RULES
from pipelines.setup import jars_dir

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class SparkWindow(Writer):
    """The windows of each partition once, cached, of which all questions are asked."""

    NAME = "Spark SQL windows"
    COUNTED = "bronze Delta to the rows of the three questions in Parquet, nothing else, JVM warm, all cores"

    def __init__(self, lake: str, folder: str, asked: Asked = ASKED) -> None:
        from pipelines.streaming.session import session

        super().__init__(lake, folder, asked)
        self._session = session(
            master=asked.master,
            shuffle_partitions=cores(asked.master),
            jars_dir=jars_dir(),
            driver_memory="4g",
        )
        events = self._session.read.format("delta").load(str(self.bronze)).select(*windows.COLUMNS)
        events.createOrReplaceTempView("events")

    def run(self) -> None:
        sql = windows.SPARK
        known = self._session.sql(windows.known(sql)).persist()
        known.createOrReplaceTempView("known")
        self._write("HWs", self._session.sql(windows.high_watermarks(sql, self.asked.resolution_us)))
        self._write("ISR changes", self._session.sql(windows.isr_changes(sql)))
        self._write("stretches out of sync", self._session.sql(windows.out_of_sync(RULES.lag_max_ms)))
        known.unpersist(blocking=True)

    def _write(self, question: str, rows: DataFrame) -> None:
        rows.write.mode("overwrite").parquet(self.file(question))

    def close(self) -> None:
        self._session.stop()
