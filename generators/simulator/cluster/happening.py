"""What the simulated cluster does, one happening after the other: its only output.

Telemetry, Kafka's log lines, the truth and the told story are all made from happenings, so that none of them
can know what the others do not.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol, runtime_checkable

REPLICATION = "replication"
"""The broker's own replication telemetry."""
CONTROLLER = "controller"
"""What a controller tells."""


class Happening(NamedTuple):
    """One thing that one broker, or the controller, saw happen.

    `at` is true time, `ts` the clock of `broker`, both microseconds since 1970. `kind` and the fields after `partition`
    are those of bronze/replication_events; offsets and epochs are None where that broker does not know them. A
    controller also has `role`: what `leader` and `detail` say it takes itself for, which only its log lines print; and
    a broker `offline`: a replica is gone with its log directory, which nobody prints.
    `late_us`: so much later it is printed, and `stall_us` after that the last of several lines (cluster.threads).
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
    """Sees every happening at once, in order of true time; the simulation stands at that moment."""

    def observe(self, happening: Happening) -> None: ...


@runtime_checkable
class Recorder(Protocol):
    """An observer that also sees what the quorum commits, when it does; controllers print it earlier or later.

    There `ts` is when it was decided, in true time.
    """

    def recorded(self, happening: Happening) -> None: ...
