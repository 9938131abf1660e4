"""A reassignment of an hour sends nothing: a simulated cluster, as a watcher sees it, with the shipped settings."""

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from generators.simulator.cluster.settings import START
from pipelines.alerting.evidence import SCHEMAS, evidence_of
from pipelines.commands.simulate.plan import plan
from pipelines.lake.queries import moment
from pipelines.replication import Reconstructor, Rules
from pipelines.settings import Simulate
from tests.unit.notify.test_plays import HOUR, Play
from tests.unit.simulator.random_runs import begin
from tests.unit.simulator.simulated_watcher import SimulatedWatcher

pytestmark = pytest.mark.nightly

STEP = 30
RUN = Simulate(
    seed=1, brokers=4, version="4.1", duration=HOUR + 300, topics="orders:1x3:min-isr=2",
    load=["orders=steady:5,acks=all,tick=1s"],
    fault=["20s cut 1-4 for 60m", "20s cut 2-4 for 60m", "20s cut 3-4 for 60m", "30s reassign orders-0 to 1,2,4"],
)  # fmt: skip


class Watcher(SimulatedWatcher):
    """It is told what is being reassigned, as ListPartitionReassignments answers, and misses no round."""

    def __init__(self, cluster):
        super().__init__(cluster, 1, holes=0)
        self.every_ms = 5_000

    def _metadata(self):
        seen = super()._metadata()
        registered = self.simulation.controller.partitions
        return seen and seen.with_adding({key: frozenset(one.adding) for key, one in registered.items() if one.adding})


def parts(events):
    """(seconds, rows that came in the STEP before)"""
    ts = pc.subtract(events["ts"].cast(pa.int64()), START)
    for seconds in range(STEP, int(RUN.duration) + STEP, STEP):
        yield seconds, events.filter(pc.equal(pc.divide(ts, STEP * 1_000_000), seconds // STEP - 1))


def test_a_reassignment_of_an_hour_sends_no_message():
    planned, job, play = plan(RUN), Reconstructor(Rules()), Play()
    watcher = Watcher("prod")
    begin(planned, [watcher]).run(planned.seconds)
    seen, assigned = {name: schema.empty_table() for name, schema in SCHEMAS.items()}, set()
    for seconds, events in parts(watcher.events()):
        facts = job.update(events)
        hws, kinds = facts.partition_hw, events["event_type"]
        new = {
            "regressions": facts.hw_regressions, "sync": facts.replica_sync, "isr": facts.isr_changes,
            "min_isr": hws.filter(pc.is_in(hws["kind"], pa.array(["freeze", "thaw", "term_start"]))),
            "leaderships": events.filter(pc.is_in(kinds, pa.array(["leader", "follower", "election"]))),
            "broker_states": events.filter(pc.equal(kinds, "broker_state")),
        }  # fmt: skip
        seen |= {
            name: pa.concat_tables([seen[name], rows.select(SCHEMAS[name].names).cast(SCHEMAS[name])])
            for name, rows in new.items()
        }
        health, brokers, *_ = job.present()
        assigned.update(map(tuple, health["ar"].to_pylist()))
        now = moment(START + seconds * 1_000_000)
        at_present = {
            name: rows.select(SCHEMAS[name].names).cast(SCHEMAS[name])
            for name, rows in (("health", health), ("brokers", brokers))
        }
        clock = [{"cluster": "prod", "clock": now}]
        play.evaluate(evidence_of(**seen | at_present | {"clock": clock}), ["prod"], now)
        if seconds < HOUR:
            assert (1, 2, 4) not in assigned
    assert (health["ar"].to_pylist(), health["isr"].to_pylist()) == ([[1, 2, 4]], [[1, 2, 4]])
    assert (play.sent, play.rows) == ([], [])
