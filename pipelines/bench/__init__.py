"""`hwmark bench`: `replay` and the Spark job beside other engines, on the same events and questions, in one run."""

from __future__ import annotations

import tempfile

from pipelines.bench.compare import compare
from pipelines.bench.engine import Asked
from pipelines.bench.summary import summary
from pipelines.bench.workload import DENSE, SPARSE, write
from pipelines.console import progress

ROUNDS = 3


def main(
    events: int,
    *,
    partitions: tuple[int, ...] = (),
    sparse: bool = False,
    resolution_ms: int = 1000,
) -> None:
    """Prints a table of engines per number of partitions, once they agree. Raises Disagreement where they do not."""
    for count in partitions or (None,):
        with progress("bench") as say, tempfile.TemporaryDirectory(prefix="hwmark-bench-") as lake:
            say(f"making {events:,} events")
            load = write(lake, events, count, SPARSE if sparse else DENSE)
            compared = compare(load, ROUNDS, say, asked=Asked(resolution_ms))
        print(summary(compared))
