"""Unchanged fetches told once: of a run of them the inside goes, and the row after it says how many went.

A replica that has nothing to fetch asks again and again, and full TRACE tells each time. Such a row may go where no
table comes out otherwise; `Runs` has the rules, with what of the reconstruction asks for each.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from generators.brokerlogs.scanning.arrays import Array, compiled
from generators.brokerlogs.tailing.progress import times
from pipelines.replication.compiled.hash_index import Keys
from pipelines.replication.events.columns import int32_column, int64_column

LONGEST_MS = 5_000
"""Between two rows of a run that stay, at most: half of Kafka's former default of `replica.lag.time.max.ms`."""
LONGEST_PART_OF_LAG = 2
"""And at most this part of the lag: after half of it a replica that fetches behind the leader would seem silent."""
JUMP_US, DISPLACED_US = 10_000_000, 1_000_000
"""A row so far ahead of its source, or behind it, ends every run: where clocks are wrong each row is evidence."""
APART_US = 2 * DISPLACED_US
"""Two events of a partition whose order is for the reconstruction to say are closer than this."""
MINUTE_US = 60_000_000

_NUMBERS = ("leader_id", "leader_epoch", "partition_epoch", "replica_id", "level")
_OFFSETS = ("broker_epoch", "leo", "leader_leo", "log_start")
_UNTOLD = (
    "hw", "isr", "replicas", "min_isr", "lag_max_ms", "unclean", "detail", "hw_before", "controller_epoch", "committed",
)  # fmt: skip
"""What a plain fetch does not tell; any other is an event like others."""
_WIDTH = len(_NUMBERS) + len(_OFFSETS) + 1

_LANE = np.dtype(
    [("source", "i4"), ("known", "i8"), ("stretch", "i8"), ("jumps", "i8"), ("clock", "i8"), ("other", "i8")],
    align=True,
)
"""A partition as one broker tells of it: who told last; how often what was told of replicas ceased to count; how often
anything but unchanged fetches was told; jumps of the source's clock until then; the time of the last row, and of the
last one that another source told."""
_REPLICA = np.dtype(
    [
        ("known", "i8"),
        ("stretch", "i8"),
        ("seen", "i8"),
        ("ts", "i8"),
        ("kept", "i8"),
        ("waits", "i8"),
        ("said", "i8", (_WIDTH,)),
    ],
    align=True,
)
"""A replica that fetches there: as of which `known` and `stretch` of its lane, fetches seen in that stretch, the time
of the last one and of the last that is known to stay, the row that may still go (-1: none), and what it said."""
_SOURCE = np.dtype([("high", "i8"), ("jumps", "i8")], align=True)
NEVER = 1 << 62


class Runs:
    """Runs of unchanged fetches, followed from round to round; what is forgotten with the process only saves less.

    Of the fetches of one replica that differ in nothing but their time, told by one source in a stretch of a partition
    in which nothing else is told (the fetches of others that change nothing excepted),

    - the first two of each stretch stay: the first may end a hold or change what is known of the replica's LEO, by
      the second it tells that it has learnt the HW of the first's answer (`silver/replica_hw`);
    - the last stays: from it on the replica has not been heard of, and it may have been caught up until then;
    - rows that stay are no further apart than `longest_ms` and than half the lag, or were told so: silence is as long
      as it was;
    - one goes only into a later row of the same minute: `silver/minute_stats` counts both there;
    - around broker-wide events, and before the first row after one, all stay: it may be the one by which a new min ISR
      counts;
    - around what another source of the broker tells of the partition all stay.

    That holds for what is read together: of a broker's logs that are read apart one may tell of a leader or a min ISR
    within a run of another, and a fact then comes later by as much as the run is long.
    """

    def __init__(self, longest_ms: int) -> None:
        self._longest = longest_ms * 1000
        self._topics: dict[str, int] = {}
        self._topic_ids: dict[str, int] = {}
        self._sources: dict[tuple[str, int], int] = {}
        self._places, self._lane_keys, self._replica_keys = Keys(), Keys(), Keys()
        self._lanes, self._replicas, self._of_sources = (np.zeros(0, kind) for kind in (_LANE, _REPLICA, _SOURCE))

    def heed(self, events: pa.Table) -> None:
        """Runs are no longer than the lag that these events tell allows."""
        if (least := pc.min(events["lag_max_ms"]).as_py()) is not None:
            self._longest = min(self._longest, least * 1000 // LONGEST_PART_OF_LAG)

    def source(self, source_id: str, epoch: int) -> int:
        """The number of an incarnation of a source."""
        return self._sources.setdefault((source_id, epoch), len(self._sources))

    def repeats(self, events: pa.Table, source: npt.NDArray[np.int32], clock: npt.NDArray[np.int64]) -> Array:
        """For each of these events how many went into it, -1 for those that go.

        `source` numbers who told each, `clock` (us) is what each source had told until then.
        """
        self.heed(events)
        lane, replica = self._numbered(events)
        self._grow()
        cuts = np.sort(times(events)[_broker_wide(events)])
        repeats = np.zeros(events.num_rows, np.int32)
        order = np.argsort(clock, kind="stable")
        _follow(
            order, source, lane, replica, clock, _next_other(order, lane, source, clock, self._lane_keys.count),
            times(events), _said(events, self._topic_ids), cuts, self._lanes, self._replicas, self._of_sources,
            self._longest, repeats,
        )  # fmt: skip
        return repeats

    def _numbered(self, events: pa.Table) -> tuple[Array, Array]:
        """Lane and replica of each row, -1 for broker-wide rows, and for what is no plain fetch."""
        partition = int32_column(events["partition"]).astype(np.int64)
        place = self._places.number(
            np.where(partition < 0, -1, _codes(events["topic"], self._topics) << 32 | partition)
        )
        broker = int32_column(events["broker_id"]).astype(np.int64) & 0xFFFFFFFF
        lane = self._lane_keys.number(np.where(place < 0, -1, place.astype(np.int64) << 32 | broker))
        fetcher = int32_column(events["replica_id"]).astype(np.int64)
        plain = _plain(events) & (fetcher >= 0) & (lane >= 0)
        return lane, self._replica_keys.number(np.where(plain, lane.astype(np.int64) << 32 | fetcher, -1))

    def _grow(self) -> None:
        self._lanes = _grown(self._lanes, self._lane_keys.count)
        self._replicas = _grown(self._replicas, self._replica_keys.count)
        self._of_sources = _grown(self._of_sources, len(self._sources))
        self._replicas["waits"] = -1


def longest(lag_max_ms: int) -> int:
    """Milliseconds that a run may leave out, for this `replica.lag.time.max.ms`."""
    return min(LONGEST_MS, lag_max_ms // LONGEST_PART_OF_LAG)


def _grown(rows: Array, count: int) -> Array:
    return np.concatenate([rows, np.zeros(count - len(rows), rows.dtype)])


def _codes(column: pa.ChunkedArray, numbers: dict[str, int]) -> Array:
    """Words as lasting numbers, -1 for null."""
    encoded = column.combine_chunks().dictionary_encode()
    known = [numbers.setdefault(word, len(numbers)) for word in encoded.dictionary.to_pylist()]
    codes: Array = np.array([*known, -1], np.int64)[encoded.indices.fill_null(len(known)).to_numpy()]
    return codes


def _plain(events: pa.Table) -> npt.NDArray[np.bool_]:
    """Fetches of a level that tells them, and nothing but their offsets."""
    plain = np.asarray(pc.equal(events["event_type"], "fetch")) & (int32_column(events["level"]) % 2 == 1)
    for name in _UNTOLD:
        if events[name].null_count < events.num_rows:
            plain &= np.asarray(events[name].is_null())
    told: npt.NDArray[np.bool_] = plain & (int64_column(events["leo"]) >= 0)
    return told


def _broker_wide(events: pa.Table) -> npt.NDArray[np.bool_]:
    """Broker-wide events that may change what a fetch comes to; `progress` does not."""
    told: npt.NDArray[np.bool_] = (int32_column(events["partition"]) < 0) & np.asarray(
        pc.not_equal(events["event_type"], "progress")
    )
    return told


def _said(events: pa.Table, topic_ids: dict[str, int]) -> Array:
    """What a fetch says but for its time, a row each."""
    said = np.empty((events.num_rows, _WIDTH), np.int64)
    for k, name in enumerate((*_NUMBERS, *_OFFSETS)):
        said[:, k] = int32_column(events[name]) if name in _NUMBERS else int64_column(events[name])
    said[:, -1] = _codes(events["topic_id"], topic_ids)
    return said


@compiled
def _next_other(order: Array, lane: Array, source: Array, clock: Array, lanes: int) -> Array:
    """By row when another source tells next of its lane."""
    of, at, then = np.full(lanes, -1, np.int32), np.full(lanes, NEVER), np.full(lanes, NEVER)
    other = np.full(len(lane), NEVER)
    for i in order[::-1]:
        n = lane[i]
        if n < 0:
            continue
        if of[n] >= 0 and of[n] != source[i]:
            then[n] = at[n]
        of[n], at[n], other[i] = source[i], clock[i], then[n]
    return other


@compiled
def _cut(cuts: Array, before: int, now: int) -> bool:
    """Whether one of these times lies after `before`, and not after `now`."""
    at = np.searchsorted(cuts, before, side="right")
    return bool(at < len(cuts) and cuts[at] <= now)


@compiled
def _alike(said: Array, before: Any) -> bool:
    for k in range(_WIDTH):  # noqa: SIM110  (a generator cannot be compiled)
        if said[k] != before[k]:
            return False
    return True


@compiled
def _enter(lane: Any, source: int, jumps: int, now: int, next_other: int, cuts: Array) -> None:
    """A row of a lane: whether what was told of its replicas still counts."""
    if lane.source != source:
        lane.other = lane.clock
    ends = lane.source != source or lane.jumps != jumps
    ends = ends or min(now - lane.other, next_other - now) <= APART_US
    ends = ends or _cut(cuts, min(lane.clock, now) - APART_US, now + APART_US)
    lane.source, lane.jumps, lane.clock = source, jumps, now
    if ends:
        lane.known += 1
        lane.stretch += 1


@compiled
def _follow(
    order: Array, source: Array, lane: Array, replica: Array, clock: Array, next_other: Array, ts: Array, said: Array,
    cuts: Array, L: Array, R: Array, S: Array, longest: int, repeats: Array,
) -> None:  # fmt: skip
    for i in order:
        s, now = S[source[i]], ts[i]
        s.jumps += now - s.high > JUMP_US or s.high - now > DISPLACED_US
        s.high = max(s.high, now)
        if lane[i] < 0:
            continue
        n = L[lane[i]]
        _enter(n, source[i], s.jumps, clock[i], next_other[i], cuts)
        if replica[i] < 0:
            n.known += 1
            n.stretch += 1
            continue
        r = R[replica[i]]
        if r.known != n.known or now < r.ts or not _alike(said[i], r.said):
            n.stretch += 1
            r.known, r.stretch, r.seen, r.ts, r.kept, r.waits = n.known, n.stretch, 1, now, now, -1
            r.said[:] = said[i]
            continue
        if r.stretch != n.stretch:
            r.stretch, r.seen, r.waits = n.stretch, 0, -1
        if r.waits >= 0 and now - r.kept <= longest and now // MINUTE_US == r.ts // MINUTE_US:
            repeats[i] = repeats[r.waits] + 1
            repeats[r.waits] = -1
        else:
            r.kept = r.ts
        r.seen += 1
        r.ts, r.waits = now, i if r.seen > 2 else -1
