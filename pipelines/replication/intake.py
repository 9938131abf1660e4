"""From a micro-batch of events to numbered columns: who told what of which partition, and what may be read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.replication.acceptance import Accepted, accept
from pipelines.replication.arrays import Records
from pipelines.replication.columns import CODE, I8, I32, I64, NULL32, RARE, Columns, columns, kinds, plain
from pipelines.replication.compiled import compiled
from pipelines.replication.keys import Keys
from pipelines.replication.lanes import SERIES
from pipelines.replication.lines import PACKED, group, pack, sort_segments
from pipelines.replication.state import Names, State

_LEADS = np.zeros(len(CODE) + 1, dtype=np.bool_)
_LEADS[[CODE[n] for n in ("leader", "append", "fetch", "replica_leo", "isr_proposed", "isr_rejected")]] = True
"""Event types that only a leading broker tells of itself."""
HW = CODE["hw"]
MINUTE_US = 60_000_000


@dataclass(frozen=True)
class Batch:
    """One micro-batch, the rows that waited before included; broker-wide rows are of series -1."""

    events: pa.Table
    columns: Columns
    cluster: I32
    series: I32
    source: I32
    stat: I32
    """Which of `stat_keys`, a place each, counts the row."""
    stat_keys: I64
    accepted: Accepted
    rare: I64
    """Rows that go to histories, in no order."""


def encode(column: pa.ChunkedArray, name: Callable[[str], int]) -> I32:
    """A string column as numbers, -1 for null; `name` numbers each distinct value once."""
    array = plain(column)
    if not pa.types.is_dictionary(array.type):
        array = array.dictionary_encode()
    numbers = np.array([*(name(v) for v in array.dictionary.to_pylist()), -1], dtype=np.int32)
    indices = array.indices
    plain_indices = indices.fill_null(len(numbers) - 1) if indices.null_count else indices
    encoded: I32 = numbers[plain_indices.to_numpy(zero_copy_only=False)]
    return encoded


def pairs(first: I32, second: I32, name: Callable[[int, int], int]) -> I32:
    """Numbers for pairs of small numbers; `name` numbers each distinct pair once."""
    wide = int(second.max(initial=0)) + 2
    seen = np.zeros((int(first.max(initial=0)) + 1) * wide, dtype=np.bool_)
    _see(first, second, wide, seen)
    numbers = np.full(len(seen), -1, dtype=np.int32)
    for value in np.flatnonzero(seen):
        numbers[value] = name(int(value) // wide, int(value) % wide - 1)
    paired = np.empty(len(first), dtype=np.int32)
    _renumber(first, second, wide, numbers, paired)
    return paired


@compiled
def _see(first: I32, second: I32, wide: int, seen: npt.NDArray[np.bool_]) -> None:
    for row in range(len(first)):
        seen[first[row] * wide + second[row] + 1] = True


@compiled
def _renumber(first: I32, second: I32, wide: int, numbers: I32, paired: I32) -> None:
    for row in range(len(first)):
        paired[row] = numbers[first[row] * wide + second[row] + 1]


def source_numbers(state: State, events: pa.Table) -> tuple[I32, I32]:
    """(cluster, source) number of each row."""
    local = Names()
    cluster = encode(events["cluster"], lambda v: state.clusters.number(v))
    writer = encode(events["source_id"], lambda v: local.number(v))
    epoch = plain(events["source_epoch"]).to_numpy(zero_copy_only=False).astype(np.int32)
    named = pairs(cluster, writer, lambda c, w: local.number(c, local.all[w][0]))

    def numbered(pair: int, epoch: int) -> int:
        number, writer_id = local.all[pair]
        return state.source_names.number(state.clusters.all[int(str(number))][0], writer_id, epoch)

    return cluster, pairs(named, epoch, numbered)


def read(state: State, events: pa.Table, overdue: Callable[[], tuple[I64, I64]]) -> Batch:
    """Numbers the rows of `events` and decides which of those on partitions may be read now.

    `overdue` gives, per source number, the time at or before which a hole has been waited for long enough,
    and the time after which its rows stand behind a hole of the whole source.
    """
    kind = kinds(events)
    rare = np.flatnonzero(RARE[kind])
    cluster, source = source_numbers(state, events)
    topic_name = Names()
    topic = pairs(
        cluster, encode(events["topic"], lambda v: topic_name.number(v)),
        lambda c, t: -1 if t < 0 else state.topics.number(state.clusters.all[c][0], topic_name.all[t][0]),
    )  # fmt: skip
    read_columns = columns(events, kind, _rare_topic_ids(state, events, rare))
    series = _series(state, read_columns, topic, source, cluster)
    stat, stat_keys = _statistics_rows(read_columns, cluster)
    rare = rare[series[rare] >= 0]
    accepted = _accept(state, read_columns, series, stat, *overdue())
    return Batch(events, read_columns, cluster, series, source, stat, stat_keys, accepted, rare)


def _rare_topic_ids(state: State, events: pa.Table, rare: I64) -> I32:
    numbers = np.full(events.num_rows, -1, dtype=np.int32)
    if len(rare):
        numbers[rare] = encode(events["topic_id"].take(pa.array(rare)), lambda v: state.topic_ids.number(v))
    return numbers


def _statistics_rows(c: Columns, cluster: I32) -> tuple[I32, I64]:
    """(a number per row, key per number) of its cluster, broker and minute: see `stat_place`."""
    keys = Keys()
    broker = (c.broker.astype(np.int64) + 1) & 0xFFFFFF
    row = keys.number(((c.ts // MINUTE_US) << 36) | (cluster.astype(np.int64) << 24) | broker)
    return row, keys.keys.copy()


def stat_place(key: int) -> tuple[int, int, int]:
    """(cluster number, broker, minute in microseconds) of one of `stat_keys`."""
    return (key >> 24) & 0xFFF, (key & 0xFFFFFF) - 1, (key >> 36) * MINUTE_US


def _series(state: State, c: Columns, topic: I32, source: I32, cluster: I32) -> I32:
    """The series of each row, -1 of broker-wide ones; new series get their partition, and a lane once their
    broker is seen leading."""
    known = state.series_keys.count
    key = (topic.astype(np.int64) << 43) | (c.partition.astype(np.int64) << 20) | source
    series = state.series_keys.number(key)
    state.series.grow(state.series_keys.count)
    if state.series_keys.count > known:
        rows = _first_rows(series, known, state.series_keys.count)
        partition = state.partition_keys.number((topic[rows].astype(np.int64) << 32) | c.partition[rows])
        state.partitions.grow(state.partition_keys.count)
        for name, values in (("partition", partition), ("source", source[rows]), ("broker", c.broker[rows])):
            state.series[name][known:] = values
    _lead(state, c, series, topic, cluster)
    return series


@compiled
def _first_rows(series: I32, known: int, count: int) -> I64:
    """The first row of each series from `known` on."""
    rows = np.full(count - known, -1, dtype=np.int64)
    for row in range(len(series)):
        if series[row] >= known and rows[series[row] - known] < 0:
            rows[series[row] - known] = row
    return rows


@compiled
def _first_leading(series: I32, kind: I8, broker: I32, leader_id: I32, S: Records, rows: I64) -> bool:
    """Per series without a lane its first row that shows its broker leading; whether there is one."""
    some = False
    for row in range(len(series)):
        s = series[row]
        if s >= 0 and rows[s] < 0 and S[s, SERIES.at.lane] < 0:
            own = kind[row] == HW and leader_id[row] == broker[row] and leader_id[row] != NULL32
            if own or _LEADS[kind[row]]:
                rows[s] = row
                some = True
    return some


def _lead(state: State, c: Columns, series: I32, topic: I32, cluster: I32) -> None:
    """Gives a lane to series that show their broker leading for the first time."""
    rows = np.full(state.series.count, -1, dtype=np.int64)
    if not _first_leading(series, c.kind, c.broker, c.leader_id, state.series.data, rows):
        return
    which = np.flatnonzero(rows >= 0)
    rows = rows[which]
    partition, broker = state.series["partition"][which].astype(np.int64), c.broker[rows]
    known = state.lane_keys.count
    lane = state.lane_keys.number((partition << 32) | (broker.astype(np.int64) & 0xFFFFFFFF))
    state.series["lane"][which] = lane
    state.lanes.grow(state.lane_keys.count)
    state.replicas.grow(state.lane_keys.count)
    fresh = lane >= known
    for name, values in (
        ("partition", partition),
        ("broker", broker),
        ("topic", topic[rows]),
        ("cluster", cluster[rows]),
    ):
        state.lanes[name][lane[fresh]] = values[fresh]


def _accept(state: State, c: Columns, series: I32, stat: I32, overdue: I64, hole: I64) -> Accepted:
    which, bounds = group(series, state.series.count)
    lines = np.empty((bounds[-1], len(PACKED)), dtype=np.int64)
    pack(c, series, stat, which, bounds, state.series.count, lines)
    sort_segments(lines, bounds)
    return accept(lines, which, bounds, len(series), state.series.data, overdue, hole)


def settle_twins(batch: Batch) -> tuple[I64, list[str]]:
    """Of two different rows with one number the smaller in (ts, canonical bytes) counts.

    Returns the rows that lost, with the reason; identical twins are plain repeats.
    """
    twins, lost, reasons = batch.accepted.twins, [], []
    winner: dict[int, int] = {}
    for first, other in twins[_different(batch.events, twins)].tolist():
        kept = winner.get(first, first)
        if _canonical(batch.events, other) < _canonical(batch.events, kept):
            batch.accepted.dropped[kept], batch.accepted.dropped[other] = 1, 0
            batch.accepted.gap_before[other] = batch.accepted.gap_before[kept]
            winner[first] = other
            kept, other = other, kept
        lost.append(other)
        reasons.append(f"conflict: number {batch.columns.seq[other]} of its series names another row too")
    return np.array(lost, dtype=np.int64), reasons


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


def _canonical(events: pa.Table, row: int) -> tuple[Any, bytes]:
    values = events.slice(row, 1).to_pylist()[0]
    return values["ts"], repr(sorted(values.items(), key=lambda item: item[0])).encode()
