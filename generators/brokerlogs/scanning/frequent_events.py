"""Rows of the frequent lines, in file order, compared with the rows before them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from generators.brokerlogs.events.event_rows import APPEND, FETCH, HW, LOST, REPLICA_LEO, UNKNOWN
from generators.brokerlogs.events.source_state import MAX_REPLICAS
from generators.brokerlogs.scanning.arrays import Array, compiled
from generators.brokerlogs.scanning.byte_text import find, integer
from generators.brokerlogs.scanning.fetch_grouping import FULL, INFO, LEAN
from generators.brokerlogs.scanning.leo_list import OFFSET, REPLICA, leo_of
from generators.brokerlogs.scanning.line_record import ADVANCED, FOLLOWER_HW, PROPOSED, RECORDED, SKIPPED, UNDER_MIN

RACE_MS = 150
"""Threads print a little out of order: an older LEO within this of a newer one is out of order, not a fall."""
SILENCE_MS = 10_000
"""A follower's LEO that moves with no fetch printed for this long: fetches are not printed any more."""

SOURCE = np.dtype([("recorded", "i8"), ("lean", "i1"), ("capped", "i1"), ("broker", "i4")], align=True)
"""State of a source, stored in snapshots.

`recorded`: time (ms) of its last RECORDED line. `lean`: whether those have stopped. `capped`: whether it is at level 0
because a line of evidence was not understood. `broker`: its broker, -1 while not known.
"""


class GroupedLines(NamedTuple):
    """Lines (LINE) of `buf` with what was decided of each (DECISION)."""

    buf: Array
    lines: Array
    decisions: Array


class Memory(NamedTuple):
    """State of a source: by place a PARTITION and MAX_REPLICAS LEOs, and one SOURCE."""

    partitions: Array
    leos: Array
    source: Array


@compiled
def _row(rows: Array, count: int, kind: int, line: Any, level: int, partitions: Array) -> Any:
    """A row after rows[:count] with what every row of a line has, all else unknown."""
    row = rows[count]
    row.ts, row.type, row.level = line.ts, kind, level
    row.unclean = row.committed = -1
    row.broker_id = row.leader_id = line.broker
    row.place = line.place
    partition = partitions[line.place]
    row.leader_epoch, row.partition_epoch = partition.leader_epoch, partition.partition_epoch
    row.topic_id = partition.topic_id
    row.replica_id = row.min_isr = row.lag_max_ms = row.controller_epoch = UNKNOWN
    row.broker_epoch = row.leo = row.leader_leo = row.hw = row.log_start = row.hw_before = UNKNOWN
    row.isr = row.replicas = row.detail = -1
    return row


@compiled
def _slot(leos: Array, replica: int) -> int:
    """The slot for a replica's LEO: its own, a free one, or the one written longest ago."""
    oldest = 0
    for k in range(MAX_REPLICAS):
        if leos[k].replica == replica or leos[k].replica < 0:
            return k
        if leos[k].ts < leos[oldest].ts:
            oldest = k
    return oldest


@compiled
def _append(rows: Array, count: int, line: Any, level: int, memory: Memory, leo: int) -> int:
    """A row for the leader's LEO where it grew, or where a gap requires it to be repeated."""
    partition = memory.partitions[line.place]
    if leo == UNKNOWN or (leo <= partition.leader_leo and not partition.again):
        return count
    grew = leo > partition.leader_leo
    row = _row(rows, count, APPEND if grew else REPLICA_LEO, line, level, memory.partitions)
    row.leader_leo = leo
    if not grew:
        row.replica_id, row.leo = line.broker, leo
    partition.leader_leo, partition.again = max(leo, partition.leader_leo), 0
    return count + 1


@compiled
def _replicas(buf: Array, rows: Array, count: int, line: Any, level: int, memory: Memory) -> int:
    """Rows for the followers' LEOs of a SKIPPED line that differ from those stored."""
    leos, source = memory.leos[line.place], memory.source[0]
    pos = find(buf, line.a, line.end, REPLICA)
    while pos >= 0:
        replica, pos = integer(buf, pos, line.end)
        at = find(buf, pos, line.end, OFFSET) if pos >= 0 else -1
        if at < 0:
            break
        leo, pos = integer(buf, at, line.end)
        if pos < 0:
            break
        slot = leos[_slot(leos, replica)]
        before = slot.leo if slot.replica == replica else UNKNOWN
        stale = before != UNKNOWN and leo < before and line.ts - slot.ts <= RACE_MS
        if replica != line.broker and leo != before and not stale:
            row = _row(rows, count, REPLICA_LEO, line, level, memory.partitions)
            row.replica_id, row.leo = replica, leo
            count += 1
            slot.replica, slot.leo, slot.ts = replica, leo, line.ts
            if before >= 0 and line.ts - source.recorded > SILENCE_MS:
                source.lean = 1
        pos = find(buf, pos, line.end, REPLICA)
    return count


@compiled
def _fetch(rows: Array, count: int, line: Any, opener: Any, level: int, memory: Memory, leader_leo: int) -> int:
    """A row for the fetch of a RECORDED line, at the time of `opener`, the first line of that fetch."""
    row = _row(rows, count, FETCH, line, level, memory.partitions)
    row.ts = opener.ts
    row.replica_id, row.leo, row.log_start, row.leader_leo = line.replica, line.a, line.b, leader_leo
    leos = memory.leos[line.place]
    slot = leos[_slot(leos, line.replica)]
    slot.replica, slot.leo, slot.ts = line.replica, line.a, opener.ts
    return count + 1


@compiled
def _advance(rows: Array, count: int, line: Any, opener: Any, level: int, memory: Memory) -> int:
    """A row for the HW of an ADVANCED line; an equal one only means that a segment was rolled."""
    if line.a == line.b:
        return count
    row = _row(rows, count, HW, line, level, memory.partitions)
    row.ts = opener.ts
    row.replica_id, row.hw, row.hw_before = line.broker, line.b, line.a
    memory.partitions[line.place].hw = line.b
    return count + 1


@compiled
def _lost(rows: Array, count: int, line: Any, decision: Any, memory: Memory) -> int:
    """A `lost` row before a line; from here on every LEO is repeated, changed or not."""
    row, source = rows[count], memory.source[0]
    row.ts, row.type, row.level = line.ts, LOST, INFO if source.capped else decision.level
    row.unclean = row.committed = -1
    row.broker_id = source.broker
    row.leader_id = row.leader_epoch = row.partition_epoch = row.replica_id = UNKNOWN
    row.min_isr = row.lag_max_ms = row.controller_epoch = UNKNOWN
    row.leo = row.leader_leo = row.hw = row.log_start = row.hw_before = UNKNOWN
    row.place = row.topic_id = row.isr = row.replicas = row.detail = -1
    row.broker_epoch = decision.lost  # the number of lines; EventBuilder.table makes the detail from it
    for place in range(memory.partitions.size):
        memory.partitions[place].again = 1
        for k in range(MAX_REPLICAS):
            memory.leos[place, k].replica = -1
    return count + 1


@compiled
def append_frequent(grouped: GroupedLines, start: int, stop: int, rows: Array, count: int, memory: Memory) -> int:
    """Write the rows of lines [start, stop) after rows[:count]; returns the number of rows then.

    Of a rare line only the fetch that it opens becomes a row.
    """
    source = memory.source[0]
    for i in range(start, stop):
        line, decision = grouped.lines[i], grouped.decisions[i]
        if line.broker >= 0:
            source.broker = line.broker
        if decision.start:
            source.capped = 0
        if decision.lost != 0:
            count = _lost(rows, count, line, decision, memory)
        kind, place = line.kind, line.place
        if kind == RECORDED:
            source.recorded, source.lean = line.ts, 0
        if place < 0 or not memory.partitions[place].wanted:
            continue
        level = LEAN if source.lean and decision.level == FULL else decision.level
        level = INFO if source.capped else level
        leader_leo = leo_of(grouped.buf, line, line.broker) if kind == SKIPPED else UNKNOWN
        if decision.fetch >= 0 and (kind in (ADVANCED, SKIPPED, UNDER_MIN, PROPOSED)):
            count = _fetch(rows, count, grouped.lines[decision.fetch], line, level, memory, leader_leo)
            if decision.hw >= 0:
                count = _advance(rows, count, grouped.lines[decision.hw], line, level, memory)
        if decision.taken:
            continue
        if kind == RECORDED:
            count = _fetch(rows, count, line, line, level, memory, UNKNOWN)
        elif kind == ADVANCED and decision.hw < 0:
            count = _advance(rows, count, line, line, level, memory)
        elif kind == SKIPPED:
            count = _append(rows, count, line, level, memory, leader_leo)
            count = _replicas(grouped.buf, rows, count, line, level, memory)
        elif kind == FOLLOWER_HW:
            row = _row(rows, count, HW, line, level, memory.partitions)
            row.leader_id, row.replica_id, row.hw = line.replica, line.broker, line.b
            count += 1
    return count
