"""The cluster of a live benchmark: a process that appends a second of its events every second."""

from __future__ import annotations

import time
from dataclasses import dataclass
from multiprocessing.synchronize import Event

from pipelines.bench.workloads.load import SECOND_US, rounds
from pipelines.bench.workloads.workload import PER_APPEND, STALLED
from pipelines.lake.bronze import append_events

APP = "bench-live"
A_DAY = 86_400


@dataclass(frozen=True)
class Stream:
    """Where to append, how many events a second, and when its time begins (seconds since 1970)."""

    lake: str
    rate: int
    begins: float

    @property
    def partitions(self) -> int:
        return max(1, self.rate // PER_APPEND)


def append_each_second(stream: Stream, stop: Event) -> None:
    """Version n of APP is the n-th second, appended when it is over; late where the machine does not keep up."""
    begins = round(stream.begins)
    seconds = rounds(stream.partitions, A_DAY, step=1, stalled=STALLED, start_us=(begins - 1) * SECOND_US)
    for number, events in enumerate(seconds):
        if stop.wait(max(0.0, begins + number + 1 - time.time())):
            break
        append_events(stream.lake, events, app_id=APP, version=number)
