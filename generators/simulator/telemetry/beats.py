"""Who can tell the time, as time passes: brokers and controllers that run and are not frozen."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from generators.simulator.cluster.happening import CONTROLLER, REPLICATION
from generators.simulator.cluster.settings import SECOND

if TYPE_CHECKING:
    from generators.simulator.cluster.simulation import Simulation

Clocks = dict[tuple[int, str], int]
"""By broker and source: what its clock shows (us)."""
_EVERY = SECOND // 2


def clocks(simulation: Simulation) -> Clocks:
    """The clocks of all who can tell anything now."""
    up = {(b.id, REPLICATION): b.clock.us for b in simulation.brokers.values() if b.running and not b.frozen}
    return up | {(node.id, CONTROLLER): node.clock.us for node in simulation.quorum.nodes.values() if node.up}


def beat(simulation: Simulation, hear: Callable[[Clocks], None]) -> None:
    """`hear` twice a second from now on, if the cluster moves by itself; it changes nothing in the cluster."""

    def again() -> None:
        hear(clocks(simulation))
        simulation.agenda.after(_EVERY, again)

    if simulation.settings.automatic:
        simulation.agenda.after(_EVERY, again)


def ends_second(told: int, now: int) -> bool:
    """Whether a source that has told everything up to `told` (us) has something to say at `now` at last."""
    return now // SECOND > told // SECOND
