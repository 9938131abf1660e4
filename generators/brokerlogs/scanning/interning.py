"""Numbers for names: an open hash table by their 64-bit hashes, which no two names of one log share."""

from __future__ import annotations

import numpy as np

from generators.brokerlogs.scanning.arrays import Array, compiled

Table = tuple[Array, Array]
"""(hashes, numbers); the number is -1 where a slot is free."""


def table(names: int) -> Table:
    """An empty table with room for `names` names."""
    size = 1 << (2 * names + 16).bit_length()
    return np.zeros(size, np.int64), np.full(size, -1, np.int32)


@compiled
def hash_of(buf: Array, pos: int, end: int) -> int:
    """FNV-1a of buf[pos:end], its high bits mixed in."""
    h = np.int64(-3750763034362895579)
    for k in range(pos, end):
        h = (h ^ np.int64(buf[k])) * np.int64(1099511628211)
    return int(h ^ (h >> 29))


@compiled
def intern(h: int, keys: Array, ids: Array, count: int) -> tuple[int, int]:
    """(number, count of names) of a name by its hash; a new one gets the next number."""
    mask = keys.size - 1
    k = h & mask
    while ids[k] >= 0:
        if keys[k] == h:
            return ids[k], count
        k = (k + 1) & mask
    keys[k] = h
    ids[k] = count
    return count, count + 1


@compiled
def hashes(buf: Array, offsets: Array) -> Array:
    """Hash of each name buf[offsets[k]:offsets[k + 1]]."""
    out = np.empty(offsets.size - 1, np.int64)
    for k in range(out.size):
        out[k] = hash_of(buf, offsets[k], offsets[k + 1])
    return out


@compiled
def fill(keys: Array, ids: Array, known: Array) -> None:
    """Enter the hashes of known names into an empty table, numbers in order."""
    count = 0
    for h in known:
        _, count = intern(h, keys, ids, count)
