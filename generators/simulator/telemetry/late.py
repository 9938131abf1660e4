"""What threads print later than they do it: it comes between the lines of others, or never, if the process ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from generators.simulator.cluster.happening import Happening

if TYPE_CHECKING:
    from generators.simulator.cluster.simulation import Simulation

T = TypeVar("T")
_LOCKED = frozenset({"leader", "follower", "isr"})
"""What a broker does to a partition under the lock in which the HW is raised and printed: that line comes before."""


class _Waiting(NamedTuple):
    due: int
    number: int
    process: int
    happening: Happening
    item: object
    locked: bool


class Late(Generic[T]):
    """Things that wait to be printed, each with the happening that it is about."""

    def __init__(self, simulation: Callable[[], Simulation | None]) -> None:
        self._simulation = simulation
        self._waiting: list[_Waiting] = []
        self._number = 0

    def put(self, happening: Happening, after: int, item: T, *, locked: bool) -> None:
        """To be printed `after` microseconds; `locked`: before anything else is done to its partition."""
        self._number += 1
        due = happening.at + after
        heappush(self._waiting, _Waiting(due, self._number, self._process(happening.broker), happening, item, locked))

    def before(self, happening: Happening) -> Iterator[tuple[Happening, T]]:
        """What is printed before this, at its own time."""
        yield from self.until(happening.at)
        if happening.kind in _LOCKED and self._waiting:
            place = (happening.broker, happening.topic, happening.partition)
            held = [w for w in self._waiting if w.locked and _place(w.happening) == place]
            self._waiting = [w for w in self._waiting if w not in held]
            heapify(self._waiting)
            for waiting in sorted(held):
                yield from self._printed(waiting._replace(due=happening.at))

    def until(self, now: int) -> Iterator[tuple[Happening, T]]:
        """What is printed by `now`."""
        while self._waiting and self._waiting[0].due <= now:
            yield from self._printed(heappop(self._waiting))

    def close(self, now: int) -> Iterator[tuple[Happening, T]]:
        """All that waits, now."""
        for waiting in sorted(self._waiting):
            yield from self._printed(waiting._replace(due=max(now, waiting.happening.at)))
        self._waiting.clear()

    def _printed(self, waiting: _Waiting) -> Iterator[tuple[Happening, T]]:
        h = waiting.happening
        if not killed(self._simulation(), h.broker, waiting.process, waiting.due):
            by = waiting.due - h.at
            yield h._replace(at=h.at + by, ts=h.ts + by), waiting.item  # type: ignore[misc]

    def _process(self, broker: int) -> int:
        simulation = self._simulation()
        return simulation.brokers[broker].process if simulation is not None else 0


def killed(simulation: Simulation | None, broker: int, process: int, before: int) -> bool:
    """Whether a process of a broker had been killed before a moment."""
    end = simulation.brokers[broker].kills.get(process) if simulation is not None else None
    return end is not None and end < before


def _place(h: Happening) -> tuple[int, str | None, int]:
    return h.broker, h.topic, h.partition
