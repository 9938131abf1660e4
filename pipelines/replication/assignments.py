"""Which replicas are assigned to each partition, as of a time: of most partitions told once and for long."""

from __future__ import annotations

from bisect import insort

import numpy as np
import pyarrow as pa

from pipelines.replication.columns import I32, I64
from pipelines.replication.lanes import NEVER

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
        self._grow(int(partition.max(initial=-1)) + 1)
        new = (np.bincount(partition)[partition] == 1) & (self._since[partition] == NEVER) & (size > 0)
        if self.several:
            new &= ~np.isin(partition, list(self.several))
        self._put(partition[new], ts[new], at[new], size[new], ids)
        for k in np.flatnonzero(~new & (size > 0)):
            self._learn_again(int(partition[k]), int(ts[k]), tuple(ids[at[k] : at[k] + size[k]].tolist()))

    def as_of(self, partition: I64, ts: I64) -> tuple[I64, I32]:
        """(bounds, replicas) by row: who was assigned to partition[k] at ts[k], nobody where that was not told."""
        self._grow(int(partition.max(initial=-1)) + 1)
        size = np.where(self._since[partition] <= ts, self._size[partition], 0)
        bounds = np.concatenate([[0], np.cumsum(size)])
        within = np.arange(bounds[-1]) - np.repeat(bounds[:-1], size)
        ids = self._ids[np.repeat(self._at[partition], size) + within]
        for k in np.flatnonzero(np.isin(partition, list(self.several)))[::-1] if self.several else ():
            told = [replicas for since, replicas in self.several[int(partition[k])] if since <= ts[k]]
            if told:
                ids = np.insert(ids, bounds[k], told[-1])
                bounds[k + 1 :] += len(told[-1])
        return bounds, ids

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
        bounds = np.concatenate([[0], np.cumsum(size)])
        taken = np.repeat(at, size) + np.arange(bounds[-1]) - np.repeat(bounds[:-1], size)
        self._since[partition], self._at[partition], self._size[partition] = since, len(self._ids) + bounds[:-1], size
        self._ids = np.concatenate([self._ids, ids[taken]])

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
