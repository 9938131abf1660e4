"""Which lines belong together, at what telemetry level, and where lines are missing: decided line by line.

A decision looks ahead, by log time or line numbers, never by how the bytes were cut: where the lines at hand
do not decide it yet, everything from there on waits.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from generators.brokerlogs.compiled import Array, compiled
from generators.brokerlogs.leos import leo_of
from generators.brokerlogs.lines import (
    ADVANCED,
    ALTER,
    BROKEN,
    CREATING,
    LEADING,
    NOTED,
    PROPOSED,
    RECORDED,
    SKIPPED,
    TRUNCATING,
    UNDER_MIN,
    UNIFIED,
)

FETCH_MS = 500
"""Log time that one fetch's lines may be apart (66 ms were seen)."""
STOCK_MS, STOCK_LINES = 100, 64
"""The same for the stock pattern, which names no thread."""
LEVEL_MS, REOPEN_MS = 10_000, 1000
"""Log time in which a source shows its level, and for which that answer is not asked for again."""
HOLE_LINES, HOLE_MS = 1000, 5000
"""Numbers, or log time, after which a missing `%sn` is lost (threads displaced lines by up to 745)."""
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
UNREADABLE = -1
"""In place of a number of lost lines: a broken one, in a log that numbers none."""


@compiled
def _next_of_thread(lines: Array, n: int) -> Array:
    following = np.full(n, -1, np.int32)
    threads = 0
    for i in range(n):
        threads = max(threads, lines[i].thread + 1)
    last = np.full(threads, -1, np.int32)
    for i in range(n - 1, -1, -1):
        thread = lines[i].thread
        if thread >= 0:
            following[i] = last[thread]
            last[thread] = i
    return following


@compiled
def _passed(lines: Array, start: int, stop: int, limit: int) -> bool:
    """Whether a line of [start, stop) has a time above `limit`."""
    for i in range(start, stop):  # noqa: SIM110  (a generator cannot be compiled)
        if lines[i].ts > limit:
            return True
    return False


@compiled
def _follower(lines: Array, following: Array, n: int, i: int, kind: int, last: bool) -> int:
    """The next line of i's thread if it has that shape and comes in time: (line, -1 for none or -2 for undecided)."""
    j = following[i]
    limit = lines[i].ts + FETCH_MS
    if j < 0:
        return -1 if last or _passed(lines, i + 1, n, limit) else -2
    if lines[j].kind != kind or _passed(lines, i + 1, j + 1, limit):
        return -1
    return int(j)


@compiled
def _same_fetch(buf: Array, lines: Array, hw: int, skipped: int, recorded: int) -> bool:
    """Whether a RECORDED line fits what the attempt to raise the HW printed: a fetch at or above the HW it
    moved, or the very LEO that the attempt saw (an append prints LEOs too)."""
    line = lines[recorded]
    if skipped >= 0:
        return bool(leo_of(buf, lines[skipped], line.replica) == line.a)
    return bool(hw < 0 or line.a >= lines[hw].b)


@compiled
def _fetch_of_thread(buf: Array, lines: Array, following: Array, n: int, i: int, last: bool) -> tuple[int, int]:
    """(RECORDED line, ADVANCED line) of the fetch that line i opens.

    A fetch prints, on one thread: a proposal and its sending, the attempt to raise the HW, what it completed
    (of any partition), what it recorded.
    """
    place, limit = lines[i].place, lines[i].ts + FETCH_MS
    hw = i if lines[i].kind == ADVANCED else -1
    skipped = i if lines[i].kind == SKIPPED else -1
    tried = lines[i].kind != PROPOSED
    j = following[i]
    while True:
        if j < 0:
            return (-1 if last or _passed(lines, i + 1, n, limit) else -2), -1
        kind = lines[j].kind
        same = lines[j].place == place
        if kind == RECORDED:
            fits = same and _same_fetch(buf, lines, hw, skipped, j) and not _passed(lines, i + 1, j + 1, limit)
            return (j, hw) if fits else (-1, -1)
        if kind == NOTED:
            j = following[j]
            continue
        if tried or not (kind == ALTER or (same and (kind in (ADVANCED, SKIPPED, UNDER_MIN)))):
            return -1, -1
        tried = kind != ALTER
        hw = j if kind == ADVANCED else hw
        skipped = j if kind == SKIPPED else skipped
        j = following[j]


@compiled
def _fetch_nearby(buf: Array, lines: Array, decisions: Array, n: int, i: int, last: bool) -> tuple[int, int]:
    """The same without threads: the next fetch of the partition at or above the HW, as well as can be told."""
    hw = i if lines[i].kind == ADVANCED else -1
    skipped = i if lines[i].kind == SKIPPED else -1
    for j in range(i + 1, min(n, i + 1 + STOCK_LINES)):
        if lines[j].ts > lines[i].ts + STOCK_MS:
            return -1, -1
        if lines[j].place != lines[i].place:
            continue
        kind = lines[j].kind
        if kind == RECORDED and not decisions[j].taken and _same_fetch(buf, lines, hw, skipped, j):
            return j, hw
        if kind in (ADVANCED, SKIPPED, PROPOSED):
            return -1, -1
    return (-1 if last or i + STOCK_LINES < n else -2), -1


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
def decide(buf: Array, lines: Array, n: int, taken: Array, state: Any, forced: int, last: bool) -> tuple[Array, int]:
    """Decisions for a prefix of the lines: (decisions, length of the prefix). `state` moves on to its end.

    `taken` are the lines that a decision of an earlier call already took.
    """
    decisions = np.zeros(n, DECISION)
    for j in taken:
        decisions[j].taken = 1
    following = _next_of_thread(lines, n)
    for i in range(n):
        line, decision = lines[i], decisions[i]
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
            decision.fetch, decision.hw = _fetch_of_thread(buf, lines, following, n, i, last)
        elif opens:
            decision.fetch, decision.hw = _fetch_nearby(buf, lines, decisions, n, i, last)
        elif kind == TRUNCATING and line.thread >= 0:
            decision.fetch = _follower(lines, following, n, i, UNIFIED, last)
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
        decision.level = max(level, INFO)
        state.level, state.opened, state.number = level, opened, greatest
        if kind == RECORDED:
            state.full = 1
        state.broken, state.ts = kind == BROKEN, line.ts
    return decisions, n
