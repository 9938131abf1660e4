"""Which replicas are assigned to each partition, as of a time: of most partitions told once and for long."""

from __future__ import annotations

from bisect import insort

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pipelines.replication.compiled.types import I32, I64, NEVER

KEPT = 16
Told = tuple[int, tuple[int, ...]]
"""(ts, replicas)"""
TOLD = pa.schema([("partition", pa.int64()), ("since", pa.int64()), ("replicas", pa.list_(pa.int32()))])


class Assignments:
    """By partition number: the replicas and since when; of few partitions `several`, in time order."""

    def __init__(self, once: pa.Table | None = None, several: dict[int, list[Told]] | None = None) -> None:
        self.several = several or {}
        self._since, self._at, self._size = (np.empty(0, dtype=np.int64) for _ in range(3))
        self._ids = np.empty(0, dtype=np.int32)
        if once is not None and once.num_rows:
            lists = once["replicas"].combine_chunks()
            at, ids = lists.offsets.to_numpy().astype(np.int64), lists.values.to_numpy()
            self._put(once["partition"].to_numpy(), once["since"].to_numpy(), at[:-1], np.diff(at), ids)

    def learn(self, partition: I64, ts: I64, at: I64, size: I64, ids: I32) -> None:
        """Row k told at ts[k] that ids[at[k] : at[k] + size[k]] are assigned to partition[k]."""
        partition, ts, at, size = (column[size > 0] for column in (partition, ts, at, size))
        self._grow(int(partition.max(initial=-1)) + 1)
        told, first, row = np.unique(partition, return_index=True, return_inverse=True)
        known = self._since[told] < NEVER
        every = np.concatenate([self._ids, ids])
        like = (
            np.where(known, self._at[told], len(self._ids) + at[first]),
            np.where(known, self._size[told], size[first]),
        )
        another = ~_same(every, (len(self._ids) + at, size), (like[0][row], like[1][row]))
        steady = np.bincount(row, another, len(told)) == 0
        if self.several:
            steady &= ~np.isin(told, list(self.several))
        since = self._since[told]
        np.minimum.at(since, row, ts)
        self._since[told[steady]] = since[steady]
        new = steady & ~known
        self._put(told[new], since[new], at[first[new]], size[first[new]], ids)
        for k in np.flatnonzero(~steady[row]):
            self._learn_again(int(partition[k]), int(ts[k]), tuple(ids[at[k] : at[k] + size[k]].tolist()))

    def as_of(self, partition: I64, ts: I64) -> tuple[I64, I32]:
        """(bounds, replicas) by row: who was assigned to partition[k] at ts[k], nobody where that was not told."""
        self._grow(int(partition.max(initial=-1)) + 1)
        size = np.where(self._since[partition] <= ts, self._size[partition], 0)
        changing = np.flatnonzero(np.isin(partition, list(self.several))) if self.several else np.empty(0, np.int64)
        then = [self._then(int(partition[k]), int(ts[k])) for k in changing]
        size[changing] = [len(replicas) for replicas in then]
        bounds = np.concatenate([[0], np.cumsum(size)])
        at = self._at[partition]
        at[changing] = len(self._ids) + np.concatenate([[0], np.cumsum(size[changing])])[:-1]
        ids = np.concatenate([self._ids, np.array([r for replicas in then for r in replicas], dtype=np.int32)])
        return bounds, ids[_places(at, size)]

    def _then(self, partition: int, ts: int) -> tuple[int, ...]:
        """Who was assigned to one of `several` at a time."""
        return next((replicas for since, replicas in reversed(self.several[partition]) if since <= ts), ())

    def table(self) -> pa.Table:
        """What is known of the partitions that are not among `several`."""
        known: I64 = np.flatnonzero(self._since < NEVER)
        bounds, ids = self.as_of(known, self._since[known])
        lists = pa.ListArray.from_arrays(pa.array(bounds.astype(np.int32)), pa.array(ids))
        return pa.table([pa.array(known), pa.array(self._since[known]), lists], schema=TOLD)

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

    def _learn_again(self, partition: int, ts: int, replicas: tuple[int, ...]) -> None:
        told = self.several.pop(partition, [])
        if self._since[partition] < NEVER:
            at = int(self._at[partition])
            told = [(int(self._since[partition]), tuple(self._ids[at : at + self._size[partition]].tolist()))]
        insort(told, (ts, replicas))
        told = [e for k, e in enumerate(told) if k == 0 or e[1] != told[k - 1][1]][-KEPT:]
        if len(told) == 1 and self._since[partition] < NEVER:
            self._since[partition] = told[0][0]
        else:
            self.several[partition], self._since[partition] = told, NEVER


def _places(at: I64, size: I64) -> I64:
    """Every place of stretches of `size` that begin `at`."""
    ends = np.cumsum(size)
    places: I64 = np.arange(ends[-1] if len(ends) else 0) + np.repeat(at - ends + size, size)
    return places


def _same(ids: I32, ours: tuple[I64, I64], theirs: tuple[I64, I64]) -> npt.NDArray[np.bool_]:
    """By pair of stretches of `ids`, each given as (at, size): whether they hold the same."""
    same: npt.NDArray[np.bool_] = ours[1] == theirs[1]
    (at, size), other = (column[same] for column in ours), theirs[0][same]
    differs = ids[_places(at, size)] != ids[_places(other, size)]
    same[same] = np.bincount(np.repeat(np.arange(len(size)), size), differs, len(size)) == 0
    return same
