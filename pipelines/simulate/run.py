"""Runs a plan: the cluster moves, its telemetry goes where it is wanted, and the truth is kept."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import TYPE_CHECKING, NamedTuple, Protocol

from generators.simulator.injection import Done, Injection
from generators.simulator.load import Answers, Driver
from generators.simulator.simulation import Simulation
from generators.simulator.telemetry import Telemetry
from generators.simulator.truth import Truth
from pipelines.errors import UsageError
from pipelines.simulate.plan import Plan

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

Say = Callable[[str], None]
PIECES = 10
"""So many times a run hands over what was told meanwhile."""


class Sink(Protocol):
    """Where telemetry goes."""

    def write(self, events: pa.Table) -> None: ...


class Outcome(NamedTuple):
    """What a run did, what was told of it, and what is true."""

    plan: Plan
    events: int
    sources: int
    truth: Mapping[str, pa.Table]
    faults: list[Done]
    answers: Answers
    seconds: float
    """Of the wall clock."""


class Nowhere:
    """Telemetry that nobody wants."""

    def write(self, events: pa.Table) -> None:
        pass


class Lake:
    """Bronze of a lake, one version of this cluster's writer per piece. Raises UsageError where it has any already."""

    def __init__(self, lake: str, cluster: str, storage_options: Mapping[str, str] | None = None) -> None:
        from generators.lake import committed

        self._lake, self._options = lake, storage_options
        self._writer = f"simulate/{cluster}"
        self._version = 0
        if committed(lake, [self._writer], storage_options)[self._writer] is not None:
            raise UsageError(f"lake {lake} has events of a simulated cluster {cluster}: name another --cluster")

    def write(self, events: pa.Table) -> None:
        from generators.lake import append_events

        if len(events):
            append_events(self._lake, events, app_id=self._writer, version=self._version, storage_options=self._options)
            self._version += 1


def run(plan: Plan, sink: Sink, say: Say) -> Outcome:
    """Simulates the plan from beginning to end."""
    began = perf_counter()
    simulation = Simulation(plan.settings)
    telemetry, truth = watch(simulation, plan.level)
    simulation.start()
    injection = Injection(simulation, plan.faults)
    driver = Driver(simulation, plan.loads, plan.seconds, plan.settings.seed)
    told, sources = 0, set[str]()

    def hand_over(events: pa.Table) -> None:
        nonlocal told
        sink.write(events)
        told += len(events)
        sources.update(events["source_id"].unique().to_pylist())

    for piece in range(1, PIECES + 1):
        simulation.run(plan.seconds / PIECES)
        hand_over(telemetry.drain() if piece < PIECES else telemetry.close())
        say(f"{plan.seconds * piece / PIECES:,.0f} of {plan.seconds:,.0f} s, {told:,} events")
    elapsed = perf_counter() - began
    return Outcome(plan, told, len(sources), truth.close(), injection.done, driver.answers, elapsed)


def watch(simulation: Simulation, level: int) -> tuple[Telemetry, Truth]:
    """Telemetry and truth of a cluster that has yet to start."""
    telemetry, truth = Telemetry(simulation.settings, level), Truth(simulation.settings)
    simulation.observers += [telemetry, truth]
    telemetry.follow(simulation)
    truth.follow(simulation)
    return telemetry, truth
