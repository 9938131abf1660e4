"""One log line that a broker's log4j wrote into several files: its rows keep their sources, and one of them counts.

Kafka's stock configuration merged with another appender writes "Leader … starts" into two files. Both have the same
time and the same text, so equal rows of one broker in different files are one event: the k-th of one file and the k-th
of another. Two equal rows of one file are two events.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pipelines.replication.batch.read import Batch
from pipelines.replication.compiled.records import Arrays, Records
from pipelines.replication.compiled.types import I64
from pipelines.replication.events.columns import CODE
from pipelines.replication.events.packed_rows import PACKED
from pipelines.replication.rules import Rules
from pipelines.replication.state.state import State
from pipelines.replication.term.layout import LINES_READ

KEPT_GRACES = 6
"""Both copies of a line arrive within so many graces; a later one is a `late` row."""
_LEADERSHIP = [CODE["leader"], CODE["follower"]]
_MIX = np.uint64(0x9E3779B97F4A7C15)
AT = LINES_READ.at
NO_COPIES: I64 = np.empty(0, dtype=np.int64)


class RareLines(NamedTuple):
    """The rare rows that may be read and are no repeats within their own source, in the order of their numbers."""

    rows: I64
    lines: Records
    """Their rows of LINES_READ."""

    @classmethod
    def of(cls, state: State, batch: Batch) -> RareLines:
        rows = _readable(batch)
        return cls(rows, _lines(state, batch, rows))


def mark_copies(state: State, batch: Batch, readable: RareLines) -> I64:
    """Mark the rare rows that are copies of a line in another file of the same broker.

    Of the copies in one micro-batch, the row with the smallest (source_id, source_epoch, source_seq) counts, among
    those that the broker's lane reads if there are any; no row counts if its line counted in an earlier micro-batch.
    Returns the numbers of rare rows that count for a lane although their line has counted as an event before: histories
    alone read it then.
    """
    rows, lines = readable
    at = batch.rare[rows]
    known = state.lines_read.data[: state.lines_read.count]
    both = np.concatenate([known, lines])
    keys, sources = _keys(both), both[:, AT.source]
    if not _in_several_sources(keys, sources):
        return NO_COPIES
    of_rows = np.where(_in_lane(state, batch, at), 1, 3)
    copies = _copies(state, keys, sources, np.concatenate([2 * known[:, AT.bypassed], of_rows]))[len(known) :]
    batch.accepted.copied[at] = copies
    if not known[:, AT.bypassed].any():
        return NO_COPIES
    as_events = _copies(state, keys, sources, np.concatenate([0 * known[:, AT.bypassed], of_rows]))[len(known) :]
    return rows[as_events & ~copies]


def remember_lines(
    state: State, batch: Batch, readable: RareLines | None, consumed: npt.NDArray[np.int8], rules: Rules
) -> None:
    """Keep the lines that were read from each source, for copies that are still to come.

    A copy is not kept if it was read while the row that counts still waits: that row would be taken for the copy. A row
    that histories alone read, although the broker has a lane, is kept as `bypassed`: it counted as an event, but the
    lane has still to read the line.
    """
    grace = rules.reorder_grace_ms * 1000
    horizon = min(state.sources.settled.values(), default=-1) - KEPT_GRACES * grace
    known = state.lines_read.data[: state.lines_read.count]
    known, new = known[known[:, AT.ts] > horizon], known[:0]
    if readable is not None:
        keep = _to_keep(state, batch, readable, consumed)
        new = readable.lines[keep]
        new[:, AT.bypassed] = _bypassed_lane(state, batch, readable.rows[keep])
    state.lines_read = Arrays(LINES_READ)
    state.lines_read.grow(len(known) + len(new))
    state.lines_read.data[: state.lines_read.count] = np.concatenate([known, new])


def _to_keep(state: State, batch: Batch, readable: RareLines, consumed: npt.NDArray[np.int8]) -> npt.NDArray[np.bool_]:
    rows, lines = readable
    at = batch.rare[rows]
    key, counts, read = _keys(lines), batch.accepted.copied[at] == 0, consumed[at] == 1
    kept: npt.NDArray[np.bool_] = read & (counts | ~np.isin(key, key[counts & ~read]))
    return kept


def _bypassed_lane(state: State, batch: Batch, rows: I64) -> npt.NDArray[np.bool_]:
    """Return a mask of the rare rows that are read without a lane although their broker has one in the partition."""
    series, bypassed = batch.series[batch.rare[rows]], ~_in_lane(state, batch, batch.rare[rows])
    places = zip(state.series["partition"][series[bypassed]], batch.columns.broker[rows[bypassed]], strict=True)
    bypassed[bypassed] = [state.lane_of(int(partition), int(broker)) >= 0 for partition, broker in places]
    return bypassed


def _in_lane(state: State, batch: Batch, rows: I64) -> npt.NDArray[np.bool_]:
    """A mask of the rows that the lanes of their series read."""
    series = batch.series[rows]
    lane, leads_from = (state.series[name][series] for name in ("lane", "leads_from"))
    in_lane: npt.NDArray[np.bool_] = (lane >= 0) & (batch.int64("seq", rows) >= leads_from)
    return in_lane


def _readable(batch: Batch) -> I64:
    accepted = batch.accepted
    readable = accepted.dropped[batch.rare] == 0
    if not accepted.all_readable:
        behind_gap = np.zeros(len(batch.series), dtype=np.bool_)
        for k in np.flatnonzero(accepted.end < accepted.bounds[1:]):
            behind_gap[accepted.rows[accepted.end[k] : accepted.bounds[k + 1], PACKED.row]] = True
        readable &= ~behind_gap[batch.rare]
    return np.flatnonzero(readable)


def _lines(state: State, batch: Batch, rows: I64) -> Records:
    """Rows of LINES_READ for these rare rows."""
    series = batch.series[batch.rare[rows]]
    partition, source = (state.series[name][series] for name in ("partition", "source"))
    lines = [_hash(_in_common(batch, rows)), batch.columns.ts[rows], source, partition, np.zeros_like(source)]
    return np.stack(lines, axis=1).astype(np.int64)


def _in_common(batch: Batch, rows: I64) -> list[npt.NDArray[Any]]:
    """The columns that copies of a line share, beside the partition: broker, time, type, epochs, offsets, ISR.

    The line of a truncation names no epoch; its row has the one that the file had before it.
    """
    c = batch.columns
    leadership, truncates = np.isin(c.kind[rows], _LEADERSHIP), c.kind[rows] == CODE["truncate"]
    return [
        c.broker[rows], c.ts[rows], c.kind[rows], np.where(truncates, 0, c.partition_epoch[rows]),
        c.leo[rows], np.where(leadership, c.leader_epoch[rows], 0), np.where(leadership, c.hw[rows], 0),
        c.isr_from_whom[rows], c.replica_id[rows], list_hash(c.isr_from, c.isr_ids)[rows],
    ]  # fmt: skip


def _hash(parts: Sequence[npt.NDArray[Any]]) -> I64:
    """A 64-bit hash of each row of these columns."""
    mixed = np.zeros(len(parts[0]), dtype=np.uint64)
    for part in parts:
        mixed = _mixed(mixed, part.astype(np.int64).view(np.uint64))
    hashed: I64 = mixed.view(np.int64)
    return hashed


def _keys(lines: Records) -> I64:
    """Equal for copies of a line."""
    return _hash([lines[:, AT.key], lines[:, AT.partition]])


def _mixed(state: npt.NDArray[np.uint64], value: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    mixed = (state ^ value) * _MIX
    mixed ^= mixed >> np.uint64(29)
    return mixed * _MIX


def list_hash(ends: npt.NDArray[np.int32], ids: npt.NDArray[np.int32]) -> I64:
    """A number for each list, equal for equal lists."""
    starts, size = ends[:-1].astype(np.int64), np.diff(ends)
    first, count = int(ends[0]) if len(ends) else 0, int(size.sum())
    place = np.arange(count, dtype=np.uint64) - np.repeat(starts - first, size).astype(np.uint64)
    values = ids[first : first + count].astype(np.int64).view(np.uint64)
    total = np.concatenate([np.zeros(1, dtype=np.uint64), np.cumsum(_mixed(place, values), dtype=np.uint64)])
    hashed: I64 = (total[ends[1:] - first] - total[ends[:-1] - first]).view(np.int64)
    return hashed + size


def _in_several_sources(key: I64, source: I64) -> bool:
    order = np.argsort(key, kind="stable")
    same = key[order][1:] == key[order][:-1]
    return bool((same & (source[order][1:] != source[order][:-1])).any())


def _copies(state: State, keys: I64, sources: I64, priority: I64) -> npt.NDArray[np.bool_]:
    """A mask of copies: each line is the k-th of its key in its source, and one of all k-th lines counts.

    The one with the smallest (priority, name of the source) counts.
    """
    names = state.source_names.all
    rank = np.empty(len(names), dtype=np.int64)
    rank[sorted(range(len(names)), key=lambda k: names[k])] = np.arange(len(names))
    order = np.lexsort((np.arange(len(keys)), sources, keys))
    ordinal = np.empty(len(keys), dtype=np.int64)
    ordinal[order] = _place_in_run(keys[order], sources[order])
    order = np.lexsort((rank[sources], priority, ordinal, keys))
    counts = np.ones(len(keys), dtype=np.bool_)
    counts[1:] = (keys[order][1:] != keys[order][:-1]) | (ordinal[order][1:] != ordinal[order][:-1])
    copies = np.empty(len(keys), dtype=np.bool_)
    copies[order] = ~counts
    return copies


def _place_in_run(key: I64, source: I64) -> I64:
    """The number of rows of the same key and source before each row; equal ones are adjacent."""
    if not len(key):
        return np.empty(0, dtype=np.int64)
    begins = np.append(True, (np.diff(key) != 0) | (np.diff(source) != 0))
    starts = np.flatnonzero(begins)
    place: I64 = np.arange(len(key)) - np.repeat(starts, np.diff(np.append(starts, len(key))))
    return place
