"""Hashes of names, by which the kernels number them: no two names of one log share one."""

from __future__ import annotations

import numpy as np

from generators.brokerlogs.scanning.arrays import Array, compiled
from pipelines.replication.compiled.hash_index import Keys


@compiled
def hash_of(buf: Array, pos: int, end: int) -> int:
    """FNV-1a of buf[pos:end], its high bits mixed in; at least 0, as keys of a hash index are."""
    value = np.int64(-3750763034362895579)
    for k in range(pos, end):
        value = (value ^ np.int64(buf[k])) * np.int64(1099511628211)
    return int((value ^ (value >> 29)) & np.int64(0x7FFFFFFFFFFFFFFF))


@compiled
def hashes(buf: Array, offsets: Array) -> Array:
    """Hash of each name buf[offsets[k]:offsets[k + 1]]."""
    out = np.empty(offsets.size - 1, np.int64)
    for k in range(out.size):
        out[k] = hash_of(buf, offsets[k], offsets[k + 1])
    return out


def number_names(names: list[bytes], keys: Keys) -> None:
    """Number these names in `keys`, in order."""
    if names:
        offsets = np.cumsum([0, *map(len, names)])
        keys.number(hashes(np.frombuffer(b"".join(names), np.uint8), offsets))
