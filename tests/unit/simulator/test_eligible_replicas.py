"""Eligible leader replicas (KIP-966): who leads when the ISR is empty, and when it is forgotten."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from generators.simulator.cluster.settings import Settings, Topic
from generators.simulator.cluster.simulation import Simulation
from generators.simulator.cluster.simulation_event import CONTROLLER, REPLICATION, SimulationEvent
from generators.simulator.cluster.versions import VERSIONS
from generators.simulator.telemetry.rows import Telemetry
from generators.simulator.truth.tables import Truth
from pipelines.commands.simulate.plan import plan
from pipelines.errors import UsageError
from pipelines.settings import Simulate

ON = Settings(
    topics=(Topic("orders", 1, 3, min_isr=2),), session_timeout_ms=4_000, version=VERSIONS["4.1"], elr=True,
)  # fmt: skip
OFF = replace(ON, elr=False)


class Happened:
    def __init__(self) -> None:
        self.all: list[SimulationEvent] = []

    def observe(self, event: SimulationEvent) -> None:
        self.all.append(event)

    def elections(self) -> list[tuple[int | None, bool | None]]:
        return [(h.leader, h.unclean) for h in self.all if h.kind == "election" and h.source == CONTROLLER]


def begun(settings: Settings = ON, *observers: Any) -> Simulation:
    simulation = Simulation(settings, observers)
    for observer in observers:
        if hasattr(observer, "follow"):
            observer.follow(simulation)
    simulation.start()
    simulation.produce("orders", 0, 5, acks=1)
    simulation.run(3)
    return simulation


def falls(simulation: Simulation, *brokers: int) -> None:
    for broker in brokers:
        simulation.kill(broker)
        simulation.run(6)


def stops(simulation: Simulation, *brokers: int) -> None:
    for broker in brokers:
        simulation.stop(broker)
        simulation.run(3)


def test_it_is_on_by_default_in_new_clusters_of_4_1_and_can_be_switched() -> None:
    chosen = {
        (version, elr): plan(Simulate(version=version, elr=elr)).settings.elr  # type: ignore[arg-type]
        for version, elr in (("4.1", "default"), ("4.1", "off"), ("4.0", "on"))
    }
    assert chosen == {("4.1", "default"): None, ("4.1", "off"): False, ("4.0", "on"): True}
    for settings, empty in ((ON, True), (replace(ON, elr=None), True), (OFF, False)):
        simulation = begun(settings)
        falls(simulation, 3, 2, 1)
        assert (simulation.registration("orders", 0).isr == ()) is empty


def test_versions_without_it_cannot_have_it_on() -> None:
    with pytest.raises(
        UsageError, match=r"version 3.9 has no eligible leader replicas: elr is on, which 4.0, 4.1 have"
    ):
        plan(Simulate(version="3.9", elr="on"))


def test_one_that_left_the_isr_under_min_isr_is_elected_cleanly_and_is_the_whole_isr() -> None:
    happened = Happened()
    simulation = begun(ON, happened)
    stops(simulation, 3, 2, 1)
    assert set(simulation.registration("orders", 0).eligible) == {1, 2}
    simulation.restart(2)
    simulation.run(3)
    assert simulation.registration("orders", 0).isr == (2,)
    assert happened.elections()[-1] == (2, False)


def test_one_that_left_while_the_isr_was_large_enough_is_not_eligible() -> None:
    simulation = begun()
    falls(simulation, 3)
    assert simulation.registration("orders", 0).eligible == ()
    falls(simulation, 2)
    assert simulation.registration("orders", 0).eligible == (2,)


def test_an_unclean_shutdown_ends_eligibility_with_a_partition_epoch() -> None:
    simulation = begun()
    falls(simulation, 3, 2, 1)
    before = simulation.registration("orders", 0)
    simulation.restart(2)
    simulation.run(3)
    now = simulation.registration("orders", 0)
    assert (before.eligible, now.eligible) == ((2, 1), (1,))
    assert now.partition_epoch == before.partition_epoch + 1
    assert now.leader == -1


def test_the_last_known_leader_is_elected_uncleanly_when_nobody_is_eligible() -> None:
    happened, truth = Happened(), Truth(ON)
    simulation = begun(ON, happened, truth)
    falls(simulation, 3, 2, 1)
    for broker in (2, 1):
        simulation.restart(broker)
        simulation.run(3)
    assert simulation.registration("orders", 0).leader == 1
    assert happened.elections()[-1] == (1, True)
    assert [r for r in truth.close()["truth_regressions"].to_pylist() if "loss" in r["class"]] == []


def under_min_isr(*observers: Any) -> Simulation:
    """The leader alone, two others eligible, and records above the HW."""
    simulation = begun(ON, *observers)
    falls(simulation, 3, 2)
    simulation.produce("orders", 0, 5, acks=1)
    simulation.run(1)
    return simulation


def test_a_changed_min_isr_forgets_who_is_eligible_with_a_partition_epoch_of_its_own() -> None:
    happened = Happened()
    simulation = under_min_isr(happened)
    before = simulation.registration("orders", 0)
    simulation.configure("orders", min_isr=1)
    simulation.run(1)
    now = simulation.registration("orders", 0)
    assert (before.eligible, now.eligible) == ((2,), ())
    assert now.partition_epoch == before.partition_epoch + 1
    led = [h for h in happened.all if h.kind == "isr" and h.source == REPLICATION][-1]
    assert (led.partition_epoch, led.isr, led.detail) == (now.partition_epoch, (1,), "metadata")
    assert not any(
        h.partition_epoch == now.partition_epoch for h in happened.all if h.source == CONTROLLER and h.partition >= 0
    )


def test_the_leader_learns_of_it_before_the_setting_and_its_hw_waits_for_the_next_attempt() -> None:
    happened = Happened()
    simulation = under_min_isr(happened)
    assert simulation.replica("orders", 0, 1).hw == 5
    simulation.configure("orders", min_isr=1)
    simulation.run(1)
    kinds = [h.kind for h in happened.all if h.broker == 1 and h.kind in ("isr", "config", "hw")]
    assert kinds[-2:] == ["isr", "config"]
    assert simulation.replica("orders", 0, 1).hw == 5
    simulation.produce("orders", 0, 1, acks=1)
    simulation.run(1)
    assert simulation.replica("orders", 0, 1).hw == 11


def test_where_nobody_is_eligible_a_changed_min_isr_is_no_partition_epoch() -> None:
    simulation = begun()
    before = simulation.registration("orders", 0).partition_epoch
    simulation.configure("orders", min_isr=1)
    simulation.run(1)
    assert simulation.registration("orders", 0).partition_epoch == before


def test_of_a_last_known_leader_it_is_forgotten_too_and_then_nobody_leads() -> None:
    simulation = begun()
    falls(simulation, 3, 2, 1)
    simulation.configure("orders", min_isr=1)
    simulation.run(1)
    assert simulation.registration("orders", 0).last_known is None
    simulation.restart(1)
    simulation.run(3)
    assert simulation.leader("orders", 0) is None


@pytest.mark.parametrize("level", [3, 2, 0])
def test_the_next_change_names_an_epoch_that_no_change_before_it_led_to(level) -> None:
    telemetry = Telemetry(ON, level)
    simulation = under_min_isr(telemetry)
    simulation.configure("orders", min_isr=1)
    simulation.run(1)
    cleared = simulation.registration("orders", 0).partition_epoch
    simulation.restart(2)
    simulation.run(4)
    rows = telemetry.close().to_pylist()
    changes = {r["partition_epoch"] for r in rows if r["event_type"] == "isr" and r["broker_id"] == 1}
    assert {cleared, cleared + 1} <= changes
