"""Scenarios from the command line: listed, played, explained, and written to a lake like any other cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from generators.simulator.clients import load
from generators.simulator.faults.chance import DRAWS
from generators.simulator.faults.script import SHAPES, usage
from generators.simulator.scenarios import SCENARIOS, SYSTEMS, Performance, Scenario, play
from generators.simulator.scenarios.explain import lines
from pipelines.commands.simulate.run import watch
from pipelines.commands.simulate.sinks import Sink
from pipelines.errors import UsageError, nearest

if TYPE_CHECKING:
    import pyarrow as pa

    from generators.simulator.cluster.simulation import Simulation
    from generators.simulator.truth.tables import Truth


class PlayedScenario(NamedTuple):
    """A scenario as it was played, summaries of the telemetry of its clusters, and the truth of them all."""

    performance: Performance
    summaries: dict[str, str]
    truth: dict[str, pa.Table]


def named(name: str) -> Scenario:
    """The scenario of that name. Raises UsageError."""
    if name not in SCENARIOS:
        raise UsageError(f"there is no scenario {name}; {nearest(name, SCENARIOS)} (--list names them all)")
    return SCENARIOS[name]


def play_scenario(scenario: Scenario, sink: Callable[[str], Sink], level: int) -> PlayedScenario:
    """Play a scenario; `sink` returns the sink for the telemetry of a cluster by name."""
    import pyarrow as pa

    sinks: dict[str, Sink] = {}
    truths: list[Truth] = []

    def see(simulation: Simulation) -> None:
        name = simulation.settings.cluster
        sinks[name] = sink(name)
        sinks[name].begin(simulation, level)
        truths.append(watch(simulation))

    performance = play(scenario, see)
    for one in sinks.values():
        one.close()
    summaries = {name: one.summary for name, one in sinks.items()}
    closed = [truth.close() for truth in truths]
    return PlayedScenario(
        performance, summaries, {name: pa.concat_tables(t[name] for t in closed) for name in closed[0]}
    )


def explained(played: PlayedScenario, steps: bool) -> Iterator[str]:
    """The scenario as text: all its steps, or only what came out."""
    performance = played.performance
    scenario = performance.scenario
    yield f"{scenario.name} ({scenario.system} of {SYSTEMS}): {scenario.purpose}"
    yield ""
    yield from lines(performance.acts, performance.result, steps)


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
    yield "  acks=0|1|all, hot=1.1 (Zipf), tick=100ms; bursts: every=10s, length=2s; wave: period=24h, low=0.1"
    yield f"  producers=3 (they send again what failed), by={'|'.join(load.PARTITIONERS)}, idempotence=on|off"
    yield "By chance (--rate KIND=N, a minute): " + ", ".join(DRAWS)
