"""Files that cannot be read: tried again after delays that grow to a bound, and told once."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from math import inf
from time import monotonic

ROUNDS = 2
"""Readings that fail before a file is left for later, and that is told."""
LONGEST_DELAY_S = 60.0


@dataclass
class _Failure:
    reason: str
    rounds: int = 0
    again: float = 0.0


class Failures:
    """Failures of reading by any key; `retry_s` is the first delay, 0 for no second attempt."""

    def __init__(self, retry_s: float, clock: Callable[[], float] = monotonic) -> None:
        self._retry_s, self._clock = retry_s, clock
        self._failures: dict[Hashable, _Failure] = {}
        self._fresh: list[str] = []

    def add(self, key: Hashable, reason: str, rounds: int = 1) -> None:
        """A reading failed, which counts as so many that did."""
        failure = self._failures.setdefault(key, _Failure(reason))
        before, failure.rounds = failure.rounds, failure.rounds + rounds
        delay = self._retry_s * 2.0 ** min(failure.rounds - 1, 16)
        failure.again = self._clock() + min(delay, LONGEST_DELAY_S)
        if before < ROUNDS <= failure.rounds:
            self._fresh.append(reason)
        if failure.rounds >= ROUNDS and not self._retry_s:
            failure.again = inf

    def end(self, key: Hashable) -> None:
        """A reading succeeded."""
        self._failures.pop(key, None)

    def waits(self, key: Hashable) -> bool:
        """Whether it is too early to read this again."""
        return key in self._failures and self._clock() < self._failures[key].again

    def is_told(self, key: Hashable) -> str | None:
        """Why this is left for later, None where it is not."""
        failure = self._failures.get(key)
        return failure.reason if failure and failure.rounds >= ROUNDS else None

    def take(self) -> list[str]:
        """Reasons why something is left for later, each once."""
        taken, self._fresh = self._fresh, []
        return taken
