"""The loop of the limit: the three questions in one pass over the columns."""

from __future__ import annotations

from typing import Any

import numpy as np

from pipelines.replication.compiled.decorators import compiled, hot, kernel
from pipelines.replication.compiled.records import Records
from pipelines.replication.compiled.types import I64

KINDS = {"leader": 0, "append": 1, "fetch": 2, "isr": 3}
_LEADER, _APPEND, _FETCH, _ISR = range(4)
HW, EMITTED_HW, BIN, LEADER_LEO, IN_SYNC = range(5)
LEO, LEADER_BEFORE, US_BEFORE, CAUGHT_UP, SINCE = range(5)


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

    def grown(self, events: int) -> tuple[Any, ...]:
        """State and room for what so many events can give, as `loop` takes them."""
        for k, rows in enumerate(self._rows):
            if len(rows) - self._counts[k] < events:
                self._rows[k] = np.concatenate(
                    [rows, np.zeros((max(events, len(rows)), rows.shape[1]), dtype=np.int64)]
                )
        return self.replicas, self._partitions, self._followers, self._limits, self._counts, *self._rows

    def end(self) -> None:
        """Emits the HWs of the stretches that no event ended."""
        self.grown(len(self._partitions))
        _flush(self._partitions, self._limits[0], self._counts, self._rows[0])

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
def loop(
    kind: I64, series: I64, ts: I64, replica: I64, leo: I64, leader_leo: I64, ends: I64, members: I64,
    R: Records, P: Records, F: Records, limits: I64, counts: I64, hws: Records, changes: Records, stretches: Records,
) -> None:  # fmt: skip
    """Reads the events in their order; `ends` and `members` are the lists of the ISRs."""
    for i in range(len(kind)):
        k, p = kind[i], series[i]
        if p < 0 or k < 0:
            continue
        if k == _FETCH:
            f = 1 if R[p, 1] == replica[i] else 2
            F[p, f, LEO] = leo[i]
            _fetched(p, f, ts[i], leo[i], R, P, F, limits[1], counts, stretches)
        elif k == _APPEND:
            P[p, LEADER_LEO] = leader_leo[i]
            F[p, 0, LEO] = leader_leo[i]
        elif k == _LEADER:
            for n in range(3):
                R[p, n] = members[ends[i] + n]
            P[p, IN_SYNC] = 7
        else:
            mask = 0
            for at in range(ends[i], ends[i + 1]):
                for n in range(3):
                    if R[p, n] == members[at]:
                        mask |= 1 << n
            if mask != P[p, IN_SYNC]:
                n = counts[1]
                changes[n, 0], changes[n, 1], changes[n, 2], changes[n, 3] = p, ts[i], P[p, IN_SYNC], mask
                counts[1] += 1
                P[p, IN_SYNC] = mask
        hw = F[p, 0, LEO]
        for n in range(1, 3):
            if P[p, IN_SYNC] >> n & 1 and F[p, n, LEO] < hw:
                hw = F[p, n, LEO]
        stretch = ts[i] // limits[0]
        if stretch != P[p, BIN]:
            _emit(p, P, limits[0], counts, hws)
            P[p, BIN] = stretch
        if hw > P[p, HW]:
            P[p, HW] = hw


@hot
def _fetched(
    p: int, f: int, us: int, leo: int, R: Records, P: Records, F: Records, lag_us: int, counts: I64, stretches: Records
) -> None:
    before = F[p, f, CAUGHT_UP]
    if leo >= P[p, LEADER_LEO]:
        F[p, f, CAUGHT_UP] = us
    elif leo >= F[p, f, LEADER_BEFORE]:
        F[p, f, CAUGHT_UP] = max(before, F[p, f, US_BEFORE])
    if before and us > before + lag_us and F[p, f, SINCE] == 0:
        F[p, f, SINCE] = before + lag_us + 1000
    if F[p, f, SINCE] and us <= F[p, f, CAUGHT_UP] + lag_us:
        n = counts[2]
        stretches[n, 0], stretches[n, 1], stretches[n, 2], stretches[n, 3] = p, R[p, f], F[p, f, SINCE], us
        counts[2] += 1
        F[p, f, SINCE] = 0
    F[p, f, LEADER_BEFORE], F[p, f, US_BEFORE] = P[p, LEADER_LEO], us


@hot
def _emit(p: int, P: Records, resolution_us: int, counts: I64, hws: Records) -> None:
    if P[p, HW] > P[p, EMITTED_HW]:
        n = counts[0]
        hws[n, 0], hws[n, 1], hws[n, 2] = p, P[p, BIN] * resolution_us, P[p, HW]
        counts[0] += 1
        P[p, EMITTED_HW] = P[p, HW]


@compiled
def _flush(P: Records, resolution_us: int, counts: I64, hws: Records) -> None:
    for p in range(len(P)):
        _emit(p, P, resolution_us, counts, hws)
