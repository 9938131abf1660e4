"""Which partitions a fault will touch, and when: they must be among single steps by then."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from generators.simulator.cluster.settings import MS, SECOND
from generators.simulator.faults.script import Fault
from generators.simulator.fleet.compiled import I32, I64
from generators.simulator.fleet.opening import Roster
from pipelines.errors import UsageError

NOTICE = SECOND
"""How long before a fault partitions change over: by then every fetch of theirs has been told."""
OF_BROKER = ("kill", "power-off", "stop", "freeze", "lose-disk", "throttle")
OF_NONE = ("restart", "thaw", "unthrottle", "heal", "clock-jump", "refuse-isr")
Mask = Any


class Touch(NamedTuple):
    """From `at` on (microseconds since the start) partitions are wanted among single steps.

    Those with a replica on each of `brokers`; where none is named, those that their preferred replica does not lead.
    """

    at: int
    brokers: tuple[int, ...]

    def touches(self, replicas: I32, number: I64, leader: I32) -> Mask:
        """Of partitions: their numbers and leaders; `replicas` as assigned, of all partitions."""
        assigned = replicas[number]
        if not self.brokers:
            return assigned[:, 0] != leader
        return np.all([(assigned == b).any(axis=1) for b in self.brokers], axis=0)


def touches(faults: Iterable[Fault], roster: Roster, seconds: float) -> list[Touch]:
    """In order of time. Raises UsageError for a fault that a fleet cannot suffer."""
    found = [touch for fault in faults for touch in _of(fault)]
    every = roster.settings.preferred_election_ms * MS
    found += [Touch(at - NOTICE, ()) for at in range(every, round(seconds * SECOND), every)]
    return sorted(found)


def _of(fault: Fault) -> list[Touch]:
    if fault.do in OF_NONE:
        return []
    at = max(0, fault.at - NOTICE)
    if fault.do in OF_BROKER:
        return [Touch(at, (fault.on,))]
    if fault.do == "cut":
        return [Touch(at, tuple(fault.on))]
    if fault.do == "elect-preferred":
        return [Touch(at, ())]
    allowed = ", ".join(sorted((*OF_BROKER, *OF_NONE, "cut", "elect-preferred")))
    raise UsageError(f"fault {fault.written()!r}: {fault.do} is not done to a fleet; allowed are {allowed}")
