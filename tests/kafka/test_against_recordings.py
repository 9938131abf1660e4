"""The simulator against the real thing: given load and faults of a recording, it goes through the same ISR changes.

Times are seconds after the topics were created, about 8 s after the brokers were started; a broker that is started
registers 3.6 s later, when its virtual machine is up.
"""

from collections import defaultdict
from typing import NamedTuple

import pytest

from generators.recordings import traces
from generators.simulator.clients.load import Driver
from generators.simulator.clients.load import parse as load
from generators.simulator.cluster.settings import Settings, Topic
from generators.simulator.cluster.simulation import Simulation
from generators.simulator.cluster.versions import VERSIONS
from generators.simulator.faults.injection import Injection
from generators.simulator.faults.script import parse
from generators.simulator.telemetry.rows import Telemetry
from generators.simulator.truth.tables import Truth
from pipelines.replication import replay
from tests.simulated.truth_differences import rules_of

A, B, C = (3, 1, 2), (1, 2, 3), (2, 3, 1)
"""How topics of three replicas were assigned."""


class Recording(NamedTuple):
    settings: Settings
    loads: tuple[str, ...]
    faults: tuple[str, ...]
    seconds: float


RECORDINGS = {
    "slow_follower": Recording(
        Settings(
            topics=(
                Topic("orders", 4, min_isr=2, assignment=(A, B, C, C)),
                Topic("payments", 2, min_isr=2, assignment=(C, A)),
            ),
            lag_max_ms=6_000,
            session_timeout_ms=30_000,
        ),
        ("orders=steady:80,acks=all,tick=50ms", "payments=steady:30,acks=all,tick=100ms"),
        ("10.7s freeze 3 for 14s", "36.7s freeze 2 for 4s", "50.8s stop 2", "50.9s stop 3", "51s stop 1"),
        53,
    ),
    "leader_crash": Recording(
        Settings(
            topics=(
                Topic("orders", 4, min_isr=2, assignment=(A, B, C, C)),
                Topic("audit", 2, min_isr=1, assignment=(C, A)),
            ),
            lag_max_ms=8_000,
            session_timeout_ms=6_000,
        ),
        ("orders=steady:80,acks=all,tick=50ms", "audit=steady:20,acks=1,tick=100ms"),
        ("10.4s kill 1 for 17.6s", "38.4s stop 2 for 9.6s", "59.3s stop 1", "59.4s stop 2", "59.5s stop 3"),
        62,
    ),
    "unclean_election": Recording(
        Settings(
            topics=(
                Topic("clicks", 2, min_isr=1, unclean=True, assignment=((1, 2), (1, 2))),
                Topic("orders", 2, min_isr=2, unclean=True, assignment=(B, C)),
            ),
            version=VERSIONS["4.0"],
            lag_max_ms=4_000,
            session_timeout_ms=5_000,
        ),
        ("clicks=steady:40,acks=1,tick=50ms", "orders=steady:20,acks=all,tick=100ms"),
        ("8.3s kill 2 for 14.1s", "17.4s kill 1 for 21s", "51.5s stop 2", "51.6s stop 3", "51.7s stop 1"),
        54,
    ),
}


@pytest.fixture(scope="module")
def simulated():
    """Truth and facts of each recording as it is simulated."""
    done = {}

    def run(scenario):
        if scenario not in done:
            settings, loads, faults, seconds = RECORDINGS[scenario]
            telemetry, truth = Telemetry(settings), Truth(settings)
            simulation = Simulation(settings, [telemetry, truth])
            telemetry.follow(simulation)
            truth.follow(simulation)
            simulation.start()
            Injection(simulation, map(parse, faults))
            Driver(simulation, map(load, loads), seconds - 4, settings.seed)
            simulation.run(seconds)
            done[scenario] = truth.close(), replay(telemetry.close(), rules_of(settings))
        return done[scenario]

    return run


def in_order(changes):
    """The ISRs of each partition, one after the other; repeats of the same set are no change."""
    found = defaultdict(list)
    for place, isr in changes:
        if found[place][-1:] != [isr]:
            found[place].append(isr)
    return dict(found)


@pytest.mark.parametrize("scenario", traces.scenarios())
def test_the_same_isr_changes(scenario, simulated, metadata_isr_changes):
    truth, _ = simulated(scenario)
    rows = truth["truth_isr"].to_pylist()
    mine = in_order(((row["topic"], row["partition"]), tuple(sorted(row["isr_after"]))) for row in rows)
    real = [c for c in metadata_isr_changes(scenario) if not c.topic.startswith("__")]
    assert mine == in_order(((c.topic, c.partition), c.isr) for c in real)


@pytest.mark.parametrize("scenario", traces.scenarios())
def test_the_same_verdicts(scenario, simulated, facts_of):
    """Which partitions have lost something, and by what kind of event; in the numbers of offsets loads differ."""
    _, facts = simulated(scenario)

    def losses(reported):
        rows = [row for row in reported.hw_regressions.to_pylist() if row["severity"] == "critical"]
        assert all(row["lost_from"] < row["lost_to"] for row in rows)
        return sorted((row["topic"], row["partition"], row["class"], row["proof"]) for row in rows)

    assert losses(facts) == losses(facts_of(scenario))
    assert bool(losses(facts)) == (scenario == "unclean_election")
