"""`python -m pipelines.bench.kernel_alone [events]`: how fast the state machine alone is, and all of `replay`."""

from __future__ import annotations

import sys
import tempfile
import time
from typing import Any
from unittest.mock import patch

from generators.lake import read_events
from pipelines.bench.workload import RULES, write
from pipelines.replication import replay
from pipelines.replication.columns import NAMED
from pipelines.replication.kernel import run_lanes

ROUNDS = 5


class Timed:
    """Counts the CPU seconds that a function takes, all its calls together."""

    def __init__(self, function: Any) -> None:
        self.function, self.seconds = function, 0.0

    def __call__(self, *arguments: Any) -> Any:
        begun = time.process_time()
        try:
            return self.function(*arguments)
        finally:
            self.seconds += time.process_time() - begun


def main(events: int) -> None:
    """Prints the best of some rounds; one core."""
    with tempfile.TemporaryDirectory(prefix="hwmark-kernel-") as lake:
        told = read_events(write(lake, events).lake, dictionaries=NAMED)
    machine, whole = Timed(run_lanes), Timed(replay)
    best = []
    with patch("pipelines.replication.run.run_lanes", machine):
        whole(told, RULES)
        for _ in range(ROUNDS):
            machine.seconds = whole.seconds = 0.0
            whole(told, RULES)
            best.append((machine.seconds, whole.seconds))
    for name, seconds in zip(("the state machine alone", "replay"), map(min, zip(*best, strict=True)), strict=True):
        print(f"{name}: {len(told):,} events in {seconds:.3f} CPU s, {len(told) / seconds / 1e6:.1f} M a second")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 4_000_000)
