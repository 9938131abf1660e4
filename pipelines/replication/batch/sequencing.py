"""The rows of a micro-batch that may be read and count: numbers without gaps, repeats dropped, conflicts found."""

from __future__ import annotations

from collections.abc import Set
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pipelines.replication.compiled.decorators import compiled
from pipelines.replication.compiled.records import Records
from pipelines.replication.compiled.types import I8, I32, I64, NEVER, NULL
from pipelines.replication.events.packed_rows import PACKED, TALLY
from pipelines.replication.rules import Rules
from pipelines.replication.state.state import State
from pipelines.replication.term.layout import SERIES

AT = SERIES.at


class PackedSeries(NamedTuple):
    """Packed rows in series order: those of series[k] stand at bounds[k] to bounds[k + 1]; room to spare follows."""

    rows: Records
    series: I32
    bounds: I64


class GapLimits(NamedTuple):
    """By source number: a gap in a series before the time `expired` has been waited for long enough; rows after the
    time `complete_until` stand behind a gap in the numbers of the whole source."""

    expired: I64
    complete_until: I64


def gap_limits(state: State, rules: Rules, closed: Set[str]) -> GapLimits:
    """By source number the deadline of its gaps, on its own clock unless it has been silent for the grace; and the time
    after which its rows stand behind a gap in its own numbers. In clusters that are `closed` no gap is waited for."""
    names, grace = state.source_names.all, rules.reorder_grace_ms * 1000
    expired, complete_until = np.full((2, len(names)), NEVER, dtype=np.int64)
    latest = {cluster: state.sources.latest(cluster) for cluster in state.sources.clusters()}
    for number, name in enumerate(names):
        if name[0] in closed:
            continue
        source, newest = state.sources.known.get(name), latest.get(str(name[0]), -1)
        own = source.latest if source is not None else -1
        expired[number] = (own if newest - own < grace else newest) - grace
        if source is not None and source.pending_runs:
            complete_until[number] = source.low_watermark
    return GapLimits(expired, complete_until)


class RowFlags(NamedTuple):
    """By row of the micro-batch: whether it is a repeat, and whether a gap before it was read across."""

    dropped: I8
    gap_before: I8


class Accepted(NamedTuple):
    """Packed rows in series order: those of series[k] stand at bounds[k] to bounds[k + 1], readable up to end[k].

    `next_seq` and `last_ts` are those of the series before the micro-batch; `latest` is its largest time where every
    row is readable and counts, else NULL. By row: `dropped` marks repeats, `copied` rows whose line counts in another
    file of the broker, `gap_before` rows with a gap before them that was read across. `conflicts` are pairs (kept,
    other) of rows with one number; `gaps` are (row, first missing, last missing) of the gaps read across.
    """

    rows: Records
    series: I32
    bounds: I64
    end: I64
    next_seq: I64
    last_ts: I64
    latest: I64
    dropped: I8
    copied: I8
    gap_before: I8
    conflicts: I64
    gaps: I64

    def counts(self, rows: I64) -> npt.NDArray[np.bool_]:
        """A mask of these rows of the micro-batch that are neither repeats nor copies."""
        counts: npt.NDArray[np.bool_] = (self.dropped[rows] | self.copied[rows]) == 0
        return counts

    @property
    def start(self) -> I64:
        return self.bounds[:-1]

    def lane_start(self, state: Records) -> I64:
        """The first row that the lane of each series reads: behind all readable rows if it reads none."""
        return _lane_start(self.rows, self.series, self.bounds, self.end, state)

    @property
    def all_readable(self) -> bool:
        """Whether every row may be read."""
        return bool((self.end == self.bounds[1:]).all())

    @property
    def all_count(self) -> bool:
        """Whether every row may be read and counts."""
        return bool((self.latest != NULL).all())


@compiled
def accept(
    packed: PackedSeries, tallies: Records, in_order: npt.NDArray[np.bool_], state: Records, limits: GapLimits,
    flags: RowFlags,
) -> tuple[I64, I64, I64, I64]:  # fmt: skip
    """(end, latest, conflicts, gaps), see Accepted: reads each series up to its first gap, and across expired ones.

    `tallies` and `in_order` are those of PackingPlan, `state` the rows of SERIES. A series whose numbers go on without
    a gap or a repeat need not be looked at row by row.
    """
    rows, bounds = packed.rows, packed.bounds
    end, latest = bounds[1:].copy(), np.full(len(packed.series), NULL)
    row_by_row = 0
    for k in range(len(packed.series)):
        s = packed.series[k]
        goes_on = in_order[s] and tallies[s, TALLY.first] == state[s, AT.next_seq]
        if goes_on and tallies[s, TALLY.latest] <= limits.complete_until[state[s, AT.source]]:
            latest[k] = max(state[s, AT.last_ts], tallies[s, TALLY.latest])
        else:
            row_by_row += bounds[k + 1] - bounds[k]
    conflicts, gaps = np.empty((row_by_row, 2), dtype=np.int64), np.empty((row_by_row, 3), dtype=np.int64)
    conflict_count = gap_count = 0
    for k in range(len(packed.series)):
        if latest[k] != NULL:
            continue
        s = packed.series[k]
        expected = state[s, AT.next_seq]
        expired = limits.expired[state[s, AT.source]]
        complete_until = limits.complete_until[state[s, AT.source]]
        last = np.int64(-1)
        for j in range(bounds[k], bounds[k + 1]):
            row, seq, ts = rows[j, PACKED.row], rows[j, PACKED.seq], rows[j, PACKED.ts]
            if seq < expected:
                flags.dropped[row] = 1
                if last >= 0 and seq == expected - 1:
                    conflicts[conflict_count, 0] = last
                    conflicts[conflict_count, 1] = row
                    conflict_count += 1
                continue
            is_expired = ts <= expired if ts > 0 else complete_until == NEVER  # by its source
            if ts > complete_until or (seq > expected and not is_expired):
                end[k] = j
                break
            if seq > expected:
                flags.gap_before[row] = 1
                gaps[gap_count, 0] = row
                gaps[gap_count, 1] = expected
                gaps[gap_count, 2] = seq - 1
                gap_count += 1
            expected = seq + 1
            last = row
    return end, latest, conflicts[:conflict_count], gaps[:gap_count]


@compiled
def _lane_start(rows: Records, series: I32, bounds: I64, end: I64, state: Records) -> I64:
    start = end.copy()
    for k in range(len(series)):
        if state[series[k], AT.lane] >= 0:
            start[k] = bounds[k]
            while start[k] < end[k] and rows[start[k], PACKED.seq] < state[series[k], AT.leads_from]:
                start[k] += 1
    return start


@compiled
def advance_series(accepted: Accepted, consumed: I8, state: Records) -> None:
    """Move the next number and last time of each series past the rows that were consumed."""
    for k in range(len(accepted.series)):
        j = accepted.end[k] - 1
        while j >= accepted.bounds[k]:
            row = accepted.rows[j, PACKED.row]
            if consumed[row] and not accepted.dropped[row]:
                break
            j -= 1
        if j >= accepted.bounds[k]:
            to_the_end = accepted.latest[k] != NULL and j == accepted.end[k] - 1
            state[accepted.series[k], AT.last_ts] = accepted.latest[k] if to_the_end else clock_at(accepted, k, j)
            state[accepted.series[k], AT.next_seq] = accepted.rows[j, PACKED.seq] + 1


@compiled
def clock_at(accepted: Accepted, place: int, position: int) -> int:
    """The running maximum of time in series[place] up to a position; repeats do not count."""
    expected, latest = accepted.next_seq[place], accepted.last_ts[place]
    for j in range(accepted.bounds[place], position + 1):
        if accepted.rows[j, PACKED.seq] >= expected:
            expected = accepted.rows[j, PACKED.seq] + 1
            latest = max(latest, accepted.rows[j, PACKED.ts])
    return int(latest)


@compiled
def clocks_of(accepted: Accepted, series: I32, seq: I64, order: I64) -> I64:
    """The running maximum of time in its series at each of these rows, which have been read.

    `order` sorts them by (series, seq), so that each series is walked once.
    """
    clock = np.empty(len(series), dtype=np.int64)
    k, j = -1, 0
    expected = latest = np.int64(0)
    for n in order:
        if k < 0 or accepted.series[k] != series[n]:
            k = np.searchsorted(accepted.series, series[n])
            j, expected, latest = accepted.bounds[k], accepted.next_seq[k], accepted.last_ts[k]
        while j < accepted.end[k] and (accepted.rows[j, PACKED.seq] <= seq[n]):
            if accepted.rows[j, PACKED.seq] >= expected:
                expected = accepted.rows[j, PACKED.seq] + 1
                latest = max(latest, accepted.rows[j, PACKED.ts])
            j += 1
        clock[n] = latest
    return clock


@compiled
def follower_hw_falls(rows: I64, hw: I64, epoch: I64, series: I32, state: Records) -> tuple[I64, I64]:
    """(rows with a follower's HW below that broker's own earlier one, the HW before each)."""
    fallen, before = np.empty(len(rows), dtype=np.int64), np.empty(len(rows), dtype=np.int64)
    count = 0
    for k in range(len(rows)):
        s = series[rows[k]]
        if hw[k] < state[s, AT.follower_hw]:
            fallen[count], before[count] = rows[k], state[s, AT.follower_hw]
            count += 1
        state[s, AT.follower_hw], state[s, AT.follower_epoch] = hw[k], epoch[k]
    return fallen[:count], before[:count]
