"""Runs a plan: simulates the cluster, writes its telemetry, and records the truth."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from time import perf_counter
from typing import TYPE_CHECKING, NamedTuple

from generators.simulator.clients.applications import Delivered
from generators.simulator.clients.load import Answers, Driver, Load
from generators.simulator.cluster.simulation import Simulation
from generators.simulator.faults.injection import Done, Injection
from generators.simulator.truth.recorder import resting_fetches
from generators.simulator.truth.tables import Truth
from pipelines.commands.simulate.plan import Plan
from pipelines.commands.simulate.sinks import Sink, new_writer

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

    from generators.simulator.fleet.fleet import Fleet
    from generators.simulator.fleet.output_buffers import Part

Say = Callable[[str], None]
SAMPLE_EVERY = 10.0
"""Seconds between two samples of the HWs of a fleet."""
PIECES = 10
"""How many times a run hands over its telemetry."""


class Outcome(NamedTuple):
    """Outcome of a run; a fleet has no answers to producers, and its truth is in `sampled_truth`."""

    plan: Plan
    summary: str
    faults: list[Done]
    seconds: float
    """Of the wall clock."""
    truth: Mapping[str, pa.Table] | None = None
    answers: Answers | None = None
    delivered: Sequence[tuple[Load, str, Delivered]] = ()
    """What consumers find in the end of the records of producers."""
    sampled_truth: Mapping[str, pa.Table] | None = None
    """The truth of a fleet: rare events, and samples of the HWs of all other partitions."""


def run(plan: Plan, sink: Sink, say: Say) -> Outcome:
    """Simulates the plan step by step, from beginning to end."""
    began = perf_counter()
    simulation = Simulation(plan.settings)
    on_resting_fetch = sink.begin(simulation, plan.level)
    truth = watch(simulation)
    if on_resting_fetch is not None:
        simulation.rest = resting_fetches(on_resting_fetch, truth)
    simulation.start()
    injection = Injection(simulation, plan.faults)
    driver = Driver(simulation, plan.loads, plan.seconds, plan.settings.seed)
    for piece in range(1, PIECES + 1):
        simulation.run(plan.seconds / PIECES)
        simulation.emit_resting()
        sink.flush()
        say(f"{plan.seconds * piece / PIECES:,.0f} of {plan.seconds:,.0f} s, {sink.summary}")
    sink.close()
    delivered = list(driver.delivered())
    return Outcome(plan, sink.summary, injection.done, perf_counter() - began, truth.close(), driver.answers, delivered)


def watch(simulation: Simulation) -> Truth:
    """The truth of a cluster that is not started yet."""
    truth = Truth(simulation.settings)
    simulation.attach(truth)
    return truth


def run_fleet(plan: Plan, lake: str, storage_options: Mapping[str, str], say: Say, truth: bool = False) -> Outcome:
    """Simulates very many partitions: the steady ones in compiled rounds, straight into a lake's files."""
    from generators.simulator.fleet.fleet import Fleet
    from generators.simulator.fleet.writer import Writer

    began = perf_counter()
    sample_every = SAMPLE_EVERY if truth else None
    fleet = Fleet(plan.settings, plan.loads, plan.seconds, faults=plan.faults, sample_every=sample_every)
    writer = new_writer(lake, plan.settings.cluster, storage_options)
    rows = Writer(lake, writer, storage_options).write(_with_progress(fleet, plan, say))
    summary = f"{rows:,} events of {len(plan.settings.brokers) + 1} sources"
    sampled_truth = fleet.truth.close() if fleet.truth is not None else None
    return Outcome(plan, summary, fleet.injection.done, perf_counter() - began, sampled_truth=sampled_truth)


def _with_progress(fleet: Fleet, plan: Plan, say: Say) -> Iterator[Part]:
    rows = 0
    for part in fleet.parts():
        rows += len(part)
        passed = (fleet.simulation.event_queue.now - fleet.start) / 1_000_000
        say(f"{passed:,.0f} of {plan.seconds:,.0f} s, {rows:,} events")
        yield part
