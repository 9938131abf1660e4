"""The lines of each fetch, the telemetry level, and missing lines: decided line by line.

A decision looks ahead by log time or line numbers, never by how the bytes were cut: if the present lines do not decide
it yet, all lines from there on wait.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from generators.brokerlogs.events.event_rows import UNREADABLE
from generators.brokerlogs.scanning.arrays import Array, compiled
from generators.brokerlogs.scanning.fetches import UNDECIDED, fetch_nearby, fetch_of_thread, next_if, next_of_thread
from generators.brokerlogs.scanning.line_record import (
    ADVANCED,
    BROKEN,
    CREATING,
    LEADING,
    PROPOSED,
    RECORDED,
    SKIPPED,
    TRUNCATING,
    UNDER_MIN,
    UNIFIED,
)

LEVEL_MS, REOPEN_MS = 10_000, 1000
"""Log time in which a source shows its level, and for which a level stays valid at starts of terms."""
HOLE_LINES, HOLE_MS = 1000, 5000
"""Numbers, or log time, after which a missing `%sn` is lost (threads were seen to displace lines by up to 745)."""
AHEAD_LINES, AHEAD_BYTES = 1 << 18, 1 << 25
"""Limits to looking ahead where neither time nor numbers advance, as in an endless stack trace."""
RESTART_MS = 1000
"""A JVM needs longer than this to restart and number from 1 again; a displaced line is closer to its neighbours."""
FIRST_LINES = 16
"""Numbers with which a JVM begins whose clock was set back meanwhile: its first threads may displace the very first."""
FULL, LEAN, INFO, OPEN = 3, 2, 0, -1

DECISION = np.dtype(
    [("fetch", "i4"), ("hw", "i4"), ("lost", "i8"), ("level", "i1"), ("taken", "i1"), ("start", "i1")], align=True
)
"""Decision on a line.

`fetch`: the RECORDED line whose fetch it opens, -1 for none. `hw`: that fetch's ADVANCED line, -1 for none. `lost`:
line numbers lost before it. `level`: telemetry level. `taken`: whether an earlier line of its fetch stands for it.
`start`: whether line numbers begin again with it.
"""
STATE = np.dtype(
    [("level", "i1"), ("full", "i1"), ("broken", "i1"), ("opened", "i8"), ("number", "i8"), ("ts", "i8")], align=True
)
"""State between calls, stored in snapshots.

`level`: -1 while open. `full`: whether fetches were ever printed. `broken`: whether the last line was broken. `opened`:
when the level was determined last. `number`: the greatest `%sn` so far, -1 for none. `ts`: time (ms) of the last line,
-1 for none.
"""


@compiled
def _level_from(lines: Array, n: int, i: int, last: bool) -> int:
    """The level that the lines from i on show, OPEN if they do not yet."""
    level = INFO
    for j in range(i, n):
        if lines[j].ts > lines[i].ts + LEVEL_MS:
            return level
        kind = lines[j].kind
        if kind == RECORDED:
            return FULL
        if kind in (ADVANCED, SKIPPED, UNDER_MIN):
            level = LEAN
    return level if last else OPEN


@compiled
def _lost_before(lines: Array, n: int, i: int, greatest: int, last: bool) -> int:
    """The number of missing numbers between `greatest` and that of line i; UNDECIDED values are -1."""
    number = lines[i].number
    low = max(greatest + 1, number - HOLE_LINES)
    missing = number - low
    seen = np.zeros(missing, np.bool_)
    gone = low - greatest - 1
    top = number
    for j in range(i + 1, n):
        if missing == 0 or top >= number + HOLE_LINES or lines[j].ts > lines[i].ts + HOLE_MS:
            return int(gone + missing)
        other = lines[j].number
        if low <= other < number and not seen[other - low]:
            seen[other - low] = True
            missing -= 1
        top = max(top, other)
    return int(gone + missing) if last or missing == 0 else -1


@compiled
def _level_at(lines: Array, n: int, i: int, state: Any, last: bool) -> tuple[int, int]:
    """(level at line i, when it was determined last); the level is UNDECIDED where the lines at hand do not show it."""
    line = lines[i]
    kind, level = line.kind, state.level
    if kind == RECORDED:
        return FULL, state.opened
    starts_term = kind == (LEADING if level == INFO else CREATING)
    unexpected = level == INFO and kind in (ADVANCED, SKIPPED, UNDER_MIN)
    if line.ts < 0 or not (level == OPEN or unexpected or (starts_term and line.ts > state.opened + REOPEN_MS)):
        return level, state.opened
    level = _level_from(lines, n, i, last)
    if level == OPEN:
        return UNDECIDED, line.ts
    if level == LEAN and state.full:  # nobody fetched: that alone is no change of what is printed
        level = FULL
    return level, line.ts


@compiled
def _greatest_number(lines: Array, n: int, i: int, decision: Any, state: Any, last: bool) -> int:
    """Return the greatest `%sn` up to line i, UNDECIDED if the count of lost lines needs lines that are still to come.

    Sets `decision.lost` to the number of lines lost before line i, and `decision.start` if the numbers begin again.
    """
    line, greatest = lines[i], state.number
    if line.number < 0:
        if line.kind == BROKEN and greatest < 0 and not state.broken and line.ts >= 0:
            decision.lost = UNREADABLE
        return int(greatest)
    since = line.ts - state.ts
    if line.number <= greatest and (since >= RESTART_MS or (since <= -RESTART_MS and line.number <= FIRST_LINES)):
        greatest, decision.start = 0, 1
    if greatest >= 0 and line.number > greatest + 1:
        decision.lost = _lost_before(lines, n, i, greatest, last)
        if decision.lost < 0:
            return UNDECIDED
    return int(max(greatest, line.number))


@compiled
def decide(
    buf: Array, lines: Array, count: int, taken: Array, places: Array, state: Any, last: bool
) -> tuple[Array, int]:
    """Decisions for a prefix of `count` lines: (decisions, length of the prefix).

    `state` (STATE) and `places` (PARTITION) move on to its end. `taken` are the lines that a decision of an earlier
    call took; `last`: no lines will follow.
    """
    decisions = np.zeros(count, DECISION)
    for j in taken:
        decisions[j].taken = 1
    following, at_end = next_of_thread(lines, count), last
    n = 0  # how far a decision looks ahead
    for i in range(count):
        line, decision = lines[i], decisions[i]
        while n < count and n - i < AHEAD_LINES and lines[n].end - line.start < AHEAD_BYTES:
            n += 1
        last = at_end or n < count
        kind = line.kind
        if line.ts < 0:
            line.ts = state.ts
        decision.fetch = decision.hw = -1
        level, opened = _level_at(lines, n, i, state, last)
        if level == UNDECIDED:
            return decisions, i
        opens = kind in (ADVANCED, SKIPPED, UNDER_MIN, PROPOSED) and level == FULL and not decision.taken
        if opens and line.thread >= 0:
            decision.fetch, decision.hw = fetch_of_thread(buf, lines, following, n, i, places, last)
        elif opens:
            decision.fetch, decision.hw = fetch_nearby(buf, lines, decisions, n, i, last)
        elif kind == TRUNCATING and line.thread >= 0:
            decision.fetch = next_if(lines, following, n, i, UNIFIED, last)
        if decision.fetch == UNDECIDED:
            return decisions, i
        greatest = _greatest_number(lines, n, i, decision, state, last)
        if greatest == UNDECIDED:
            return decisions, i
        if opens and decision.fetch >= 0:
            decisions[decision.fetch].taken = 1
            if decision.hw >= 0 and decision.hw != i:
                decisions[decision.hw].taken = 1
        if line.members > 0 and line.place >= 0:
            places[line.place].members, places[line.place].changed = line.members, line.ts
        decision.level = max(level, INFO)
        state.level, state.opened, state.number = level, opened, greatest
        if kind == RECORDED:
            state.full = 1
        state.broken, state.ts = kind == BROKEN, line.ts
    return decisions, count
