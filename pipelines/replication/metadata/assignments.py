"""Replica assignments of partitions as of a time.

Most partitions keep one assignment for as long as they are watched, so those stand in flat arrays; only the partitions
that were reassigned have a list of changes.
"""

from __future__ import annotations

from bisect import insort

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pipelines.replication.compiled.types import I32, I64, NEVER

KEPT_CHANGES = 16
"""The most assignments kept of one partition."""
Assignment = tuple[int, tuple[int, ...]]
"""(ts, replicas)"""
UNCHANGED = pa.schema([("partition", pa.int64()), ("since", pa.int64()), ("replicas", pa.list_(pa.int32()))])


class Assignments:
    """By partition number its replicas and since when; `changed` holds those of reassigned partitions, in time order.

    Lists of replicas are stretches of one array, each given as (at, size).
    """

    def __init__(self, unchanged: pa.Table | None = None, changed: dict[int, list[Assignment]] | None = None) -> None:
        self.changed = changed or {}
        self.any_known = bool(self.changed)
        """Whether a row has named the replicas of any partition."""
        self._since, self._at, self._size = (np.empty(0, dtype=np.int64) for _ in range(3))
        self._ids = np.empty(0, dtype=np.int32)
        if unchanged is not None and unchanged.num_rows:
            self.any_known = True
            lists = unchanged["replicas"].combine_chunks()
            at, ids = lists.offsets.to_numpy().astype(np.int64), lists.values.to_numpy()
            since = unchanged["since"].to_numpy()
            self._put(unchanged["partition"].to_numpy(), since, at[:-1], np.diff(at), ids)

    def record(self, partition: I64, ts: I64, at: I64, size: I64, ids: I32) -> None:
        """At ts[k] a row named ids[at[k] : at[k] + size[k]] as replicas of partition[k]; empty lists are ignored."""
        partition, ts, at, size = (column[size > 0] for column in (partition, ts, at, size))
        if not len(partition):
            return
        self.any_known = True
        self._grow(int(partition.max()) + 1)
        distinct, first, row = np.unique(partition, return_index=True, return_inverse=True)
        known = self._since[distinct] < NEVER
        all_ids = np.concatenate([self._ids, ids])
        expected = (
            np.where(known, self._at[distinct], len(self._ids) + at[first]),
            np.where(known, self._size[distinct], size[first]),
        )
        differs = ~_same(all_ids, (len(self._ids) + at, size), (expected[0][row], expected[1][row]))
        steady = np.bincount(row, differs, len(distinct)) == 0
        if self.changed:
            steady &= ~np.isin(distinct, list(self.changed))
        since = self._since[distinct]
        np.minimum.at(since, row, ts)
        self._since[distinct[steady]] = since[steady]
        new = steady & ~known
        self._put(distinct[new], since[new], at[first[new]], size[first[new]], ids)
        for k in np.flatnonzero(~steady[row]):
            self._record_change(int(partition[k]), int(ts[k]), tuple(ids[at[k] : at[k] + size[k]].tolist()))

    def as_of(self, partition: I64, ts: I64) -> tuple[I64, I32]:
        """(bounds, replicas) by row: the replicas of partition[k] at ts[k], none where they are not known."""
        self._grow(int(partition.max(initial=-1)) + 1)
        size = np.where(self._since[partition] <= ts, self._size[partition], 0)
        changing = np.flatnonzero(np.isin(partition, list(self.changed))) if self.changed else np.empty(0, np.int64)
        found = [self._changed_as_of(int(partition[k]), int(ts[k])) for k in changing]
        size[changing] = [len(replicas) for replicas in found]
        bounds = np.concatenate([[0], np.cumsum(size)])
        at = self._at[partition]
        at[changing] = len(self._ids) + np.concatenate([[0], np.cumsum(size[changing])])[:-1]
        ids = np.concatenate([self._ids, np.array([r for replicas in found for r in replicas], dtype=np.int32)])
        return bounds, ids[_places(at, size)]

    def _changed_as_of(self, partition: int, ts: int) -> tuple[int, ...]:
        return next((replicas for since, replicas in reversed(self.changed[partition]) if since <= ts), ())

    def table(self) -> pa.Table:
        """The assignments of partitions that were never reassigned, for a snapshot."""
        known: I64 = np.flatnonzero(self._since < NEVER)
        bounds, ids = self.as_of(known, self._since[known])
        lists = pa.ListArray.from_arrays(pa.array(bounds.astype(np.int32)), pa.array(ids))
        return pa.table([pa.array(known), pa.array(self._since[known]), lists], schema=UNCHANGED)

    def _grow(self, count: int) -> None:
        if count > len(self._since):
            more = count + count // 2 - len(self._since)
            self._since = np.concatenate([self._since, np.full(more, NEVER, dtype=np.int64)])
            self._at, self._size = (np.concatenate([a, np.zeros(more, dtype=np.int64)]) for a in (self._at, self._size))

    def _put(self, partition: I64, since: I64, at: I64, size: I64, ids: I32) -> None:
        self._grow(int(partition.max(initial=-1)) + 1)
        first = len(self._ids) + np.concatenate([[0], np.cumsum(size)])[:-1]
        self._since[partition], self._at[partition], self._size[partition] = since, first, size
        self._ids = np.concatenate([self._ids, ids[_places(at, size)]])

    def _record_change(self, partition: int, ts: int, replicas: tuple[int, ...]) -> None:
        changes = self.changed.pop(partition, [])
        if self._since[partition] < NEVER:
            at = int(self._at[partition])
            changes = [(int(self._since[partition]), tuple(self._ids[at : at + self._size[partition]].tolist()))]
        insort(changes, (ts, replicas))
        changes = [e for k, e in enumerate(changes) if k == 0 or e[1] != changes[k - 1][1]][-KEPT_CHANGES:]
        if len(changes) == 1 and self._since[partition] < NEVER:
            self._since[partition] = changes[0][0]
        else:
            self.changed[partition], self._since[partition] = changes, NEVER


def _places(at: I64, size: I64) -> I64:
    """All places of these stretches, one stretch after the other."""
    ends = np.cumsum(size)
    places: I64 = np.arange(ends[-1] if len(ends) else 0) + np.repeat(at - ends + size, size)
    return places


def _same(ids: I32, left: tuple[I64, I64], right: tuple[I64, I64]) -> npt.NDArray[np.bool_]:
    """By pair of stretches of `ids`, each given as (at, size): whether their values are equal."""
    same: npt.NDArray[np.bool_] = left[1] == right[1]
    (at, size), other = (column[same] for column in left), right[0][same]
    differs = ids[_places(at, size)] != ids[_places(other, size)]
    same[same] = np.bincount(np.repeat(np.arange(len(size)), size), differs, len(size)) == 0
    return same
