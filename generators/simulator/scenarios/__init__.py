"""Every scenario by name, in the order of the systems they show."""

from __future__ import annotations

from generators.simulator.scenarios import (
    acknowledgements,
    consumers,
    elections,
    failures,
    files,
    guarantees,
    high_watermark,
    lag,
    majority,
    partitioning,
    truncation,
)
from generators.simulator.scenarios.outcome import SYSTEMS, Performance, Scenario, play

_MODULES = (
    high_watermark,
    lag,
    acknowledgements,
    failures,
    truncation,
    elections,
    files,
    partitioning,
    guarantees,
    consumers,
    majority,
)

SCENARIOS: dict[str, Scenario] = {
    scenario.name: scenario
    for scenario in sorted(
        (scenario for module in _MODULES for scenario in module.SCENARIOS), key=lambda scenario: scenario.system
    )
}

__all__ = ["SCENARIOS", "SYSTEMS", "Performance", "Scenario", "play"]
