"""The simulated cluster keeps Kafka's guarantees at every event, in clusters and under faults drawn by chance."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace

import pytest

from generators.simulator.cluster import elections, rules
from generators.simulator.cluster.registration import Registration
from generators.simulator.cluster.settings import Settings
from generators.simulator.cluster.simulation import Simulation
from pipelines.commands.simulate.plan import Plan, plan
from pipelines.settings import Simulate
from tests.unit.simulator.invariants import Invariants, nothing_acknowledged_is_lost, term_at
from tests.unit.simulator.random_runs import KINDS, LOSING, begin, command, loses_records, minimal, run_of, seeds


def played(run: Simulate) -> tuple[Plan, Invariants, Simulation]:
    """The run to its end, with every invariant asserted at every event."""
    planned = plan(run)
    watch = Invariants(keeps_records=not loses_records(planned))
    simulation = begin(planned, [watch])
    simulation.run(planned.seconds)
    return planned, watch, simulation


def keeps_every_promise(run: Simulate) -> None:
    """Besides: records acknowledged with acks=all are there at the end. Of topics that are still the same, and as long
    as nobody was elected uncleanly. Where no disk is lost that holds with any min ISR."""
    planned, watch, simulation = played(run)
    recreated = {fault.on for fault in planned.faults if fault.do == "delete-topic"}
    safe = {load.topic for load in planned.loads if load.acks == -1} - recreated
    for key, registration in simulation.controller.partitions.items():
        if key[0] in safe and watch.trusts((registration.topic_id, registration.partition)):
            nothing_acknowledged_is_lost(simulation, key)


def failing(check: Callable[[Simulate], None], run: Simulate) -> bool:
    try:
        check(run)
    except Exception:
        return True
    return False


@pytest.mark.parametrize("seed", seeds(40))
def test_invariants_hold_at_every_event(seed):
    run = run_of(seed)
    try:
        keeps_every_promise(run)
    except Exception as error:
        smallest = minimal(run, lambda smaller: failing(keeps_every_promise, smaller))
        pytest.fail(f"seed {seed}: {error}\nreproduce: {command(smallest)}", pytrace=False)


@pytest.mark.parametrize(("version", "down"), [("3.9", 15), ("4.1", 3)])
@pytest.mark.parametrize("seed", seeds(3))
def test_machines_lose_their_disks_in_turn_and_nothing_acknowledged_by_two_is_lost(seed, version, down):
    """Every broker once, each back in every ISR before the next: with min ISR 2 another one always has the record.

    Before eligible leader replicas a broker has to be away until its session has ended: one that is back before leads
    on with the empty log it has now, and the others cut theirs.
    """
    faults = [f"{10 + 60 * k}s {('power-off', 'lose-disk')[(seed + k) % 2]} {k + 1} for {down}s" for k in range(3)]
    run = Simulate(
        seed=seed, topics="orders:2x3:min-isr=2", load=["orders=steady:10,acks=all,tick=1s"], duration=200,
        fault=faults, version=version,
    )  # fmt: skip
    simulation = begin(plan(run))
    simulation.run(run.duration)
    for key in simulation.controller.partitions:
        assert len(simulation.registration(*key).isr) == 3
        assert sum(r.end - r.start for r in simulation.acknowledged[key]) > 500
        nothing_acknowledged_is_lost(simulation, key)


def test_a_leader_that_is_back_with_an_empty_disk_before_its_session_ends_loses_all_but_for_eligible_replicas():
    acknowledged_and_kept = {}
    for version in ("3.9", "4.1"):
        run = Simulate(
            topics="orders:1x3:min-isr=2", version=version, load=["orders=steady:10,acks=all,tick=1s"], duration=40,
            fault=["10s lose-disk 1 for 3s"],
        )  # fmt: skip
        simulation = begin(plan(run))
        simulation.run(9)
        leader = simulation.leader("orders", 0)
        simulation.run(31)
        first = simulation.acknowledged["orders", 0][0]
        now = simulation.replica("orders", 0, simulation.leader("orders", 0)).log
        acknowledged_and_kept[version] = leader, term_at(now, first.start) == first.term
    assert acknowledged_and_kept == {"3.9": (1, False), "4.1": (1, True)}


def test_only_a_broker_that_leads_deletes_records():
    simulation = Simulation(Settings(automatic=False))
    simulation.start()
    simulation.produce("orders", 0, 9)
    for _ in range(3):
        simulation.fetch(2)
        simulation.fetch(3)
    simulation.kill(1)
    simulation.retain("orders", 0, 5)
    assert simulation.replica("orders", 0, 1).log.start == 0
    simulation.restart(1)
    simulation.settle()
    simulation.retain("orders", 0, 5)
    assert simulation.replica("orders", 0, simulation.leader("orders", 0)).log.start == 5


def found_out(few: Collection[int], kinds: Collection[str]) -> str:
    """The violation found by the first of these runs that has one."""
    for seed in few:
        try:
            keeps_every_promise(run_of(seed, kinds, versions=("3.9",)))
        except AssertionError as error:
            return str(error)
    return "nothing"


KEEPING = [kind for kind in KINDS if kind not in LOSING]


def test_a_high_watermark_that_does_not_wait_for_the_shortest_replica_is_found_out(monkeypatch):
    monkeypatch.setattr(rules, "high_watermark", lambda current, leader_leo, shortest: max(current, leader_leo))
    assert "above LEO" in found_out(range(5), KEEPING)


def test_a_high_watermark_that_falls_is_found_out(monkeypatch):
    monkeypatch.setattr(rules, "may_join", lambda leo, high_watermark, epoch_start: True)
    assert "above LEO" in found_out(range(30), KEEPING)


def test_logs_that_part_and_are_not_cut_are_found_out(monkeypatch):
    """The leader writes alone until it dies; when it is back others have gone on from where it was cut off."""
    monkeypatch.setattr(rules, "diverges", lambda *_: False)
    faults = ["5s cut 1-2 for 1s", "5s cut 1-3 for 1s", "5900ms kill 1 for 12s"]
    run = Simulate(topics="orders:1x3", load=["orders=steady:50"], fault=faults, session_timeout_ms=5_000, duration=40)
    with pytest.raises(AssertionError, match=r"1 of ISR .* lacks"):
        keeps_every_promise(run)


def test_a_follower_that_shows_more_than_it_has_is_found_out(monkeypatch):
    monkeypatch.setattr(rules, "follower_high_watermark", lambda leader_hw, log_start, leo: leader_hw)
    assert "outside its log" in found_out(range(30), KEEPING)


def test_a_leader_from_outside_the_isr_is_found_out(monkeypatch):
    elect = elections.elect

    def careless(before: Registration, isr: Collection[int], *active: elections.Active, **more: bool) -> Registration:
        return elect(replace(before, isr=before.replicas), before.replicas, *active, **more)

    monkeypatch.setattr(elections, "elect", careless)
    faults = ["5s throttle 2 to 0", "15s kill 1"]
    run = Simulate(topics="orders:1x3", load=["orders=steady:50"], fault=faults, lag_max_ms=2_000, duration=40)
    with pytest.raises(AssertionError, match="a clean election of one not in sync"):
        keeps_every_promise(run)
