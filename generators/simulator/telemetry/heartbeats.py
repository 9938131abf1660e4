"""Clocks of running brokers and controllers, at regular intervals."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from generators.simulator.cluster.settings import SECOND
from generators.simulator.cluster.simulation_event import CONTROLLER, REPLICATION

if TYPE_CHECKING:
    from generators.simulator.cluster.simulation import Simulation

Clocks = dict[tuple[int, str], int]
"""By broker and source: its clock (us)."""
_EVERY = SECOND // 2


def clocks(simulation: Simulation) -> Clocks:
    """The clocks of all nodes that run and are not frozen."""
    up = {(b.id, REPLICATION): b.clock.us for b in simulation.brokers.values() if b.running and not b.frozen}
    return up | {(node.id, CONTROLLER): node.clock.us for node in simulation.quorum.nodes.values() if node.up}


def on_heartbeat(simulation: Simulation, receive: Callable[[Clocks], None]) -> None:
    """Call `receive` twice a second from now on, if the cluster moves by itself; it changes nothing in the cluster."""

    def again() -> None:
        receive(clocks(simulation))
        simulation.event_queue.after(_EVERY, again)

    if simulation.settings.automatic:
        simulation.event_queue.after(_EVERY, again)


def ends_second(last: int, now: int) -> bool:
    """Whether a second ends between `last` and `now` (us of a source's clock)."""
    return now // SECOND > last // SECOND
