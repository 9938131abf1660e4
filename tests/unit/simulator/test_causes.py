"""What causes an ISR change is read off what the controller acts on, not off what was asked long before."""

import pytest

from generators.simulator.cluster.simulation_event import CONTROLLER, REPLICATION, SimulationEvent
from generators.simulator.truth.causes import Causes


def happens(at, kind, **fields):
    source = REPLICATION if kind == "isr_proposed" else CONTROLLER
    return SimulationEvent(
        at=at, ts=at, source=source, kind=kind, topic="orders", partition=0, **{"broker": 3000} | fields
    )


@pytest.mark.parametrize(
    ("at", "before", "assigned", "cause"),
    [
        (2, (1,), (2, 1), "reassignment"),
        (9, (), (2,), "election"),  # what it was asked in for is long done
    ],
    ids=["the last replica is asked in", "it comes back alone"],
)
def test_a_new_leader_ends_a_reassignment_only_where_its_replicas_change(at, before, assigned, cause):
    causes = Causes()
    causes.observe(happens(1, "isr_proposed", broker=1, isr=(2, 1), detail="expand"))
    elected = happens(at, "election", leader=2, isr=(2,), replicas=(2,))
    causes.observe(elected)
    assert causes.of(elected, before, assigned) == cause
