"""Simulated time: which action runs when, and the brokers' wrong clocks."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any

from generators.simulator.cluster.settings import MS, Clock


class EventQueue:
    """A heap of (time in us, number, action): actions of one time run in the order in which they were planned."""

    def __init__(self, start: int) -> None:
        self.now = start
        self._planned: list[tuple[int, int, Callable[..., Any], tuple[Any, ...]]] = []
        self._number = 0

    def at(self, time: int, action: Callable[..., Any], *arguments: Any) -> None:
        self._number += 1
        heappush(self._planned, (max(time, self.now), self._number, action, arguments))

    def after(self, delay: int, action: Callable[..., Any], *arguments: Any) -> None:
        self.at(self.now + delay, action, *arguments)

    def step(self) -> None:
        """Run the next action, at its time."""
        self.now, _, action, arguments = heappop(self._planned)
        action(*arguments)

    @property
    def next(self) -> int | None:
        """Time of the next action, None where there is none."""
        return self._planned[0][0] if self._planned else None

    def run(self, until: int) -> None:
        """Run everything planned up to and at `until`."""
        while self._planned and self._planned[0][0] <= until:
            self.step()
        self.now = max(self.now, until)

    def drain(self) -> None:
        """Run everything until nothing is planned: for clusters in which nothing happens by itself."""
        while self._planned:
            self.step()


class BrokerClock:
    """The clock of a broker: wrong by a skew, a drift and the jumps it has made."""

    def __init__(self, event_queue: EventQueue, clock: Clock) -> None:
        self._event_queue = event_queue
        self._start = event_queue.now
        self._skew = clock.skew_us
        self._drift = clock.drift_ppm

    def jump(self, microseconds: int) -> None:
        self._skew += microseconds

    @property
    def us(self) -> int:
        passed = self._event_queue.now - self._start
        return self._event_queue.now + self._skew + int(passed * self._drift / 1e6)

    @property
    def ms(self) -> int:
        return self.us // MS
