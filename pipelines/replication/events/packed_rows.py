"""Events as lines: what every row needs in one cache line, those of a series side by side and in order.

Columns are read as they stand and whole lines written: to read columns in another order than theirs would miss the
cache once per column and row.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pipelines.replication.compiled.decorators import compiled, hot, kernel
from pipelines.replication.compiled.records import Arrays, Records, record_layout
from pipelines.replication.compiled.streaming_stores import write_line
from pipelines.replication.compiled.types import I8, I32, I64, NULL, NULL32, frozen
from pipelines.replication.events.columns import CODE, RARE
from pipelines.replication.events.row_slices import Bits, Piece

LINE = record_layout(ts=0, seq=0, what=0, who=0, leo=0, leader_leo=0, more=0, row=0)
PACKED = LINE.at
"""In the order in which `pack` writes them. `what` is repeats << 44 | statistics row << 16 | level << 10 | hole before
<< 9 | dropped << 8 | event type, `who` leader epoch << 32 | replica id, `row` the row of the micro-batch. `more` is the
HW of an `hw` row, whose `leo` is the leader id and whose `leader_leo` the HW before, the broker epoch of a `fetch`, and
of a rare row its place among them."""

FOLLOWS, RISES, FALLS = 0, 1, 2
SERIAL = record_layout(count=0, first=1 << 62, last=-1, latest=NULL, order=FOLLOWS)
"""What a micro-batch holds of a series: rows, least and largest number, largest time, and whether each number follows
the one before, some are missing or told twice, or some come after larger ones."""
OF = SERIAL.at
MOST_REPEATS = (1 << 19) - 1
"""What `what` has room for: many more than a minute holds."""
_FETCH, _HW = CODE["fetch"], CODE["hw"]


@kernel
def tally(series: I32, seq: I64, ts: I64, G: Records) -> None:
    """Adds rows to what is known of their series; those of series -1 count nowhere."""
    for row in range(len(series)):
        if series[row] < 0:
            continue
        s = np.uint32(series[row])
        number, last = seq[row], G[s, OF.last]
        if number != last + 1 and G[s, OF.count] > 0:
            G[s, OF.order] = max(G[s, OF.order], RISES if number >= last else FALLS)
        G[s, OF.count] += 1
        G[s, OF.first] = min(G[s, OF.first], number)
        G[s, OF.last] = max(last, number)
        G[s, OF.latest] = max(G[s, OF.latest], ts[row])


class Fields(NamedTuple):
    """The columns of one piece that its lines hold, and which values of theirs are not null."""

    series: I32
    kind: I8
    stat: I32
    ts: I64
    seq: I64
    level: I32
    epoch: I32
    epoch_told: Bits
    replica: I32
    replica_told: Bits
    leader: I32
    leader_told: Bits
    leo: I64
    leo_told: Bits
    leader_leo: I64
    leader_leo_told: Bits
    hw: I64
    hw_told: Bits
    broker_epoch: I64
    broker_epoch_told: Bits
    hw_before: I64
    hw_before_told: Bits
    repeats: I32
    repeats_told: Bits
    """Without a value where no row of the piece has one."""

    @classmethod
    def of(cls, piece: Piece, series: I32, kind: I8, stat: I32) -> Fields:
        """`series`, `kind` and `stat` are those of the whole micro-batch."""
        rows, some = piece.rows, piece.columns["repeats"].null_count < len(piece)
        return cls(
            series=frozen(series[rows]), kind=frozen(kind[rows]), stat=frozen(stat[rows]),
            ts=piece.wide("ts"), seq=piece.wide("seq"), level=piece.narrow("level"),
            epoch=piece.narrow("leader_epoch"), epoch_told=piece.valid("leader_epoch"),
            replica=piece.narrow("replica_id"), replica_told=piece.valid("replica_id"),
            leader=piece.narrow("leader_id"), leader_told=piece.valid("leader_id"),
            leo=piece.wide("leo"), leo_told=piece.valid("leo"),
            leader_leo=piece.wide("leader_leo"), leader_leo_told=piece.valid("leader_leo"),
            hw=piece.wide("hw"), hw_told=piece.valid("hw"),
            broker_epoch=piece.wide("broker_epoch"), broker_epoch_told=piece.valid("broker_epoch"),
            hw_before=piece.wide("hw_before"), hw_before_told=piece.valid("hw_before"),
            repeats=piece.narrow("repeats"), repeats_told=piece.valid("repeats")[: len(piece) if some else 0],
        )  # fmt: skip


class Packing:
    """Where the next line of each series goes.

    Numbers that fall, but of which none is missing, say themselves where their lines go: sources that are read in
    turns, or written by several hands, come so. Should one turn out to be told twice, `spoiled` says so and all is
    to be packed again `as_they_come`, to be sorted then.
    """

    def __init__(self, groups: Arrays, as_they_come: bool = False) -> None:
        size, first = groups["count"], groups["first"]
        self.series = np.flatnonzero(size).astype(np.int32)
        self.bounds: I64 = np.concatenate([[0], np.cumsum(size[self.series])])
        told_once = size == groups["last"] - first + 1
        self.by_number = (groups["order"] == FALLS) & told_once & (not as_they_come)
        self.in_order = (groups["order"] == FOLLOWS) | self.by_number
        """By number of the series: no number of it is missing between its first and its last, or told twice."""
        self.place = np.zeros(len(size), dtype=np.int64)
        self.place[self.series] = self.bounds[:-1] - np.where(self.by_number, first, 0)[self.series]
        self.filled = np.zeros(int(self.bounds[-1]) if self.by_number.any() else 0, dtype=np.bool_)
        self.rare, self.spoiled = 0, False

    @property
    def unsorted(self) -> I64:
        """Which of `series` stand as they came, and out of order."""
        return np.flatnonzero(~self.in_order[self.series])


@hot
def _told_or(null: int, value: int, told: Bits, row: int) -> int:
    """A value, or what stands for null. By a mask: of a choice LLVM makes a jump, over the read of the value, that
    nobody can foretell."""
    mask = (np.int64(told[row >> 3]) << np.int64(63 - (row & 7))) >> np.int64(63)
    return int((value & mask) | (null & ~mask))


@kernel
def pack(
    F: Fields, first: int, place: I64, by_number: npt.NDArray[np.bool_], filled: npt.NDArray[np.bool_], rare: int,
    P: Records,
) -> tuple[int, bool]:  # fmt: skip
    """Writes the lines of a piece that begins at row `first`; (rare rows so far, whether a number came twice)."""
    spoiled, repeated = False, len(F.repeats_told) > 0
    for i in range(len(F.series)):
        s = F.series[i]
        if s < 0:
            continue
        j = place[s]
        if by_number[s]:
            j += F.seq[i]
            spoiled |= filled[j]
            filled[j] = True
        else:
            place[s] = j + 1
        byte, bit, k = i >> 3, i & 7, F.kind[i]
        leader_leo, replica = F.leader_leo[i], F.replica[i]  # read, told or not: no branch to foretell
        offset = _told_or(NULL, F.leo[i], F.leo_told, i)
        more = F.broker_epoch[i] if (F.broker_epoch_told[byte] >> bit) & 1 else NULL
        if k == _HW:
            offset = F.leader[i] if (F.leader_told[byte] >> bit) & 1 else NULL32
            more = F.hw[i] if (F.hw_told[byte] >> bit) & 1 else NULL
            leader_leo = F.hw_before[i] if (F.hw_before_told[byte] >> bit) & 1 else NULL
        elif RARE[k]:
            more = rare
            rare += 1
        who = replica if (F.replica_told[byte] >> bit) & 1 else NULL32
        of = F.epoch[i] if (F.epoch_told[byte] >> bit) & 1 else NULL32
        what = (np.int64(F.stat[i]) << 16) | ((np.int64(F.level[i]) & 3) << 10) | (np.int64(k) & 0xFF)
        if repeated and k == _FETCH and (F.repeats_told[byte] >> bit) & 1:
            what |= np.int64(min(max(F.repeats[i], 0), MOST_REPEATS)) << 44
        whose = (np.int64(of) << 32) | (np.int64(who) & 0xFFFFFFFF)
        if k != _HW:
            leader_leo = leader_leo if (F.leader_leo_told[byte] >> bit) & 1 else NULL
        write_line(P, j, (F.ts[i], F.seq[i], what, whose, offset, leader_leo, more, first + i))
    return rare, spoiled


@compiled
def sort_segments(P: Records, bounds: I64, unsorted: I64) -> None:
    """Puts these series into the order of their numbers, where they are not yet."""
    for k in unsorted:
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
