"""Events as lines: what every row needs in one cache line, those of a series side by side and in order.

Columns are read as they stand and whole lines written: to read columns in another order than theirs would miss the
cache once per column and row.
"""

from __future__ import annotations

import numpy as np

from pipelines.replication.arrays import Records, shape
from pipelines.replication.columns import I8, I32, I64, Columns
from pipelines.replication.compiled import compiled

LINE = shape(ts=0, seq=0, what=0, who=0, leo=0, leader_leo=0, hw=0, row=0)
PACKED = LINE.at
"""`what` is statistics row << 16 | hole before << 9 | dropped << 8 | event type, `who` leader id << 32 | replica id,
`row` the row of the micro-batch."""


@compiled
def group(series: I32, count: int) -> tuple[I32, I64]:
    """(series that occur, bounds of their lines); rows of series -1 have no line."""
    size = np.zeros(count, dtype=np.int64)
    for row in range(len(series)):
        if series[row] >= 0:
            size[series[row]] += 1
    which = np.flatnonzero(size).astype(np.int32)
    bounds = np.zeros(len(which) + 1, dtype=np.int64)
    bounds[1:] = np.cumsum(size[which])
    return which, bounds


@compiled
def pack(C: Columns, series: I32, stat: I32, which: I32, bounds: I64, count: int, P: Records) -> None:
    """Writes the line of each row behind those of its series that came before."""
    place = np.empty(count, dtype=np.int64)
    for k in range(len(which)):
        place[which[k]] = bounds[k]
    for i in range(len(series)):
        if series[i] < 0:
            continue
        j = place[series[i]]
        place[series[i]] = j + 1
        P[j, PACKED.ts] = C.ts[i]
        P[j, PACKED.seq] = C.seq[i]
        P[j, PACKED.what] = (np.int64(stat[i]) << 16) | (np.int64(C.kind[i]) & 0xFF)
        P[j, PACKED.who] = (np.int64(C.leader_id[i]) << 32) | (np.int64(C.replica[i]) & 0xFFFFFFFF)
        P[j, PACKED.leo] = C.leo[i]
        P[j, PACKED.leader_leo] = C.leader_leo[i]
        P[j, PACKED.hw] = C.hw[i]
        P[j, PACKED.row] = i


@compiled
def sort_segments(P: Records, bounds: I64) -> None:
    """Puts each series into the order of its numbers, where it is not yet."""
    for k in range(len(bounds) - 1):
        start, end = bounds[k], bounds[k + 1]
        for j in range(start + 1, end):
            if P[j, PACKED.seq] < P[j - 1, PACKED.seq]:
                lines = P[start:end].copy()
                P[start:end] = lines[np.argsort(lines[:, PACKED.seq], kind="mergesort")]
                break


@compiled
def flag(P: Records, dropped: I8, gap_before: I8) -> None:
    """Marks the lines of rows that are dropped, or have a hole before them."""
    for j in range(len(P)):
        row = P[j, PACKED.row]
        P[j, PACKED.what] |= (np.int64(gap_before[row]) << 9) | (np.int64(dropped[row]) << 8)
