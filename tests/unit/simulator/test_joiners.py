"""Whether the HW waits for a replica that has just left the ISR, or is about to join it: a question of the version."""

from __future__ import annotations

import pytest

from generators.simulator.cluster.simulation import Simulation
from generators.simulator.cluster.versions import VERSIONS
from generators.simulator.scenarios.fixtures import KEY, dies, manual, rounds, send


def left_alone(version: str) -> Simulation:
    """The follower has died a moment ago, caught up; the leader, alone in the ISR, takes three more records."""
    cluster = Simulation(manual(2, version=VERSIONS[version]))
    cluster.start()
    cluster.settle()
    send(cluster, *"abcde")
    rounds(cluster, 3, 2)
    dies(cluster, 2)
    send(cluster, *"fgh")
    return cluster


@pytest.mark.parametrize(
    ("version", "hw"),
    [
        pytest.param("0.8", 8, id="0.8: the ISR alone"),
        pytest.param("0.10", 8, id="0.10: the ISR alone (before KAFKA-4485)"),
        pytest.param("2.8", 5, id="2.8: whoever is caught up"),
        pytest.param("3.6", 8, id="3.6: whoever is caught up and may join, which one that is fenced may not"),
    ],
)
def test_who_holds_the_hw_of_a_leader_that_is_alone_in_the_isr(version, hw) -> None:
    cluster = left_alone(version)
    assert cluster.registration(*KEY).isr == (1,)
    assert cluster.replica(*KEY, 1).hw == hw


def test_it_waits_no_longer_than_the_lag() -> None:
    cluster = left_alone("2.8")
    cluster.run(cluster.settings.lag_max_ms / 1000 + 1)
    send(cluster, "i")
    assert cluster.replica(*KEY, 1).hw == 9
