"""The facts that the gate judges by: partitions, the controllers' quorum, and the brokers to be stopped."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from pipelines.errors import UsageError, nearest
from pipelines.verdict.words import brokers as named

Brokers = frozenset[int]
NOBODY: Brokers = frozenset()
NO_LEADER = -1
ANY_NUMBER = 1 << 15
"""Replicas of a partition of which nobody named all: no min.insync.replicas is more."""


@dataclass(frozen=True)
class PartitionFacts:
    """One partition; None: not known.

    `behind` are replicas that do not count although they may be in the ISR: out of sync by Kafka's rule, holding the HW
    back, or their broker is down. `unsure` are those of which nobody knows whether they are caught up. `unknown` says
    why nothing of its present is known at all.
    """

    topic: str
    partition: int
    replicas: Brokers | None
    isr: Brokers | None
    leader: int | None
    min_isr: int | None
    behind: Brokers = NOBODY
    unsure: Brokers = NOBODY
    eligible: Brokers = NOBODY
    """Eligible leader replicas: may lead where the ISR is empty."""
    unknown: str = ""
    unsure_why: str = ""
    min_isr_why: str = "its min.insync.replicas is not known"

    @property
    def may_count(self) -> Brokers:
        """The replicas that are in sync, or may be."""
        if self.unknown:
            return self.replicas or NOBODY
        known = self.isr if self.isr is not None else self.replicas
        return (known or NOBODY) - self.behind

    @property
    def counts(self) -> Brokers:
        """The replicas that are in sync for certain."""
        return NOBODY if self.isr is None or self.unknown else self.isr - self.behind - self.unsure

    @property
    def least_min_isr(self) -> int:
        """The effective min ISR (Kafka: at most the number of replicas), or the least that it can be."""
        known = self.replicas if self.replicas is not None else self.isr
        return 1 if self.min_isr is None else min(self.min_isr, max(1, len(known or NOBODY)))

    @property
    def most_min_isr(self) -> int:
        """The effective min ISR, or the most that it can be."""
        most = ANY_NUMBER if self.replicas is None else max(1, len(self.replicas))
        return most if self.min_isr is None else min(self.min_isr, most)


@dataclass(frozen=True)
class Quorum:
    """The controllers that vote, and of each whether it is caught up; None: nobody knows."""

    voters: Mapping[int, bool | None]


@dataclass(frozen=True)
class Facts:
    """The facts about a cluster whose brokers are to be stopped.

    `stale` says why none of it can be relied on; `unknown` what is missing beside the partitions, each with what to do.
    Without a `quorum`, `quorum_note` says why it was not looked at; `controllers_apart`: the brokers are none of it.
    """

    cluster: str
    stopped: Brokers
    partitions: tuple[PartitionFacts, ...]
    as_of: datetime | None
    source: str
    quorum: Quorum | None = None
    quorum_note: str = "quorum not looked at"
    controllers_apart: bool = False
    stale: str = ""
    unknown: tuple[str, ...] = ()
    notes: tuple[str, ...] = field(default=())
    down: Brokers = NOBODY
    """Brokers that are down already, or do not answer."""


def chosen(racks: Mapping[int, str | None], ids: Collection[int], rack: str | None) -> tuple[Brokers, tuple[str, ...]]:
    """The brokers that are named or stand in a rack, and what is not known of that; `racks`: every broker's rack.

    Raises UsageError for a broker or rack that does not exist.
    """
    if rack is None:
        if strange := sorted(set(ids) - racks.keys()):
            raise UsageError(f"there is no broker {strange[0]}; {nearest('', map(str, sorted(racks)))}")
        return frozenset(ids), ()
    inside = frozenset(broker for broker, where in racks.items() if where == rack)
    homeless = [broker for broker, where in racks.items() if where is None]
    if not inside:
        known = {where for where in racks.values() if where is not None}
        why = f"of {named(homeless)} no rack is known" if homeless and not known else nearest(rack, known)
        raise UsageError(f"there is no rack {rack}; {why}")
    unknown = f"the rack of {named(homeless)} is not known, it may be {rack}: name the brokers with --broker"
    return inside, (unknown,) if homeless else ()
