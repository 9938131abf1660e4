"""Many partitions as arrays: leaders, logs, and what each leader knows of its followers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from generators.simulator.cluster.rules import UNKNOWN
from generators.simulator.fleet.compiled import F64, I32, I64

NOBODY = -1


@dataclass(frozen=True)
class Partitions:
    """One row per partition; `replicas` has the leader first, then its followers, padded with NOBODY.

    All are in the ISR. Columns named after a replica have the shape of the followers, [partitions, replicas - 1].
    Times are microseconds since the start, except `caught_up`: milliseconds on the leader's clock.
    """

    number: I64
    """Number of the partition in the cluster: the key of its random numbers and names."""
    replicas: I32
    leader_epoch: I32
    partition_epoch: I32
    min_isr: I32
    rate: F64
    """Appends per second at the height of its load."""
    load: I32
    """Position of that load, -1 for none."""
    leo: I64
    hw: I64
    raised: I64
    """When the HW last rose."""
    seq: I64
    """The next number of its series at its leader."""
    drawn: I64
    """Random numbers drawn for its appends so far."""
    next_append: I64
    """-1: not drawn yet."""
    stored: I64
    """LEO of the follower as its leader knows it, UNKNOWN before its first fetch of the term."""
    taken: I64
    """LEO of the follower."""
    seen: I64
    """LEO of the leader at the follower's previous fetch."""
    caught_up: I64
    emitted: I64
    """Time of the last row for a fetch of it."""
    follower_hw: I64
    """The leader's HW in the last answer with records."""

    def __len__(self) -> int:
        return len(self.number)

    def only(self, which: Any) -> Partitions:
        """These rows, by mask or index."""
        return replace(self, **{name: getattr(self, name)[which] for name in self.__dataclass_fields__})

    @classmethod
    def of(cls, parts: Sequence[Partitions]) -> Partitions:
        """All of these; at least one."""
        return cls(**{n: np.concatenate([getattr(p, n) for p in parts]) for n in cls.__dataclass_fields__})


def fresh(replicas: I32, rate: F64, load: I32, min_isr: I32, caught_up: I64) -> Partitions:
    """Partitions whose leaders have just started, with empty logs; `caught_up`: the leader's clock, per partition."""
    count, followers = len(replicas), replicas.shape[1] - 1

    def of_partition(value: int, kind: type = np.int64) -> Any:
        return np.full(count, value, dtype=kind)

    def of_follower(value: int) -> I64:
        return np.full((count, followers), value, dtype=np.int64)

    return Partitions(
        number=np.arange(count),
        replicas=replicas,
        leader_epoch=of_partition(0, np.int32),
        partition_epoch=of_partition(0, np.int32),
        min_isr=min_isr,
        rate=rate,
        load=load,
        leo=of_partition(0),
        hw=of_partition(0),
        raised=of_partition(0),
        seq=of_partition(0),
        drawn=of_partition(0),
        next_append=of_partition(-1),
        stored=of_follower(UNKNOWN),
        taken=of_follower(0),
        seen=of_follower(UNKNOWN),
        caught_up=np.repeat(caught_up[:, None], followers, axis=1),
        emitted=of_follower(0),
        follower_hw=of_follower(0),
    )
