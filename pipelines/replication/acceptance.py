"""Which rows of a micro-batch count: numbers without holes, repeats dropped, conflicts decided."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pipelines.replication.arrays import Records
from pipelines.replication.columns import I8, I32, I64
from pipelines.replication.compiled import compiled
from pipelines.replication.lanes import SERIES
from pipelines.replication.lines import PACKED

OF = SERIES.at


class Accepted(NamedTuple):
    """Rows in series order: order[start[k]:end[k]] may be read of series[k]; the rest of it waits.

    lines, order and clock, the running maximum of time in its series, go by position; dropped marks repeats; twins
    are pairs (kept, other) with one number; holes are (row, first missing, last missing) that have been waited for
    long enough.
    """

    lines: Records
    order: I64
    series: I32
    start: I64
    end: I64
    clock: I64
    dropped: I8
    gap_before: I8
    twins: I64
    holes: I64


@compiled
def accept(
    P: Records, series: I32, bounds: I64, rows: int, S: Records, overdue: I64, hole: I64
) -> Accepted:  # fmt: skip
    """Reads each series up to its first hole; a hole before overdue[source] is declared and read across.

    Nothing of a source is read after hole[source], where numbers of other partitions or of its own are missing.
    `rows`: how many the micro-batch has.
    """
    dropped = np.zeros(rows, dtype=np.int8)
    gap_before = np.zeros(rows, dtype=np.int8)
    order = np.empty(len(P), dtype=np.int64)
    clock = np.empty(len(P), dtype=np.int64)
    end = bounds[1:].copy()
    twins = np.empty((len(P), 2), dtype=np.int64)
    holes = np.empty((len(P), 3), dtype=np.int64)
    twin_count = hole_count = 0
    for k in range(len(series)):
        expected = S[series[k], OF.next_seq]
        latest = S[series[k], OF.last_ts]
        limit = overdue[S[series[k], OF.source]]
        behind = hole[S[series[k], OF.source]]
        last = np.int64(-1)
        reading = True
        for j in range(bounds[k], bounds[k + 1]):
            row, seq, ts = P[j, PACKED.row], P[j, PACKED.seq], P[j, PACKED.ts]
            order[j] = row
            if not reading:
                continue
            if seq < expected:
                dropped[row] = 1
                clock[j] = latest
                if last >= 0 and seq == expected - 1:
                    twins[twin_count, 0] = last
                    twins[twin_count, 1] = row
                    twin_count += 1
                continue
            if ts > behind or (seq > expected and ts > limit):
                end[k] = j
                reading = False
                continue
            if seq > expected:
                gap_before[row] = 1
                holes[hole_count, 0] = row
                holes[hole_count, 1] = expected
                holes[hole_count, 2] = seq - 1
                hole_count += 1
            expected = seq + 1
            latest = max(latest, ts)
            clock[j] = latest
            last = row
    return Accepted(
        P, order, series, bounds[:-1], end, clock, dropped, gap_before, twins[:twin_count], holes[:hole_count]
    )


@compiled
def read_on(a: Accepted, consumed: I8, S: Records) -> None:
    """Moves each series past what has been consumed of it."""
    for k in range(len(a.series)):
        j = a.end[k] - 1
        while j >= a.start[k] and (not consumed[a.order[j]] or a.dropped[a.order[j]]):
            j -= 1
        if j >= a.start[k]:
            S[a.series[k], OF.next_seq] = a.lines[j, PACKED.seq] + 1
            S[a.series[k], OF.last_ts] = a.clock[j]


@compiled
def clock_of(a: Accepted, rows: I64, series: I32, seq: I64) -> I64:
    """For each row, which has been read, the running maximum of time in its series."""
    clock = np.empty(len(rows), dtype=np.int64)
    for n in range(len(rows)):
        k = np.searchsorted(a.series, series[rows[n]])
        low, high = a.start[k], a.end[k]
        while low < high:
            middle = (low + high) >> 1
            if a.lines[middle, PACKED.seq] < seq[rows[n]]:
                low = middle + 1
            else:
                high = middle
        clock[n] = a.clock[low]
    return clock


@compiled
def falls(rows: I64, series: I32, hw: I64, S: Records, before: I64) -> int:
    """Follower HWs that fell below that broker's own earlier one: rows (moved to the front) and the HW before."""
    count = 0
    for k in range(len(rows)):
        row = rows[k]
        s = series[row]
        if hw[row] < S[s, OF.follower_hw]:
            rows[count] = row
            before[count] = S[s, OF.follower_hw]
            count += 1
        S[s, OF.follower_hw] = hw[row]
    return count
