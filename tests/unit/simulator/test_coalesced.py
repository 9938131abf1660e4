"""Facts of incidents are the same from coalesced telemetry: every table, whatever the level, the rules, the rounds.

HWMARK_SEEDS=300 pytest tests/unit/simulator/test_coalesced.py tries as many.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pyarrow as pa
import pytest

from generators.brokerlogs.ingest import read_logs
from generators.brokerlogs.tailing.coalesce import longest
from generators.simulator.telemetry.levels import FULL, INFO, LEAN
from pipelines.commands.simulate.plan import plan
from pipelines.replication import Rules, replay
from pipelines.settings import Simulate
from tests.simulated.kafka_logs import KafkaLogs
from tests.unit.ingest.coalescing import coalesced, differing, plain
from tests.unit.simulator.random_runs import again, begin, run_of, seeds
from tests.unit.simulator.simulated_runs import simulated

pytestmark = pytest.mark.long

BUSY = ["orders=steady:60"]
"""Some partitions busy, so that fetches come often, and others quiet."""


def rounds(events: pa.Table, random: Random) -> list[int]:
    return sorted(random.sample(range(1, len(events)), min(len(events) // 2, random.choice([0, 3, 50]))))


def assert_same(events: pa.Table, rules: Rules, random: Random, longest_ms: int) -> int:
    """The facts are the same; how many rows went."""
    events = plain(events)
    few = coalesced(events, longest_ms, rounds(events, random))
    assert differing(replay(events, rules), replay(few, rules)) == []
    return len(events) - len(few)


@pytest.mark.sampled(9)
@pytest.mark.sampled(4)
@pytest.mark.parametrize("seed", seeds(12))
@pytest.mark.parametrize("level", [FULL, LEAN, INFO])
def test_an_incident(seed, level):
    random = Random(seed)
    run = again(run_of(seed), load=BUSY, lag_max_ms=random.choice([600, 2_000, 30_000]), clock_skew_ms=seed % 2 * 4_000)
    events, rules, _ = simulated(run, level)
    went = assert_same(events, replace(rules, replica_hw=seed % 2 == 1), random, longest(rules.lag_max_ms))
    assert level == FULL or went == 0, "where fetches are not reported none goes"


@pytest.mark.nightly
def test_incidents_have_runs_to_coalesce():
    events, rules, _ = simulated(again(run_of(3), load=BUSY))
    assert assert_same(events, rules, Random(0), longest(rules.lag_max_ms)) > len(events) // 6


@pytest.mark.parametrize("version", ["0.10", "2.8", "3.6", "4.1"])
@pytest.mark.sampled(2)
def test_the_rules_of_each_version(version):
    run = Simulate(
        topics="orders:2x3,clicks:3x3", load=BUSY, duration=25, version=version, fault=["8s freeze 3 for 9s"]
    )
    events, rules, _ = simulated(run)
    assert assert_same(events, rules, Random(1), longest(rules.lag_max_ms)) > len(events) // 6


def test_the_logs_of_a_simulated_kafka(tmp_path):
    run = Simulate(topics="orders:2x3,clicks:3x3", load=BUSY, duration=25, fault=["8s freeze 3 for 9s", "15s stop 1"])
    planned = plan(run)
    logs = KafkaLogs(planned.settings, tmp_path, FULL)
    begin(planned, [logs]).run(planned.seconds)
    logs.close()
    events = read_logs([tmp_path], "c")
    assert assert_same(events, Rules(), Random(1), longest(30_000)) > len(events) // 6
