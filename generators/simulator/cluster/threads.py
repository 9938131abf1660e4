"""Request threads that are suspended for a while: between what they do and its line, or between two lines."""

from __future__ import annotations

from random import Random
from typing import NamedTuple

from generators.simulator.cluster.settings import Settings


class Pause(NamedTuple):
    """A pause of one fetch's thread, in microseconds: other threads run and print meanwhile."""

    late: int = 0
    """Before it prints what it has done: lines of others about later events come first."""
    stall: int = 0
    """Between the attempt to raise the HW and "Recorded replica"."""

    @property
    def whole(self) -> int:
        return self.late + self.stall


NONE = Pause()


class Killed(Exception):
    """The process ends here, in the middle of an action."""


def drawn(settings: Settings, random: Random) -> Pause:
    """The pause of one fetch; without such settings no random number is drawn."""
    if not (settings.thread_stalls or settings.thread_overtakes):
        return NONE
    chance = random.random()
    if chance < settings.thread_stalls:
        return Pause(stall=random.randint(*settings.stall_us))
    if chance < settings.thread_stalls + settings.thread_overtakes:
        return Pause(late=random.randint(*settings.late_us))
    return NONE
