"""min.insync.replicas and unclean.leader.election.enable changed in the middle, by dynamic topic configuration."""

from __future__ import annotations

from typing import Any

import pytest

from generators.simulator.cluster.settings import Settings, Topic
from generators.simulator.cluster.simulation import Simulation
from generators.simulator.cluster.simulation_event import SimulationEvent
from generators.simulator.cluster.versions import VERSIONS
from generators.simulator.telemetry.rows import Telemetry
from tests.simulated.kafka_logs import KafkaLogs


class Happened:
    def __init__(self) -> None:
        self.all: list[SimulationEvent] = []

    def observe(self, event: SimulationEvent) -> None:
        self.all.append(event)

    def of(self, *kinds: str, **values: Any) -> list[SimulationEvent]:
        return [h for h in self.all if h.kind in kinds and all(getattr(h, k) == v for k, v in values.items())]


def under_min_isr(*observers: Any, version: str = "4.0") -> Simulation:
    """The leader alone is in the ISR of a partition that wants two; 5 records are committed, 3 more wait."""
    settings = Settings(topics=(Topic("orders", 1, 3, min_isr=2),), version=VERSIONS[version], session_timeout_ms=5_000)
    simulation = Simulation(settings, observers)
    for observer in observers:
        if hasattr(observer, "follow"):
            observer.follow(simulation)
    simulation.start()
    simulation.produce("orders", 0, 5, acks=1)
    simulation.run(3)
    for broker in (2, 3):
        simulation.kill(broker)
    simulation.run(8)
    simulation.produce("orders", 0, 3, acks=1)
    simulation.run(1)
    return simulation


def hw(simulation: Simulation) -> int:
    return simulation.replica("orders", 0, 1).hw


def test_a_lowered_min_isr_takes_effect_at_the_next_attempt_and_not_by_itself() -> None:
    happened = Happened()
    simulation = under_min_isr(happened)
    assert (hw(simulation), simulation.registration("orders", 0).isr) == (5, (1,))
    simulation.configure("orders", min_isr=1)
    simulation.run(2)
    assert hw(simulation) == 5
    assert happened.of("config", broker=1)[-1].min_isr == 1
    simulation.produce("orders", 0, 1, acks=1)
    simulation.run(1)
    rise = happened.of("hw", broker=1)[-1]
    assert (rise.hw_before, rise.hw) == (5, 9)
    assert rise.at == happened.of("append")[-1].at


def test_a_follower_that_fetches_again_makes_it_take_effect_too() -> None:
    simulation = under_min_isr()
    simulation.configure("orders", min_isr=1)
    simulation.run(1)
    assert hw(simulation) == 5
    simulation.restart(2)
    simulation.run(8)
    assert hw(simulation) == 8


def test_a_raised_min_isr_freezes_the_hw_where_it_is() -> None:
    simulation = under_min_isr()
    simulation.configure("orders", min_isr=1)
    simulation.run(1)
    simulation.produce("orders", 0, 1, acks=1)
    simulation.run(1)
    assert hw(simulation) == 9
    simulation.configure("orders", min_isr=3)
    simulation.run(1)
    simulation.produce("orders", 0, 1, acks=1)
    simulation.run(1)
    assert hw(simulation) == 9


@pytest.mark.parametrize("level", [2, 0])
def test_below_level_3_only_the_controller_has_it_before_the_leader_applies_it(level) -> None:
    telemetry = Telemetry(Settings(topics=(Topic("orders", 1, 3, min_isr=2),)), level)
    simulation = under_min_isr(telemetry)
    simulation.configure("orders", min_isr=1)
    simulation.produce("orders", 0, 1, acks=1)
    simulation.run(1)
    rows = telemetry.close().to_pylist()
    reported = [
        (r["source_id"], r["topic"], r["min_isr"]) for r in rows if r["event_type"] == "config" and r["min_isr"]
    ]
    assert reported == [("broker-3000/controller.log", "orders", 2), ("broker-3000/controller.log", "orders", 1)]


def test_the_line_of_a_changed_min_isr_stands_before_those_of_the_hw_that_it_frees(tmp_path) -> None:
    logs = KafkaLogs(Settings(topics=(Topic("orders", 1, 3, min_isr=2),)), tmp_path)
    simulation = under_min_isr(logs)
    simulation.configure("orders", min_isr=1)
    simulation.run(1)
    simulation.produce("orders", 0, 1, acks=1)
    simulation.run(1)
    logs.close()
    changed = (tmp_path / "broker-3000/controller.log").read_text().splitlines()[-1]
    raised = (tmp_path / "broker-1/replication.log").read_text().splitlines()
    freed = next(line for line in raised if "to (offset=9," in line)
    assert "for ConfigResource(type=TOPIC, name='orders') which set configuration min.insync.replicas to 1" in changed
    assert int(changed.split("|")[0]) < int(freed.split("|")[0])


def test_unclean_elections_switched_on_wait_until_somebody_asks_again() -> None:
    """For the task that looks every five minutes, or for a broker that is unfenced."""
    happened = Happened()
    simulation = under_min_isr(happened)
    simulation.kill(1)
    simulation.run(8)
    simulation.restart(2)
    simulation.run(3)
    assert simulation.leader("orders", 0) is None
    simulation.configure("orders", unclean=True)
    simulation.run(5)
    assert simulation.leader("orders", 0) is None
    simulation.restart(3)
    simulation.run(3)
    assert simulation.leader("orders", 0) in (2, 3)
    assert happened.of("election")[-1].unclean
