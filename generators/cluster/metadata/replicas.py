"""Every watched replica, by broker, and its place in earlier metadata."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from generators.cluster.metadata.lists import I32, I64
from generators.cluster.metadata.partitions import Partitions


@dataclass(frozen=True, eq=False)
class Replicas:
    """One slot per replica, those of a broker side by side in the order of partitions."""

    broker: I32
    partition: I64
    """The row in `Partitions` of each slot."""

    @classmethod
    def of(cls, partitions: Partitions) -> Replicas:
        lists = partitions.replicas
        row = np.repeat(np.arange(len(partitions)), lists.sizes)
        order = np.lexsort((row, lists.values))
        return cls(lists.values[order], row[order])

    def __len__(self) -> int:
        return len(self.broker)

    def of_broker(self, broker: int) -> slice:
        """The slots of a broker."""
        first, end = np.searchsorted(self.broker, [broker, broker + 1])
        return slice(int(first), int(end))

    def slots_of(self, broker: int, rows: I64) -> I64:
        """The slot of the broker's replica for each of these rows of `Partitions`; -1 if the broker has no replica."""
        at = self.of_broker(broker)
        hosted = self.partition[at]
        if not len(hosted):
            return np.full(len(rows), -1, np.int64)
        found = np.minimum(np.searchsorted(hosted, rows), len(hosted) - 1)
        return np.where(hosted[found] == rows, at.start + found, -1)

    def slots_in(self, other: Replicas, rows: I64) -> I64:
        """For each slot the slot of the same replica in `other`, -1 if there is none.

        `rows` are those of `other`'s partitions, by the row of this one's.
        """
        found = np.full(len(self), -1, np.int64)
        for broker in np.unique(self.broker).tolist():
            mine = self.of_broker(broker)
            found[mine] = other.slots_of(broker, rows[self.partition[mine]])
        return found
