"""From a micro-batch of events to numbered columns: who told what of which partition, and what may be read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.replication.batch.sequencing import Accepted, accept, clocks_of
from pipelines.replication.compiled.decorators import compiled, kernel
from pipelines.replication.compiled.hash_index import Keys, enter
from pipelines.replication.compiled.records import Arrays, Records, lines, record_layout
from pipelines.replication.compiled.types import I8, I32, I64, frozen
from pipelines.replication.events.columns import CODE, RARE, VOID, Columns, columns, plain, rows_of, wide
from pipelines.replication.events.packed_rows import SERIAL, Fields, Packing, pack, sort_segments, tally
from pipelines.replication.events.row_slices import Bits, Piece
from pipelines.replication.events.sources_of_rows import Written
from pipelines.replication.facts.tables import SCHEMAS, table
from pipelines.replication.state.state import State
from pipelines.replication.term.layout import SERIES

_LEADS = np.zeros(len(CODE) + 1, dtype=np.bool_)
_LEADS[[CODE[n] for n in ("leader", "append", "fetch", "replica_leo", "isr_proposed", "isr_rejected")]] = True
"""Event types that only a leading broker tells of itself."""
HW = CODE["hw"]
MINUTE_US = 60_000_000
MINUTES = record_layout(since=1 << 62, broker=0, number=0)
"""By source the minute of its last row, in microseconds, the broker in it, and the statistics row of both."""
MINUTE = MINUTES.at


@dataclass(frozen=True)
class Batch:
    """One micro-batch, the rows that waited before included; broker-wide rows are of series -1."""

    events: pa.Table
    series: I32
    stat_keys: I64
    """What the statistics rows are of: see `stat_place`."""
    accepted: Accepted
    rare: I64
    """Rows that go to histories, ascending."""
    rare_events: pa.Table
    """The rare rows."""
    columns: Columns
    """Of the rare rows."""

    def told(self, name: str, rows: I64) -> I64:
        """What a 64-bit or time column says in these rows."""
        return wide(rows_of(self.events.select([name]), rows)[name])

    def clocks(self, rows: I64) -> I64:
        """For each of these rows, which have been read, the running maximum of time in its series."""
        series, seq = self.series[rows], self.told("seq", rows)
        return clocks_of(self.accepted, series, frozen(seq), np.lexsort((seq, series)))


def encode(column: pa.ChunkedArray, name: Callable[[str], int]) -> I32:
    """A string column as numbers, -1 for null; `name` numbers each distinct value once."""
    if column.null_count == len(column):
        return np.full(len(column), -1, dtype=np.int32)
    array = plain(column)
    if not pa.types.is_dictionary(array.type):
        array = array.dictionary_encode()
    numbers = np.array([*(name(v) for v in array.dictionary.to_pylist()), -1], dtype=np.int32)
    indices = array.indices
    plain_indices = indices.fill_null(len(numbers) - 1) if indices.null_count else indices
    encoded: I32 = numbers[plain_indices.to_numpy(zero_copy_only=False)]
    return encoded


def read(state: State, written: Written, overdue: Callable[[], tuple[I64, I64]]) -> Batch:
    """Numbers the rows and decides which of those on partitions may be read now.

    `overdue` gives, per source number, the time at or before which a hole has been waited for long enough,
    and the time after which its rows stand behind a hole of the whole source.
    """
    events, numbers = written.events, _Numbers(state, written)
    for piece, source in zip(written.pieces, written.by, strict=True):
        numbers.take(piece, source)
    rare = np.concatenate([_NO_ROWS, *numbers.rare])
    accepted = _accept(state, written.pieces, numbers, *overdue())
    told = rows_of(events, rare)
    topic_id = encode(told["topic_id"], lambda v: state.topic_ids.number(v))
    stat_keys = numbers.statistics.keys.copy()
    return Batch(events, frozen(numbers.series), stat_keys, accepted, rare, told, columns(told, topic_id))


class _Numbers:
    """Event type, series and statistics row of each row of a micro-batch, piece by piece."""

    def __init__(self, state: State, written: Written) -> None:
        rows = written.events.num_rows
        self.state, self.statistics, self.groups = state, Keys(), Arrays(SERIAL)
        self.kind, self.series = np.empty(rows, dtype=np.int8), np.empty(rows, dtype=np.int32)
        self.stat = np.empty(rows, dtype=np.int32)
        self.rare: list[I64] = []
        self._minutes = Arrays(MINUTES, count=len(written.names))
        self._led = 0
        """Series up to this one have a lane."""
        sources = [state.source_names.number(*name) for name in written.names]
        clusters = [state.clusters.number(name[0]) for name in written.names]
        self._sources, self._clusters = (np.array(numbers, dtype=np.int32) for numbers in (sources, clusters))

    def take(self, piece: Piece, source: I32) -> None:
        """Numbers the rows of one piece; new series get their partition, and a lane once their broker is seen
        leading."""
        kind, series = self.kind[piece.rows], self.series[piece.rows]
        self._number_series(piece, source, series)
        self.groups.grow(self.state.series_keys.count)
        tally(frozen(series), piece.wide("seq"), piece.wide("ts"), self.groups.data)
        self._number_statistics(piece, source)
        codes, words = piece.codes("event_type")
        of_word = np.array([CODE.get(word, VOID) for word in words.to_pylist()] or [VOID], dtype=np.int8)
        self.rare.append(piece.first + _kinds(codes, of_word, series, kind))
        if self._led < self.state.series.count and _lead(self.state, piece, kind, series):
            self._led = self.state.series.count

    def _number_series(self, piece: Piece, source: I32, series: I32) -> None:
        state, keys, partition = self.state, self.state.series_keys, piece.narrow("partition")
        known, (codes, words) = keys.count, piece.codes("topic")
        names: list[str] = words.to_pylist()
        topics = _known_topics(state, names)
        done = 0
        while True:
            numbered, keys.count = _series(
                partition[done:], codes[done:], topics, self._clusters, source[done:], self._sources, *keys.table,
                series[done:],
            )  # fmt: skip
            done += numbered
            if done == len(piece):
                break
            cluster, code = int(self._clusters[source[done]]), codes[done]
            if topics[cluster, code] >= 0:
                keys.widen()
            else:
                topics[cluster, code] = state.topics.number(state.clusters.all[cluster][0], names[code])
        state.series.grow(keys.count)
        if keys.count > known:
            rows = _first_rows(series, known, keys.count)
            topic = keys.keys[known:] >> 43
            new = state.partition_keys.number((topic << 32) | partition[rows])
            state.partitions.grow(state.partition_keys.count)
            told = self._sources[source[rows]], piece.narrow("broker_id")[rows]
            for name, values in zip(("partition", "source", "broker"), (new, *told), strict=True):
                state.series[name][known:] = values

    def _number_statistics(self, piece: Piece, source: I32) -> None:
        done, ts, broker, numbers = 0, piece.wide("ts"), piece.narrow("broker_id"), self.stat[piece.rows]
        while True:
            numbered, self.statistics.count = _statistics(
                ts[done:], self._clusters, source[done:], broker[done:], self._minutes.data, *self.statistics.table,
                numbers[done:],
            )  # fmt: skip
            done += numbered
            if done == len(piece):
                break
            self.statistics.widen()


_NO_ROWS = np.empty(0, dtype=np.int64)


@compiled
def _kinds(codes: I32, of_word: I8, series: I32, kind: I8) -> I64:
    """Writes the event types; which rows on partitions go to histories."""
    rows, count = np.empty(len(kind), dtype=np.int64), 0
    for row in range(len(kind)):
        code = codes[row]
        kind[row] = of_word[code] if 0 <= code < len(of_word) else VOID
        if RARE[kind[row]] and series[row] >= 0:
            rows[count] = row
            count += 1
    return rows[:count]


def _known_topics(state: State, names: list[str]) -> I32:
    """Numbers of topics by cluster and name, -1 for those not heard of."""
    clusters = [str(cluster[0]) for cluster in state.clusters.all]
    numbers = [[state.topics.find(cluster, name) for name in names] for cluster in clusters]
    return np.array(numbers, dtype=np.int32).reshape(len(clusters), len(names))


@kernel
def _series(
    partition: I32, topic: I32, topics: I32, clusters: I32, source: I32, sources: I32, table: I64, bits: int,
    keys: I64, count: int, series: I32,
) -> tuple[int, int]:  # fmt: skip
    """Numbers the series, -1 for broker-wide rows; (rows done, series known). Stops at a topic that has no number, and
    where the table is half full."""
    teller, number, known = np.int32(-1), np.int64(-1), topics[0]
    for row in range(len(series)):
        if partition[row] < 0:
            series[row] = -1
            continue
        if source[row] != teller:
            teller = source[row]
            number, known = np.int64(sources[np.uint32(teller)]), topics[np.uint32(clusters[np.uint32(teller)])]
        of = known[np.uint32(topic[row])]
        if of < 0:
            return row, count
        key = int((np.int64(of) << 43) | (np.int64(partition[row]) << 20) | number)
        found, count = enter(table, bits, keys, count, key)
        if found < 0:
            return row, count
        series[row] = found
    return len(series), count


@kernel
def _statistics(
    ts: I64, clusters: I32, source: I32, broker: I32, M: Records, table: I64, bits: int, keys: I64, count: int,
    numbers: I32,
) -> tuple[int, int]:  # fmt: skip
    """Numbers the statistics rows; (rows done, statistics rows known)."""
    for row in range(len(ts)):
        s = np.uint32(source[row])
        ahead = ts[row] - M[s, MINUTE.since]
        if ahead < 0 or ahead >= MINUTE_US or M[s, MINUTE.broker] != broker[row]:
            minute = ts[row] // MINUTE_US
            of = (np.int64(clusters[s]) << 24) | ((np.int64(broker[row]) + 1) & 0xFFFFFF)
            found, count = enter(table, bits, keys, count, (minute << 36) | of)
            if found < 0:
                return row, count
            M[s, MINUTE.since], M[s, MINUTE.broker], M[s, MINUTE.number] = minute * MINUTE_US, broker[row], found
        numbers[row] = M[s, MINUTE.number]
    return len(ts), count


def stat_place(key: int) -> tuple[int, int, int]:
    """(cluster number, broker, minute in microseconds) of one of `stat_keys`."""
    return (key >> 24) & 0xFFF, (key & 0xFFFFFF) - 1, (key >> 36) * MINUTE_US


@compiled
def _first_rows(series: I32, known: int, count: int) -> I64:
    """The first row of each series from `known` on."""
    rows = np.full(count - known, -1, dtype=np.int64)
    for row in range(len(series)):
        if series[row] >= known and rows[series[row] - known] < 0:
            rows[series[row] - known] = row
    return rows


@compiled
def _first_leading(series: I32, kind: I8, broker: I32, leader: I32, leader_told: Bits, S: Records, rows: I64) -> bool:
    """Per series without a lane its first row that shows its broker leading; whether there is one."""
    some = False
    for row in range(len(series)):
        s = series[row]
        if s >= 0 and S[s, SERIES.at.lane] < 0 and rows[s] < 0:
            own = kind[row] == HW and leader[row] == broker[row] and (leader_told[row >> 3] >> (row & 7)) & 1
            if own or _LEADS[kind[row]]:
                rows[s] = row
                some = True
    return some


def _lead(state: State, piece: Piece, kind: I8, series: I32) -> bool:
    """Gives a lane to series that show their broker leading for the first time; whether all had one before."""
    if (state.series["lane"] >= 0).all():
        return True
    rows, brokers = np.full(state.series.count, -1, dtype=np.int64), piece.narrow("broker_id")
    leader = piece.narrow("leader_id"), piece.valid("leader_id")
    if not _first_leading(series, kind, brokers, *leader, state.series.data, rows):
        return False
    which = np.flatnonzero(rows >= 0)
    partition, broker = state.series["partition"][which].astype(np.int64), brokers[rows[which]]
    known = state.lane_keys.count
    lane = state.lane_keys.number((partition << 32) | (broker.astype(np.int64) & 0xFFFFFFFF))
    state.series["lane"][which] = lane
    state.lanes.grow(state.lane_keys.count)
    state.replicas.grow(state.lane_keys.count)
    topic = state.partition_keys.keys[partition] >> 32
    cluster = np.array([state.clusters.number(t[0]) for t in state.topics.all], dtype=np.int64)[topic]
    fresh = lane >= known
    for name, values in (("partition", partition), ("broker", broker), ("topic", topic), ("cluster", cluster)):
        state.lanes[name][lane[fresh]] = values[fresh]
    return False


def _accept(state: State, cut: list[Piece], numbers: _Numbers, overdue: I64, hole: I64) -> Accepted:
    packing = Packing(numbers.groups)
    P = lines(int(packing.bounds[-1]) + _told_twice(state, packing))
    _pack(cut, numbers, packing, P)
    if packing.spoiled:
        packing = Packing(numbers.groups, as_they_come=True)
        _pack(cut, numbers, packing, P)
    sort_segments(P, packing.bounds, packing.unsorted)
    series, S, rows = packing.series, state.series.data, len(numbers.series)
    dropped, gap_before = np.zeros(rows, dtype=np.int8), np.zeros(rows, dtype=np.int8)
    next_seq, last_ts = state.series["next_seq"][series], state.series["last_ts"][series]
    end, latest, twins, holes = accept(
        P, series, packing.bounds, numbers.groups.data, packing.in_order, S, overdue, hole, dropped, gap_before
    )
    copied = np.zeros(rows, dtype=np.int8)
    return Accepted(
        P, series, packing.bounds, end, next_seq, last_ts, latest, dropped, copied, gap_before, twins, holes
    )


def _told_twice(state: State, packing: Packing) -> int:
    """Rows of lanes of which several sources tell: their lines are written once more, merged."""
    lane = state.series["lane"][packing.series]
    size = np.diff(packing.bounds)[lane >= 0]
    lane = lane[lane >= 0]
    several = np.bincount(lane)[lane] > 1 if len(lane) else lane
    return int(size[several].sum())


def _pack(cut: list[Piece], numbers: _Numbers, packing: Packing, P: Records) -> None:
    """Writes the lines of all pieces."""
    for piece in cut:
        fields = Fields.of(piece, numbers.series, numbers.kind, numbers.stat)
        packing.rare, spoiled = pack(
            fields, piece.first, packing.place, packing.by_number, packing.filled, packing.rare, P
        )
        packing.spoiled |= spoiled


def settle_twins(batch: Batch) -> tuple[I64, list[str]]:
    """Of two different rows with one number the smaller in (ts, canonical bytes) counts.

    Returns the rows that lost, with the reason; identical twins are plain repeats.
    """
    twins, lost = batch.accepted.twins, []
    pairs = twins[_different(batch.events, twins)]
    if not len(pairs):
        return np.array([], dtype=np.int64), []
    rows, at = np.unique(pairs, return_inverse=True)
    ts = dict(zip(rows.tolist(), batch.told("ts", rows).tolist(), strict=True))
    winner: dict[int, int] = {}
    for first, other in rows[at].reshape(pairs.shape).tolist():
        kept = winner.get(first, first)
        smaller = ts[other] < ts[kept] or (
            ts[other] == ts[kept] and _canonical(batch.events, other) < _canonical(batch.events, kept)
        )
        if smaller:
            batch.accepted.dropped[kept], batch.accepted.dropped[other] = 1, 0
            batch.accepted.gap_before[other] = batch.accepted.gap_before[kept]
            winner[first] = other
            kept, other = other, kept
        lost.append(other)
    losers = np.array(lost, dtype=np.int64)
    numbers = batch.told("seq", losers).tolist()
    return losers, [f"conflict: number {number} of its series names another row too" for number in numbers]


def _different(events: pa.Table, twins: I64) -> Any:
    """Mask of the pairs whose rows are not the same."""
    differ = np.zeros(len(twins), dtype=np.bool_)
    if not len(twins):
        return differ
    kept, other = events.take(pa.array(twins[:, 0])), events.take(pa.array(twins[:, 1]))
    for left, right in zip(kept.columns, other.columns, strict=True):
        if pa.types.is_list(left.type):
            differ |= np.array([a != b for a, b in zip(left.to_pylist(), right.to_pylist(), strict=True)])
        else:
            same = pc.fill_null(pc.equal(left, right), False)
            null = pc.and_(left.is_null(), right.is_null())
            differ |= ~pc.or_(same, null).to_numpy()
    return differ


def _canonical(events: pa.Table, row: int) -> bytes:
    values = events.slice(row, 1).to_pylist()[0]
    return repr(sorted(values.items(), key=lambda item: item[0])).encode()


def reported_hws(batch: Batch, rows: I64) -> pa.Table:
    """silver/replica_hw: what brokers told of their HW as followers (`rows` of the micro-batch)."""
    told = batch.events.take(pa.array(rows))
    schema = SCHEMAS["replica_hw"]
    made = {f.name: told[f.name] for f in schema if f.name in told.column_names}
    made |= {"hw": pa.nulls(len(rows)), "reported_hw": told["hw"]}
    return table(schema, made)
