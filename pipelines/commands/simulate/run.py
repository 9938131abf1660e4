"""Runs a plan: simulates the cluster, writes its telemetry, and records the truth."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import ceil
from time import perf_counter
from typing import TYPE_CHECKING, NamedTuple

from generators.simulator.clients.applications import Delivered
from generators.simulator.clients.load import Answers, Driver, Load
from generators.simulator.cluster.simulation import Simulation
from generators.simulator.cluster.simulation_event import SimulationEvent
from generators.simulator.faults.injection import Done, Injection
from generators.simulator.truth.tables import Truth
from pipelines.commands.simulate.plan import Plan
from pipelines.commands.simulate.sinks import Sink

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

Say = Callable[[str], None]
PIECES = 10
"""How many times a run hands over its telemetry."""
PIECE_S = 6
"""Seconds after which tiles are handed over at the latest; followers at rest have rows then."""


class Outcome(NamedTuple):
    """Outcome of a run; of tiles that of the first, but for the summary."""

    plan: Plan
    summary: str
    faults: list[Done]
    seconds: float
    """Of the wall clock."""
    truth: Mapping[str, pa.Table]
    answers: Answers
    delivered: Sequence[tuple[Load, str, Delivered]] = ()
    """What consumers find in the end of the records of producers."""


def run(plan: Plan, sink: Sink, say: Say) -> Outcome:
    """Simulates the plan step by step, from beginning to end."""
    began = perf_counter()
    simulation = Simulation(plan.settings)
    on_resting_fetch = sink.begin(simulation, plan.level)
    truth = watch(simulation)
    if on_resting_fetch is not None:

        def rest(fetch: SimulationEvent) -> None:
            """For the truth it shows that its leader was alive."""
            on_resting_fetch(fetch)
            truth.seen_alive(fetch.broker, fetch.ts)

        simulation.rest = rest
    simulation.start()
    injection = Injection(simulation, plan.faults)
    driver = Driver(simulation, plan.loads, plan.seconds, plan.settings.seed)
    often = min(PIECE_S, plan.settings.lag_max_ms / 3000)
    pieces = PIECES if plan.tiles == 1 else ceil(plan.seconds / often)
    for piece in range(1, pieces + 1):
        simulation.run(plan.seconds / pieces)
        simulation.emit_resting()
        sink.flush()
        say(f"{plan.seconds * piece / pieces:,.0f} of {plan.seconds:,.0f} s, {sink.summary}")
    sink.close()
    delivered = list(driver.delivered())
    tables = {name: _of_first_tile(table, plan) for name, table in truth.close().items()}
    return Outcome(plan, sink.summary, injection.done, perf_counter() - began, tables, driver.answers, delivered)


def _of_first_tile(table: pa.Table, plan: Plan) -> pa.Table:
    """A table of truth with the numbers that the partitions of the first tile have."""
    if plan.tiles == 1 or "partition" not in table.column_names:
        return table
    import pyarrow.compute as pc

    at = table.schema.get_field_index("partition")
    numbers = pc.multiply(table["partition"], plan.tiles).cast(table.schema.field(at).type)
    return table.set_column(at, table.schema.field(at), numbers)


def watch(simulation: Simulation) -> Truth:
    """The truth of a cluster that is not started yet."""
    truth = Truth(simulation.settings)
    simulation.attach(truth)
    return truth
