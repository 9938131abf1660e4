"""Simulated time: what is to happen when, and the brokers' wrong clocks."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any

from generators.simulator.cluster.settings import MS, Clock


class Agenda:
    """A heap of (time, number, action): what is due at one moment runs in the order of its planning."""

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
        """The next action, at its time."""
        self.now, _, action, arguments = heappop(self._planned)
        action(*arguments)

    @property
    def next(self) -> int | None:
        """When the next action is due."""
        return self._planned[0][0] if self._planned else None

    def run(self, until: int) -> None:
        """Everything due up to and at `until`."""
        while self._planned and self._planned[0][0] <= until:
            self.step()
        self.now = max(self.now, until)

    def drain(self) -> None:
        """Everything, until nothing is planned any more: for clusters where nothing happens by itself."""
        while self._planned:
            self.step()


class BrokerClock:
    """What a broker's clock shows: wrong by a skew, a drift and the jumps it has made."""

    def __init__(self, agenda: Agenda, clock: Clock) -> None:
        self._agenda = agenda
        self._start = agenda.now
        self._skew = clock.skew_us
        self._drift = clock.drift_ppm

    def jump(self, microseconds: int) -> None:
        self._skew += microseconds

    @property
    def us(self) -> int:
        passed = self._agenda.now - self._start
        return self._agenda.now + self._skew + int(passed * self._drift / 1e6)

    @property
    def ms(self) -> int:
        return self.us // MS
