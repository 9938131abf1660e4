"""Which rows of a micro-batch count: numbers without holes, repeats dropped, conflicts decided."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pipelines.replication.compiled.decorators import compiled
from pipelines.replication.compiled.records import Records
from pipelines.replication.compiled.types import I8, I32, I64, NULL
from pipelines.replication.events.packed_rows import PACKED, SERIES_TALLY
from pipelines.replication.term.layout import SERIES

OF = SERIES.at
IN_BATCH = SERIES_TALLY.at


class Accepted(NamedTuple):
    """Lines in series order: those of series[k] stand at bounds[k] to bounds[k + 1] and may be read up to end[k].

    `lines` has room to spare behind them. next_seq and last_ts are those of the series ahead of the micro-batch;
    latest is its largest time where every row is read and counts, else NULL. By row `dropped` marks repeats,
    `copied` those whose line counts in another file of the broker; twins are pairs (kept, other) with one number; holes
    are (row, first missing, last missing) that have been waited for long enough.
    """

    lines: Records
    series: I32
    bounds: I64
    end: I64
    next_seq: I64
    last_ts: I64
    latest: I64
    dropped: I8
    copied: I8
    gap_before: I8
    twins: I64
    holes: I64

    def counts(self, rows: I64) -> npt.NDArray[np.bool_]:
        """Which of these rows are neither repeats nor copies."""
        counts: npt.NDArray[np.bool_] = (self.dropped[rows] | self.copied[rows]) == 0
        return counts

    @property
    def start(self) -> I64:
        return self.bounds[:-1]

    @property
    def all_read(self) -> bool:
        """Every row may be read."""
        return bool((self.end == self.bounds[1:]).all())

    @property
    def whole(self) -> bool:
        """Every row of every series is read and counts."""
        return bool((self.latest != NULL).all())


@compiled
def accept(
    P: Records, series: I32, bounds: I64, G: Records, in_order: npt.NDArray[np.bool_], S: Records, overdue: I64,
    hole: I64, dropped: I8, gap_before: I8,
) -> tuple[I64, I64, I64, I64]:  # fmt: skip
    """(end, latest, twins, holes): reads each series up to its first hole; a hole before overdue[source] is declared
    and read across.

    Nothing of a source is read after hole[source], where numbers of other partitions or of its own are missing.
    A series whose numbers go on without a hole or a repeat need not be looked at row by row.
    """
    end, latest = bounds[1:].copy(), np.full(len(series), NULL)
    apart = 0
    for k in range(len(series)):
        s = series[k]
        goes_on = in_order[s] and G[s, IN_BATCH.first] == S[s, OF.next_seq]
        if goes_on and G[s, IN_BATCH.latest] <= hole[S[s, OF.source]]:
            latest[k] = max(S[s, OF.last_ts], G[s, IN_BATCH.latest])
        else:
            apart += bounds[k + 1] - bounds[k]
    twins, holes = np.empty((apart, 2), dtype=np.int64), np.empty((apart, 3), dtype=np.int64)
    twin_count = hole_count = 0
    for k in range(len(series)):
        if latest[k] != NULL:
            continue
        expected = S[series[k], OF.next_seq]
        limit = overdue[S[series[k], OF.source]]
        behind = hole[S[series[k], OF.source]]
        last = np.int64(-1)
        for j in range(bounds[k], bounds[k + 1]):
            row, seq, ts = P[j, PACKED.row], P[j, PACKED.seq], P[j, PACKED.ts]
            if seq < expected:
                dropped[row] = 1
                if last >= 0 and seq == expected - 1:
                    twins[twin_count, 0] = last
                    twins[twin_count, 1] = row
                    twin_count += 1
                continue
            if ts > behind or (seq > expected and ts > limit):
                end[k] = j
                break
            if seq > expected:
                gap_before[row] = 1
                holes[hole_count, 0] = row
                holes[hole_count, 1] = expected
                holes[hole_count, 2] = seq - 1
                hole_count += 1
            expected = seq + 1
            last = row
    return end, latest, twins[:twin_count], holes[:hole_count]


@compiled
def read_on(a: Accepted, consumed: I8, S: Records) -> None:
    """Moves each series past what has been consumed of it."""
    for k in range(len(a.series)):
        j = a.end[k] - 1
        while j >= a.bounds[k] and (not consumed[a.lines[j, PACKED.row]] or a.dropped[a.lines[j, PACKED.row]]):
            j -= 1
        if j >= a.bounds[k]:
            whole = a.latest[k] != NULL and j == a.end[k] - 1
            S[a.series[k], OF.last_ts] = a.latest[k] if whole else clock_at(a, k, j)
            S[a.series[k], OF.next_seq] = a.lines[j, PACKED.seq] + 1


@compiled
def clock_at(a: Accepted, k: int, position: int) -> int:
    """The running maximum of time in series[k] up to a position; repeats do not count."""
    expected, latest = a.next_seq[k], a.last_ts[k]
    for j in range(a.bounds[k], position + 1):
        if a.lines[j, PACKED.seq] >= expected:
            expected = a.lines[j, PACKED.seq] + 1
            latest = max(latest, a.lines[j, PACKED.ts])
    return int(latest)


@compiled
def clocks_of(a: Accepted, series: I32, seq: I64, order: I64) -> I64:
    """The running maximum of time in its series at each of these rows, which have been read.

    `order` is that of (series, seq): of each series but one walk is needed.
    """
    clock = np.empty(len(series), dtype=np.int64)
    k, j = -1, 0
    expected = latest = np.int64(0)
    for n in order:
        if k < 0 or a.series[k] != series[n]:
            k = np.searchsorted(a.series, series[n])
            j, expected, latest = a.bounds[k], a.next_seq[k], a.last_ts[k]
        while j < a.end[k] and (a.lines[j, PACKED.seq] <= seq[n]):
            if a.lines[j, PACKED.seq] >= expected:
                expected = a.lines[j, PACKED.seq] + 1
                latest = max(latest, a.lines[j, PACKED.ts])
            j += 1
        clock[n] = latest
    return clock


@compiled
def falls(rows: I64, hw: I64, epoch: I64, series: I32, S: Records) -> tuple[I64, I64]:
    """(rows of follower HWs that fell below that broker's own earlier one, the HW before each)."""
    fallen, before = np.empty(len(rows), dtype=np.int64), np.empty(len(rows), dtype=np.int64)
    count = 0
    for k in range(len(rows)):
        s = series[rows[k]]
        if hw[k] < S[s, OF.follower_hw]:
            fallen[count], before[count] = rows[k], S[s, OF.follower_hw]
            count += 1
        S[s, OF.follower_hw], S[s, OF.follower_epoch] = hw[k], epoch[k]
    return fallen[:count], before[:count]
