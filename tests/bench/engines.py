"""The engines: each is made for a lake, is made ready by `prepare`, and what `run` takes is counted.

`answers` gives what the last run found, by question, or nothing; `written` the bytes of rows that it wrote.
"""

import os
import re
import shutil
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pipelines.lake.bronze import bronze, read_events
from pipelines.replication.events.columns import NAMED
from pipelines.replication.facts.tables import SCHEMAS
from pipelines.setup import jars_dir
from schemas import replication_events
from tests.bench import windows
from tests.bench.answers import QUESTIONS, answers_of, in_order
from tests.bench.load import RULES


@dataclass(frozen=True)
class Asked:
    """How fine the HWs are (0: every change), and where the engine runs: `cores` of the machine, or all."""

    resolution_ms: int = 1000
    master: str = "local[*]"
    cores: int | None = None


ASKED = Asked()


class Engine:
    def __init__(self, lake, folder, asked):
        self.lake, self.folder, self.asked = Path(lake), Path(folder), asked
        self.resolution_us = asked.resolution_ms * 1000
        self.rules = replace(RULES, hw_resolution_ms=asked.resolution_ms)
        self.out = self.folder / "out"

    def prepare(self):
        shutil.rmtree(self.out, ignore_errors=True)
        self.out.mkdir(parents=True)

    def written(self):
        return size_of(self.out)

    def close(self):
        pass


class Replay(Engine):
    NAME, COUNTED = "replay", "Arrow in memory, names as dictionaries, to the facts of all tables in memory, one core"

    def __init__(self, *given):
        super().__init__(*given)
        self.events = read_events(str(self.lake), dictionaries=NAMED)

    def run(self):
        from pipelines.replication import replay

        self.facts = replay(self.events, self.rules)

    def answers(self):
        return answers_of(self.facts.tables(), self.resolution_us)


class SparkJob(Engine):
    """A whole run on a new lake, from starting the query to its last commit, in a session that has run before."""

    NAME = "Spark job"
    COUNTED = "bronze Delta to all tables written and committed: a whole run --once, JVM and workers warm, all cores"

    def __init__(self, *given):
        from pipelines.streaming.session import PASSES_BLOBS, session

        super().__init__(*given)
        self.tasks, self.round = cores(self.asked.master), 0
        self.session = session(
            master=self.asked.master, shuffle_partitions=self.tasks, jars_dir=jars_dir(), conf=PASSES_BLOBS
        )

    def prepare(self):
        shutil.rmtree(self.folder / str(self.round), ignore_errors=True)
        self.round += 1
        self.out = self.folder / str(self.round)
        path = replication_events.TABLE.path
        shutil.copytree(self.lake / path, self.out / path, copy_function=os.link)

    def run(self):
        from pipelines.streaming.job import run
        from pipelines.streaming.options import RunOptions

        run(str(self.out), self.rules, RunOptions(shuffle_partitions=self.tasks), on_batch=lambda batch: None)

    def answers(self):
        from pipelines.lake.lake import Lake

        lake = Lake(str(self.out), {})
        names = ("partition_hw", "isr_changes", "replica_sync")
        return answers_of({n: lake.open(n).to_pyarrow_table().cast(SCHEMAS[n]) for n in names}, self.resolution_us)

    def written(self):
        return size_of(self.out / "silver", self.out / "gold")

    def close(self):
        self.session.stop()


class Windows(Engine):
    """An engine that asks windows in SQL; `save` writes the rows of a query below `out`."""

    def ask(self, sql):
        self.save("HWs", windows.high_watermarks(sql, self.resolution_us))
        self.save("ISR changes", windows.isr_changes(sql))
        self.save("stretches out of sync", windows.out_of_sync(RULES.lag_max_ms))

    def file(self, question):
        return str(self.out / f"{question.replace(' ', '_').lower()}.parquet")

    def answers(self):
        return {question: in_order(pq.read_table(self.file(question)), question) for question in QUESTIONS}


class DuckDBWindow(Windows):
    NAME = "DuckDB window"
    COUNTED = "bronze's Parquet files to the rows of the three questions in Parquet, nothing else, all cores"

    def __init__(self, *given):
        import duckdb

        super().__init__(*given)
        self.duckdb = duckdb.connect()
        self.duckdb.execute("SET enable_progress_bar = false")
        columns, files = ", ".join(windows.COLUMNS), parquet_files(str(self.lake))
        self.duckdb.execute(f"CREATE VIEW events AS SELECT {columns} FROM read_parquet({files})")

    def run(self):
        self.duckdb.execute(f"CREATE OR REPLACE TEMP TABLE known AS {windows.known(windows.DUCKDB)}")
        self.ask(windows.DUCKDB)
        self.duckdb.execute("DROP TABLE known")

    def save(self, question, query):
        self.duckdb.execute(f"COPY ({query}) TO '{self.file(question)}' (FORMAT parquet)")


class SparkWindow(Windows):
    NAME = "Spark SQL windows"
    COUNTED = "bronze Delta to the rows of the three questions in Parquet, nothing else, JVM warm, all cores"

    def __init__(self, *given):
        from pipelines.streaming.session import session

        super().__init__(*given)
        master = self.asked.master
        self.session = session(master=master, shuffle_partitions=cores(master), jars_dir=jars_dir(), driver_memory="4g")
        events = self.session.read.format("delta").load(str(self.lake / replication_events.TABLE.path))
        events.select(*windows.COLUMNS).createOrReplaceTempView("events")

    def run(self):
        known = self.session.sql(windows.known(windows.SPARK)).persist()
        known.createOrReplaceTempView("known")
        self.ask(windows.SPARK)
        known.unpersist(blocking=True)

    def save(self, question, query):
        self.session.sql(query).write.mode("overwrite").parquet(self.file(question))

    def close(self):
        self.session.stop()


class Limit(Engine):
    """The columns that the questions need, decoded: an engine that reads Parquet takes no less."""

    NAME, COUNTED = (
        "limit",
        "bronze's Parquet files to the columns in memory, names as numbers; no question is answered",
    )

    def __init__(self, *given):
        super().__init__(*given)
        self.files = parquet_files(str(self.lake))

    def run(self):
        pq.read_table(self.files, columns=windows.COLUMNS, read_dictionary=["event_type", "topic"])

    def answers(self):
        return {}


def parquet_files(lake):
    """The files of the events in the order of their time, for engines that know no Delta."""
    files = pa.table(bronze(lake).get_add_actions(flatten=True))
    names = files.take(pc.sort_indices(files["min.ts"]))["path"].to_pylist()
    return [str(Path(lake, replication_events.TABLE.path, name)) for name in names]


def size_of(*folders):
    """Bytes of the files below some folders, without those of Delta's logs."""
    files = (file for folder in folders for file in folder.rglob("*") if file.is_file())
    return sum(file.stat().st_size for file in files if "_delta_log" not in file.parts)


def cores(master):
    """How many tasks run at a time under a local master."""
    found = re.match(r"local\[(\d+)", master)
    return int(found[1]) if found else os.cpu_count() or 1
