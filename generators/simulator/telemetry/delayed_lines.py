"""Lines that threads print later than their events: between the lines of others, or never, if the process ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from generators.simulator.cluster.simulation_event import SimulationEvent

if TYPE_CHECKING:
    from generators.simulator.cluster.simulation import Simulation

T = TypeVar("T")
_LOCKED = frozenset({"leader", "follower", "isr"})
"""Events under the partition lock in which the HW is raised and printed: that line comes before them."""


class _Waiting(NamedTuple):
    due: int
    number: int
    process: int
    event: SimulationEvent
    item: object
    locked: bool


class DelayedLines(Generic[T]):
    """Items that wait to be printed, each with its event."""

    def __init__(self, simulation: Callable[[], Simulation | None]) -> None:
        self._simulation = simulation
        self._waiting: list[_Waiting] = []
        self._number = 0

    def put(self, event: SimulationEvent, after: int, item: T, *, locked: bool) -> None:
        """Print `item` `after` microseconds; `locked`: before any other event under the lock of its partition."""
        self._number += 1
        due = event.at + after
        heappush(self._waiting, _Waiting(due, self._number, self._process(event.broker), event, item, locked))

    def before(self, event: SimulationEvent) -> Iterator[tuple[SimulationEvent, T]]:
        """Items that are printed before this event, with their own times."""
        yield from self.until(event.at)
        if event.kind in _LOCKED and self._waiting:
            place = (event.broker, event.topic, event.partition)
            held = [w for w in self._waiting if w.locked and _place(w.event) == place]
            self._waiting = [w for w in self._waiting if w not in held]
            heapify(self._waiting)
            for waiting in sorted(held):
                yield from self._printed(waiting._replace(due=event.at))

    def until(self, now: int) -> Iterator[tuple[SimulationEvent, T]]:
        """Items that are printed by `now`."""
        while self._waiting and self._waiting[0].due <= now:
            yield from self._printed(heappop(self._waiting))

    def close(self, now: int) -> Iterator[tuple[SimulationEvent, T]]:
        """All waiting items, now."""
        for waiting in sorted(self._waiting):
            yield from self._printed(waiting._replace(due=max(now, waiting.event.at)))
        self._waiting.clear()

    def _printed(self, waiting: _Waiting) -> Iterator[tuple[SimulationEvent, T]]:
        event = waiting.event
        if not killed(self._simulation(), event.broker, waiting.process, waiting.due):
            by = waiting.due - event.at
            yield event._replace(at=event.at + by, ts=event.ts + by), waiting.item  # type: ignore[misc]

    def _process(self, broker: int) -> int:
        simulation = self._simulation()
        return simulation.brokers[broker].process if simulation is not None else 0


def killed(simulation: Simulation | None, broker: int, process: int, before: int) -> bool:
    """Whether a process of a broker had been killed before a moment."""
    end = simulation.brokers[broker].kills.get(process) if simulation is not None else None
    return end is not None and end < before


def _place(event: SimulationEvent) -> tuple[int, str | None, int]:
    return event.broker, event.topic, event.partition
