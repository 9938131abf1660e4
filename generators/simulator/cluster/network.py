"""Durations of messages, and pairs of brokers without connection."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from generators.simulator.cluster.event_queue import EventQueue
from generators.simulator.cluster.settings import Settings


class Network:
    """Messages between brokers and controllers; in a cluster that a script moves they take no time."""

    def __init__(self, settings: Settings, event_queue: EventQueue, random: Random) -> None:
        self._settings = settings
        self._event_queue = event_queue
        self._random = random
        self._cut: set[tuple[int, int]] = set()

    def cut(self, one: int, other: int) -> None:
        self._cut.add((min(one, other), max(one, other)))

    def heal(self, one: int, other: int) -> None:
        self._cut.discard((min(one, other), max(one, other)))

    def reaches(self, one: int, other: int) -> bool:
        return not self._cut or (min(one, other), max(one, other)) not in self._cut

    def send(self, action: Callable[..., Any], *arguments: Any) -> None:
        """Run `action` at the receiver, one way later."""
        self._event_queue.after(self.between(self._settings.network_us), action, *arguments)

    def between(self, bounds: tuple[int, int]) -> int:
        """Microseconds drawn evenly from `bounds`."""
        if not self._settings.automatic:
            return 0
        low, high = bounds
        return low + int(self._random.random() * (high - low))
