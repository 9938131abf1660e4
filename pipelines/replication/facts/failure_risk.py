"""What one more failure does to a partition: the rule behind `one_failure_away` of `gold/partition_health`."""

from __future__ import annotations

import numpy as np

from pipelines.replication.compiled.types import I64, NULL32

NONE, UNDER_MIN_ISR, OFFLINE, LOSS, NOT_KNOWN = 0, 1, 2, 3, -1
RISKS = ("none", "under_min_isr", "offline", "loss")


def risks(isr: I64, assigned: I64, min_isr: I64, offline: I64, told: I64) -> I64:
    """What the failure of one more member of the ISR does, as numbers in RISKS, NOT_KNOWN where that is not known.

    Takes how many replicas are in the ISR and assigned, and min.insync.replicas, NULL32 where not known. Of an ISR of
    one the others are behind: without its only member the partition is offline, and electing one of them is unclean
    and loses what only it had. Where no other replica is assigned there is none to elect. Kafka counts
    min.insync.replicas as at most the assigned replicas, of which there may be more than those that are not `told`.
    Where nobody leads, the failure has happened.
    """
    needed = np.minimum(min_isr, assigned)
    alone = isr == 1
    known = (isr != NULL32) & (assigned != NULL32) & (alone | (min_isr != NULL32))
    known &= told | (assigned > 1) & (alone | (min_isr <= assigned) | (isr - 1 < needed))
    found = np.where(isr - 1 < needed, UNDER_MIN_ISR, NONE)
    found = np.where(alone, np.where(assigned > 1, LOSS, OFFLINE), found)
    made: I64 = np.where(known & ~offline, found, NOT_KNOWN)
    return made
