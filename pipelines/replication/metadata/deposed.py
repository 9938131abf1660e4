"""States of brokers that a controller told after another one had taken its place: nobody ever commits those.

An active controller that was frozen decides and prints as it wakes, before it knows (QuorumController.handleCommit).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from pipelines.replication.compiled.types import NEVER

BrokerState = tuple[int, str, int | None, str, int, int]
"""(ts, detail, broker epoch) of a broker, and the row that reports it: source id, source epoch, source seq."""
Told = tuple[int, int, int, int]
"""Of a source under a controller epoch: first and last ts, and its first and last number as the active controller."""
DOUBTED = "told by a controller that another one had replaced"
APART_US = 10_000_000
"""Clocks of controllers differ by no more than this, and what one has committed the others print within it."""


ToldBy = Mapping[tuple[str, int, int], Told]
"""By source id, source epoch and controller epoch."""


class Doubt(NamedTuple):
    """A state that counts for nothing from `since` until another row tells it, too; told in this controller epoch."""

    state: BrokerState
    since: int
    until: int
    epoch: int

    def lasts(self, told: ToldBy) -> bool:
        """Whether it may still be told: the controllers of later epochs have not gone on without it."""
        later = (until for (*_, epoch), (_, until, *_) in told.items() if epoch > self.epoch)
        return self.until == NEVER and max(later) <= self.state[0] + APART_US


def deposed_since(epoch: int, ts: int, told: ToldBy) -> int:
    """From when on it is known that what the controller of an epoch told at `ts` may come too late, else NEVER."""
    began = min((since for (*_, other), (since, *_) in told.items() if other > epoch), default=NEVER)
    return max(ts, began) if began <= ts + APART_US else NEVER


def doubts(states: Sequence[BrokerState], told: ToldBy) -> list[Doubt]:
    """The doubtful ones of the states of a broker."""
    if len({epoch for *_, epoch in told}) < 2:
        return []
    found = []
    for state in states:
        ts, _, _, *source, seq = state
        of = [epoch for (*one, epoch), (*_, first, last) in told.items() if one == source and first <= seq <= last]
        if of and (since := deposed_since(of[0], ts, told)) < NEVER:
            found.append(Doubt(state, since, NEVER, of[0]))
    sure = [state for state in states if all(state is not doubt.state for doubt in found)]
    return [one for doubt in found if (one := doubt._replace(until=_confirmed(doubt.state, sure))).since < one.until]


def _confirmed(state: BrokerState, sure: Sequence[BrokerState]) -> int:
    """When another row tells the same change."""
    same = (one[0] for one in sure if one[1:3] == state[1:3] and abs(one[0] - state[0]) <= APART_US)
    return min(same, default=NEVER)
