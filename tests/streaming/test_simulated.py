"""Simulated clusters through Spark: the silver tables are those of `replay`, whatever is done to the telemetry."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from generators.simulator.clients.load import Driver, Load
from generators.simulator.cluster.settings import Settings, Topic
from generators.simulator.cluster.simulation import Simulation
from generators.simulator.faults.injection import Injection
from generators.simulator.faults.script import parse
from generators.simulator.telemetry.rows import Telemetry
from pipelines.lake.bronze import append_events, read_events
from pipelines.lake.lake import Lake
from pipelines.replication import Facts, replay
from pipelines.streaming.job import run
from pipelines.streaming.options import RunOptions
from pipelines.streaming.tables import KINDS
from tests.simulated.telemetry_damage import arrivals, by_source, deliveries, duplicate
from tests.simulated.truth_differences import rules_of
from tests.streaming.shell import added_up, same_rows

FAULTS = ("4s kill 1 for 12s", "20s throttle 3 to 1 for 8s", "30s rolling-restart for 2s every 6s")


def cluster(seed):
    """Telemetry of a cluster of its own under faults, and its settings."""
    settings = Settings(
        cluster=f"seed-{seed}", seed=seed, lag_max_ms=3_000, session_timeout_ms=5_000,
        topics=(Topic("orders", 3, min_isr=2), Topic("clicks", 2, 2, unclean=True)),
    )  # fmt: skip
    telemetry = Telemetry(settings)
    simulation = Simulation(settings, [telemetry])
    telemetry.follow(simulation)
    simulation.start()
    Injection(simulation, map(parse, FAULTS))
    Driver(simulation, [Load("steady", 30.0, acks=-1)], 55, seed)
    simulation.run(60)
    return settings, telemetry.close()


@pytest.mark.spark
def test_cut_reordered_repeated_and_resumed(spark, tmp_path):
    lake, clusters = str(tmp_path / "lake"), [cluster(seed) for seed in (1, 2)]
    struck = [duplicate(events, 0.05, seed).events for seed, (_, events) in enumerate(clusters)]
    events = pa.concat_tables(struck)
    late = np.concatenate([by_source(one, arrivals(one, 0.05, 3, most_ms=5_000)) for one in struck])
    commits = list(deliveries(events, late, every_ms=8_000))
    rules = rules_of(clusters[0][0])
    for version, commit in enumerate(commits):
        append_events(lake, commit, app_id="simulated", version=version)
        if version == len(commits) // 2:
            run(lake, rules, RunOptions(buckets=4))
    run(lake, rules, RunOptions(buckets=4, drain=True))
    drained = read_events(lake)
    expected = Facts.concat([replay(of(drained, settings.cluster), rules) for settings, _ in clusters])
    assert expected.isr_changes.num_rows > 20
    for kind in KINDS:
        table, want = Lake(lake, {}).open(kind).to_pyarrow_table(), getattr(expected, kind)
        if kind == "minute_stats":
            assert added_up(table) == added_up(want)
        else:
            assert same_rows(table, but=["quarantined_at"]) == same_rows(want, but=["quarantined_at"]), kind


def of(events, name):
    """The events of one cluster, its closing row among them."""
    return events.filter(pc.equal(events["cluster"], name))
