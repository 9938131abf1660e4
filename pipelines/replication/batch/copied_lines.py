"""One line that a broker's log4j wrote into several files: its rows keep their sources, and one of them counts.

Kafka's stock configuration merged with another appender writes "Leader … starts" into two files. Both hold the same
time and the same text, so equal rows of one broker in different files are one event: the k-th of one file and the k-th
of another. Two equal rows of one file are two events.
"""

from __future__ import annotations

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
OF = LINES_READ.at


def mark_copies(state: State, batch: Batch) -> None:
    """Marks the rare rows that are copies of a line which another file of the same broker also holds.

    Of the copies in one micro-batch the row with the smallest (source_id, source_epoch, source_seq) counts, of those
    that the broker's lane reads if there are any; none does whose line was counted in an earlier one.
    """
    rows = _readable(batch)
    if not len(rows):
        return
    of, key = batch.rare[rows], _line_keys(state, batch, rows)
    source = state.series["source"][batch.series[of]].astype(np.int64)
    in_lane = state.series["lane"][batch.series[of]] >= 0
    known = state.lines_read.data[: state.lines_read.count]
    if not _in_several_sources(np.concatenate([known[:, OF.key], key]), np.concatenate([known[:, OF.source], source])):
        return
    batch.accepted.copied[of] = _repeated(state, known, key, source, in_lane)


def remember_lines(state: State, batch: Batch, consumed: npt.NDArray[np.int8], rules: Rules) -> None:
    """Keeps which lines have been read from which source, for copies that are still to come.

    A copy is no line that was read while the one that counts still waits: that one would be taken for the copy then.
    Nor is it one that only the histories read, if the broker has a lane: that has to read the line still.
    """
    grace = rules.reorder_grace_ms * 1000
    horizon = min(state.sources.settled.values(), default=-1) - KEPT_GRACES * grace
    rows = _readable(batch)
    key, of = _line_keys(state, batch, rows), batch.rare[rows]
    counts, read = batch.accepted.copied[of] == 0, consumed[of] == 1
    kept = read & (counts | ~np.isin(key, key[counts & ~read])) & ~_passed_the_lane_by(state, batch, rows)
    rows, key, of = rows[kept], key[kept], of[kept]
    known = state.lines_read.data[: state.lines_read.count]
    known = known[known[:, OF.ts] > horizon]
    told = np.stack([key, batch.columns.ts[rows], state.series["source"][batch.series[of]]], axis=1).astype(np.int64)
    state.lines_read = Arrays(LINES_READ)
    state.lines_read.grow(len(known) + len(told))
    state.lines_read.data[: state.lines_read.count] = np.concatenate([known, told])


def _passed_the_lane_by(state: State, batch: Batch, rows: I64) -> npt.NDArray[np.bool_]:
    """Which rare rows belong to a series without a lane, while their broker has one in their partition."""
    series = batch.series[batch.rare[rows]]
    passed: npt.NDArray[np.bool_] = state.series["lane"][series] < 0
    places = zip(state.series["partition"][series[passed]], batch.columns.broker[rows[passed]], strict=True)
    passed[passed] = [state.lane_of(int(partition), int(broker)) >= 0 for partition, broker in places]
    return passed


def _readable(batch: Batch) -> I64:
    """Which rare rows may be read and are no repeats of their own source's, in the order of their numbers."""
    a = batch.accepted
    readable = a.dropped[batch.rare] == 0
    if not a.all_read:
        behind = np.zeros(len(batch.series), dtype=np.bool_)
        for k in np.flatnonzero(a.end < a.bounds[1:]):
            behind[a.lines[a.end[k] : a.bounds[k + 1], PACKED.row]] = True
        readable &= ~behind[batch.rare]
    return np.flatnonzero(readable)


def _line_keys(state: State, batch: Batch, rows: I64) -> I64:
    """What copies of a line have in common, as a 64-bit hash: broker, partition, time, type, epochs, offsets, ISR.

    The line of a cut names no epoch: its reader knows those that its file told before.
    """
    c = batch.columns
    leads, cuts = np.isin(c.kind[rows], _LEADERSHIP), c.kind[rows] == CODE["truncate"]
    partition = state.series["partition"][batch.series[batch.rare[rows]]]
    parts = [
        partition, c.broker[rows], c.ts[rows], c.kind[rows], np.where(cuts, 0, c.partition_epoch[rows]), c.leo[rows],
        np.where(leads, c.leader_epoch[rows], 0), np.where(leads, c.hw[rows], 0), c.isr_from_whom[rows],
        c.replica_id[rows], list_hash(c.isr_from, c.isr_ids)[rows],
    ]  # fmt: skip
    mixed = np.zeros(len(rows), dtype=np.uint64)
    for part in parts:
        mixed = _mixed(mixed, part.astype(np.int64).view(np.uint64))
    key: I64 = mixed.view(np.int64)
    return key


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


def _repeated(
    state: State, known: Records, key: I64, source: I64, in_lane: npt.NDArray[np.bool_]
) -> npt.NDArray[np.bool_]:  # fmt: skip
    """Which of the rows are copies: each row of a source is its k-th of that key, and one of all k-th ones counts."""
    names = state.source_names.all
    rank = np.empty(len(names), dtype=np.int64)
    rank[sorted(range(len(names)), key=lambda k: names[k])] = np.arange(len(names))
    keys = np.concatenate([known[:, OF.key], key])
    sources = np.concatenate([known[:, OF.source], source])
    new = np.concatenate([np.zeros(len(known), dtype=np.int64), 2 - in_lane.astype(np.int64)])
    order = np.lexsort((np.arange(len(keys)), sources, keys))
    ordinal = np.empty(len(keys), dtype=np.int64)
    ordinal[order] = _place_in_run(keys[order], sources[order])
    order = np.lexsort((rank[sources], new, ordinal, keys))
    first = np.ones(len(keys), dtype=np.bool_)
    first[1:] = (keys[order][1:] != keys[order][:-1]) | (ordinal[order][1:] != ordinal[order][:-1])
    repeated = np.empty(len(keys), dtype=np.bool_)
    repeated[order] = ~first
    return repeated[len(known) :]


def _place_in_run(key: I64, source: I64) -> I64:
    """How many rows of the same key and source stand before each; equal ones stand side by side."""
    if not len(key):
        return np.empty(0, dtype=np.int64)
    begins = np.append(True, (np.diff(key) != 0) | (np.diff(source) != 0))
    starts = np.flatnonzero(begins)
    place: I64 = np.arange(len(key)) - np.repeat(starts, np.diff(np.append(starts, len(key))))
    return place
