"""Several controllers: the active one prints what it decides, the others what most of them have; the rest never was."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from generators.simulator.cluster.settings import MS, Settings, Topic
from generators.simulator.cluster.simulation import Simulation
from generators.simulator.cluster.simulation_event import CONTROLLER, SimulationEvent
from generators.simulator.telemetry.rows import Telemetry
from generators.simulator.truth.tables import Truth
from tests.simulated.kafka_logs import KafkaLogs

THREE = Settings(
    controllers=(3000, 3001, 3002), topics=(Topic("orders", 2, 3), Topic("clicks", 1, 2, unclean=True)),
    session_timeout_ms=6_000,
)  # fmt: skip
COMBINED = Settings(controllers=(1, 2, 3), topics=(Topic("orders", 2, 3),), session_timeout_ms=6_000)
Change = tuple[str | None, int, int | None, tuple[int, ...] | None]


class Printed:
    """Everything that controllers print, what is committed, and what brokers see."""

    def __init__(self) -> None:
        self.seen: list[SimulationEvent] = []
        self.lines: list[SimulationEvent] = []
        self.log: list[SimulationEvent] = []

    def observe(self, event: SimulationEvent) -> None:
        (self.lines if event.source == CONTROLLER else self.seen).append(event)

    def recorded(self, event: SimulationEvent) -> None:
        self.log.append(event)

    def by(self, controller: int, *kinds: str) -> list[SimulationEvent]:
        return [h for h in self.lines if h.broker == controller and (not kinds or h.kind in kinds)]

    def changes(self, committed: bool) -> set[Change]:
        return {change(h) for h in self.lines if h.kind == "isr" and h.committed is committed}


def change(h: SimulationEvent) -> Change:
    return h.topic, h.partition, h.partition_epoch, h.isr


def cluster(settings: Settings = THREE) -> tuple[Simulation, Printed]:
    printed = Printed()
    simulation = Simulation(settings, [printed])
    simulation.start()
    load(simulation)
    simulation.run(3)
    return simulation, printed


def load(simulation: Simulation) -> None:
    for topic in simulation.settings.topics:
        simulation.produce(topic.name, 0, 3, acks=1)
    simulation.event_queue.after(200 * MS, load, simulation)


def test_one_controller_alone_prints_what_it_decides_and_has_it_committed_at_once() -> None:
    simulation, printed = cluster(Settings())
    simulation.kill(3)
    simulation.run(12)
    rows = [h for h in printed.lines if h.kind != "role"]
    assert [(h.at, h.kind, h.isr) for h in rows] == [(h.at, h.kind, h.isr) for h in printed.log]
    assert {(h.controller_epoch, h.committed) for h in rows} == {(1, False)}


def test_the_active_controller_prints_a_change_before_the_others_who_print_what_is_committed() -> None:
    simulation, printed = cluster()
    simulation.kill(3)
    simulation.run(12)
    fenced = [h for h in printed.lines if h.detail == "fenced"]
    assert (fenced[0].broker, fenced[0].committed, fenced[0].controller_epoch) == (3000, False, 1)
    assert sorted((h.broker, h.committed) for h in fenced[1:]) == [(3001, True), (3002, True)]
    done = next(h for h in printed.log if h.detail == "fenced")
    assert fenced[0].at < done.at < min(h.at for h in fenced[1:])
    assert printed.changes(committed=True) == {change(h) for h in printed.log if h.kind == "isr"} != set()


def test_what_is_decided_at_one_moment_is_committed_at_one_moment() -> None:
    simulation, printed = cluster()
    simulation.kill(3)
    simulation.run(12)
    fence = next(h for h in printed.log if h.detail == "fenced")
    assert len({h.at for h in printed.log if h.ts == fence.ts}) == 1
    assert len([h for h in printed.log if h.ts == fence.ts]) > 2


def test_brokers_learn_of_a_change_only_once_it_is_committed() -> None:
    simulation, printed = cluster()
    simulation.kill(3)
    simulation.run(12)
    simulation.restart(3)
    simulation.run(8)
    seen = [h for h in printed.seen if (h.kind, h.topic) == ("isr", "orders")]
    committed = {(h.partition, h.partition_epoch): h.at for h in printed.log if (h.kind, h.topic) == ("isr", "orders")}
    assert {(h.partition, h.partition_epoch) for h in seen} == set(committed) != set()
    assert all(h.at > committed[h.partition, h.partition_epoch] for h in seen)


def frozen_past_its_session(simulation: Simulation) -> None:
    simulation.quorum.freeze(3000)
    simulation.run(15)
    simulation.quorum.thaw(3000)


def test_an_active_controller_that_was_frozen_wakes_and_prints_what_is_never_committed() -> None:
    simulation, printed = cluster()
    frozen_past_its_session(simulation)
    woken = simulation.event_queue.now
    simulation.run(5)
    made_up = [h for h in printed.by(3000, "isr", "election") if h.committed is False and h.at >= woken]
    assert {h.controller_epoch for h in made_up} == {1}
    assert {h.isr for h in made_up} >= {(), (1,)} or {h.leader for h in made_up} >= {-1}
    assert simulation.quorum.epoch > 1
    assert {change(h) for h in made_up if h.kind == "isr"}.isdisjoint({change(h) for h in printed.log})


def test_the_truth_and_the_brokers_know_only_of_what_is_committed() -> None:
    telemetry, truth = Telemetry(THREE), Truth(THREE)
    simulation = Simulation(THREE, [telemetry, truth])
    telemetry.follow(simulation)
    truth.follow(simulation)
    simulation.start()
    load(simulation)
    simulation.run(3)
    frozen_past_its_session(simulation)
    simulation.run(5)
    rows = telemetry.close().to_pylist()
    assert len([r for r in rows if r["event_type"] == "isr" and r["committed"] is False]) > 3
    assert truth.close()["truth_isr"].to_pylist() == []
    assert [r for r in rows if r["event_type"] == "isr" and r["committed"] is None] == []
    assert [r.isr for r in simulation.controller.partitions.values()] == [(1, 2, 3), (2, 3, 1), (1, 2)]


def test_it_renounces_when_it_learns_and_prints_what_it_has_missed() -> None:
    simulation, printed = cluster()
    simulation.quorum.freeze(3000)
    simulation.run(4)
    simulation.kill(3)
    simulation.run(12)
    simulation.quorum.thaw(3000)
    simulation.run(2)
    roles = [h.detail for h in printed.by(3000, "role")]
    missed = [change(h) for h in printed.by(3000, "isr") if h.committed]
    assert roles == ["active", "renounced"]
    assert missed == [change(h) for h in printed.log if h.kind == "isr"] != []


def test_a_short_stall_changes_nothing_but_delays_what_was_under_way() -> None:
    simulation, printed = cluster()
    simulation.quorum.freeze(3000)
    simulation.run(1)
    simulation.quorum.thaw(3000)
    simulation.run(10)
    assert (simulation.quorum.epoch, simulation.quorum.active) == (1, simulation.quorum.nodes[3000])
    assert [h for h in printed.log if h.kind == "isr"] == []


def test_one_that_is_killed_is_replaced_and_prints_the_whole_log_again_when_it_is_back() -> None:
    simulation, printed = cluster()
    simulation.kill(3)
    simulation.run(12)
    simulation.quorum.kill(3000)
    simulation.run(5)
    first = len(printed.by(3000))
    simulation.quorum.restart(3000)
    simulation.run(5)
    again = [h for h in printed.by(3000)[first:] if h.kind != "role"]
    assert {h.committed for h in again} == {True}
    assert [(h.kind, change(h)) for h in again] == [(h.kind, change(h)) for h in printed.log]
    assert min(h.at for h in again) > max(h.at for h in printed.log)


def test_what_it_decided_and_nobody_else_has_is_thrown_away_when_another_one_takes_over() -> None:
    simulation, printed = cluster()
    simulation.quorum.isolate(3000)
    simulation.configure("orders", min_isr=2)
    simulation.reassign("clicks", 0, (2, 3))
    assert simulation.registration("clicks", 0).adding == (3,)
    simulation.run(4)
    assert simulation.quorum.active is not simulation.quorum.nodes[3000]
    assert simulation.registration("clicks", 0).adding == ()
    assert simulation.registration("orders", 0).min_isr == 1
    assert [h for h in printed.log if h.kind == "isr"] == []


def test_without_a_majority_nothing_is_committed_until_there_is_one_again() -> None:
    simulation, printed = cluster()
    for id in (3001, 3002):
        simulation.quorum.kill(id)
    simulation.kill(3)
    simulation.run(20)
    assert [h for h in printed.log if h.kind == "isr"] == []
    assert simulation.quorum.active is None
    simulation.quorum.restart(3001)
    simulation.run(12)
    assert simulation.quorum.active is not None
    assert {h.isr for h in printed.log if h.kind == "isr"} == {(1, 2), (2, 1)}


def test_a_broker_that_is_a_controller_fails_as_both_and_an_isr_change_asked_of_it_is_asked_again() -> None:
    simulation, printed = cluster(COMBINED)
    simulation.kill(1)
    simulation.run(15)
    assert simulation.quorum.active is not simulation.quorum.nodes[1]
    assert not simulation.quorum.nodes[1].running
    assert {h.isr for h in printed.log if h.kind == "isr"} == {(2, 3)}
    simulation.restart(1)
    simulation.run(10)
    assert [set(r.isr) for r in simulation.controller.partitions.values()] == [{1, 2, 3}, {1, 2, 3}]
    assert {h.source for h in printed.by(1)} == {CONTROLLER}


def logs(settings: Settings, folder: Any, script: Callable[[Simulation], None]) -> dict[str, list[str]]:
    written = KafkaLogs(settings, folder)
    simulation = Simulation(settings, [written])
    written.follow(simulation)
    simulation.start()
    load(simulation)
    simulation.run(3)
    script(simulation)
    simulation.run(3)
    written.close()
    return {path.parent.name: path.read_text().splitlines() for path in sorted(folder.rglob("controller.log"))}


def test_each_controller_has_a_log_with_its_role(tmp_path) -> None:
    found = logs(THREE, tmp_path, frozen_past_its_session)
    roles = {name: [line for line in lines if ".QuorumController|" in line] for name, lines in found.items()}
    assert "Becoming the active controller at epoch 1" in roles["broker-3000"][0]
    assert (
        "Renouncing the leadership due to a metadata log event. We were the leader at epoch 1"
        in (roles["broker-3000"][1])
    )
    assert sum("Becoming the active controller" in line for lines in roles.values() for line in lines) == 2
    assert "In the new epoch 1, the leader is 3000." in roles["broker-3001"][0]


def test_a_change_that_was_made_up_is_followed_by_the_committed_one_of_the_same_epoch(tmp_path) -> None:
    def script(simulation: Simulation) -> None:
        simulation.kill(3)
        simulation.quorum.freeze(3000)
        simulation.run(15)
        simulation.restart(3)
        simulation.run(5)
        simulation.quorum.thaw(3000)

    lines = logs(THREE, tmp_path, script)["broker-3000"]
    changes = [line.split(": ", 1)[1] for line in lines if "partition change for orders-0" in line]
    first = [text for text in changes if text.endswith("partitionEpoch: 0 -> 1")]
    assert len(first) == 2
    assert "isr: [1, 2, 3] -> [1, 2]" in first[1]


@pytest.mark.parametrize("level", [3, 2, 0])
def test_each_controller_is_a_source_of_its_own_with_a_role_in_every_row(level) -> None:
    telemetry = Telemetry(THREE, level)
    simulation = Simulation(THREE, [telemetry])
    telemetry.follow(simulation)
    simulation.start()
    simulation.configure("orders", min_isr=2)
    simulation.run(2)
    rows = [
        r for r in telemetry.close().to_pylist() if "controller" in r["source_id"] and r["event_type"] != "progress"
    ]
    assert {(r["source_id"], r["committed"], r["controller_epoch"]) for r in rows} == {
        ("broker-3000/controller.log", False, 1),
        ("broker-3001/controller.log", True, 1),
        ("broker-3002/controller.log", True, 1),
    }
