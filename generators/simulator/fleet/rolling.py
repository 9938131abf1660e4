"""Rolling restarts of a fleet: one broker after the other, the next one when all ISRs are complete again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from generators.simulator.cluster.settings import SECOND
from generators.simulator.faults.injection import pause, roll_one, whole
from generators.simulator.faults.script import Fault
from generators.simulator.fleet.fault_scope import LEAD_TIME, FaultScope

if TYPE_CHECKING:
    from generators.simulator.cluster.simulation import Simulation


class Rolling:
    """A rolling restart or upgrade in whole seconds, so that partitions can change engines before each broker stops."""

    def __init__(self, simulation: Simulation, fault: Fault) -> None:
        self._simulation, self._fault = simulation, fault
        self._left = list(simulation.settings.brokers)
        self._due = 0

    def next(self, now: int) -> FaultScope | None:
        """The scope at `now`, before its broker is stopped; None while it is not time, or all are done."""
        if not self._left or now < self._due or not whole(self._simulation):
            return None
        broker = self._left.pop(0)
        self._simulation.event_queue.after(LEAD_TIME, roll_one, self._simulation, self._fault, broker)
        self._due = now + -(-pause(self._fault) // SECOND) * SECOND
        return FaultScope(now, (broker,))
