"""`replay`: the reconstruction alone, on one core, from Arrow in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from generators.lake import read_events
from pipelines.bench.answer import answer
from pipelines.bench.workload import RULES

if TYPE_CHECKING:
    import pyarrow as pa


class Replay:
    """Counted: Arrow in memory, names as plain strings, to all facts as Arrow tables."""

    NAME = "replay"
    COUNTED = "Arrow in memory to the facts of all tables in memory, one core"

    def __init__(self, lake: str, folder: str) -> None:
        self._events = read_events(lake)

    def prepare(self) -> None:
        self._told = None

    def run(self) -> None:
        from pipelines.replication import replay

        self._told = replay(self._events, RULES).partition_hw

    def answer(self) -> pa.Table:
        return answer(self._told)

    def close(self) -> None:
        pass
