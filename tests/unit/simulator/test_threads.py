"""Threads that stall or overtake each other between the lines of one fetch, and a kill between two lines."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest

from generators.simulator.cluster.settings import MS, SECOND, Settings, Topic
from generators.simulator.cluster.simulation import Simulation
from generators.simulator.cluster.simulation_event import SimulationEvent
from generators.simulator.faults.injection import Injection
from generators.simulator.faults.script import parse
from generators.simulator.telemetry.rows import Telemetry
from generators.simulator.truth.tables import Truth
from tests.simulated.kafka_logs import KafkaLogs

CALM = Settings(topics=(Topic("orders", 1, 3, min_isr=2),))
STALLING = replace(CALM, thread_stalls=0.05)
OVERTAKING = replace(CALM, thread_overtakes=0.3)
Row = dict[str, Any]


class Happened:
    def __init__(self) -> None:
        self.all: list[SimulationEvent] = []

    def observe(self, event: SimulationEvent) -> None:
        self.all.append(event)


def load(simulation: Simulation) -> None:
    simulation.produce("orders", 0, 3, acks=1)
    simulation.event_queue.after(20 * MS, load, simulation)


def begun(settings: Settings, *observers: Any) -> Simulation:
    simulation = Simulation(settings, observers)
    for observer in observers:
        if hasattr(observer, "follow"):
            observer.follow(simulation)
    simulation.start()
    load(simulation)
    return simulation


def rows(events: pa.Table, *kinds: str) -> list[Row]:
    return [r for r in events.to_pylist() if r["event_type"] in kinds and r["source_id"] == "broker-1/replication.log"]


def printed(settings: Settings, folder: Any, seconds: float = 10) -> list[tuple[int, str, str]]:
    """(ms, thread, message) of broker 1's lines."""
    logs = KafkaLogs(settings, folder)
    begun(settings, logs).run(seconds)
    logs.close()
    lines = (folder / "broker-1/replication.log").read_text().splitlines()
    return [(int(f[0]), f[1], f[-1]) for f in (line.split("|", 5) for line in lines)]


def test_a_thread_may_stall_for_seconds_between_the_line_of_the_hw_and_that_of_its_fetch(tmp_path) -> None:
    lines = printed(replace(STALLING, stall_us=(600 * MS, 5 * SECOND)), tmp_path)
    waits = []
    for k, (ms, thread, message) in enumerate(lines):
        if "High watermark updated" in message and "handler-0" not in thread:
            after = [line for line in lines[k + 1 :] if line[1] == thread]
            assert not after or "Recorded replica" in after[0][2]
            waits += [after[0][0] - ms] if after else []
    assert max(waits) > 500
    assert max(waits) <= 5_000
    assert sum(wait > 0 for wait in waits) < len(waits) / 2


def test_meanwhile_its_follower_waits_for_an_answer_and_other_threads_go_on() -> None:
    happened = Happened()
    begun(STALLING, happened).run(10)
    stalled = [h for h in happened.all if h.kind == "fetch" and h.stall_us > SECOND]
    assert stalled != []
    for h in stalled:
        during = [
            o for o in happened.all if o.kind == "fetch" and o.broker == h.broker and h.at < o.at < h.at + h.stall_us
        ]
        assert {o.replica for o in during}.isdisjoint({h.replica})
    assert any(h.at < o.at < h.at + h.stall_us for h in stalled for o in happened.all if o.kind == "append")


def test_the_rows_of_a_stalled_fetch_have_the_time_of_its_first_line_and_come_together() -> None:
    for settings in (CALM, STALLING):
        telemetry = Telemetry(settings)
        begun(settings, telemetry).run(10)
        found = rows(telemetry.close(), "fetch", "hw")
        moved = [(before, row) for before, row in pairwise(found) if row["event_type"] == "hw"]
        assert len(moved) > 10
        assert all((before["event_type"], before["ts"]) == ("fetch", row["ts"]) for before, row in moved)


def test_lines_of_the_hw_may_come_out_of_order_and_still_form_a_chain() -> None:
    telemetry = Telemetry(OVERTAKING)
    begun(OVERTAKING, telemetry).run(10)
    reports = rows(telemetry.close(), "hw")
    overtaken = [(a, b) for a, b in pairwise(reports) if b["hw"] < a["hw"]]
    assert overtaken != []
    assert max((b["ts"] - a["ts"]).total_seconds() for a, b in overtaken) < 0.15
    chain = {row["hw_before"]: row["hw"] for row in reports}
    at = 0
    while at in chain:
        at = chain[at]
    assert len(chain) == len(reports)
    assert at == max(row["hw"] for row in reports)


@pytest.mark.parametrize("level", [3, 2])
def test_rows_come_in_the_order_of_their_lines_and_progress_is_never_too_early(level) -> None:
    telemetry = Telemetry(OVERTAKING, level)
    simulation = begun(OVERTAKING, telemetry)
    pieces = []
    for _ in range(20):
        simulation.run(0.25)
        pieces.append(telemetry.drain())
    events = pa.concat_tables([*pieces, telemetry.close()])
    reported = [r["ts"] for r in events.to_pylist() if r["source_id"] == "broker-1/replication.log"]
    assert reported == sorted(reported)


def test_under_the_lock_of_its_partition_a_thread_prints_the_hw_before_an_isr_change(tmp_path) -> None:
    """While the thread that raised the HW holds it, nobody else changes the ISR."""
    settings = replace(OVERTAKING, thread_overtakes=1.0, late_us=(30 * MS, 30 * MS), lag_max_ms=1_000)
    telemetry = Telemetry(settings)
    simulation = begun(settings, telemetry)
    for _ in range(5):
        simulation.throttle(3, 0)
        simulation.run(3)
        simulation.throttle(3, None)
        simulation.run(3)
    found = rows(telemetry.close(), "hw", "isr", "leader")
    changes = [k for k, row in enumerate(found) if row["event_type"] == "isr"]
    assert len(changes) > 4
    for k in changes:
        before = [row["hw"] for row in found[:k] if row["event_type"] == "hw"]
        after = [row["hw_before"] for row in found[k + 1 :] if row["event_type"] == "hw"]
        assert max(before, default=0) <= min(after, default=max(before, default=0))


def test_a_broker_that_is_killed_in_a_stall_never_prints_the_fetch_that_moved_its_last_hw(tmp_path) -> None:
    settings = replace(CALM, thread_stalls=1.0, stall_us=(3 * SECOND, 3 * SECOND))
    telemetry, logs = Telemetry(settings), KafkaLogs(settings, tmp_path)
    simulation = begun(settings, telemetry, logs)
    simulation.run(4)
    simulation.kill(1)
    simulation.run(5)
    logs.close()
    last = rows(telemetry.close(), "fetch", "hw")[-2:]
    lines = (tmp_path / "broker-1/replication.log").read_text().splitlines()
    moved = [k for k, line in enumerate(lines) if "High watermark updated" in line]
    recorded = [k for k, line in enumerate(lines) if "Recorded replica" in line and k > moved[-1]]
    assert last[1]["event_type"] == "hw"
    assert last[0]["ts"] < last[1]["ts"]
    assert recorded == []


def test_one_that_is_shut_down_in_a_stall_prints_it_first() -> None:
    settings = replace(CALM, thread_stalls=1.0, stall_us=(3 * SECOND, 3 * SECOND))
    telemetry = Telemetry(settings)
    simulation = begun(settings, telemetry)
    simulation.run(4)
    simulation.stop(1)
    simulation.run(5)
    found = rows(telemetry.close(), "fetch", "hw")
    last = max(k for k, row in enumerate(found) if row["event_type"] == "hw")
    assert not simulation.brokers[1].running
    assert (found[last - 1]["event_type"], found[last - 1]["ts"]) == ("fetch", found[last]["ts"])


@pytest.mark.parametrize("level", [3, 2])
def test_a_kill_between_two_lines_leaves_a_hw_that_was_true_and_no_fetch_that_moved_it(level, tmp_path) -> None:
    telemetry, logs, truth = Telemetry(CALM, level), KafkaLogs(CALM, tmp_path, level), Truth(CALM)
    simulation = begun(CALM, telemetry, logs, truth)
    injection = Injection(simulation, [parse("2s kill-between-lines 1 for 20s")])
    simulation.run(2.5)
    assert not simulation.brokers[1].running
    found = rows(telemetry.close(), "fetch", "hw", "append", "replica_leo")
    true = [r for r in truth.close()["truth_hw"].to_pylist() if r["leader_id"] == 1]
    logs.close()
    last = (tmp_path / "broker-1/replication.log").read_text().splitlines()[-1]
    assert injection.done[0].skipped is None
    assert (found[-1]["event_type"], found[-1]["hw"]) == ("hw", true[-1]["hw"])
    assert found[-1]["hw_before"] == true[-2]["hw"]
    assert re.search(rf"High watermark updated from \(offset={true[-2]['hw']},.* to \(offset={true[-1]['hw']},", last)


def test_one_that_does_not_come_to_print_a_hw_is_spared() -> None:
    simulation = Simulation(CALM)
    simulation.start()
    Injection(simulation, [parse("2s kill-between-lines 1 for 2s")])
    simulation.run(5)
    assert simulation.brokers[1].running
    load(simulation)
    simulation.run(2)
    assert simulation.brokers[1].running


def test_what_such_threads_print_is_what_the_cluster_did(tmp_path) -> None:
    """Every HW of the truth is printed once, no other one."""
    settings = replace(CALM, thread_stalls=0.02, thread_overtakes=0.2)
    telemetry, truth = Telemetry(settings), Truth(settings)
    begun(settings, telemetry, truth).run(10)
    true = [(r["leader_id"], r["hw"]) for r in truth.close()["truth_hw"].to_pylist() if r["kind"] == "advance"]
    reported = [(r["broker_id"], r["hw"]) for r in rows(telemetry.close(), "hw")]
    assert sorted(reported) == sorted(t for t in true if t[0] == 1)
