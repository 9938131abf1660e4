"""Scenarios from the command line: listed, played, explained, and told to a lake like any other cluster."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from generators.simulator import load
from generators.simulator.explain import lines
from generators.simulator.faults import SHAPES, usage
from generators.simulator.scenarios import SCENARIOS, Performance, Scenario, play
from pipelines.errors import UsageError, nearest
from pipelines.simulate.run import Lake, watch

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

    from generators.simulator.simulation import Simulation
    from generators.simulator.telemetry import Telemetry
    from generators.simulator.truth import Truth


class Told(NamedTuple):
    """A scenario as it was played, and what became of its clusters, by their names."""

    performance: Performance
    events: dict[str, pa.Table]
    truth: dict[str, pa.Table]


def named(name: str) -> Scenario:
    """The scenario of that name. Raises UsageError."""
    if name not in SCENARIOS:
        raise UsageError(f"there is no scenario {name}; {nearest(name, SCENARIOS)} (--list names them all)")
    return SCENARIOS[name]


def tell(scenario: Scenario, level: int) -> Told:
    """Plays a scenario with telemetry and truth of each of its clusters."""
    watched: list[tuple[str, Telemetry, Truth]] = []

    def see(simulation: Simulation) -> None:
        watched.append((simulation.settings.cluster, *watch(simulation, level)))

    performance = play(scenario, see)
    truths = [truth.close() for _, _, truth in watched]
    return Told(performance, {name: told.close() for name, told, _ in watched}, _joined(truths))


def _joined(truths: list[dict[str, pa.Table]]) -> dict[str, pa.Table]:
    import pyarrow as pa

    return {name: pa.concat_tables([truth[name] for truth in truths]) for name in (truths[0] if truths else ())}


def write(told: Told, lake: str, storage_options: Mapping[str, str] | None = None) -> int:
    """Every cluster of a scenario to bronze, under its own name; the number of events."""
    sinks = {name: Lake(lake, name, storage_options) for name in told.events}
    for name, events in told.events.items():
        sinks[name].write(events)
    return sum(map(len, told.events.values()))


def explained(told: Told, steps: bool) -> Iterator[str]:
    """What the scenario shows; all its steps if wanted, else what came out."""
    performance = told.performance
    scenario = performance.scenario
    yield f"{scenario.name} ({scenario.system} of 18): {scenario.purpose}"
    yield ""
    yield from lines(performance.acts if steps else [], performance.result)


def listed() -> Iterator[str]:
    """All scenarios, faults and loads by name."""
    width = max(map(len, SCENARIOS))
    yield "Scenarios (--scenario NAME [--explain]):"
    yield from (f"  {s.system:>2}  {name:<{width}}  {s.purpose}" for name, s in SCENARIOS.items())
    usages = {do: usage(do) for do in SHAPES}
    width = max(map(len, usages.values()))
    yield ""
    yield 'Faults (--fault "12s freeze 3 for 20s", or [[fault]] tables of a --faults file):'
    yield from (f"  {how:<{width}}  {SHAPES[do].purpose}" for do, how in usages.items())
    yield ""
    yield 'Loads (--load "[TOPIC=]SHAPE:RATE[,KEY=VALUE...]"): ' + ", ".join(load.SHAPES)
