"""Histories of a few terms: every choice in them is asked of somebody, who may try all of them or draw lots."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, NamedTuple

from tests.model.partition import NOBODY, STEP_MS, Partition

Ask = Callable[..., Any]
"""Chooses one of its arguments, the plainest of which comes first."""


class Scope(NamedTuple):
    """What may happen: `rounds` of writing in a term, and the faults that are looked at."""

    brokers: int = 2
    terms: int = 2
    rounds: int = 1
    min_isr: tuple[int, ...] = (1,)
    cuts: tuple[int, ...] = (0, 1)
    fetches: tuple[int, ...] = (0, 3, 1)
    untold: tuple[int, ...] = (0,)
    restored: bool = False
    configured: tuple[int, ...] = ()
    present: bool = False


@dataclass
class Path:
    """Answers by number, then always the first; `widths` are how many there were to choose from."""

    numbers: Sequence[int] = ()

    def __post_init__(self) -> None:
        self.taken: list[int] = []
        self.widths: list[int] = []

    def __call__(self, *options: Any) -> Any:
        place = len(self.taken)
        number = self.numbers[place] if place < len(self.numbers) else 0
        number = min(number, len(options) - 1)
        self.taken.append(number)
        self.widths.append(len(options))
        return options[number]


class Lots(Path):
    """Answers by lot."""

    def __init__(self, random: Random) -> None:
        super().__init__()
        self.random = random

    def __call__(self, *options: Any) -> Any:
        number = self.random.randrange(len(options))
        self.taken.append(number)
        self.widths.append(len(options))
        return options[number]


def every(scope: Scope) -> Iterator[list[int]]:
    """The choices of every history of this scope."""
    numbers: list[int] | None = []
    while numbers is not None:
        path = Path(numbers)
        play(path, scope)
        yield path.taken
        numbers = _next(path)


def _next(path: Path) -> list[int] | None:
    for place in range(len(path.taken) - 1, -1, -1):
        if path.taken[place] + 1 < path.widths[place]:
            return [*path.taken[:place], path.taken[place] + 1]
    return None


def drawn(scope: Scope, random: Random) -> Iterator[list[int]]:
    """The choices of histories by lot, without end."""
    while True:
        path = Lots(random)
        play(path, scope)
        yield path.taken


def play(ask: Ask, scope: Scope) -> Partition:
    """One history."""
    p = Partition(scope.brokers, ask(*scope.min_isr))
    for term in range(scope.terms):
        if scope.restored and p.led and not p.saved:
            p.save()
        for number in range(scope.rounds):
            if p.led:
                _work(p, ask, scope, isr_changes=number == 0 or number + 1 < scope.rounds)
        if term + 1 < scope.terms:
            _change(p, ask, scope)
    if scope.present:
        _go_on(p, ask)
    else:
        p.end()
    return p


def _go_on(p: Partition, ask: Ask) -> None:
    """Some seconds in which the leader is written to; followers go on fetching, or hang."""
    healthy = [b for b in p.assigned if b != p.leader and p.able(b) and ask(True, False)]
    for _ in range(4 if p.led else 0):
        p.then = len(p.log)
        p.write()
        for b in healthy:
            p.fetch(b)
        p.pass_time(6_000 - STEP_MS)
    p.pass_time(1_000)


def _others(p: Partition) -> list[int]:
    return [b for b in p.assigned if b != p.leader]


def _work(p: Partition, ask: Ask, scope: Scope, isr_changes: bool) -> None:
    """A leader writes or not, followers fetch or not, and the ISR changes or not."""
    if ask(False, True):
        p.write()
    for b in _others(p):
        if p.able(b) and _has_news(p, b):
            p.fetch(b, ask(*scope.fetches))
    if not isr_changes:
        return
    for b in _others(p):
        if b in p.isr and p.able(b) and p.known.get(b) != len(p.log):
            if ask(False, True):
                p.shrink(b)
        elif b not in p.isr and p.able(b) and p.known.get(b, -1) >= max(p.replicas[p.leader].hw, p.start_offset):
            {"out": lambda b: None, "join": p.join, "ask": p.ask}[ask("out", "join", "ask")](b)


def _has_news(p: Partition, b: int) -> bool:
    replica, leader = p.replicas[b], p.replicas[p.leader]
    return len(replica.log) < len(leader.log) or p.known.get(b) != len(leader.log) or replica.hw < leader.hw


def _change(p: Partition, ask: Ask, scope: Scope) -> None:
    """How a term ends, and who leads then."""
    if scope.restored and p.saved and ask(False, True):
        p.restore()
        return
    leader = p.leader
    if p.led:
        _stop(p, leader, ask, scope, ("kill", "clean", "granted"))
    for b in p.assigned:
        if p.replicas[b].up and ask(False, True):
            _stop(p, b, ask, scope, ("kill",))
    if leader == p.leader != NOBODY and ask(False, True):
        p.start(leader)
        return
    for b in p.assigned:
        if not p.replicas[b].up and not p.replicas[b].fenced:
            p.fence(b)
    if scope.configured and (least := ask(p.min_isr, *scope.configured)) != p.min_isr:
        p.configure(least)
    _come_back(p, ask, leader)
    if p.leader == NOBODY:
        able = [b for b in p.assigned if p.able(b)]
        if able:
            p.elect(ask(*able))
    _come_back(p, ask, leader)


def _stop(p: Partition, b: int, ask: Ask, scope: Scope, hows: tuple[str, ...]) -> None:
    how = ask(*hows)
    replica = p.replicas[b]
    stored = how == "clean" or replica.hw == replica.stored or ask(True, False)
    cut = 0 if how == "clean" or not replica.log else ask(*(c for c in scope.cuts if c <= len(replica.log)))
    p.stop(b, how, stored, cut)
    if cut:
        p.untell(b, ask(*scope.untold))


def _come_back(p: Partition, ask: Ask, leader: int) -> None:
    for b in p.assigned:
        if not p.replicas[b].up and ask(False, True):
            p.start(b)
