"""Which partitions a fault will affect, and when: they must be in single steps by then."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from generators.simulator.cluster.settings import MS, SECOND
from generators.simulator.faults.script import Fault
from generators.simulator.fleet.compiled import I32, I64
from generators.simulator.fleet.partition_catalog import PartitionCatalog

LEAD_TIME = SECOND
"""How long before a fault partitions change engines: by then every fetch of theirs has its row."""
OF_BROKER = (
    "kill", "kill-between-lines", "power-off", "stop", "freeze", "lose-disk", "lose-log-dir", "throttle",
)  # fmt: skip
OF_PARTITION = ("reassign", "unclean-election", "delete-records")
OF_TOPIC = ("delete-topic", "configure")
Mask = Any


class FaultScope(NamedTuple):
    """From `at` on (microseconds since the start) these partitions must be in single steps.

    Those with these numbers; without `numbers` those with a replica on each of `brokers`; without both those that their
    preferred replica does not lead.
    """

    at: int
    brokers: tuple[int, ...] = ()
    numbers: tuple[int, ...] | None = None

    def covers(self, replicas: I32, number: I64, leader: I32) -> Mask:
        """A mask of partitions, given their numbers and leaders; `replicas` as assigned, of all partitions."""
        if self.numbers is not None:
            return np.isin(number, self.numbers)
        assigned = replicas[number]
        if not self.brokers:
            return assigned[:, 0] != leader
        return np.all([(assigned == b).any(axis=1) for b in self.brokers], axis=0)


def fault_scopes(faults: Iterable[Fault], catalog: PartitionCatalog, seconds: float) -> list[FaultScope]:
    """The scopes of all faults, in order of time. A rolling restart has one for each broker as it proceeds
    (`rolling`)."""
    found = [scope for fault in faults for scope in _of(fault, catalog)]
    every = catalog.settings.preferred_election_ms * MS
    found += [FaultScope(at - LEAD_TIME, ()) for at in range(every, round(seconds * SECOND), every)]
    return sorted(found, key=lambda scope: scope.at)


def _of(fault: Fault, catalog: PartitionCatalog) -> list[FaultScope]:
    at = max(0, fault.at - LEAD_TIME)
    if fault.do in OF_BROKER:
        return [FaultScope(at, (fault.on,))]
    if fault.do == "cut":
        return [FaultScope(at, tuple(fault.on))]
    if fault.do in OF_TOPIC:
        return [FaultScope(at, numbers=tuple(catalog.of(fault.on).tolist()))]
    if fault.do == "create-topic":
        return [FaultScope(at, numbers=tuple(catalog.of(fault.on.name).tolist()))]
    if fault.do in OF_PARTITION:
        return [FaultScope(at, numbers=(catalog.number(*fault.on),))]
    return [FaultScope(at)] if fault.do == "elect-preferred" else []
