"""Pairs in a leader's telemetry: an event that made it try to raise its HW, and the HW that rose by it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from generators.simulator.cluster.simulation_event import REPLICATION, SimulationEvent

_TRIES = frozenset({"append", "fetch", "leader", "isr"})


class Attempt(NamedTuple):
    """One event and, where a leader's HW rose by it, the `hw` event that followed at once."""

    by: SimulationEvent
    hw: SimulationEvent | None = None

    @property
    def of_leader(self) -> bool:
        """Whether a leader may have tried to raise its HW by it (Partition.maybeIncrementLeaderHW)."""
        return tries(self.by)


def tries(event: SimulationEvent) -> bool:
    return event.kind in _TRIES and event.source == REPLICATION and event.leader == event.broker


def reports(event: SimulationEvent) -> bool:
    """Whether this is a leader's own HW."""
    return event.kind == "hw" and event.replica == event.broker == event.leader


class Attempts:
    """Pairs events with the HW they moved; the last one waits until the next shows whether a HW followed."""

    def __init__(self) -> None:
        self._waiting: SimulationEvent | None = None

    def observe(self, event: SimulationEvent) -> Iterator[Attempt]:
        before, self._waiting = self._waiting, None
        if before is not None and _moved(before, event):
            yield Attempt(before, event)
            return
        if before is not None:
            yield Attempt(before)
        if tries(event):
            self._waiting = event
        else:
            yield Attempt(event)

    def settle(self) -> Iterator[Attempt]:
        """The event that waits, without a HW: nothing follows it any more."""
        before, self._waiting = self._waiting, None
        if before is not None:
            yield Attempt(before)


def _moved(before: SimulationEvent, event: SimulationEvent) -> bool:
    same = (before.at, before.broker, before.topic, before.partition) == (
        event.at,
        event.broker,
        event.topic,
        event.partition,
    )
    return same and reports(event)
