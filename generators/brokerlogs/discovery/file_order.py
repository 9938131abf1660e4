"""The order in time of the files of one log, from their names and their first times."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import NamedTuple

_DATE = re.compile(r"(?<!\d)\d{4}-?\d\d-?\d\d[\d\-T_]*")
_NUMBER = re.compile(r"(?<!\d)\d{1,9}(?!\d)")


class RotatedName(NamedTuple):
    """The date (as digits) and the number in the name of a file; "" and -1 where it has none."""

    date: str
    number: int


def rotated_name(name: str, live: str) -> RotatedName:
    """The date and the number in a name that the live log `live` was rotated to."""
    rest = name.removeprefix(live) if name.startswith(live) else name.removeprefix(live.rpartition(".")[0])
    date = _DATE.search(rest)
    number = _NUMBER.search(rest.replace(date[0], "") if date else rest)
    return RotatedName(re.sub(r"\D", "", date[0]) if date else "", int(number[0]) if number else -1)


def oldest_first(
    names: Sequence[RotatedName], first_time: Callable[[int], float], last: Callable[[], float]
) -> list[int]:
    """Return the positions of `names`, the oldest file first; `last` returns the first time of the live file.

    The least number is the newest file (log4j 1, logrotate) or the oldest one (log4j2 with fileIndex=max). The order
    in which first times fall less often is taken, so that one clock that was set back does not decide. Files are
    sorted by first time if their names cannot be compared.
    """
    positions = range(len(names))
    if len(names) < 2:
        return [*positions]
    if len({(bool(name.date), name.number >= 0) for name in names}) > 1 or RotatedName("", -1) in names:
        return sorted(positions, key=first_time)
    falling = sorted(positions, key=lambda k: (names[k].date, -names[k].number))
    rising = sorted(positions, key=lambda k: names[k])
    if falling == rising:
        return rising
    return max(falling, rising, key=lambda order: _rises([*map(first_time, order), last()]))


def _rises(times: Sequence[float]) -> int:
    return sum(before <= after for before, after in pairwise(times))
