"""The values that a watcher's rows have told of each replica, by slot (see `metadata.replicas`)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from generators.cluster.metadata.lists import I32, I64, Mask
from generators.cluster.observing.answers import UNKNOWN, Answer


@dataclass
class Slots:
    """The values in the last row of each replica."""

    leo: I64
    hw: I64
    log_epoch: I32
    leads: Mask
    lost: Mask
    """Whether the last row is `lost`."""
    stale: Mask
    """Whether the next answer is written even if nothing changed."""

    @classmethod
    def unknown(cls, count: int) -> Slots:
        """The slots of replicas without a row."""
        no, yes = np.zeros(count, np.bool_), np.ones(count, np.bool_)
        offsets = np.full(count, UNKNOWN, np.int64)
        return cls(offsets, offsets.copy(), np.full(count, UNKNOWN, np.int32), no, no.copy(), yes)

    def copy(self, other: Slots, slots: I64) -> None:
        """Take over the values of `other` at `slots`, where these are not -1."""
        kept = np.flatnonzero(slots >= 0)
        for name, values in vars(self).items():
            values[kept] = getattr(other, name)[slots[kept]]

    def differ(self, slots: I64, answer: Answer, leads: Mask, hw: I64) -> Mask:
        """A mask of an answer's replicas with other values than before."""
        different: Mask = (
            self.stale[slots]
            | self.lost[slots]
            | (self.leo[slots] != answer.leo)
            | (self.hw[slots] != hw)
            | (self.log_epoch[slots] != answer.log_epoch)
            | (self.leads[slots] != leads)
        )
        return different

    def put(self, slots: I64, at: I64, answer: Answer, leads: Mask, hw: I64) -> None:
        """Keep the answer's values `at` as those of the last rows of these replicas."""
        self.leo[slots], self.hw[slots] = answer.leo[at], hw[at]
        self.log_epoch[slots], self.leads[slots] = answer.log_epoch[at], leads[at]
        self.lost[slots] = self.stale[slots] = False
