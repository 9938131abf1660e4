"""DuckDB: windows in SQL over the Parquet files of bronze, rows to Parquet."""

from __future__ import annotations

from pipelines.bench.engines import windows
from pipelines.bench.engines.engine import ASKED, Asked, Writer, parquet_files
from pipelines.bench.workloads.workload import RULES


class DuckDBWindow(Writer):
    """The windows of each partition once, into a table in memory of which all questions are asked."""

    NAME = "DuckDB window"
    COUNTED = "bronze's Parquet files to the rows of the three questions in Parquet, nothing else, all cores"

    def __init__(self, lake: str, folder: str, asked: Asked = ASKED) -> None:
        import duckdb

        super().__init__(lake, folder, asked)
        self._duckdb = duckdb.connect()
        self._duckdb.execute("SET enable_progress_bar = false")
        files, columns = parquet_files(lake), ", ".join(windows.COLUMNS)
        self._duckdb.execute(f"CREATE VIEW events AS SELECT {columns} FROM read_parquet({files})")

    def run(self) -> None:
        sql = windows.DUCKDB
        self._duckdb.execute(f"CREATE OR REPLACE TEMP TABLE known AS {windows.known(sql)}")
        self._write("HWs", windows.high_watermarks(sql, self.asked.resolution_us))
        self._write("ISR changes", windows.isr_changes(sql))
        self._write("stretches out of sync", windows.out_of_sync(RULES.lag_max_ms))
        self._duckdb.execute("DROP TABLE known")

    def _write(self, question: str, query: str) -> None:
        self._duckdb.execute(f"COPY ({query}) TO '{self.file(question)}' (FORMAT parquet)")

    def close(self) -> None:
        self._duckdb.close()
