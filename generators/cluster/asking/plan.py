"""The requests to one broker each round, some thousand partitions each; kept while no partition moves."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from generators.cluster.asking.requests import OF_THE_LEADER, OF_WHOEVER_IS_ASKED, Encoded, offsets
from generators.cluster.metadata.lists import I64, Mask
from generators.cluster.metadata.partitions import Partitions
from generators.cluster.metadata.replicas import Replicas

PARTITIONS_OF_A_REQUEST = 2_000


@dataclass(frozen=True, eq=False)
class Chunk:
    """Replicas that share a request: first for the HW of those that the broker leads, then for the LEO of all."""

    slots: slice
    rows: I64
    leo: Encoded
    hw: Encoded | None


@dataclass(frozen=True, eq=False)
class Plan:
    """The requests of one round to one broker."""

    broker: int
    partitions: Partitions
    replicas: Replicas
    slots: slice
    leads: Mask
    chunks: tuple[Chunk, ...]

    @property
    def rows(self) -> I64:
        return self.replicas.partition[self.slots]

    @property
    def requests(self) -> int:
        return sum(1 + (chunk.hw is not None) for chunk in self.chunks)

    @property
    def request_bytes(self) -> int:
        return sum(len(chunk.leo) + len(chunk.hw or b"") for chunk in self.chunks)


def plan(broker: int, partitions: Partitions, replicas: Replicas, kept: Plan | None = None) -> Plan:
    """The requests to a broker; those of `kept` whose partitions have the same leaders stay as they are."""
    slots = replicas.of_broker(broker)
    rows = replicas.partition[slots]
    leads = partitions.leader[rows] == broker
    reusable = kept if kept is not None and kept.replicas is replicas else None
    if reusable is not None and _same_leaders(reusable, partitions, rows):
        return Plan(broker, partitions, replicas, slots, leads, reusable.chunks)
    chunks = []
    for k, first in enumerate(range(slots.start, slots.stop, PARTITIONS_OF_A_REQUEST)):
        at = slice(first, min(first + PARTITIONS_OF_A_REQUEST, slots.stop))
        mine = replicas.partition[at]
        led = mine[partitions.leader[mine] == broker]
        leo = reusable.chunks[k].leo if reusable else offsets(partitions, mine, OF_WHOEVER_IS_ASKED)
        same = reusable is not None and _same_leaders(reusable, partitions, mine)
        asked = offsets(partitions, led, OF_THE_LEADER) if len(led) else None
        hw = reusable.chunks[k].hw if reusable is not None and same else asked
        chunks.append(Chunk(at, mine, leo, hw))
    return Plan(broker, partitions, replicas, slots, leads, tuple(chunks))


def _same_leaders(kept: Plan, partitions: Partitions, rows: I64) -> bool:
    before = kept.partitions
    return np.array_equal(before.leader[rows], partitions.leader[rows]) and np.array_equal(
        before.leader_epoch[rows], partitions.leader_epoch[rows]
    )
