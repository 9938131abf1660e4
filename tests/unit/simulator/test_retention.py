"""Retention by size in a cluster that runs: the rule of segments, without their files."""

from random import Random

import pytest

from generators.simulator.clients.load import Driver, parse
from generators.simulator.cluster.settings import Retention, Settings, Topic
from generators.simulator.cluster.simulation import Simulation
from generators.simulator.storage.segments import SegmentedLog


@pytest.mark.parametrize("seed", range(20))
def test_it_is_the_rule_of_segments(seed):
    random = Random(seed)
    keep, per_segment, start = random.randint(0, 3_000), random.randint(1, 9), 0
    files = SegmentedLog(segment_bytes=per_segment * 100)
    for _ in range(30):
        for _ in range(random.randint(0, 12)):
            files.append(1, 100)
        hw = random.randint(files.start, files.end)
        removed = files.retain(hw, most_bytes=keep)
        before, start = start, Retention(keep, per_segment * 100, 100).start(start, files.end, hw)
        # a last segment that is full and may go makes room for an empty one: where it ends is where both go on
        assert start == files.start, (seed, removed, before, hw, files.end)


def test_a_cluster_keeps_so_much_and_its_followers_follow():
    settings = Settings(topics=(Topic("orders"),), retention=Retention(20_000, 5_000, 100), retention_check_ms=2_000)
    simulation = Simulation(settings)
    simulation.start()
    Driver(simulation, [parse("steady:50")], 30, seed=1)
    simulation.run(33)
    logs = [simulation.replica("orders", 0, b).log for b in (1, 2, 3)]
    assert {log.start for log in logs} == {logs[0].start}
    assert logs[0].start % 50 == 0
    assert 200 <= logs[0].leo - logs[0].start < 250
    assert logs[0].leo == pytest.approx(1_500, abs=30)
