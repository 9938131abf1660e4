"""The effect of one more failure on a partition: the rule behind `one_failure_away` of `gold/partition_health`."""

from __future__ import annotations

import numpy as np

from pipelines.replication.compiled.types import I64, NULL32

NONE, UNDER_MIN_ISR, OFFLINE, LOSS, NOT_KNOWN = 0, 1, 2, 3, -1
RISKS = ("none", "under_min_isr", "offline", "loss")


def risks(isr: I64, assigned: I64, min_isr: I64, offline: I64, told: I64) -> I64:
    """The effect of the failure of one more member of the ISR, as numbers in RISKS, or NOT_KNOWN.

    Args:
        isr, assigned: numbers of replicas, NULL32 if not known.
        min_isr: min.insync.replicas, NULL32 if not known; Kafka uses at most the number of assigned replicas.
        told: whether all assigned replicas are known; otherwise there may be more.

    If the ISR has one member, the others are behind: without it the partition is offline, and electing one of them is
    unclean and loses records that only the member had. If no other replica is assigned, there is none to elect. If the
    partition has no leader, the failure has already happened.
    """
    needed = np.minimum(min_isr, assigned)
    alone = isr == 1
    known = (isr != NULL32) & (assigned != NULL32) & (alone | (min_isr != NULL32))
    known &= told | (assigned > 1) & (alone | (min_isr <= assigned) | (isr - 1 < needed))
    found = np.where(isr - 1 < needed, UNDER_MIN_ISR, NONE)
    found = np.where(alone, np.where(assigned > 1, LOSS, OFFLINE), found)
    made: I64 = np.where(known & ~offline, found, NOT_KNOWN)
    return made
