"""`replay`: the reconstruction alone, on one core, from Arrow in memory."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from generators.lake import read_events
from pipelines.bench.answer import of_facts
from pipelines.bench.engine import ASKED, Asked
from pipelines.bench.workload import RULES
from pipelines.replication import Facts
from pipelines.replication.columns import NAMED

if TYPE_CHECKING:
    import pyarrow as pa


class Replay:
    """Counted: Arrow in memory, names as dictionaries, to all facts as Arrow tables."""

    NAME = "replay"
    COUNTED = "Arrow in memory to the facts of all tables in memory, one core"

    def __init__(self, lake: str, folder: str, asked: Asked = ASKED) -> None:
        self._events, self._asked = read_events(lake, dictionaries=NAMED), asked

    def prepare(self) -> None:
        self._told = Facts.of()

    def run(self) -> None:
        from pipelines.replication import replay

        self._told = replay(self._events, replace(RULES, hw_resolution_ms=self._asked.resolution_ms))

    def answer(self) -> pa.Table:
        return self.answers()["HWs"]

    def answers(self) -> dict[str, pa.Table]:
        return of_facts(self._told, self._asked.resolution_us)

    def written(self) -> int:
        return 0

    def close(self) -> None:
        pass
