"""The controllers' log: records, batches of them, and the image they result in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from generators.simulator.cluster.event_queue import BrokerClock
from generators.simulator.cluster.registration import BrokerRegistration, Registration

if TYPE_CHECKING:
    from generators.simulator.cluster.broker import Broker
    from generators.simulator.cluster.controller import Controller


@dataclass
class Image:
    """The metadata that records result in."""

    partitions: dict[tuple[str, int], Registration] = field(default_factory=dict)
    brokers: dict[int, BrokerRegistration] = field(default_factory=dict)
    offline: set[tuple[int, tuple[str, int]]] = field(default_factory=set)
    """Brokers and the replicas that they have lost with a log directory."""


@dataclass(frozen=True, eq=False)
class Record:
    """One change of the metadata: its lines (kind and fields), its effect on the image, and on brokers."""

    printed: Sequence[tuple[str, dict[str, Any]]]
    put: Callable[[Image], object]
    publish: Callable[[Broker], None] | None = None


@dataclass(eq=False)
class Node:
    """One controller: its process, the newest epoch it knows, and how much of the committed log it has printed."""

    id: int
    clock: BrokerClock
    running: bool = True
    frozen: bool = False
    isolated: bool = False
    """No other controller reaches it; brokers do."""
    epoch: int = 0
    process: int = 0
    read: int = 0
    zombie: Controller | None = None
    """Its state as a controller that was replaced and does not know it yet."""

    @property
    def up(self) -> bool:
        return self.running and not self.frozen


@dataclass(eq=False)
class Batch:
    """The decisions of the active controller at one moment; committed as a whole."""

    made: int
    records: list[Record] = field(default_factory=list)


@dataclass
class Waiting:
    """Actions for when a batch is committed, and for when it never will be."""

    batch: Batch
    then: Callable[[], object]
    never: Callable[[], object]
