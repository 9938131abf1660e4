"""What records the truth of a run: the same for single steps and for a fleet."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

import pyarrow as pa

from generators.simulator.cluster.simulation_event import Recorder, SimulationEvent, StateObserver

RestingFetches = Callable[[SimulationEvent], None]
"""Takes a fetch of a follower at rest, afterwards (`Simulation.rest`)."""


class TruthRecorder(StateObserver, Recorder, Protocol):
    """Observes a simulation and reads its state; `close` returns the tables of `schemas.TRUTH`."""

    def seen_alive(self, broker: int, ts: int) -> None:
        """A broker was alive at `ts` (us) of its clock."""

    def close(self) -> Mapping[str, pa.Table]: ...


def resting_fetches(telemetry: RestingFetches, truth: TruthRecorder | None) -> RestingFetches:
    """Passes a fetch of a follower at rest to the telemetry; for the truth it shows that its leader was alive."""

    def observe(fetch: SimulationEvent) -> None:
        telemetry(fetch)
        if truth is not None:
            truth.seen_alive(fetch.broker, fetch.ts)

    return observe
