"""Which rows of a micro-batch count: numbers without holes, repeats dropped, conflicts decided."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pipelines.replication.arrays import Records
from pipelines.replication.columns import I8, I32, I64
from pipelines.replication.compiled import compiled
from pipelines.replication.lanes import SERIES

OF = SERIES.at


class Accepted(NamedTuple):
    """Rows in series order: order[start[k]:end[k]] may be read of series[k]; the rest of it waits.

    dropped marks repeats; twins are pairs (kept, other) with one number; holes are
    (row, first missing, last missing) that have been waited for long enough.
    """

    order: I64
    series: I32
    start: I64
    end: I64
    dropped: I8
    gap_before: I8
    twins: I64
    holes: I64


@compiled
def group(series: I32, count: int) -> tuple[I64, I32, I64]:
    """Rows by series (stable counting sort): (order, series that occur, their bounds)."""
    size = np.zeros(count + 1, dtype=np.int64)
    for row in range(len(series)):
        size[series[row] + 1] += 1
    present = 0
    for s in range(count):
        if size[s + 1]:
            present += 1
        size[s + 1] += size[s]
    which = np.empty(present, dtype=np.int32)
    bounds = np.empty(present + 1, dtype=np.int64)
    k = 0
    for s in range(count):
        if size[s + 1] > size[s]:
            which[k] = s
            bounds[k] = size[s]
            k += 1
    bounds[present] = len(series)
    order = np.empty(len(series), dtype=np.int64)
    for row in range(len(series)):
        order[size[series[row]]] = row
        size[series[row]] += 1
    return order, which, bounds


@compiled
def sort_segments(order: I64, bounds: I64, seq: I64) -> None:
    """Puts each segment into the order of its numbers, where it is not yet."""
    for k in range(len(bounds) - 1):
        start, end = bounds[k], bounds[k + 1]
        for j in range(start + 1, end):
            if seq[order[j]] < seq[order[j - 1]]:
                rows = order[start:end].copy()
                order[start:end] = rows[np.argsort(seq[rows], kind="mergesort")]
                break


@compiled
def accept(order: I64, series: I32, bounds: I64, seq: I64, ts: I64, S: Records, overdue: I64, hole: I64) -> Accepted:
    """Reads each series up to its first hole; a hole before overdue[source] is declared and read across.

    Nothing of a source is read after hole[source], where numbers of other partitions or of its own are missing.
    """
    dropped = np.zeros(len(seq), dtype=np.int8)
    gap_before = np.zeros(len(seq), dtype=np.int8)
    end = bounds[1:].copy()
    twins = np.empty((len(seq), 2), dtype=np.int64)
    holes = np.empty((len(seq), 3), dtype=np.int64)
    twin_count = hole_count = 0
    for k in range(len(series)):
        expected = S[series[k], OF.next_seq]
        limit = overdue[S[series[k], OF.source]]
        behind = hole[S[series[k], OF.source]]
        last = -1
        for j in range(bounds[k], bounds[k + 1]):
            row = order[j]
            if seq[row] >= expected and ts[row] > behind:
                end[k] = j
                break
            if seq[row] < expected:
                dropped[row] = 1
                if last >= 0 and seq[row] == seq[last]:
                    twins[twin_count, 0] = last
                    twins[twin_count, 1] = row
                    twin_count += 1
                continue
            if seq[row] > expected:
                if ts[row] > limit:
                    end[k] = j
                    break
                gap_before[row] = 1
                holes[hole_count, 0] = row
                holes[hole_count, 1] = expected
                holes[hole_count, 2] = seq[row] - 1
                hole_count += 1
            expected = seq[row] + 1
            last = row
    return Accepted(order, series, bounds[:-1], end, dropped, gap_before, twins[:twin_count], holes[:hole_count])


@compiled
def read_on(a: Accepted, seq: I64, ts: I64, consumed: I8, S: Records, clock: I64) -> None:
    """Moves each series past what has been consumed of it; clock[row] is its running maximum of time."""
    for k in range(len(a.series)):
        s = a.series[k]
        for j in range(a.start[k], a.end[k]):
            row = a.order[j]
            if consumed[row] and seq[row] >= S[s, OF.next_seq]:
                S[s, OF.next_seq] = seq[row] + 1
                S[s, OF.last_ts] = max(S[s, OF.last_ts], ts[row])
                clock[row] = S[s, OF.last_ts]


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
