"""The frequent lines to rows, in file order, against what was told before."""

from __future__ import annotations

from typing import Any

import numpy as np

from generators.brokerlogs.events.event_rows import APPEND, FETCH, HW, LOST, REPLICA_LEO, UNKNOWN
from generators.brokerlogs.events.source_state import REPLICAS
from generators.brokerlogs.scanning.arrays import Array, compiled
from generators.brokerlogs.scanning.byte_text import find, integer
from generators.brokerlogs.scanning.fetch_grouping import FULL, INFO, LEAN
from generators.brokerlogs.scanning.leo_list import OFFSET, REPLICA, leo_of
from generators.brokerlogs.scanning.line_record import ADVANCED, FOLLOWER_HW, PROPOSED, RECORDED, SKIPPED, UNDER_MIN

RACE_MS = 150
"""Threads print a little out of order: an older LEO within this of a newer one is the past, not a fall."""
SILENCE_MS = 10_000
"""A follower's LEO that moves with no fetch printed for this long: fetches are not printed any more."""

SOURCE = np.dtype([("recorded", "i8"), ("lean", "i1"), ("capped", "i1"), ("broker", "i4")], align=True)
"""Of the source: time of its last RECORDED line, whether those have stopped, whether it is at level 0 for a line of
evidence that was not understood, its broker (-1 not known yet)."""


@compiled
def _row(rows: Array, n: int, kind: int, line: Any, level: int, state: Array) -> Any:
    row = rows[n]
    row.ts, row.type, row.level = line.ts, kind, level
    row.unclean = row.committed = -1
    row.broker_id = row.leader_id = line.broker
    row.place = line.place
    row.leader_epoch, row.partition_epoch = state[line.place].leader_epoch, state[line.place].partition_epoch
    row.topic_id = state[line.place].topic_id
    row.replica_id = row.min_isr = row.lag_max_ms = row.controller_epoch = UNKNOWN
    row.broker_epoch = row.leo = row.leader_leo = row.hw = row.log_start = row.hw_before = UNKNOWN
    row.isr = row.replicas = row.detail = -1
    return row


@compiled
def _slot(told: Array, replica: int) -> int:
    """Where a replica's LEO is kept: its own slot, a free one, else that told longest ago."""
    oldest = 0
    for k in range(REPLICAS):
        if told[k].replica == replica or told[k].replica < 0:
            return k
        if told[k].ts < told[oldest].ts:
            oldest = k
    return oldest


@compiled
def _remember(told: Array, replica: int, leo: int, ts: int) -> None:
    slot = told[_slot(told, replica)]
    slot.replica, slot.leo, slot.ts = replica, leo, ts


@compiled
def _append(rows: Array, n: int, line: Any, level: int, state: Array, leo: int) -> int:
    """The leader's LEO: told when it grew, or again after a gap."""
    place = state[line.place]
    if leo == UNKNOWN or (leo <= place.leader_leo and not place.again):
        return n
    grew = leo > place.leader_leo
    row = _row(rows, n, APPEND if grew else REPLICA_LEO, line, level, state)
    row.leader_leo = leo
    if not grew:
        row.replica_id, row.leo = line.broker, leo
    place.leader_leo, place.again = max(leo, place.leader_leo), 0
    return n + 1


@compiled
def _replicas(buf: Array, rows: Array, n: int, line: Any, level: int, state: Array, told: Array, source: Any) -> int:
    """The followers' LEOs of a SKIPPED line that differ from what was told."""
    known = told[line.place]
    pos = find(buf, line.a, line.end, REPLICA)
    while pos >= 0:
        replica, pos = integer(buf, pos, line.end)
        at = find(buf, pos, line.end, OFFSET) if pos >= 0 else -1
        if at < 0:
            break
        leo, pos = integer(buf, at, line.end)
        if pos < 0:
            break
        slot = known[_slot(known, replica)]
        before = slot.leo if slot.replica == replica else UNKNOWN
        stale = before != UNKNOWN and leo < before and line.ts - slot.ts <= RACE_MS
        if replica != line.broker and leo != before and not stale:
            row = _row(rows, n, REPLICA_LEO, line, level, state)
            row.replica_id, row.leo = replica, leo
            n += 1
            slot.replica, slot.leo, slot.ts = replica, leo, line.ts
            if before >= 0 and line.ts - source.recorded > SILENCE_MS:
                source.lean = 1
        pos = find(buf, pos, line.end, REPLICA)
    return n


@compiled
def _fetch(rows: Array, n: int, line: Any, opener: Any, level: int, state: Array, told: Array, leader_leo: int) -> int:
    """The fetch of a RECORDED line, at the time of the first line of that fetch."""
    row = _row(rows, n, FETCH, line, level, state)
    row.ts = opener.ts
    row.replica_id, row.leo, row.log_start, row.leader_leo = line.replica, line.a, line.b, leader_leo
    _remember(told[line.place], line.replica, line.a, opener.ts)
    return n + 1


@compiled
def _advance(rows: Array, n: int, line: Any, opener: Any, level: int, state: Array) -> int:
    """The HW of an ADVANCED line; an equal one only tells that a segment was rolled."""
    if line.a == line.b:
        return n
    row = _row(rows, n, HW, line, level, state)
    row.ts = opener.ts
    row.replica_id, row.hw, row.hw_before = line.broker, line.b, line.a
    state[line.place].hw = line.b
    return n + 1


@compiled
def tell(
    buf: Array,
    lines: Array,
    decisions: Array,
    start: int,
    stop: int,
    rows: Array,
    n: int,
    state: Array,
    told: Array,
    source: Any,
) -> int:
    """Rows of lines [start, stop) after rows[:n]; returns their number. Rare lines tell only the fetch they open."""
    for i in range(start, stop):
        line, decision = lines[i], decisions[i]
        if line.broker >= 0:
            source.broker = line.broker
        if decision.start:
            source.capped = 0
        if decision.lost != 0:
            row = rows[n]
            row.ts, row.type, row.level = line.ts, LOST, INFO if source.capped else decision.level
            row.unclean = row.committed = -1
            row.broker_id = source.broker
            row.leader_id = row.leader_epoch = row.partition_epoch = row.replica_id = UNKNOWN
            row.min_isr = row.lag_max_ms = row.controller_epoch = UNKNOWN
            row.leo = row.leader_leo = row.hw = row.log_start = row.hw_before = UNKNOWN
            row.place = row.topic_id = row.isr = row.replicas = row.detail = -1
            row.broker_epoch = decision.lost  # how many; its words are found when the table is made
            n += 1
            for p in range(state.size):
                state[p].again = 1
                for k in range(REPLICAS):
                    told[p, k].replica = -1
        kind, place = line.kind, line.place
        if kind == RECORDED:
            source.recorded, source.lean = line.ts, 0
        if place < 0 or not state[place].wanted:
            continue
        level = LEAN if source.lean and decision.level == FULL else decision.level
        level = INFO if source.capped else level
        leader_leo = leo_of(buf, line, line.broker) if kind == SKIPPED else UNKNOWN
        if decision.fetch >= 0 and (kind in (ADVANCED, SKIPPED, UNDER_MIN, PROPOSED)):
            n = _fetch(rows, n, lines[decision.fetch], line, level, state, told, leader_leo)
            if decision.hw >= 0:
                n = _advance(rows, n, lines[decision.hw], line, level, state)
        if decision.taken:
            continue
        if kind == RECORDED:
            n = _fetch(rows, n, line, line, level, state, told, UNKNOWN)
        elif kind == ADVANCED and decision.hw < 0:
            n = _advance(rows, n, line, line, level, state)
        elif kind == SKIPPED:
            n = _append(rows, n, line, level, state, leader_leo)
            n = _replicas(buf, rows, n, line, level, state, told, source)
        elif kind == FOLLOWER_HW:
            row = _row(rows, n, HW, line, level, state)
            row.leader_id, row.replica_id, row.hw = line.replica, line.broker, line.b
            n += 1
    return n
