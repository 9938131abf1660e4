"""Runs of unchanged fetches as one row: rows inside a run are dropped, the row after them counts them in `repeats`.

A replica that has nothing to fetch sends a request again and again, and full TRACE prints each of them. A row may be
dropped if no table changes without it. `FetchRuns` has the rules, each with the reason why the reconstruction needs it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from generators.brokerlogs.scanning.arrays import Array, compiled
from generators.brokerlogs.tailing.progress import times
from pipelines.replication.compiled.hash_index import Keys
from pipelines.replication.compiled.types import MINUTE_US, NEVER
from pipelines.replication.events.columns import int32_column, int64_column

LONGEST_MS = 5_000
"""Longest time between two remaining rows of a run: half of Kafka's former default of `replica.lag.time.max.ms`."""
LONGEST_PART_OF_LAG = 2
"""And at most this part of the lag: after half of it a replica that fetches behind the leader would count as silent."""
JUMP_US, DISPLACED_US = 10_000_000, 1_000_000
"""A row this far ahead of its source, or behind it, ends every run: where clocks are wrong each row is evidence."""
CONCURRENT_US = 2 * DISPLACED_US
"""Events of a partition closer than this may be ordered either way by the reconstruction."""

_NUMBERS = ("leader_id", "leader_epoch", "partition_epoch", "replica_id", "level")
_OFFSETS = ("broker_epoch", "leo", "leader_leo", "log_start")
_ABSENT = (
    "hw", "isr", "replicas", "min_isr", "lag_max_ms", "unclean", "detail", "hw_before", "controller_epoch", "committed",
)  # fmt: skip
"""Columns that are null in a plain fetch; a row that has one is an event like others."""
_WIDTH = len(_NUMBERS) + len(_OFFSETS) + 1

_LEADERSHIP = np.dtype(
    [("source", "i4"), ("known", "i8"), ("stretch", "i8"), ("jumps", "i8"), ("clock", "i8"), ("other", "i8")],
    align=True,
)
"""A partition as one broker sees it.

`source`: the source of the last row. `known`: how often the LEOs known of its replicas were invalidated. `stretch`: how
often a row came that is no unchanged fetch. `jumps`: jumps of the source's clock until then. `clock`: time (us) of the
last row, `other`: of the last row of another source.
"""
_REPLICA = np.dtype(
    [
        ("known", "i8"),
        ("stretch", "i8"),
        ("seen", "i8"),
        ("ts", "i8"),
        ("kept", "i8"),
        ("pending", "i8"),
        ("values", "i8", (_WIDTH,)),
    ],
    align=True,
)
"""A replica that fetches from such a leader.

`known`, `stretch`: those of the leadership at its last fetch. `seen`: fetches in that stretch. `ts`: time (us) of the
last one, `kept`: of the last that remains for certain. `pending`: row that may still be left out, -1 for none.
`values`: columns of the last fetch but for its time.
"""
_SOURCE = np.dtype([("high", "i8"), ("jumps", "i8")], align=True)


class _Rows(NamedTuple):
    """Columns of one call, by row: `leadership` and `replica` are -1 where a row has none; times in microseconds."""

    source: Array
    leadership: Array
    replica: Array
    clock: Array
    next_other: Array
    ts: Array
    values: Array


class _Memory(NamedTuple):
    """The memory between calls, in records of _LEADERSHIP, _REPLICA and _SOURCE."""

    leaderships: Array
    replicas: Array
    sources: Array


class FetchRuns:
    """Runs of unchanged fetches, followed from round to round; a restart forgets them, which only leaves more rows.

    A run are fetches of one replica that differ in nothing but their time, of one source, in a stretch of a partition
    that has no other rows (unchanged fetches of other replicas excepted).

    - The first two of each stretch remain: the first may end a pause after a gap or change the LEO known of the
      replica; the second shows that the replica has received the HW of the first's answer (`silver/replica_hw`).
    - The last remains: the replica may have been caught up until then, and is silent from then on.
    - Remaining rows are no further apart than `longest_ms` and than half the lag, unless they were so in the log:
      silence is as long as it was.
    - A row goes only into a later row of the same minute: `silver/minute_stats` counts both there.
    - Around broker-wide events, and before the first row after one, all remain: it may be the row from which a new
      min ISR counts.
    - Around rows that another source of the broker has of the partition all remain.

    This holds for sources that are read together. Of a broker's logs that are read apart, one may have a leader or a
    min ISR within a run of another: a fact then comes later by at most the length of the run.
    """

    def __init__(self, longest_ms: int) -> None:
        self._longest = longest_ms * 1000
        self._topics: dict[str, int] = {}
        self._topic_ids: dict[str, int] = {}
        self._source_numbers: dict[tuple[str, int], int] = {}
        self._partition_keys, self._leadership_keys, self._replica_keys = Keys(), Keys(), Keys()
        self._memory = _Memory(*(np.zeros(0, kind) for kind in (_LEADERSHIP, _REPLICA, _SOURCE)))

    def limit_by_lag(self, events: pa.Table) -> None:
        """Make runs no longer than the `lag_max_ms` of these events allows."""
        if (least := pc.min(events["lag_max_ms"]).as_py()) is not None:
            self._longest = min(self._longest, least * 1000 // LONGEST_PART_OF_LAG)

    def source(self, source_id: str, epoch: int) -> int:
        """The number of an incarnation of a source."""
        return self._source_numbers.setdefault((source_id, epoch), len(self._source_numbers))

    def repeats(self, events: pa.Table, source: npt.NDArray[np.int32], clock: npt.NDArray[np.int64]) -> Array:
        """For each event the number of rows left out before it, -1 for those that are left out.

        `source` is the number of each event's source, `clock` (us) the running maximum of time of that source.
        """
        self.limit_by_lag(events)
        leadership, replica = self._numbered(events)
        self._grow()
        broker_wide = np.sort(times(events)[_broker_wide(events)])
        repeats = np.zeros(events.num_rows, np.int32)
        order = np.argsort(clock, kind="stable")
        next_other = _next_other(order, leadership, source, clock, self._leadership_keys.count)
        values = _fetch_values(events, self._topic_ids)
        rows = _Rows(source, leadership, replica, clock, next_other, times(events), values)
        _follow(order, rows, self._memory, broker_wide, self._longest, repeats)
        return repeats

    def _numbered(self, events: pa.Table) -> tuple[Array, Array]:
        """Leadership and replica of each row, -1 for broker-wide rows and for what is no plain fetch."""
        partition = int32_column(events["partition"]).astype(np.int64)
        topic_partition = self._partition_keys.number(
            np.where(partition < 0, -1, _codes(events["topic"], self._topics) << 32 | partition)
        )
        broker = int32_column(events["broker_id"]).astype(np.int64) & 0xFFFFFFFF
        leadership = self._leadership_keys.number(
            np.where(topic_partition < 0, -1, topic_partition.astype(np.int64) << 32 | broker)
        )
        fetcher = int32_column(events["replica_id"]).astype(np.int64)
        plain = _plain(events) & (fetcher >= 0) & (leadership >= 0)
        return leadership, self._replica_keys.number(np.where(plain, leadership.astype(np.int64) << 32 | fetcher, -1))

    def _grow(self) -> None:
        counts = (self._leadership_keys.count, self._replica_keys.count, len(self._source_numbers))
        self._memory = _Memory(*map(_grown, self._memory, counts))
        self._memory.replicas["pending"] = -1


def longest(lag_max_ms: int) -> int:
    """Milliseconds that a run may leave out, for this `replica.lag.time.max.ms`."""
    return min(LONGEST_MS, lag_max_ms // LONGEST_PART_OF_LAG)


def _grown(rows: Array, count: int) -> Array:
    return np.concatenate([rows, np.zeros(count - len(rows), rows.dtype)])


def _codes(column: pa.ChunkedArray, numbers: dict[str, int]) -> Array:
    """Texts as numbers that stay the same between calls, -1 for null."""
    encoded = column.combine_chunks().dictionary_encode()
    known = [numbers.setdefault(text, len(numbers)) for text in encoded.dictionary.to_pylist()]
    codes: Array = np.array([*known, -1], np.int64)[encoded.indices.fill_null(len(known)).to_numpy()]
    return codes


def _plain(events: pa.Table) -> npt.NDArray[np.bool_]:
    """Fetches of a level that prints them, with offsets and nothing else."""
    plain = np.asarray(pc.equal(events["event_type"], "fetch")) & (int32_column(events["level"]) % 2 == 1)
    for name in _ABSENT:
        if events[name].null_count < events.num_rows:
            plain &= np.asarray(events[name].is_null())
    with_leo: npt.NDArray[np.bool_] = plain & (int64_column(events["leo"]) >= 0)
    return with_leo


def _broker_wide(events: pa.Table) -> npt.NDArray[np.bool_]:
    """Broker-wide events that may change what a fetch means; `progress` does not."""
    broker_wide: npt.NDArray[np.bool_] = (int32_column(events["partition"]) < 0) & np.asarray(
        pc.not_equal(events["event_type"], "progress")
    )
    return broker_wide


def _fetch_values(events: pa.Table, topic_ids: dict[str, int]) -> Array:
    """The columns of a fetch but for its time, a row each."""
    values = np.empty((events.num_rows, _WIDTH), np.int64)
    for k, name in enumerate((*_NUMBERS, *_OFFSETS)):
        values[:, k] = int32_column(events[name]) if name in _NUMBERS else int64_column(events[name])
    values[:, -1] = _codes(events["topic_id"], topic_ids)
    return values


@compiled
def _next_other(order: Array, leadership: Array, source: Array, clock: Array, count: int) -> Array:
    """By row the time (us) of the next row that another source has of its leadership, NEVER where there is none."""
    last_source, last_clock, other_clock = np.full(count, -1, np.int32), np.full(count, NEVER), np.full(count, NEVER)
    next_other = np.full(len(leadership), NEVER)
    for i in order[::-1]:
        at = leadership[i]
        if at < 0:
            continue
        if last_source[at] >= 0 and last_source[at] != source[i]:
            other_clock[at] = last_clock[at]
        last_source[at], last_clock[at], next_other[i] = source[i], clock[i], other_clock[at]
    return next_other


@compiled
def _any_between(sorted_times: Array, before: int, now: int) -> bool:
    """Whether one of these times lies after `before`, and not after `now`."""
    at = np.searchsorted(sorted_times, before, side="right")
    return bool(at < len(sorted_times) and sorted_times[at] <= now)


@compiled
def _equal(values: Array, before: Any) -> bool:
    for k in range(_WIDTH):  # noqa: SIM110  (a generator cannot be compiled)
        if values[k] != before[k]:
            return False
    return True


@compiled
def _enter(leadership: Any, source: int, jumps: int, now: int, next_other: int, broker_wide: Array) -> None:
    """A row of a leadership: invalidate what is known of its replicas where their rows must not be left out."""
    if leadership.source != source:
        leadership.other = leadership.clock
    ends = leadership.source != source or leadership.jumps != jumps
    ends = ends or min(now - leadership.other, next_other - now) <= CONCURRENT_US
    ends = ends or _any_between(broker_wide, min(leadership.clock, now) - CONCURRENT_US, now + CONCURRENT_US)
    leadership.source, leadership.jumps, leadership.clock = source, jumps, now
    if ends:
        leadership.known += 1
        leadership.stretch += 1


@compiled
def _follow(order: Array, rows: _Rows, memory: _Memory, broker_wide: Array, longest: int, repeats: Array) -> None:
    """Fill `repeats` (see FetchRuns.repeats) for rows in `order`; `longest` in microseconds."""
    for i in order:
        source, now = memory.sources[rows.source[i]], rows.ts[i]
        source.jumps += now - source.high > JUMP_US or source.high - now > DISPLACED_US
        source.high = max(source.high, now)
        if rows.leadership[i] < 0:
            continue
        leadership = memory.leaderships[rows.leadership[i]]
        _enter(leadership, rows.source[i], source.jumps, rows.clock[i], rows.next_other[i], broker_wide)
        if rows.replica[i] < 0:
            leadership.known += 1
            leadership.stretch += 1
            continue
        replica = memory.replicas[rows.replica[i]]
        if replica.known != leadership.known or now < replica.ts or not _equal(rows.values[i], replica.values):
            leadership.stretch += 1
            replica.known, replica.stretch, replica.seen = leadership.known, leadership.stretch, 1
            replica.ts, replica.kept, replica.pending = now, now, -1
            replica.values[:] = rows.values[i]
            continue
        if replica.stretch != leadership.stretch:
            replica.stretch, replica.seen, replica.pending = leadership.stretch, 0, -1
        if replica.pending >= 0 and now - replica.kept <= longest and now // MINUTE_US == replica.ts // MINUTE_US:
            repeats[i] = repeats[replica.pending] + 1
            repeats[replica.pending] = -1
        else:
            replica.kept = replica.ts
        replica.seen += 1
        replica.ts, replica.pending = now, i if replica.seen > 2 else -1
