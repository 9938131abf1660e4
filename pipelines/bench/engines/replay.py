"""`replay`: the reconstruction alone, on one core, from Arrow in memory."""

from __future__ import annotations

from dataclasses import replace
from time import perf_counter
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from pipelines.bench.engines.answer import of_facts
from pipelines.bench.engines.engine import ASKED, Asked
from pipelines.bench.workloads.workload import RULES
from pipelines.lake.bronze import read_events
from pipelines.replication import Facts
from pipelines.replication.events.columns import NAMED
from pipelines.replication.term.machine import run_terms

if TYPE_CHECKING:
    import pyarrow as pa


class Replay:
    """Counted: Arrow in memory, names as dictionaries, to all facts as Arrow tables."""

    NAME = "replay"
    COUNTED = "Arrow in memory, names as dictionaries, to the facts of all tables in memory, one core"

    def __init__(self, lake: str, folder: str, asked: Asked = ASKED) -> None:
        self._events, self._asked = read_events(lake, dictionaries=NAMED), asked

    def prepare(self) -> None:
        self._facts = Facts.of()

    def run(self) -> None:
        from pipelines.replication import replay

        self._kernel_s = 0.0
        with patch("pipelines.replication.batch.run_terms.run_kernel", self._timed):
            self._facts = replay(self._events, replace(RULES, hw_resolution_ms=self._asked.resolution_ms))

    def _timed(self, *given: Any) -> Any:
        """The state machine over all partitions: `replay` without what reads and writes Arrow."""
        began = perf_counter()
        ended = run_terms(*given)
        self._kernel_s += perf_counter() - began
        return ended

    def answer(self) -> pa.Table:
        return self.answers()["HWs"]

    def answers(self) -> dict[str, pa.Table]:
        return of_facts(self._facts, self._asked.resolution_us)

    def written(self) -> int:
        return 0

    def parts(self) -> dict[str, float]:
        return {"the kernel alone": self._kernel_s}

    def close(self) -> None:
        pass
