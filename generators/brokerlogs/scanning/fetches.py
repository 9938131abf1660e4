"""The lines that one fetch of a follower printed: by thread, or by distance where lines name no thread."""

from __future__ import annotations

import numpy as np

from generators.brokerlogs.scanning.arrays import Array, compiled
from generators.brokerlogs.scanning.leo_list import leo_of
from generators.brokerlogs.scanning.line_record import ADVANCED, ALTER, NOTED, PROPOSED, RECORDED, SKIPPED, UNDER_MIN

FETCH_MS = 500
"""Log time within which the lines of one fetch come (156 ms were seen on an idle machine)."""
STALL_MS = 5000
"""The same after a line of the HW, which only a fetch can move while the ISR has more members than the leader: a thread
may be delayed between the two (1.6 s were seen on an overloaded machine). Not right after a change of the ISR, which
moves the HW itself, without a fetch."""
STOCK_MS, STOCK_LINES = 100, 64
"""The same for the stock pattern, which names no thread."""
UNDECIDED = -2
"""In place of a line or a value: the lines at hand do not decide it yet."""


@compiled
def next_of_thread(lines: Array, n: int) -> Array:
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
def next_if(lines: Array, following: Array, n: int, i: int, kind: int, last: bool) -> int:
    """The next line of i's thread if it is of this kind and in time, else -1, or UNDECIDED."""
    j = following[i]
    limit = lines[i].ts + FETCH_MS
    if j < 0 or j >= n:
        return -1 if last or _passed(lines, i + 1, n, limit) else UNDECIDED
    if lines[j].kind != kind or _passed(lines, i + 1, j + 1, limit):
        return -1
    return int(j)


@compiled
def _same_fetch(buf: Array, lines: Array, hw: int, skipped: int, recorded: int) -> bool:
    """Whether a RECORDED line fits the attempt to raise the HW before it: a fetch at or above the HW that moved, or the
    LEO that the attempt printed (an append prints LEOs, too)."""
    line = lines[recorded]
    if skipped >= 0:
        return bool(leo_of(buf, lines[skipped], line.replica) == line.a)
    return bool(hw < 0 or line.a >= lines[hw].b)


@compiled
def _latest_fetch_ms(lines: Array, hw: int, state: Array) -> int:
    """Return the latest time (ms) of a RECORDED line that may belong to the fetch that moved the HW."""
    place = state[lines[hw].place]
    stalls = place.members > 1 and lines[hw].ts - place.changed > FETCH_MS
    return int(lines[hw].ts + (STALL_MS if stalls else FETCH_MS))


@compiled
def fetch_of_thread(
    buf: Array, lines: Array, following: Array, n: int, i: int, state: Array, last: bool
) -> tuple[int, int]:
    """(RECORDED line, ADVANCED line) of the fetch that line i opens, -1 or UNDECIDED where there is none.

    A fetch prints, on one thread: a proposal and its sending, the attempt to raise the HW, what it completed (of any
    partition), what it recorded.
    """
    place = lines[i].place
    hw = i if lines[i].kind == ADVANCED else -1
    limit = _latest_fetch_ms(lines, i, state) if hw >= 0 else lines[i].ts + FETCH_MS
    skipped = i if lines[i].kind == SKIPPED else -1
    tried = lines[i].kind != PROPOSED
    j = following[i]
    while True:
        if j < 0 or j >= n:
            return (-1 if last or _passed(lines, i + 1, n, limit) else UNDECIDED), -1
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
        if kind == ADVANCED:
            hw, limit = j, max(limit, _latest_fetch_ms(lines, j, state))
        skipped = j if kind == SKIPPED else skipped
        j = following[j]


@compiled
def fetch_nearby(buf: Array, lines: Array, decisions: Array, n: int, i: int, last: bool) -> tuple[int, int]:
    """The same without threads: the next fetch of the partition at or above the HW, an approximation."""
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
    return (-1 if last or i + STOCK_LINES < n else UNDECIDED), -1
