"""What is fed: recorded logs at several levels, and simulated runs, drawn once."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from generators.brokerlogs.ingest import ReadOptions, ingest_logs, read_logs
from generators.brokerlogs.tailing.coalesce import longest
from generators.recordings import traces
from generators.simulator.cluster.simulation import RestingFetches, Simulation
from generators.simulator.telemetry.rows import Telemetry
from pipelines.commands.simulate.plan import Plan, plan
from pipelines.commands.simulate.run import run
from pipelines.lake.bronze import read_events
from pipelines.replication import Rules
from pipelines.settings import Simulate
from tests.simulated import cut_traces
from tests.simulated.telemetry_damage import Rates, strike
from tests.simulated.truth_differences import rules_of

RUNS = Path(__file__).parent / "runs.json"


def in_order(events: pa.Table) -> pa.Table:
    """Events as a lake has them, in an order that does not depend on its files."""
    return events.sort_by([(name, "ascending") for name in ("source_id", "source_epoch", "source_seq")])


@cache
def recorded() -> dict[str, pa.Table]:
    """The events of each recorded trace: whole, cut to the levels 2 and 0, and ingested with fetches coalesced."""
    found = {}
    for name in traces.scenarios():
        found[f"{name}/3"] = read_logs([traces.path(name)], name)
        for level, passing in ((2, cut_traces.lean), (0, cut_traces.info)):
            with tempfile.TemporaryDirectory() as folder:
                found[f"{name}/{level}"] = read_logs([cut_traces.cut(name, passing, folder)], name)
        with tempfile.TemporaryDirectory() as lake:
            ingest_logs([traces.path(name)], cluster=name, lake=lake, options=ReadOptions(coalesce_ms=longest(30_000)))
            found[f"{name}/coalesced"] = in_order(read_events(lake))
    return found


class SimulatedRun(NamedTuple):
    """A simulated run: its telemetry as it arrives, the rules to read it by, and the truth."""

    events: pa.Table
    rules: Rules
    truth: Mapping[str, pa.Table]


class Memory:
    """A sink of `simulate` that keeps the events."""

    summary = ""

    def __init__(self, planned: Plan | None = None, damage: Rates | None = None) -> None:
        self._planned, self._damage = planned, damage
        self._pieces: list[pa.Table] = []

    def begin(self, simulation: Simulation, level: int) -> RestingFetches | None:
        second_file = self._planned is not None and self._planned.second_file
        self._telemetry = Telemetry(simulation.settings, level, second_file=second_file)
        simulation.observers.append(self._telemetry)
        self._telemetry.follow(simulation)
        return None

    def flush(self) -> None:
        self._pieces.append(self._telemetry.drain())

    def close(self) -> None:
        self._pieces.append(self._telemetry.close())

    @property
    def events(self) -> pa.Table:
        events = pa.concat_tables(self._pieces)
        if self._planned is None or self._damage is None:
            return events
        return strike(events, self._damage, self._planned.settings.seed).events


@cache
def simulated() -> dict[str, SimulatedRun]:
    """The runs of runs.json."""
    found = {}
    for one in json.loads(RUNS.read_text()):
        planned = plan(Simulate(**one["simulate"]))
        memory = Memory(planned, Rates(**one["damage"]) if "damage" in one else None)
        outcome = run(planned, memory, lambda words: None)
        found[one["name"]] = SimulatedRun(
            memory.events, rules_of(planned.settings, **one["rules"]), outcome.truth or {}
        )
    return found
