"""Numbers for what the rows of a micro-batch belong to: series, partitions, lanes, minutes of brokers."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from pipelines.replication.compiled.decorators import compiled, kernel
from pipelines.replication.compiled.hash_index import Keys, enter
from pipelines.replication.compiled.records import Arrays, Records, read_only, record_layout
from pipelines.replication.compiled.types import I8, I32, I64, MINUTE_US, NEVER
from pipelines.replication.events.columns import CODE, RARE, VOID, contiguous
from pipelines.replication.events.packed_rows import SERIES_TALLY, tally, times
from pipelines.replication.events.row_slices import Bits, RowSlice
from pipelines.replication.state.state import State
from pipelines.replication.telemetry.coverage import SourcedRows
from pipelines.replication.term.layout import SERIES

_LEADS = np.zeros(len(CODE) + 1, dtype=np.bool_)
_LEADS[[CODE[n] for n in ("leader", "append", "fetch", "replica_leo", "isr_proposed", "isr_rejected")]] = True
"""Event types that only the leader of a partition reports."""
HW = CODE["hw"]
SOURCE_MINUTES = record_layout(since=NEVER, broker=0, number=0)
"""By source the minute of its last row, in microseconds, the broker in it, and the number of the two."""
MINUTE, AT = SOURCE_MINUTES.at, SERIES.at

Index = tuple[I64, int, I64, int]
"""The table of a hash index: see Keys.table."""


def encode(column: pa.ChunkedArray, number: Callable[[str], int]) -> I32:
    """A string column as numbers, -1 for null; `number` is called once for each distinct value."""
    if column.null_count == len(column):
        return np.full(len(column), -1, dtype=np.int32)
    array = contiguous(column)
    if not pa.types.is_dictionary(array.type):
        array = array.dictionary_encode()
    numbers = np.array([*(number(v) for v in array.dictionary.to_pylist()), -1], dtype=np.int32)
    indices = array.indices
    indices = indices.fill_null(len(numbers) - 1) if indices.null_count else indices
    encoded: I32 = numbers[indices.to_numpy(zero_copy_only=False)]
    return encoded


class Minutes(NamedTuple):
    """By statistics row the number of its cluster, its broker, and its minute in microseconds."""

    cluster: I64
    broker: I64
    minute: I64

    @classmethod
    def from_keys(cls, places: I64, minutes: I64) -> Minutes:
        """From cluster << 32 | broker, which may be -1, and minutes."""
        return cls(places >> 32, places << 32 >> 32, minutes * MINUTE_US)


class Numbering:
    """Event type, series and statistics row of each row of a micro-batch, slice by slice."""

    def __init__(self, state: State, rows: SourcedRows) -> None:
        count = rows.events.num_rows
        self.state, self.statistics, self.tallies = state, Keys(), Arrays(SERIES_TALLY)
        self.kind, self.series = np.empty(count, dtype=np.int8), np.empty(count, dtype=np.int32)
        self.stat = np.empty(count, dtype=np.int32)
        self.rare: list[I64] = []
        self._minutes = Arrays(SOURCE_MINUTES, count=len(rows.names))
        self._with_lane = 0
        """All series below this number have a lane, from a row on that has been read."""
        sources = [state.source_names.number(*name) for name in rows.names]
        clusters = [state.clusters.number(name[0]) for name in rows.names]
        self._sources, self._clusters = (np.array(numbers, dtype=np.int32) for numbers in (sources, clusters))

    def add(self, rows: RowSlice, source: I32) -> None:
        """Numbers the rows of one slice. A new series gets its partition, and a lane once its broker is seen
        leading."""
        kind, series = self.kind[rows.rows], self.series[rows.rows]
        self._number_series(rows, source, series)
        self.tallies.grow(self.state.series_keys.count)
        tally(read_only(series), rows.int64("seq"), times(rows), self.tallies.data)
        self._number_statistics(rows, source)
        codes, names = rows.codes("event_type")
        kind_of_code = np.array([CODE.get(name, VOID) for name in names.to_pylist()] or [VOID], dtype=np.int8)
        self.rare.append(rows.first + _write_kinds(codes, kind_of_code, series, kind))
        if self._with_lane < self.state.series.count and _give_lanes(self.state, rows, kind, series):
            self._with_lane = self.state.series.count

    def inherit_lanes(self) -> None:
        """Give series of a later incarnation of a source, of which nothing is read, the lane that an earlier one has,
        from their first row on: which row a leader tells first after its reader came back is chance."""
        series, names = self.state.series, self.state.source_names.all
        unread = np.flatnonzero(series["next_seq"] == 0)
        sources = series["source"][unread]
        for name, source in sorted((names[k], k) for k in np.unique(sources).tolist() if names[k][2]):
            earlier = [k for k, other in enumerate(names) if other[:2] == name[:2] and other[2] < name[2]]
            at = np.flatnonzero(np.isin(series["source"], earlier) & (series["lane"] >= 0))
            lanes = dict(zip(series["partition"][at].tolist(), series["lane"][at].tolist(), strict=True))
            for k in unread[sources == source].tolist() if lanes else ():
                if (lane := lanes.get(int(series["partition"][k]))) is not None:
                    series["lane"][k], series["leads_from"][k], series["leads_since"][k] = lane, 0, NEVER

    def _number_series(self, rows: RowSlice, source: I32, series: I32) -> None:
        state, keys, partition = self.state, self.state.series_keys, rows.int32("partition")
        known, (codes, topic_names) = keys.count, rows.codes("topic")
        names: list[str] = topic_names.to_pylist()
        numbers = _SourceNumbers(_known_topics(state, names), self._clusters, self._sources)
        done = 0
        while True:
            columns = _SeriesColumns(partition[done:], codes[done:], source[done:])
            numbered, keys.count = _write_series(columns, numbers, keys.table, series[done:])
            done += numbered
            if done == len(rows):
                break
            cluster, code = int(self._clusters[source[done]]), codes[done]
            if numbers.topics[cluster, code] >= 0:
                keys.widen()
            else:
                numbers.topics[cluster, code] = state.topics.number(state.clusters.all[cluster][0], names[code])
        state.series.grow(keys.count)
        if keys.count > known:
            first = _first_rows(series, rows.int64("seq"), known, keys.count)
            new = state.partition_keys.number(keys.keys[known:])
            state.partitions.grow(state.partition_keys.count)
            by = self._sources[source[first]], rows.int32("broker_id")[first]
            for name, values in zip(("partition", "source", "broker"), (new, *by), strict=True):
                state.series[name][known:] = values

    def _number_statistics(self, rows: RowSlice, source: I32) -> None:
        done, ts, broker, numbers = 0, rows.int64("ts"), rows.int32("broker_id"), self.stat[rows.rows]
        while True:
            columns = _MinuteColumns(ts[done:], source[done:], broker[done:])
            numbered, self.statistics.count = _write_statistics(
                columns, self._clusters, self._minutes.data, self.statistics.table, numbers[done:]
            )
            done += numbered
            if done == len(rows):
                break
            self.statistics.widen()


def _known_topics(state: State, names: list[str]) -> I32:
    """Numbers of topics by cluster and code of their name, -1 for new ones."""
    clusters = [str(cluster[0]) for cluster in state.clusters.all]
    numbers = [[state.topics.find(cluster, name) for name in names] for cluster in clusters]
    return np.array(numbers, dtype=np.int32).reshape(len(clusters), len(names))


class _SeriesColumns(NamedTuple):
    """The columns that name each row's series; topics are codes of a dictionary, sources numbers of the micro-batch."""

    partition: I32
    topic: I32
    source: I32


class _SourceNumbers(NamedTuple):
    """By cluster and code the topic's number; by source of the micro-batch its cluster's number and its own."""

    topics: I32
    clusters: I32
    sources: I32


@kernel
def _write_series(
    columns: _SeriesColumns, numbers: _SourceNumbers, index: Index, series: I32
) -> tuple[int, int]:  # fmt: skip
    """(rows numbered, series known): writes the series of each row, -1 for broker-wide rows.

    Stops at a topic that has no number, and where the hash index is to be widened.
    """
    table, bits, keys, count = index
    last, source, topics = np.int32(-1), np.int64(-1), numbers.topics[0]
    for row in range(len(series)):
        if columns.partition[row] < 0:
            series[row] = -1
            continue
        if columns.source[row] != last:
            last = columns.source[row]
            source = np.int64(numbers.sources[np.uint32(last)])
            topics = numbers.topics[np.uint32(numbers.clusters[np.uint32(last)])]
        topic = topics[np.uint32(columns.topic[row])]
        if topic < 0:
            return row, count
        key = int((np.int64(topic) << 32) | columns.partition[row])
        found, count = enter(table, bits, keys, count, key, source)
        if found < 0:
            return row, count
        series[row] = found
    return len(series), count


class _MinuteColumns(NamedTuple):
    """The columns that name each row's minute and broker."""

    ts: I64
    source: I32
    broker: I32


@kernel
def _write_statistics(
    columns: _MinuteColumns, clusters: I32, minutes: Records, index: Index, numbers: I32
) -> tuple[int, int]:  # fmt: skip
    """(rows numbered, statistics rows known): writes the statistics row of each row; `minutes` as SOURCE_MINUTES."""
    table, bits, keys, count = index
    for row in range(len(columns.ts)):
        s, ts, broker = np.uint32(columns.source[row]), columns.ts[row], columns.broker[row]
        since = ts - minutes[s, MINUTE.since]
        if since < 0 or since >= MINUTE_US or minutes[s, MINUTE.broker] != broker:
            minute = ts // MINUTE_US
            place = (np.int64(clusters[s]) << 32) | (np.int64(broker) & 0xFFFFFFFF)
            # A rejected row may have any time, and is counted nowhere.
            found, count = enter(table, bits, keys, count, place, np.int64(np.int32(minute)))
            if found < 0:
                return row, count
            minutes[s, MINUTE.since], minutes[s, MINUTE.broker] = minute * MINUTE_US, broker
            minutes[s, MINUTE.number] = found
        numbers[row] = minutes[s, MINUTE.number]
    return len(columns.ts), count


@compiled
def _write_kinds(codes: I32, kind_of_code: I8, series: I32, kind: I8) -> I64:
    """Write the event types; returns the rare rows on partitions."""
    rows, count = np.empty(len(kind), dtype=np.int64), 0
    for row in range(len(kind)):
        code = codes[row]
        kind[row] = kind_of_code[code] if 0 <= code < len(kind_of_code) else VOID
        if RARE[kind[row]] and series[row] >= 0:
            rows[count] = row
            count += 1
    return rows[:count]


@compiled
def _first_rows(series: I32, seq: I64, known: int, count: int) -> I64:
    """The row with the least number of each series from number `known` on."""
    rows = np.full(count - known, -1, dtype=np.int64)
    for row in range(len(series)):
        s = series[row] - known
        if s >= 0 and (rows[s] < 0 or seq[row] < seq[rows[s]]):
            rows[s] = row
    return rows


@compiled
def _first_leading(
    series: I32, seq: I64, kind: I8, broker: I32, leader: I32, leader_valid: Bits, state: Records, rows: I64
) -> bool:  # fmt: skip
    """Writes, per series, its first row, by number, that shows its broker leading, where it has no lane or one from a
    later row on; whether there is one."""
    found = False
    for row in range(len(series)):
        s, number = series[row], seq[row]
        if s < 0 or (state[s, AT.lane] >= 0 and number >= state[s, AT.leads_from]):
            continue
        if number >= state[s, AT.next_seq] and (rows[s] < 0 or number < seq[rows[s]]):
            own = kind[row] == HW and leader[row] == broker[row] and (leader_valid[row >> 3] >> (row & 7)) & 1
            if own or _LEADS[kind[row]]:
                rows[s] = row
                found = True
    return found


def _give_lanes(state: State, rows: RowSlice, kind: I8, series: I32) -> bool:
    """Give a lane to series that show their broker leading for the first time; whether all had one that it reads."""
    if ((state.series["lane"] >= 0) & (state.series["leads_from"] <= state.series["next_seq"])).all():
        return True
    first, brokers = np.full(state.series.count, -1, dtype=np.int64), rows.int32("broker_id")
    leader = rows.int32("leader_id"), rows.valid("leader_id")
    if not _first_leading(series, rows.int64("seq"), kind, brokers, *leader, state.series.data, first):
        return False
    if (watched := state.watched_series()) is not None:
        first[watched] = -1
    which = np.flatnonzero(first >= 0)
    partition, broker = state.series["partition"][which].astype(np.int64), brokers[first[which]]
    known = state.lane_keys.count
    lane = state.lane_keys.number((partition << 32) | (broker.astype(np.int64) & 0xFFFFFFFF))
    state.series["lane"][which], state.series["leads_from"][which] = lane, rows.int64("seq")[first[which]]
    state.series["leads_since"][which] = times(rows)[first[which]]
    state.lanes.grow(state.lane_keys.count)
    state.replicas.grow(state.lane_keys.count)
    topic = state.partition_keys.keys[partition] >> 32
    cluster = np.array([state.clusters.number(t[0]) for t in state.topics.all], dtype=np.int64)[topic]
    new = lane >= known
    for name, values in (("partition", partition), ("broker", broker), ("topic", topic), ("cluster", cluster)):
        state.lanes[name][lane[new]] = values[new]
    return False
