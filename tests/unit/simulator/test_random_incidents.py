"""Kafka's guarantees, at every event, in a cluster to which hypothesis does one thing after the other.

HWMARK_SEEDS=5000 pytest tests/unit/simulator/test_random_incidents.py tries as many.
"""

from __future__ import annotations

from hypothesis import note
from hypothesis import strategies as st
from hypothesis.stateful import rule

from generators.simulator.cluster.settings import SECOND
from generators.simulator.cluster.versions import VERSIONS
from generators.simulator.faults.script import checked
from generators.simulator.faults.spans import topic
from pipelines.commands.simulate.plan import plan
from tests.unit.simulator.random_runs import command
from tests.unit.simulator.test_against_truth import Incident
from tests.unit.simulator.test_invariants import keeps_every_promise


class Acknowledgements(Incident):
    """As `Incident`, and with what its clocks, topics and versions can suffer besides."""

    @rule(broker=st.integers(1, 4), seconds=st.sampled_from([-40, -5, 5, 40]))
    def a_clock_jumps(self, broker: int, seconds: int) -> None:
        self.does("clock-jump", broker, {"by": seconds * SECOND})

    @rule(spec=st.sampled_from(["orders:1x3", "orders:2x2:min-isr=2", "orders:3x1"]))
    def a_topic_is_made_anew(self, spec: str) -> None:
        self.does("delete-topic", "orders")
        self.does("create-topic", topic(spec))

    @rule(version=st.sampled_from(list(VERSIONS)), every=st.sampled_from([4, 10]))
    def brokers_are_upgraded_one_by_one(self, version: str, every: int) -> None:
        self.does("rolling-upgrade", None, {"to": version, "for": SECOND, "every": every * SECOND})

    def teardown(self) -> None:
        if not self.script:
            return
        names = {t.name for t in plan(self.run).settings.topics}
        script = checked(self.script, plan(self.run).settings)
        changes = {"fault": [f.written() for f in script], "duration": self.passed / SECOND + 5}
        load = [f"{name}={self.run.load[0]}" for name in sorted(names)]
        run = self.run.model_copy(update={**changes, "load": load})
        note(command(run))
        keeps_every_promise(run)


Acknowledgements.TestCase.settings = Incident.TestCase.settings
TestPromises = Acknowledgements.TestCase
