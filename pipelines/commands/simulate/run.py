"""Runs a plan: the cluster moves, its telemetry goes where it is wanted, and the truth is kept."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from time import perf_counter
from typing import TYPE_CHECKING, NamedTuple

from generators.simulator.clients.applications import Delivered
from generators.simulator.clients.load import Answers, Driver, Load
from generators.simulator.cluster.happening import Happening
from generators.simulator.cluster.simulation import Simulation
from generators.simulator.faults.injection import Done, Injection
from generators.simulator.truth.tables import Truth
from pipelines.commands.simulate.plan import Plan
from pipelines.commands.simulate.sinks import Rested, Sink, new_writer

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

    from generators.simulator.fleet.fleet import Fleet
    from generators.simulator.fleet.parts import Part

Say = Callable[[str], None]
LOOK_EVERY = 10.0
"""Seconds between two looks at the HWs of a fleet."""
PIECES = 10
"""So many times a run hands over what was told meanwhile."""


class Outcome(NamedTuple):
    """What a run did and told; of a fleet answers to producers are not kept, and the truth is what `looks` has."""

    plan: Plan
    told: str
    faults: list[Done]
    seconds: float
    """Of the wall clock."""
    truth: Mapping[str, pa.Table] | None = None
    answers: Answers | None = None
    delivered: Sequence[tuple[Load, str, Delivered]] = ()
    """What consumers find in the end of what producers have sent."""
    looks: Mapping[str, pa.Table] | None = None
    """The truth of a fleet: rare events, and the HWs of all other partitions now and then."""


def run(plan: Plan, sink: Sink, say: Say) -> Outcome:
    """Simulates the plan step by step, from beginning to end."""
    began = perf_counter()
    simulation = Simulation(plan.settings)
    rested = sink.begin(simulation, plan.level)
    truth = watch(simulation)
    if rested is not None:
        simulation.rest = _resting(rested, truth)
    simulation.start()
    injection = Injection(simulation, plan.faults)
    driver = Driver(simulation, plan.loads, plan.seconds, plan.settings.seed)
    for piece in range(1, PIECES + 1):
        simulation.run(plan.seconds / PIECES)
        simulation.tell_of_rest()
        sink.flush()
        say(f"{plan.seconds * piece / PIECES:,.0f} of {plan.seconds:,.0f} s, {sink.told}")
    sink.close()
    delivered = list(driver.delivered())
    return Outcome(plan, sink.told, injection.done, perf_counter() - began, truth.close(), driver.answers, delivered)


def _resting(rested: Rested, truth: Truth) -> Rested:
    def tell(fetch: Happening) -> None:
        rested(fetch)
        truth.heard(fetch.broker, fetch.ts)

    return tell


def watch(simulation: Simulation) -> Truth:
    """The truth of a cluster that has yet to start."""
    truth = Truth(simulation.settings)
    simulation.observers.append(truth)
    truth.follow(simulation)
    return truth


def run_fleet(plan: Plan, lake: str, storage_options: Mapping[str, str], say: Say, truth: bool = False) -> Outcome:
    """Simulates very many partitions: the steady ones in compiled rounds, straight into a lake's files."""
    from generators.simulator.fleet.fleet import Fleet
    from generators.simulator.fleet.writer import Writer

    began = perf_counter()
    look_every = LOOK_EVERY if truth else None
    fleet = Fleet(plan.settings, plan.loads, plan.seconds, faults=plan.faults, look_every=look_every)
    writer = new_writer(lake, plan.settings.cluster, storage_options)
    rows = Writer(lake, writer, storage_options).write(_heard(fleet, plan, say))
    told = f"{rows:,} events of {len(plan.settings.brokers) + 1} sources"
    looks = fleet.truth.close() if fleet.truth is not None else None
    return Outcome(plan, told, fleet.injection.done, perf_counter() - began, looks=looks)


def _heard(fleet: Fleet, plan: Plan, say: Say) -> Iterator[Part]:
    rows = 0
    for part in fleet.parts():
        rows += len(part)
        passed = (fleet.simulation.agenda.now - fleet.start) / 1_000_000
        say(f"{passed:,.0f} of {plan.seconds:,.0f} s, {rows:,} events")
        yield part
