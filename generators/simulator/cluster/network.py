"""How long messages take, and between whom none pass."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from generators.simulator.cluster.agenda import Agenda
from generators.simulator.cluster.settings import Settings


class Network:
    """Messages between brokers and the controller; in a cluster that is moved by a script they take no time."""

    def __init__(self, settings: Settings, agenda: Agenda, random: Random) -> None:
        self._settings = settings
        self._agenda = agenda
        self._random = random
        self._cut: set[tuple[int, int]] = set()

    def cut(self, a: int, b: int) -> None:
        self._cut.add((min(a, b), max(a, b)))

    def heal(self, a: int, b: int) -> None:
        self._cut.discard((min(a, b), max(a, b)))

    def reaches(self, a: int, b: int) -> bool:
        return not self._cut or (min(a, b), max(a, b)) not in self._cut

    def send(self, action: Callable[..., Any], *arguments: Any) -> None:
        """`action` at the other end, one way later."""
        self._agenda.after(self.between(self._settings.network_us), action, *arguments)

    def between(self, bounds: tuple[int, int]) -> int:
        """Microseconds drawn evenly from `bounds`."""
        if not self._settings.automatic:
            return 0
        low, high = bounds
        return low + int(self._random.random() * (high - low))
