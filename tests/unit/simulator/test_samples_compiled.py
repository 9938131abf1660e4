"""The compiled rules for samples that change offsets only give what the plain ones give for all of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields

import numpy as np
import pyarrow as pa
import pytest

from generators.simulator.truth.compare import rules_of
from pipelines.commands.simulate.plan import plan
from pipelines.replication import Facts, Reconstructor, Rules
from pipelines.replication.batch.sampled_rows import SampledRows
from pipelines.settings import Simulate
from tests.unit.simulator.random_runs import begin, command, seeds
from tests.unit.simulator.simulated_watcher import SimulatedWatcher
from tests.unit.simulator.test_samples_contain_truth import any_run, losing_run

PARTS = 12


def sampled(run: Simulate) -> tuple[pa.Table, Rules]:
    """What a watcher writes of a run, and the rules of its cluster."""
    planned = plan(run)
    watcher = SimulatedWatcher(planned.settings.cluster, run.seed)
    begin(planned, [watcher]).run(planned.seconds)
    return watcher.events(), rules_of(planned.settings)


def steps(events: pa.Table, rules: Rules, restored: bool) -> Iterator[tuple[Facts, pa.Table, Reconstructor]]:
    """Facts, and the present after each part; with `restored` every part is read by one that begins with a snapshot."""
    machine, size = Reconstructor(rules), -(-len(events) // PARTS)
    for begin_at in range(0, len(events), size):
        if restored:
            machine = Reconstructor.restore(machine.snapshot())
        yield machine.update(events.slice(begin_at, size)), machine.health(), machine
    yield machine.finish(), machine.health(), machine


@pytest.fixture
def plainly(monkeypatch):
    """Reads everything by the plain rules."""

    def read(events: pa.Table, rules: Rules) -> list[tuple[Facts, pa.Table]]:
        with monkeypatch.context() as patched:
            nothing = property(lambda rows: np.zeros(len(rows.numbers), dtype=np.bool_))
            patched.setattr(SampledRows, "only_samples", nothing)
            return [(facts, present) for facts, present, _ in steps(events, rules, restored=False)]

    return read


@pytest.mark.parametrize("seed", seeds(8))
@pytest.mark.parametrize("drawn", [any_run, losing_run])
def test_compiled_rules_for_samples_give_the_facts_and_the_present_of_the_plain_ones(drawn, seed, plainly):
    run = drawn(seed)
    events, rules = sampled(run)
    expected = plainly(events, rules)
    for restored in (False, True):
        for (facts, present, _), (plain, then) in zip(steps(events, rules, restored), expected, strict=True):
            for name in (field.name for field in fields(Facts)):
                assert getattr(facts, name).equals(getattr(plain, name)), (name, restored, command(run))
            assert present.equals(then), (restored, command(run))


def test_partitions_are_read_by_the_compiled_rules_while_only_offsets_change():
    events, rules = sampled(any_run(0))
    counts = [len(machine.state.steady.numbers()) for _, _, machine in steps(events, rules, restored=False)]
    assert max(counts) == len(machine_of_all(events, rules).state.partition_keys.keys)


def machine_of_all(events: pa.Table, rules: Rules) -> Reconstructor:
    *_, (_, _, machine) = steps(events, rules, restored=False)
    return machine
