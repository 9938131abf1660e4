"""ISR changes as slow as on a loaded machine: 30 to 254 ms for an expand to be committed, 0.1 to 4.5 s for a shrink."""

from __future__ import annotations

from statistics import median

import pytest

from generators.simulator.cluster.settings import LOADED, MS, Settings, Topic
from generators.simulator.cluster.simulation import Simulation
from generators.simulator.cluster.simulation_event import REPLICATION, SimulationEvent


class Commits:
    """Milliseconds from each proposal of a leader to its commit, by kind."""

    def __init__(self) -> None:
        self.ms: dict[str, list[float]] = {"expand": [], "shrink": []}
        self._open: dict[tuple[str | None, int], SimulationEvent] = {}

    def observe(self, h: SimulationEvent) -> None:
        place = h.topic, h.partition
        if h.kind == "isr_proposed":
            self._open[place] = h
        elif h.kind == "isr" and h.source == REPLICATION and h.leader == h.broker and place in self._open:
            asked = self._open.pop(place)
            if set(asked.isr or ()) == set(h.isr or ()):
                self.ms[asked.detail or ""].append((h.at - asked.at) / MS)


def load(simulation: Simulation) -> None:
    for partition in range(4):
        simulation.produce("orders", partition, 1, acks=1)
    simulation.event_queue.after(100 * MS, load, simulation)


def commits(**settings: object) -> dict[str, list[float]]:
    """A follower that hangs now and then, for longer than the lag."""
    seen = Commits()
    made = Settings(topics=(Topic("orders", 4, 3),), lag_max_ms=1_000, session_timeout_ms=60_000, **settings)  # type: ignore[arg-type]
    simulation = Simulation(made, [seen])
    simulation.start()
    load(simulation)
    for _ in range(20):
        simulation.freeze(3)
        simulation.run(7)
        simulation.thaw(3)
        simulation.run(3)
    return seen.ms


@pytest.mark.nightly
@pytest.mark.parametrize("controllers", [(3000,), (3000, 3001, 3002)])
def test_on_a_loaded_machine_a_shrink_takes_up_to_seconds_and_an_expand_up_to_a_quarter_of_one(controllers) -> None:
    ms = commits(alter_us=LOADED, controllers=controllers)
    assert len(ms["shrink"]) > 20
    assert len(ms["expand"]) > 20
    assert 100 < min(ms["shrink"]) < 500
    assert 3_500 < max(ms["shrink"]) < 4_500
    assert 28 < min(ms["expand"]) < 80
    assert 100 < median(ms["expand"]) < 254


def test_else_both_take_as_long_as_the_controller_needs() -> None:
    ms = commits()
    assert max(*ms["shrink"], *ms["expand"]) < 50
