"""Events as packed rows: what every step needs of a row in one cache line, the rows of a series side by side, in order.

Columns are read in their own order and whole cache lines written. To read columns in the order of the series would
miss the cache once per column and row.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pipelines.replication.compiled.decorators import compiled, either, hot, kernel
from pipelines.replication.compiled.records import Arrays, Records, read_only, record_layout
from pipelines.replication.compiled.streaming_stores import write_line
from pipelines.replication.compiled.types import I8, I32, I64, NEVER, NULL, NULL32
from pipelines.replication.events.columns import CODE, RARE
from pipelines.replication.events.row_rules import FIRST_US, LAST_US
from pipelines.replication.events.row_slices import Bits, RowSlice

PACKED_ROW = record_layout(ts=0, seq=0, what=0, who=0, leo=0, leader_leo=0, more=0, row=0)
PACKED = PACKED_ROW.at
"""In the order in which `pack` writes them.

`what`: repeats << 44 | statistics row << 16 | level << 10 | gap before << 9 | dropped << 8 | event type.
`who`: leader epoch << 32 | replica id. `row`: the row of the micro-batch.
`more`: the broker epoch of a `fetch`; of a rare row its place among them; of an `hw` row the HW, and there `leo` is the
leader id and `leader_leo` the HW before.
"""

FOLLOWS, RISES, FALLS = 0, 1, 2
SERIES_TALLY = record_layout(count=0, first=NEVER, last=-1, latest=NULL, order=FOLLOWS)
"""What a micro-batch holds of a series: number of rows, smallest and largest sequence number, largest time, and the
order: each number FOLLOWS the one before; some are missing or repeated (RISES); some come after larger ones (FALLS)."""
TALLY = SERIES_TALLY.at
MOST_REPEATS = (1 << 19) - 1
"""The largest count of repeated fetches that `what` has room for, far more than a minute holds."""
_RARELY_GIVEN = ("hw_before", "repeats")
_NO_BITS = read_only(np.empty(0, dtype=np.uint8))
_FETCH, _HW = CODE["fetch"], CODE["hw"]


def times(rows: RowSlice) -> I64:
    """The times of these rows; 0, which moves no clock, of those whose time no event can have."""
    ts = rows.int64("ts")
    usable = (ts >= FIRST_US) & (ts <= LAST_US)
    return ts if usable.all() else read_only(np.where(usable, ts, 0))


@kernel
def tally(series: I32, seq: I64, ts: I64, tallies: Records) -> None:
    """Add rows to the tally of their series; those of series -1 count nowhere."""
    for row in range(len(series)):
        if series[row] < 0:
            continue
        s = np.uint32(series[row])
        number, last = seq[row], tallies[s, TALLY.last]
        if number != last + 1 and tallies[s, TALLY.count] > 0:
            tallies[s, TALLY.order] = max(tallies[s, TALLY.order], RISES if number >= last else FALLS)
        tallies[s, TALLY.count] += 1
        tallies[s, TALLY.first] = min(tallies[s, TALLY.first], number)
        tallies[s, TALLY.last] = max(last, number)
        tallies[s, TALLY.latest] = max(tallies[s, TALLY.latest], ts[row])


class SliceColumns(NamedTuple):
    """The columns of one slice that go into its packed rows, and which of their values are not null."""

    series: I32
    kind: I8
    stat: I32
    ts: I64
    seq: I64
    level: I32
    epoch: I32
    epoch_valid: Bits
    replica: I32
    replica_valid: Bits
    leader: I32
    leader_valid: Bits
    leo: I64
    leo_valid: Bits
    leader_leo: I64
    leader_leo_valid: Bits
    hw: I64
    hw_valid: Bits
    broker_epoch: I64
    broker_epoch_valid: Bits
    hw_before: I64
    hw_before_valid: Bits
    repeats: I32
    repeats_valid: Bits
    """This and `hw_before_valid` are empty where no row of the slice has a value."""

    @classmethod
    def from_slice(cls, rows: RowSlice, series: I32, kind: I8, stat: I32) -> SliceColumns:
        """`series`, `kind` and `stat` (the statistics row) are those of the whole micro-batch."""
        at = rows.rows
        before, repeats = (rows.valid(n) if rows.columns[n].null_count < len(rows) else _NO_BITS for n in _RARELY_GIVEN)
        return cls(
            series=read_only(series[at]), kind=read_only(kind[at]), stat=read_only(stat[at]),
            ts=times(rows), seq=rows.int64("seq"), level=rows.int32("level"),
            epoch=rows.int32("leader_epoch"), epoch_valid=rows.valid("leader_epoch"),
            replica=rows.int32("replica_id"), replica_valid=rows.valid("replica_id"),
            leader=rows.int32("leader_id"), leader_valid=rows.valid("leader_id"),
            leo=rows.int64("leo"), leo_valid=rows.valid("leo"),
            leader_leo=rows.int64("leader_leo"), leader_leo_valid=rows.valid("leader_leo"),
            hw=rows.int64("hw"), hw_valid=rows.valid("hw"),
            broker_epoch=rows.int64("broker_epoch"), broker_epoch_valid=rows.valid("broker_epoch"),
            hw_before=rows.int64("hw_before"), hw_before_valid=before,
            repeats=rows.int32("repeats"), repeats_valid=repeats,
        )  # fmt: skip


class PackingPlan:
    """The place of the next packed row of each series.

    Sources that are read in turns, or written by several writers, deliver falling sequence numbers although none is
    missing. Such a number gives the place of its row without a sort. If a number comes twice, `spoiled` is set, and all
    rows must be packed again with `in_arrival_order`, and sorted.
    """

    def __init__(self, tallies: Arrays, in_arrival_order: bool = False) -> None:
        size, first = tallies["count"], tallies["first"]
        self.series = np.flatnonzero(size).astype(np.int32)
        self.bounds: I64 = np.concatenate([[0], np.cumsum(size[self.series])])
        none_missing = size == tallies["last"] - first + 1
        self.by_number = (tallies["order"] == FALLS) & none_missing & (not in_arrival_order)
        self.in_order = (tallies["order"] == FOLLOWS) | self.by_number
        """By series: none of its numbers is missing between the first and the last, or repeated."""
        self.place = np.zeros(len(size), dtype=np.int64)
        self.place[self.series] = self.bounds[:-1] - np.where(self.by_number, first, 0)[self.series]
        self.filled = np.zeros(int(self.bounds[-1]) if self.by_number.any() else 0, dtype=np.bool_)
        self.rare, self.spoiled = 0, False

    @property
    def unsorted(self) -> I64:
        """A mask of `series` with rows in the order of arrival that is not the order of their numbers."""
        return np.flatnonzero(~self.in_order[self.series])


@hot
def _value_or(null: int, value: int, valid: Bits, row: int) -> int:
    """A value, or `null` where it is not valid. LLVM makes a jump of a conditional, and of a mask too, which no branch
    predictor foresees."""
    return either((valid[row >> 3] >> (row & 7)) & 1 != 0, value, null)


@kernel
def pack(
    columns: SliceColumns, first: int, place: I64, by_number: npt.NDArray[np.bool_], filled: npt.NDArray[np.bool_],
    rare: int, packed: Records,
) -> tuple[int, bool]:  # fmt: skip
    """(rare rows so far, whether a number came twice): packs the rows of a slice that begins at row `first`."""
    spoiled, any_repeats, any_before = False, len(columns.repeats_valid) > 0, len(columns.hw_before_valid) > 0
    for i in range(len(columns.series)):
        s = columns.series[i]
        if s < 0:
            continue
        j = place[s]
        if by_number[s]:
            j += columns.seq[i]
            spoiled |= filled[j]
            filled[j] = True
        else:
            place[s] = j + 1
        kind = columns.kind[i]
        offset = _value_or(NULL, columns.leo[i], columns.leo_valid, i)
        leader_leo = _value_or(NULL, columns.leader_leo[i], columns.leader_leo_valid, i)
        more = _value_or(NULL, columns.broker_epoch[i], columns.broker_epoch_valid, i)
        if kind == _HW:
            offset = _value_or(NULL32, columns.leader[i], columns.leader_valid, i)
            more = _value_or(NULL, columns.hw[i], columns.hw_valid, i)
            leader_leo = _value_or(NULL, columns.hw_before[i], columns.hw_before_valid, i) if any_before else NULL
        elif RARE[kind]:
            more = rare
            rare += 1
        replica = _value_or(NULL32, columns.replica[i], columns.replica_valid, i)
        epoch = _value_or(NULL32, columns.epoch[i], columns.epoch_valid, i)
        what = (np.int64(columns.stat[i]) << 16) | ((np.int64(columns.level[i]) & 3) << 10) | (np.int64(kind) & 0xFF)
        if any_repeats and kind == _FETCH and (columns.repeats_valid[i >> 3] >> (i & 7)) & 1:
            what |= np.int64(min(max(columns.repeats[i], 0), MOST_REPEATS)) << 44
        who = (epoch << 32) | (replica & 0xFFFFFFFF)
        write_line(packed, j, (columns.ts[i], columns.seq[i], what, who, offset, leader_leo, more, first + i))
    return rare, spoiled


@compiled
def sort_series(packed: Records, bounds: I64, unsorted: I64) -> None:
    """Sort the rows of these series by their numbers, and those of one number by time, where they are not in order."""
    for k in unsorted:
        start, end = bounds[k], bounds[k + 1]
        for j in range(start + 1, end):
            step = packed[j, PACKED.seq] - packed[j - 1, PACKED.seq]
            if step < 0 or (step == 0 and packed[j, PACKED.ts] < packed[j - 1, PACKED.ts]):
                rows = packed[start:end].copy()
                rows = rows[np.argsort(rows[:, PACKED.ts], kind="mergesort")]
                packed[start:end] = rows[np.argsort(rows[:, PACKED.seq], kind="mergesort")]
                break


@compiled
def flag(packed: Records, dropped: I8, gap_before: I8) -> None:
    """Mark the rows that are dropped, and those with a gap before them."""
    for j in range(len(packed)):
        row = packed[j, PACKED.row]
        packed[j, PACKED.what] |= (np.int64(gap_before[row]) << 9) | (np.int64(dropped[row]) << 8)
