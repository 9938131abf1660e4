"""Which calls get which faults: first, middle and last of each point."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tests.faults.preload import Call, Point

FAULTS = {
    "create": ("EIO", "ENOSPC", "kill"),
    "write": ("EIO", "ENOSPC", "kill", "short"),
    "sync": ("EIO", "ENOSPC", "kill"),
    "rename": ("EIO", "ENOSPC", "kill"),
    "link": ("EIO", "ENOSPC", "kill"),
    "mkdir": ("EIO", "ENOSPC", "kill"),
    "truncate": ("EIO", "kill"),
    "remove": ("EIO", "kill"),
}
"""What can happen to each call: room is needed for none that takes away, and only bytes can be cut short."""


@dataclass(frozen=True)
class Injection:
    """One fault: in a stage of the lake's life, at the n-th call (from 1) of a point."""

    stage: str
    point: Point
    number: int
    fault: str

    def __str__(self) -> str:
        return f"{self.stage}: {self.fault} at call {self.number} of {self.point}"


def injections(stages: Mapping[str, Iterable[Call]]) -> list[Injection]:
    """Every fault at the first, middle and last call of each point that a command came by.

    A first and a second run are stages of one command: the first call is one of the first run, the last of the second.
    """
    counts: dict[tuple[str, Point], list[tuple[str, int]]] = defaultdict(list)
    for stage, calls in stages.items():
        for point, count in sorted(Counter(call.point for call in calls).items()):
            counts[_command(stage), point].append((stage, count))
    return [
        _injection(at, point, number, fault)
        for (_, point), at in counts.items()
        for fault in FAULTS[point.call]
        for number in sorted({1, (_total(at) + 1) // 2, _total(at)})
    ]


def _command(stage: str) -> str:
    return stage.rpartition(" ")[2]


def _total(at: list[tuple[str, int]]) -> int:
    return sum(count for _, count in at)


def _injection(at: list[tuple[str, int]], point: Point, number: int, fault: str) -> Injection:
    """That at the n-th call of all stages, in the stage which that is in."""
    for stage, count in at:
        if number <= count:
            return Injection(stage, point, number, fault)
        number -= count
    raise ValueError(f"{point} has fewer calls")


def ordered(all_of_them: Iterable[Injection], seed: int) -> list[Injection]:
    """In an order by chance in which each point has had each of its faults once before any has one again."""
    shuffled = sorted(all_of_them, key=str)
    random.Random(seed).shuffle(shuffled)
    seen: Counter[tuple[str, Point, str]] = Counter()
    turns = []
    for one in shuffled:
        key = _command(one.stage), one.point, one.fault
        turns.append((seen[key], one))
        seen[key] += 1
    return [one for _, one in sorted(turns, key=lambda turn: turn[0])]
