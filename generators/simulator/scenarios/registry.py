"""Named scenarios: a script for each of the twenty systems of replication, and how to play one."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from generators.simulator.scenarios.narrative import Act, Narrative, Watch


class Scenario(NamedTuple):
    """`script` moves clusters and returns the result in one sentence, computed from what it did."""

    name: str
    system: int
    """Which of the twenty systems it shows."""
    purpose: str
    script: Callable[[Narrative], str]


class Performance(NamedTuple):
    """A scenario as it was played: an act for each of its clusters, and the result."""

    scenario: Scenario
    acts: list[Act]
    result: str


def play(scenario: Scenario, watch: Watch = lambda simulation: None) -> Performance:
    """Runs a scenario; `watch` may add observers to each of its clusters."""
    narrative = Narrative(scenario.name, watch)
    result = scenario.script(narrative)
    return Performance(scenario, narrative.acts, result)
