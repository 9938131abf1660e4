"""Which lines belong together, at what telemetry level, and where lines are missing: decided line by line.

A decision looks ahead, by log time or line numbers, never by how the bytes were cut: where the lines at hand
do not decide it yet, everything from there on waits.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from generators.brokerlogs.events.event_rows import UNREADABLE
from generators.brokerlogs.scanning.arrays import Array, compiled
from generators.brokerlogs.scanning.fetches import fetch_nearby, fetch_of_thread, follower, next_of_thread
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
"""Log time in which a source shows its level, and for which that answer is not asked for again."""
HOLE_LINES, HOLE_MS = 1000, 5000
"""Numbers, or log time, after which a missing `%sn` is lost (threads displaced lines by up to 745)."""
AHEAD_LINES, AHEAD_BYTES = 1 << 18, 1 << 25
"""The furthest that a decision looks ahead where neither time nor numbers go on, as in a stack trace of no end."""
RESTART_MS = 1000
"""A JVM needs longer than this to come back and number from 1 again; a displaced line is not so far from its like."""
FULL, LEAN, INFO, OPEN = 3, 2, 0, -1

DECISION = np.dtype(
    [("fetch", "i4"), ("hw", "i4"), ("lost", "i8"), ("level", "i1"), ("taken", "i1"), ("start", "i1")], align=True
)
"""Of a line: the RECORDED line whose fetch it opens (-1), that fetch's ADVANCED line (-1), line numbers lost before
it, the level, whether an earlier line of its fetch has told it, and whether line numbers begin anew with it."""
STATE = np.dtype(
    [("level", "i1"), ("full", "i1"), ("broken", "i1"), ("opened", "i8"), ("number", "i8"), ("ts", "i8")], align=True
)
"""Carried on: the level (-1 open), whether fetches were ever printed, whether the last line was broken, when the level
was asked for, the greatest `%sn` so far (-1 none) and the time of the last line (-1)."""


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
    """How many of the numbers between `greatest` and line i's never come; -1 while that is open."""
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
def decide(
    buf: Array, lines: Array, n: int, taken: Array, places: Array, state: Any, forced: int, last: bool
) -> tuple[Array, int]:
    """Decisions for a prefix of the lines: (decisions, length of the prefix). `state` and `places` move on to its end.

    `taken` are the lines that a decision of an earlier call already took.
    """
    decisions = np.zeros(n, DECISION)
    for j in taken:
        decisions[j].taken = 1
    following, count, at_end = next_of_thread(lines, n), n, last
    n = 0
    for i in range(count):
        line, decision = lines[i], decisions[i]
        while n < count and n - i < AHEAD_LINES and lines[n].end - line.start < AHEAD_BYTES:
            n += 1
        last = at_end or n < count
        kind = line.kind
        if line.ts < 0:
            line.ts = state.ts
        decision.fetch = decision.hw = -1
        telling = kind in (ADVANCED, SKIPPED, UNDER_MIN)
        level, opened = state.level, state.opened
        if kind == RECORDED:
            level = FULL
        elif line.ts >= 0 and (
            level == OPEN
            or (level == INFO and telling)
            or (kind == (LEADING if level == INFO else CREATING) and line.ts > opened + REOPEN_MS)
        ):
            level, opened = _level_from(lines, n, i, last), line.ts
            if level == OPEN:
                return decisions, i
            if level == LEAN and state.full:  # nobody fetched: that alone is no change of what is printed
                level = FULL
        if forced >= 0:
            level = forced
        opens = (telling or kind == PROPOSED) and level == FULL and not decision.taken
        if opens and line.thread >= 0:
            decision.fetch, decision.hw = fetch_of_thread(buf, lines, following, n, i, places, last)
        elif opens:
            decision.fetch, decision.hw = fetch_nearby(buf, lines, decisions, n, i, last)
        elif kind == TRUNCATING and line.thread >= 0:
            decision.fetch = follower(lines, following, n, i, UNIFIED, last)
        if decision.fetch == -2:
            return decisions, i
        greatest = state.number
        if line.number >= 0:
            if line.number <= greatest and line.ts - state.ts >= RESTART_MS:
                greatest, decision.start = 0, 1
            if greatest >= 0 and line.number > greatest + 1:
                decision.lost = _lost_before(lines, n, i, greatest, last)
                if decision.lost < 0:
                    return decisions, i
            greatest = max(greatest, line.number)
        elif kind == BROKEN and greatest < 0 and not state.broken and line.ts >= 0:
            decision.lost = UNREADABLE
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
