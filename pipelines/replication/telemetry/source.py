"""One telemetry source: its numbers, its clock, and the stretches that it has told."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from msgspec import Struct, field

from pipelines.replication.compiled.types import NEVER
from pipelines.replication.telemetry.coverage import CLOCK_JUMP_US
from pipelines.replication.telemetry.evidence import Evidence

Run = tuple[int, int, int, int]
"""A row of COVERAGE: (seq_from, seq_to, since, largest time)"""
Stretch = tuple[int, int, bool]
"""(first time, largest time, whether no row is missing between it and the stretch before)"""


class Source(Struct):
    """One incarnation of a telemetry writer. Times in microseconds, -1 where there is none yet."""

    cluster: str
    source_id: str
    source_epoch: int
    first_ts: int = -1
    """The time of its first row."""
    low_watermark: int = -1
    """Up to here its events are complete."""
    latest: int = -1
    """The largest time of its rows, those behind a hole included, those with a wrong clock not."""
    next_seq: int = 0
    pending_runs: list[Run] = field(default_factory=list)
    """Runs behind a hole."""
    lost: list[tuple[int, int]] = field(default_factory=list)
    """Numbers declared lost: a row with one of them is late, not a repeat."""
    clock_since: int | None = None
    """The first time of the stretch in which its clock is ahead of all others, while that lasts."""
    open_since: int | None = None
    """The largest time that any other source had told when that stretch came."""
    superseded: bool = False
    """A later incarnation has begun and this one has ended since: no more rows are expected."""
    told: list[Stretch] = field(default_factory=list)
    """Its stretches without a silence of a minute, in the order of their numbers; old ones that go on are one."""
    declared: list[int] = field(default_factory=list)
    """When it declared that rows before are missing."""
    doubtful: bool = False
    """Its first rows lie far ahead of all other sources: it counts for nothing until it or they show who is right."""

    evidence: Evidence | None = None
    """Kinds of evidence that it could have shown, kept in the bucket that owns it."""
    ends: list[int] = field(default_factory=list)
    """The last number of each stretch; -1 of those in states of earlier versions."""
    reset_at: int = -1
    """The last number as which its end was reported."""
    wrong_until: int = -1
    """The last number of its latest stretch of rows with a wrong clock."""
    brokers: list[int] = field(default_factory=list)
    """Brokers that its broker-wide rows name, which every bucket reads."""

    def __post_init__(self) -> None:
        self.ends = [-1] * (len(self.told) - len(self.ends)) + self.ends

    def restarts_numbers(self, seq: int, ts: int) -> bool:
        """Whether a number comes again with a time after all rows before: a repeat has the time of its original."""
        return seq < self.next_seq and ts > self.latest >= 0

    def tell(self, seq_from: int, seq_to: int, since: int, largest: int) -> None:
        """Add a run of rows to its stretches."""
        goes_on = not any(last + 1 == seq_from for _, last in self.lost[-1:])
        if self.told and goes_on and since <= self.told[-1][1] + CLOCK_JUMP_US:
            begins, ends, goes_on = self.told.pop()
            since, largest = begins, max(ends, largest)
            self.ends.pop()
        self.told.append((since, largest, goes_on))
        self.ends.append(seq_to)
        self.superseded = False

    def tells(self, since: int, until: int, as_of: int) -> bool:
        """Whether its rows go on from `since` to `until` without a missing one, of those up to `as_of`, which is later
        by a minute at least: the times within a stretch are not known."""
        after = bisect_right(self.declared, since)
        if after < len(self.declared) and self.declared[after] <= until + CLOCK_JUMP_US:
            return False
        begins, pending = NEVER, sorted(self.pending_runs)
        behind = ((run[2], run[3], run[0] == before[1] + 1) for before, run in pairwise([(0, -2, 0, 0), *pending]))
        for first, last, goes_on in (*self.told, *behind):
            begins = begins if goes_on and begins < NEVER else first
            if first <= as_of and begins <= since and last >= until:
                return True
        return False

    def declare_lost(self, ts: int) -> None:
        """Notes that it declared then that rows before are missing."""
        at = bisect_right(self.declared, ts)
        if not at or self.declared[at - 1] != ts:
            self.declared.insert(at, ts)

    def forget(self, before: int) -> None:
        """Join stretches of which nobody asks as of a time between them."""
        while len(self.told) > 1 and self.told[1][2] and self.told[1][0] <= before:
            begins, _, goes_on = self.told.pop(0)
            self.told[0] = begins, self.told[0][1], goes_on
            self.ends.pop(0)

    def resets(self, followed_at: int, as_of: int) -> Iterator[Gap]:
        """Yield the ends of this incarnation behind `followed_at`, when a later one began, that are not reported yet.

        It ends where no row follows for a minute: as of the time `as_of` none that belongs there is missing any more.
        """
        if self.superseded:
            return
        last = len(self.told) - 1
        for k, ((_, until, _), seq) in enumerate(zip(self.told, self.ends, strict=True)):
            silent_from = max(until + CLOCK_JUMP_US, followed_at)
            if k < last:
                has_ended = self.told[k + 1][0] > silent_from
            else:
                has_ended = silent_from <= as_of and not self.pending_runs
            self.superseded = has_ended and k == last
            if has_ended and seq > self.reset_at:
                self.reset_at = seq
                yield Gap(self, "reset", seq, seq, until)


@dataclass(frozen=True)
class Gap:
    """A finding about a source's own numbers or clock, for silver/telemetry_gaps."""

    source: Source
    kind: str
    seq_from: int
    seq_to: int
    ts: int
    detail: str | None = None
