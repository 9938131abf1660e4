"""The streaming job: `hwmark run --once` on a new lake, in a session that has run it before."""

from __future__ import annotations

import os
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from pipelines.bench.engines.answer import of_facts
from pipelines.bench.engines.engine import ASKED, Asked, size_of
from pipelines.bench.workloads.workload import RULES
from pipelines.replication import Facts
from pipelines.replication.facts.tables import SCHEMAS
from pipelines.setup import jars_dir
from schemas import replication_events

if TYPE_CHECKING:
    import pyarrow as pa

    from pipelines.streaming.follow import Batch


class SparkJob:
    """Counted: a whole run, from starting the query to its last commit; not the JVM's start and its first run."""

    NAME = "Spark job"
    COUNTED = "bronze Delta to all tables written and committed: a whole run --once, JVM and workers warm, all cores"
    SOURCE: ClassVar[str] = "arrow"

    def __init__(self, lake: str, folder: str, asked: Asked = ASKED) -> None:
        from pipelines.streaming.session import PASSES_BLOBS, session

        self._events, self._folder, self._round, self._asked = Path(lake), Path(folder), 0, asked
        self._session = session(
            master=asked.master,
            shuffle_partitions=cores(asked.master),
            jars_dir=jars_dir(),
            conf=PASSES_BLOBS if self.SOURCE == "arrow" else None,
        )

    @property
    def _lake(self) -> Path:
        return self._folder / str(self._round)

    def prepare(self) -> None:
        """A lake with the events and nothing else."""
        shutil.rmtree(self._lake, ignore_errors=True)
        self._round += 1
        bronze = replication_events.TABLE.path
        shutil.copytree(self._events / bronze, self._lake / bronze, copy_function=os.link)

    def run(self) -> None:
        from pipelines.streaming.job import run
        from pipelines.streaming.options import RunOptions

        self._batch_s = 0.0
        run(
            str(self._lake),
            replace(RULES, hw_resolution_ms=self._asked.resolution_ms),
            RunOptions(shuffle_partitions=cores(self._asked.master), source=self.SOURCE),
            on_batch=self._add,
        )

    def _add(self, batch: Batch) -> None:
        self._batch_s += batch.seconds

    def answer(self) -> pa.Table:
        return self.answers()["HWs"]

    def answers(self) -> dict[str, pa.Table]:
        from pipelines.lake.lake import Lake

        lake = Lake(str(self._lake), {})
        facts = {name: lake.open(name).to_pyarrow_table() for name in ("partition_hw", "isr_changes", "replica_sync")}
        return of_facts(Facts.of(**{n: t.cast(SCHEMAS[n]) for n, t in facts.items()}), self._asked.resolution_us)

    def written(self) -> int:
        return size_of(self._lake / "silver", self._lake / "gold")

    def parts(self) -> dict[str, float]:
        return {"its batches alone, from trigger to commit": self._batch_s}

    def close(self) -> None:
        self._session.stop()


class PlainSparkJob(SparkJob):
    """The same with delta-spark's own source, whose rows pass through the JVM."""

    NAME = "Spark job, plain Delta source"
    COUNTED = "the same with [run] source = delta: rows are read by delta-spark and cross into Python"
    SOURCE = "delta"


def cores(master: str) -> int:
    """How many tasks run at a time under a local master."""
    found = re.match(r"local(?:-cluster)?\[([\d*]+)(?:,\s*(\d+))?", master)
    if not found or found[1] == "*":
        return os.cpu_count() or 1
    return int(found[1]) * int(found[2] or 1)
