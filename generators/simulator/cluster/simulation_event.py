"""The events of a simulated cluster, one after another: its only output.

Telemetry, Kafka's log lines, the truth and the text of scenarios are all made from these events, so that none of them
has more information than the others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol, runtime_checkable

if TYPE_CHECKING:
    from generators.simulator.cluster.simulation import Simulation

REPLICATION = "replication"
"""The broker's own replication telemetry."""
CONTROLLER = "controller"
"""The telemetry of a controller."""


class SimulationEvent(NamedTuple):
    """One thing that one broker, or a controller, saw happen.

    `at` is true time, `ts` the clock of `broker`, both microseconds since 1970. `kind` and the fields after `partition`
    are those of bronze/replication_events; offsets and epochs are None where that broker does not know them. Two kinds
    are only for log lines and the truth: `role` of a controller (its role in `detail`, who is active in `leader`), and
    `offline` of a broker (a replica is gone with its log directory).

    `late_us`: delay until it is printed, `stall_us`: further delay until the last of several lines (cluster.threads).
    """

    at: int
    ts: int
    broker: int
    source: str
    kind: str
    topic: str | None = None
    topic_id: str | None = None
    partition: int = -1
    leader: int | None = None
    leader_epoch: int | None = None
    partition_epoch: int | None = None
    replica: int | None = None
    broker_epoch: int | None = None
    leo: int | None = None
    leader_leo: int | None = None
    hw: int | None = None
    log_start: int | None = None
    isr: tuple[int, ...] | None = None
    replicas: tuple[int, ...] | None = None
    min_isr: int | None = None
    lag_max_ms: int | None = None
    unclean: bool | None = None
    detail: str | None = None
    hw_before: int | None = None
    controller_epoch: int | None = None
    committed: bool | None = None
    late_us: int = 0
    stall_us: int = 0


class Observer(Protocol):
    """Sees every event at once, in order of true time; the simulation stands still meanwhile."""

    def observe(self, event: SimulationEvent) -> None: ...


class StateObserver(Observer, Protocol):
    """An observer that also reads the state of the simulation."""

    def follow(self, simulation: Simulation) -> None: ...


@runtime_checkable
class Recorder(Protocol):
    """An observer that also sees what the quorum commits, when it does; controllers print it earlier or later.

    There `ts` is the true time of the decision.
    """

    def recorded(self, event: SimulationEvent) -> None: ...
