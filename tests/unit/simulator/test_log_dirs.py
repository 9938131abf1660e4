"""A log directory that fails: its replicas are gone, others on the same broker go on; an empty one takes its place."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from generators.brokerlogs.ingest import read_logs
from generators.simulator.cluster.settings import MS, Settings, Topic
from generators.simulator.cluster.simulation import Simulation
from generators.simulator.cluster.simulation_event import SimulationEvent
from generators.simulator.cluster.versions import VERSIONS
from generators.simulator.faults.injection import Injection
from generators.simulator.faults.script import parse
from generators.simulator.telemetry.rows import Telemetry
from generators.simulator.truth.tables import Truth
from tests.simulated.kafka_logs import KafkaLogs

TOPICS = (Topic("orders", 3, 3), Topic("alone", 1, 1, assignment=((1,),)))
TWO = Settings(topics=TOPICS, log_dirs=2, session_timeout_ms=6_000, version=VERSIONS["4.0"])


class Happened:
    def __init__(self) -> None:
        self.all: list[SimulationEvent] = []

    def observe(self, event: SimulationEvent) -> None:
        self.all.append(event)

    def states(self, detail: str) -> list[SimulationEvent]:
        return [h for h in self.all if h.kind == "broker_state" and h.detail == detail and h.source == "controller"]


def load(simulation: Simulation) -> None:
    for topic in simulation.settings.topics:
        for partition in range(topic.partitions):
            simulation.produce(topic.name, partition, 2, acks=1)
    simulation.event_queue.after(100 * MS, load, simulation)


def begun(settings: Settings, *observers: Any) -> Simulation:
    simulation = Simulation(settings, observers)
    for observer in observers:
        if hasattr(observer, "follow"):
            observer.follow(simulation)
    simulation.start()
    load(simulation)
    simulation.run(3)
    return simulation


def isrs(simulation: Simulation) -> dict[tuple[str, int], tuple[int, ...]]:
    return {key: known.isr for key, known in simulation.controller.partitions.items()}


def directory(simulation: Simulation, broker: int, which: int) -> set[tuple[str, int]]:
    return {r.key for r in simulation.brokers[broker].replicas.values() if r.directory == which}


def test_replicas_are_spread_over_the_directories() -> None:
    simulation = begun(TWO)
    assert [len(directory(simulation, 1, d)) for d in (0, 1)] == [2, 2]


def test_a_broker_that_loses_one_of_its_directories_leads_and_follows_on_with_the_other() -> None:
    simulation = begun(TWO)
    gone, left = directory(simulation, 1, 0), directory(simulation, 1, 1)
    simulation.lose_log_dir(1)
    simulation.run(2)
    assert set(simulation.brokers[1].replicas) == left
    assert {key for key, isr in isrs(simulation).items() if 1 not in isr} == {k for k in gone if k[0] == "orders"}
    assert all(known.leader != 1 for key, known in simulation.controller.partitions.items() if key in gone)
    assert simulation.brokers[1].running


def test_the_controller_names_the_directory_as_the_cause() -> None:
    happened, truth = Happened(), Truth(TWO)
    simulation = begun(TWO, happened, truth)
    simulation.lose_log_dir(1)
    simulation.run(2)
    reported = happened.states("log_dir_offline")
    changes = truth.close()["truth_isr"].to_pylist()
    assert [h.replica for h in reported] == [1]
    assert {row["cause"] for row in changes} == {"log_dir_offline"}
    assert len(changes) >= 1


def test_it_is_not_elected_again_where_its_replica_is_gone_though_it_is_alive() -> None:
    simulation = begun(TWO)
    gone = next(key for key in directory(simulation, 1, 0) if key[0] == "orders")
    simulation.lose_log_dir(1)
    simulation.run(2)
    for broker in (2, 3):
        simulation.kill(broker)
    simulation.run(9)
    assert simulation.leader(*gone) is None


def test_with_an_empty_directory_in_its_place_it_starts_at_0_and_what_it_alone_had_is_lost() -> None:
    settings = replace(TWO, version=VERSIONS["4.1"])
    truth = Truth(settings)
    simulation = begun(settings, truth)
    [key] = [k for k in simulation.brokers[1].replicas if k[0] == "alone"]
    committed = simulation.replica(*key, 1).hw
    simulation.brokers[1].lose(simulation.replica(*key, 1).directory)
    simulation.run(4)
    simulation.stop(1)
    simulation.restart(1)
    simulation.run(11)
    lost = [r for r in truth.close()["truth_regressions"].to_pylist() if r["topic"] == "alone"]
    assert committed > 20
    assert [(r["start_offset"], r["lost_from"]) for r in lost] == [(0, 0)]
    assert lost[0]["lost_to"] >= committed


def test_without_another_directory_the_broker_ends_and_comes_back_empty() -> None:
    simulation = begun(replace(TWO, log_dirs=1))
    Injection(simulation, [parse("0s lose-log-dir 2 for 3s")])
    simulation.run(1)
    assert not simulation.brokers[2].running
    assert simulation.brokers[2].replicas == {}
    simulation.run(20)
    assert simulation.brokers[2].running
    assert all(set(isr) == {1, 2, 3} for key, isr in isrs(simulation).items() if key[0] == "orders")


def test_it_comes_back_within_its_session_or_after_it() -> None:
    for seconds in (1, 10):
        simulation = begun(replace(TWO, log_dirs=1))
        Injection(simulation, [parse(f"0s lose-log-dir 2 for {seconds}s")])
        simulation.run(25)
        assert simulation.replica("orders", 0, 2).log.leo > 20


@pytest.mark.parametrize("second_file", [False, True])
def test_the_row_names_the_broker_and_in_a_stock_file_it_is_the_brokers_own(second_file) -> None:
    telemetry = Telemetry(TWO, 2, second_file=second_file)
    simulation = begun(TWO, telemetry)
    simulation.lose_log_dir(1)
    simulation.run(2)
    rows = [r for r in telemetry.close().to_pylist() if r["detail"] == "log_dir_offline"]
    reported = [(r["source_id"], r["event_type"], r["replica_id"], r["partition"]) for r in rows]
    controller = ("broker-3000/controller.log", "broker_state", 1, -1)
    broker = ("broker-1/server.log", "broker_state", 1, -1)
    assert sorted(reported) == sorted([controller, *([broker] if second_file else [])])


def test_the_lines_are_those_of_a_controller_and_of_a_replica_manager(tmp_path) -> None:
    logs = KafkaLogs(TWO, tmp_path, second_file=True)
    simulation = begun(TWO, logs)
    simulation.lose_log_dir(1)
    simulation.run(2)
    logs.close()
    controller = (tmp_path / "broker-3000/controller.log").read_text()
    assert " in broker 1 marked offline, remaining directories: [" in controller
    assert (
        "because the log directory has failed. (kafka.server.ReplicaManager)"
        in (tmp_path / "broker-1/server.log").read_text()
    )
    assert "ReplicaManager" not in (tmp_path / "broker-1/replication.log").read_text()
    assert read_logs([tmp_path], "c").num_rows > 100


def test_with_several_controllers_what_is_lost_is_known_to_the_next_active_one_too() -> None:
    settings = replace(TWO, controllers=(3000, 3001, 3002))
    simulation = begun(settings)
    gone = next(key for key in directory(simulation, 1, 0) if key[0] == "orders")
    simulation.lose_log_dir(1)
    simulation.run(2)
    simulation.quorum.kill(3000)
    simulation.run(5)
    for broker in (2, 3):
        simulation.kill(broker)
    simulation.run(15)
    assert simulation.quorum.epoch > 1
    assert simulation.leader(*gone) is None
