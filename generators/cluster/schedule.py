"""When to ask: on a fixed grid of time, without drift, and never for what is past."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from time import monotonic


class Schedule:
    """Ticks at begin, begin + interval, ...; those that pass while a round goes on are skipped.

    `steady` returns seconds of a monotonic clock, `wait` waits so many seconds and returns True when it is to stop.
    """

    def __init__(
        self,
        interval_s: float,
        stop: threading.Event,
        steady: Callable[[], float] = monotonic,
        wait: Callable[[float], bool] | None = None,
    ) -> None:
        self.interval_s, self._stop, self._steady = interval_s, stop, steady
        self._wait = wait or stop.wait
        self._begin = steady()
        self._tick = -1

    @property
    def next_at(self) -> float:
        """When the next tick is, on the monotonic clock."""
        return self._begin + (self._tick + 1) * self.interval_s

    def ticks(self) -> Iterator[int]:
        """At each tick how many were skipped before it, until it is to stop."""
        while not self._stop.is_set():
            skipped = max(0, int((self._steady() - self.next_at) // self.interval_s))
            self._tick += skipped
            if self._wait(max(0.0, self.next_at - self._steady())):
                return
            self._tick += 1
            yield skipped
