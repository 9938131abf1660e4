"""Which partitions a fault will touch, and when: they must be among single steps by then."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from generators.simulator.cluster.settings import MS, SECOND
from generators.simulator.faults.script import Fault
from generators.simulator.fleet.compiled import I32, I64
from generators.simulator.fleet.roster import Roster

NOTICE = SECOND
"""How long before a fault partitions change over: by then every fetch of theirs has been told."""
OF_BROKER = (
    "kill", "kill-between-lines", "power-off", "stop", "freeze", "lose-disk", "lose-log-dir", "throttle",
)  # fmt: skip
OF_PARTITION = ("reassign", "unclean-election", "delete-records")
OF_TOPIC = ("delete-topic", "configure")
Mask = Any


class Touch(NamedTuple):
    """From `at` on (microseconds since the start) partitions are wanted among single steps.

    Those with these numbers; where no numbers are given, those with a replica on each of `brokers`; where none is
    named either, those that their preferred replica does not lead.
    """

    at: int
    brokers: tuple[int, ...] = ()
    numbers: tuple[int, ...] | None = None

    def touches(self, replicas: I32, number: I64, leader: I32) -> Mask:
        """Of partitions: their numbers and leaders; `replicas` as assigned, of all partitions."""
        if self.numbers is not None:
            return np.isin(number, self.numbers)
        assigned = replicas[number]
        if not self.brokers:
            return assigned[:, 0] != leader
        return np.all([(assigned == b).any(axis=1) for b in self.brokers], axis=0)


def touches(faults: Iterable[Fault], roster: Roster, seconds: float) -> list[Touch]:
    """In order of time. A rolling restart touches broker after broker, but only as it goes on (`rolling`)."""
    found = [touch for fault in faults for touch in _of(fault, roster)]
    every = roster.settings.preferred_election_ms * MS
    found += [Touch(at - NOTICE, ()) for at in range(every, round(seconds * SECOND), every)]
    return sorted(found, key=lambda touch: touch.at)


def _of(fault: Fault, roster: Roster) -> list[Touch]:
    at = max(0, fault.at - NOTICE)
    if fault.do in OF_BROKER:
        return [Touch(at, (fault.on,))]
    if fault.do == "cut":
        return [Touch(at, tuple(fault.on))]
    if fault.do in OF_TOPIC:
        return [Touch(at, numbers=tuple(roster.of(fault.on).tolist()))]
    if fault.do == "create-topic":
        return [Touch(at, numbers=tuple(roster.of(fault.on.name).tolist()))]
    if fault.do in OF_PARTITION:
        return [Touch(at, numbers=(roster.number(*fault.on),))]
    return [Touch(at)] if fault.do == "elect-preferred" else []
