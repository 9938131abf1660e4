"""What belongs together in a leader's telemetry: something that made it try to raise its HW, and whether that rose."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from generators.simulator.cluster.happening import REPLICATION, Happening

_TRIES = frozenset({"append", "fetch", "leader", "isr"})


class Attempt(NamedTuple):
    """One happening and, where a leader's HW rose by it, the `hw` that followed at once."""

    by: Happening
    hw: Happening | None = None

    @property
    def of_leader(self) -> bool:
        """Whether a leader may have tried to raise its HW by it (Partition.maybeIncrementLeaderHW)."""
        return tries(self.by)


def tries(h: Happening) -> bool:
    return h.kind in _TRIES and h.source == REPLICATION and h.leader == h.broker


def reports(h: Happening) -> bool:
    """Whether this is a leader's own HW."""
    return h.kind == "hw" and h.replica == h.broker == h.leader


class Attempts:
    """Pairs happenings with the HW they moved; the last one waits until the next shows that nothing followed."""

    def __init__(self) -> None:
        self._waiting: Happening | None = None

    def observe(self, happening: Happening) -> Iterator[Attempt]:
        before, self._waiting = self._waiting, None
        if before is not None and _moved(before, happening):
            yield Attempt(before, happening)
            return
        if before is not None:
            yield Attempt(before)
        if tries(happening):
            self._waiting = happening
        else:
            yield Attempt(happening)

    def settle(self) -> Iterator[Attempt]:
        """The one that waits: nothing follows it any more."""
        before, self._waiting = self._waiting, None
        if before is not None:
            yield Attempt(before)


def _moved(before: Happening, h: Happening) -> bool:
    same = (before.at, before.broker, before.topic, before.partition) == (h.at, h.broker, h.topic, h.partition)
    return same and reports(h)
