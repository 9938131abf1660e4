"""The streaming job: `hwmark run --once` on a new lake, in a session that has run it before."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from pipelines.bench.answer import answer
from pipelines.bench.workload import RULES
from pipelines.setup import jars_dir
from schemas import replication_events

if TYPE_CHECKING:
    import pyarrow as pa


class SparkJob:
    """Counted: a whole run, from starting the query to its last commit; not the JVM's start and its first run."""

    NAME = "Spark job"
    COUNTED = "bronze Delta to all tables written and committed: a whole run --once, JVM and workers warm, all cores"

    def __init__(self, lake: str, folder: str) -> None:
        from pipelines.streaming.session import session

        self._events, self._folder, self._round = Path(lake), Path(folder), 0
        self._session = session(
            master="local[*]",
            shuffle_partitions=_cores(),
            jars_dir=jars_dir(os.environ.get("HWMARK_RUN__JARS_DIR", "")),
        )

    @property
    def _lake(self) -> Path:
        return self._folder / str(self._round)

    def prepare(self) -> None:
        """A lake with the events and nothing else."""
        shutil.rmtree(self._lake, ignore_errors=True)
        self._round += 1
        bronze = replication_events.TABLE.path
        shutil.copytree(self._events / bronze, self._lake / bronze)

    def run(self) -> None:
        from pipelines.streaming.job import run

        run(str(self._lake), RULES, once=True, shuffle_partitions=_cores(), on_batch=lambda batch: None)

    def answer(self) -> pa.Table:
        from pipelines.streaming.tables import Lake

        return answer(Lake(str(self._lake), {}).open("partition_hw").to_pyarrow_table())

    def close(self) -> None:
        self._session.stop()


def _cores() -> int:
    return os.cpu_count() or 1
