"""The loop of the limit: the three questions in one pass over the columns."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pipelines.replication.compiled.decorators import compiled, hot, kernel
from pipelines.replication.compiled.records import Records
from pipelines.replication.compiled.types import I64

KINDS = {"leader": 0, "append": 1, "fetch": 2, "isr": 3}
_LEADER, _APPEND, _FETCH, _ISR = range(4)
HW, EMITTED_HW, BIN, LEADER_LEO, IN_SYNC = range(5)
LEO, LEADER_BEFORE, US_BEFORE, CAUGHT_UP, SINCE = range(5)


class Events(NamedTuple):
    """Columns of some events in their order; `ends` and `members` are the lists of the ISRs."""

    kind: I64
    series: I64
    ts: I64
    replica: I64
    leo: I64
    leader_leo: I64
    ends: I64
    members: I64


class Room(NamedTuple):
    """What the loop reads and writes: state per partition and per replica, limits (us), and room for the answers."""

    replicas: Records
    partitions: Records
    followers: Records
    limits: I64
    counts: I64
    hws: Records
    changes: Records
    stretches: Records


class LoopState:
    """State per partition and per replica, and the rows given: HWs (partition, us, hw), changes, stretches."""

    def __init__(self, partitions: int, resolution_us: int, lag_us: int) -> None:
        self._limits = np.array([max(1, resolution_us), lag_us])
        self.replicas = np.full((partitions, 3), -1, dtype=np.int64)
        self._partitions = np.zeros((partitions, 5), dtype=np.int64)
        self._partitions[:, BIN] = -1
        self._followers = np.zeros((partitions, 3, 5), dtype=np.int64)
        self._counts = np.zeros(3, dtype=np.int64)
        self._rows = [np.zeros((1 << 16, width), dtype=np.int64) for width in (3, 4, 4)]

    def grown(self, events: int) -> Room:
        """State, and room for what so many events can give."""
        for k, rows in enumerate(self._rows):
            if len(rows) - self._counts[k] < events:
                self._rows[k] = np.concatenate(
                    [rows, np.zeros((max(events, len(rows)), rows.shape[1]), dtype=np.int64)]
                )
        return Room(self.replicas, self._partitions, self._followers, self._limits, self._counts, *self._rows)

    def end(self) -> None:
        """Emits the HWs of the stretches that no event ended."""
        _flush(self.grown(len(self._partitions)))

    @property
    def hws(self) -> np.ndarray:
        return self._rows[0][: self._counts[0]]

    @property
    def changes(self) -> np.ndarray:
        return self._rows[1][: self._counts[1]]

    @property
    def stretches(self) -> np.ndarray:
        return self._rows[2][: self._counts[2]]


@kernel
def loop(events: Events, room: Room) -> None:
    """Reads the events in their order."""
    for i in range(len(events.kind)):
        kind, p = events.kind[i], events.series[i]
        if p >= 0 and kind >= 0:
            _read(events, i, kind, p, room)
            _raise_hw(p, events.ts[i], room)


@hot
def _read(events: Events, i: int, kind: int, p: int, room: Room) -> None:
    partition, leader_log = room.partitions[p], room.followers[p, 0]
    if kind == _FETCH:
        slot = 1 if room.replicas[p, 1] == events.replica[i] else 2
        room.followers[p, slot, LEO] = events.leo[i]
        _fetched(p, slot, events.ts[i], room)
    elif kind == _APPEND:
        partition[LEADER_LEO] = events.leader_leo[i]
        leader_log[LEO] = events.leader_leo[i]
    elif kind == _LEADER:
        for n in range(3):
            room.replicas[p, n] = events.members[events.ends[i] + n]
        partition[IN_SYNC] = 7
    else:
        _changed(events, i, p, room)


@hot
def _changed(events: Events, i: int, p: int, room: Room) -> None:
    """An ISR; a row if it is another one than before."""
    mask, partition = 0, room.partitions[p]
    for at in range(events.ends[i], events.ends[i + 1]):
        for n in range(3):
            if room.replicas[p, n] == events.members[at]:
                mask |= 1 << n
    if mask != partition[IN_SYNC]:
        row = room.changes[room.counts[1]]
        row[0], row[1], row[2], row[3] = p, events.ts[i], partition[IN_SYNC], mask
        room.counts[1] += 1
        partition[IN_SYNC] = mask


@hot
def _raise_hw(p: int, us: int, room: Room) -> None:
    """The HW is the least LEO over the ISR; it never falls."""
    partition, followers = room.partitions[p], room.followers[p]
    hw = followers[0, LEO]
    for n in range(1, 3):
        if partition[IN_SYNC] >> n & 1 and followers[n, LEO] < hw:
            hw = followers[n, LEO]
    stretch = us // room.limits[0]
    if stretch != partition[BIN]:
        _emit(p, room)
        partition[BIN] = stretch
    if hw > partition[HW]:
        partition[HW] = hw


@hot
def _fetched(p: int, slot: int, us: int, room: Room) -> None:
    """When a follower was caught up last, and the stretches in which that was too long ago."""
    partition, follower, lag_us = room.partitions[p], room.followers[p, slot], room.limits[1]
    before = follower[CAUGHT_UP]
    if follower[LEO] >= partition[LEADER_LEO]:
        follower[CAUGHT_UP] = us
    elif follower[LEO] >= follower[LEADER_BEFORE]:
        follower[CAUGHT_UP] = max(before, follower[US_BEFORE])
    if before and us > before + lag_us and follower[SINCE] == 0:
        follower[SINCE] = before + lag_us + 1000
    if follower[SINCE] and us <= follower[CAUGHT_UP] + lag_us:
        row = room.stretches[room.counts[2]]
        row[0], row[1], row[2], row[3] = p, room.replicas[p, slot], follower[SINCE], us
        room.counts[2] += 1
        follower[SINCE] = 0
    follower[LEADER_BEFORE], follower[US_BEFORE] = partition[LEADER_LEO], us


@hot
def _emit(p: int, room: Room) -> None:
    partition = room.partitions[p]
    if partition[HW] > partition[EMITTED_HW]:
        row = room.hws[room.counts[0]]
        row[0], row[1], row[2] = p, partition[BIN] * room.limits[0], partition[HW]
        room.counts[0] += 1
        partition[EMITTED_HW] = partition[HW]


@compiled
def _flush(room: Room) -> None:
    for p in range(len(room.partitions)):
        _emit(p, room)
