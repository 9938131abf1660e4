"""(a) Recorded logs, (e) simulators, (b) the facts of both."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

from generators.simulator.scenarios import SCENARIOS
from pipelines.commands.simulate import scenario
from pipelines.commands.simulate.plan import TILE, plan, tiled
from pipelines.commands.simulate.run import run
from pipelines.commands.simulate.sinks import bronze_sink
from pipelines.lake.bronze import read_events
from pipelines.replication import Rules, replay
from pipelines.settings import Simulate
from tests.golden.canonical import Output, as_json, canonical, framed, of_facts
from tests.golden.runs import Memory, in_order, recorded, simulated
from tests.simulated.kafka_logs import LogFiles


def logs() -> Iterator[Output]:
    """Events read from the recorded logs."""
    yield from ((place, canonical(events)) for place, events in recorded().items())


def simulator() -> Iterator[Output]:
    """Events and truth of simulated runs, events of tiles, log files of a simulated cluster."""
    for name, one in simulated().items():
        yield f"{name}/events", canonical(one.events)
        yield f"{name}/truth", framed([as_json([*one.truth]), *map(canonical, one.truth.values())])
    for seed in (1, 2):
        faults = ["5s kill 2 for 4s", "8s rolling-restart for 1s every 4s"] if seed == 2 else []
        asked = Simulate(seed=seed, brokers=5, partitions=TILE + 1, duration=20, fault=faults, clock_skew_ms=1_000)
        planned = tiled(plan(asked))
        with tempfile.TemporaryDirectory() as lake:
            truth = run(planned, bronze_sink(planned, lake), lambda words: None).truth
            yield f"tiles-{seed}/events", canonical(in_order(read_events(lake)))
        yield f"tiles-{seed}/truth", framed([as_json([*truth]), *map(canonical, truth.values())])
    for level in (3, 0):
        section = Simulate(seed=3, duration=15, second_file=True, level=level, fault=["4s kill 1 for 5s"])
        with tempfile.TemporaryDirectory() as folder:
            run(plan(section), LogFiles(Path(folder) / "logs", second_file=True), lambda words: None)
            for file in sorted(Path(folder).rglob("*.*")):
                yield f"log files {level}/{file.relative_to(folder)}", file.read_bytes()


def facts() -> Iterator[Output]:
    """Every table that comes of recorded and simulated events, read as a whole."""
    for place, events in recorded().items():
        yield from of_facts(place, replay(events, Rules(replica_hw=True)))
    for name, one in simulated().items():
        yield from of_facts(name, replay(one.events, one.rules))


def scenarios() -> Iterator[Output]:
    """Every scenario of the simulator: its words, and per cluster its events and what comes of them."""
    for name, chosen in SCENARIOS.items():
        memories: dict[str, Memory] = {}
        played = scenario.play_scenario(
            chosen, lambda cluster, memories=memories: memories.setdefault(cluster, Memory()), 3
        )
        yield f"{name}/explained", "\n".join(scenario.explained(played, True)).encode()
        for cluster, memory in memories.items():
            yield f"{name}/{cluster}/events", canonical(memory.events)
            made = replay(memory.events).tables()
            yield f"{name}/{cluster}/facts", framed([as_json([*made]), *map(canonical, made.values())])
