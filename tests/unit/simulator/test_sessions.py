"""Partitions at rest: what happens in a cluster, and what is made of its telemetry, is the same as without."""

from __future__ import annotations

import pyarrow as pa
import pytest

from generators.simulator.clients.load import Driver
from generators.simulator.cluster.settings import Settings, Topic
from generators.simulator.cluster.simulation import Simulation
from generators.simulator.cluster.versions import VERSIONS
from generators.simulator.faults.injection import Injection
from generators.simulator.faults.script import parse
from generators.simulator.telemetry.rows import Telemetry
from generators.simulator.truth.tables import Truth
from pipelines.commands.simulate.plan import Plan, plan
from pipelines.replication import replay
from tests.simulated.truth_differences import rules_of
from tests.streaming.shell import same_rows
from tests.unit.simulator.random_runs import RECENT, command, run_of, seeds


def reported(planned: Plan, resting: bool) -> tuple[pa.Table, dict[str, pa.Table]]:
    """Events, drained every second, and the truth."""
    settings = planned.settings
    telemetry, truth = Telemetry(settings, fetch_every_ms=settings.lag_max_ms // 3), Truth(settings)

    def rested(fetch):
        telemetry.observe(fetch)
        truth.seen_alive(fetch.broker, fetch.ts)

    simulation = Simulation(settings, [telemetry, truth], rest=rested if resting else None)
    telemetry.follow(simulation)
    truth.follow(simulation)
    simulation.start()
    Injection(simulation, planned.faults)
    Driver(simulation, planned.loads, planned.seconds, settings.seed)
    parts = []
    for _ in range(int(planned.seconds)):
        simulation.run(1)
        simulation.emit_resting()
        parts.append(telemetry.drain())
    return pa.concat_tables([*parts, telemetry.close()]), truth.close()


@pytest.mark.sampled(4)
@pytest.mark.parametrize("seed", seeds(8))
def test_truth_and_facts_are_those_of_fetches_one_by_one(seed):
    run = run_of(seed, versions=RECENT)
    planned = plan(run)
    (events, truth), (resting, same_truth) = reported(planned, False), reported(planned, True)
    assert same_truth == truth, command(run)
    rules = rules_of(planned.settings)
    expected, facts = replay(events, rules), replay(resting, rules)
    for name in set(expected.tables()) - {"minute_stats"}:
        assert same_rows(getattr(facts, name)) == same_rows(getattr(expected, name)), f"{name}: {command(run)}"


def quiet(seconds: float, *faults: str) -> tuple[Simulation, list]:
    """A cluster that takes one record and has no load afterwards, only faults; and its rows for fetches at rest."""
    rested: list = []
    settings = Settings(topics=(Topic("orders", 4),))
    simulation = Simulation(settings, rest=rested.append)
    simulation.start()
    Injection(simulation, map(parse, faults))
    simulation.produce("orders", 0, 5)
    simulation.run(seconds)
    return simulation, rested


def test_a_fetch_of_partitions_at_rest_names_none_of_them():
    simulation, _ = quiet(5)
    asked = [f.flying.asked for b in simulation.brokers.values() for f in b.fetchers.values() if f.flying]
    assert asked
    assert not any(asked)


def test_the_last_fetch_is_emitted_before_the_append_that_ends_the_rest():
    simulation, rested = quiet(5)
    before = simulation.event_queue.now
    assert rested == []
    simulation.produce("orders", 0, 1)
    simulation.run(0.1)
    assert sorted(f.replica for f in rested) == [2, 3]
    assert all(before - 500_000 <= f.at < before and f.leo == f.leader_leo == 5 for f in rested)
    followers = simulation.replica("orders", 0, 1).leader_partition.followers.values()
    assert {f.leo for f in followers} == {6}


def test_a_follower_that_freezes_at_rest_is_out_of_sync_from_its_last_fetch_on():
    simulation, _ = quiet(5, "5s freeze 2")
    simulation.produce("orders", 0, 1)
    simulation.run(1)
    frozen, well = (simulation.replica("orders", 0, 1).leader_partition.followers[b] for b in (2, 3))
    assert 900 < simulation.brokers[1].clock.ms - frozen.caught_up < 1_600
    assert well.caught_up - frozen.caught_up > 400


def test_by_messages_nobody_rests_for_that_rule_looks_at_every_fetch():
    settings = Settings(topics=(Topic("orders", 1),), version=VERSIONS["0.8"])
    simulation = Simulation(settings, rest=lambda fetch: pytest.fail("rested"))
    simulation.start()
    simulation.produce("orders", 0, 5)
    simulation.run(3)
    simulation.emit_resting()
