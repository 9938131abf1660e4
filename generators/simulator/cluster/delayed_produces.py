"""Produce requests with acks=all that wait for the HW (DelayedProduce)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from generators.simulator.cluster.leader_requests import Produced


@dataclass(eq=False)
class _Waiting:
    """A produce request with acks=all, until the HW has reached `target`."""

    target: int
    first: int
    answer: Callable[[Produced], None]


class DelayedProduces:
    """The waiting requests of one partition, which outlast a term of its leader."""

    def __init__(self) -> None:
        self._waiting: list[_Waiting] = []

    def add(self, first: int, last: int, answer: Callable[[Produced], None]) -> None:
        self._waiting.append(_Waiting(last + 1, first, answer))

    def complete(self, hw: int, error: str | None) -> None:
        """Answer those whose records are below the HW, with an error if the ISR has become too small meanwhile."""
        ready = [producer for producer in self._waiting if producer.target <= hw]
        self._waiting = [producer for producer in self._waiting if producer.target > hw]
        for producer in ready:
            producer.answer(Produced(error, producer.first, producer.target - 1))

    def fail(self, error: str) -> None:
        """Answer all of them with an error."""
        waiting, self._waiting = self._waiting, []
        for producer in waiting:
            producer.answer(Produced(error))
