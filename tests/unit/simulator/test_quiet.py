"""Nothing cries wolf: what a cluster goes through in a healthy life gives no critical finding and fires no alert.

HWMARK_SEEDS=300 pytest tests/unit/simulator/test_quiet.py tries as many seeds of each.
"""

from __future__ import annotations

from datetime import timedelta

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from pipelines.alerting.evidence import SCHEMAS, Evidence, evidence_of
from pipelines.alerting.rules import parse
from pipelines.replication import Facts, Reconstructor, Rules
from pipelines.settings import Simulate
from tests.simulated.telemetry_damage import restart_sources
from tests.unit.alerting.evidence_rows import alert_states
from tests.unit.simulator.random_runs import command, seeds
from tests.unit.simulator.simulated_runs import complaints, simulated

pytestmark = pytest.mark.long

PROMPT = parse({
    "offline": {"for_s": 30}, "under_min_isr": {"for_s": 30}, "out_of_sync": {"for_s": 60}, "at_risk": {"for_s": 60},
})  # fmt: skip
"""The rules as shipped, but for durations that suit a run of two minutes."""


def judged(events: pa.Table, rules: Rules) -> tuple[Facts, list[str]]:
    """What was reconstructed, and everything that somebody would be woken for."""
    reconstructor = Reconstructor(rules)
    facts = Facts.concat([reconstructor.update(events), reconstructor.finish()])
    found = evidence(events, facts, reconstructor.health())
    now = pc.max(events["ts"]).as_py() + timedelta(seconds=1)
    alarms = [f"{state.rule} of {state.subject}: {state.summary}" for state in alert_states(found, PROMPT, now)]
    critical = [row for row in facts.hw_regressions.to_pylist() if row["severity"] == "critical"]
    return facts, alarms + [f"{row['class']} of {row['topic']}-{row['partition']} is critical" for row in critical]


def evidence(events: pa.Table, facts: Facts, health: pa.Table) -> Evidence:
    """What the alert rules would read of the lake."""
    kind = events["event_type"]
    simulated = events.filter(pc.equal(kind, "progress")).group_by(["cluster", "source_id", "broker_id"])
    reported = simulated.aggregate([("ts", "max")]).rename_columns(SCHEMAS["reported"].names[:4])
    present = events.group_by(["cluster"]).aggregate([("ts", "max")])
    tables = {
        "regressions": facts.hw_regressions,
        "min_isr": facts.partition_hw.filter(pc.field("kind").isin(["freeze", "thaw", "term_start"])),
        "disagreements": facts.partition_hw.filter(pc.field("agreement") == "disagree"),
        "isr": facts.isr_changes,
        "sync": facts.replica_sync,
        "gaps": facts.telemetry_gaps,
        "health": health,
        "leaderships": events.filter(pc.is_in(kind, pa.array(["leader", "follower", "election"]))),
        "broker_states": events.filter(pc.equal(kind, "broker_state")),
        "reported": reported.append_column(
            "holds_s", pa.nulls(len(reported), SCHEMAS["reported"].field("holds_s").type)
        ),
        "clock": present.rename_columns(SCHEMAS["clock"].names),
    }
    return evidence_of(**{name: table.select(SCHEMAS[name].names) for name, table in tables.items()})


LOAD = ["steady:20,acks=all,tick=1s"]
CLOCKS = "clocks wrong by up to 5 s"
CALM = {
    "rolling restart": {"fault": ["5s rolling-restart for 4s every 15s"]},
    "rolling upgrade of brokers of two versions": {
        "version": "3.9",
        "fault": ["5s rolling-upgrade to 4.0 for 4s every 15s"],
    },
    "throttled reassignment": {
        "brokers": 4,
        "fault": ["20s throttle 4 to 30 for 40s", "20s reassign orders-0 to 2,3,4", "20s reassign orders-1 to 4,1,2"],
    },
    "preferred elections": {"fault": ["5s stop 1 for 4s", "30s elect-preferred", "60s elect-preferred"]},
    "topic deleted and created again": {
        "fault": ["10s delete-topic orders", "10s create-topic orders:2x3:min-isr=2", "40s delete-topic orders",
                  "43s create-topic orders:2x3:min-isr=2"],
    },
    "leader killed and back in the same epoch": {
        "session_timeout_ms": 20_000, "version": "4.0", "fault": ["10s kill 1 for 2s", "50s kill 2 for 2s"],
    },
    CLOCKS: {"clock_skew_ms": 5_000, "fault": ["5s rolling-restart for 4s every 15s"]},
}  # fmt: skip


@pytest.mark.sampled(3)
@pytest.mark.parametrize("seed", seeds(2))
@pytest.mark.parametrize("what", CALM)
def test_a_healthy_cluster_is_quiet(what, seed):
    run = Simulate(**{"topics": "orders:2x3:min-isr=2", "load": LOAD, "duration": 100, "seed": seed} | CALM[what])
    events, rules, truth = simulated(run)
    assert len(truth["truth_hw"]) > 100
    facts, alarms = judged(events, rules)
    assert len(facts.partition_hw) > 100
    # Whether a broker started before or after a partition was created is not known by such clocks.
    careful = [alarm for alarm in alarms if what == CLOCKS and alarm.startswith("loss_not_excluded")]
    assert alarms == careful, command(run)


@pytest.mark.parametrize("seed", seeds(2))
def test_a_log_rotated_under_a_reader_that_starts_again_is_quiet(seed):
    """A writer comes back with a greater epoch and numbers from 0: recorded (`reset`), but no alert."""
    events, rules, _ = simulated(Simulate(topics="orders:2x3", load=LOAD, duration=60, seed=seed))
    struck = restart_sources(events, 2 / len(events), seed)
    facts, alarms = judged(struck.events, rules)
    assert alarms == []
    assert [row for row in complaints(facts) if not row.startswith("a reset")] == []


def test_what_is_wrong_is_reported():
    """The same judge wakes somebody for a real loss, an outage and a replica that stays behind."""
    faults = ["5s power-off 1 for 3s", "60s kill 2", "60s kill 3", "120s kill 1", "30s throttle 3 to 0"]
    run = Simulate(
        topics="orders:2x3:min-isr=2", load=LOAD, duration=200, fault=faults, version="3.9", session_timeout_ms=20_000,
        lag_max_ms=10_000,
    )  # fmt: skip
    events, rules, truth = simulated(run)
    assert "committed_loss" in truth["truth_regressions"]["class"].to_pylist()
    alarms = " ".join(judged(events, rules)[1])
    for rule in ("loss of", "committed_loss", "under_min_isr", "offline", "out_of_sync"):
        assert rule in alarms
