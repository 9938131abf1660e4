"""The key of each bucket, chosen so that buckets spread evenly over Spark's shuffle partitions."""

from __future__ import annotations

from collections import deque
from itertools import count

_MASK = 0xFFFFFFFF


def bucket_keys(buckets: int, shuffle_partitions: int) -> list[int]:
    """One int key per bucket: bucket k goes to shuffle partition k modulo their number.

    Spark sends a key to pmod(hash(key), partitions), which of 0..7 sends 5 to one of two and 3 to the other.
    """
    waiting: list[deque[int]] = [deque() for _ in range(shuffle_partitions)]
    candidates = count()
    keys = []
    for bucket in range(buckets):
        mine = waiting[bucket % shuffle_partitions]
        while not mine:
            candidate = next(candidates)
            waiting[_murmur3(candidate) % shuffle_partitions].append(candidate)
        keys.append(mine.popleft())
    return keys


def evenly_spread(buckets: int, shuffle_partitions: int) -> list[int]:
    """The keys of a new state: where these shuffle partitions divide the buckets, all others that do suit them, too."""
    return bucket_keys(buckets, shuffle_partitions if buckets % shuffle_partitions else buckets)


def _murmur3(value: int, seed: int = 42) -> int:
    """Spark's `hash` of one int, as a signed 32-bit number."""
    k = _rotate(value * 0xCC9E2D51, 15) * 0x1B873593 & _MASK
    h = _rotate(seed ^ k, 13) * 5 + 0xE6546B64 & _MASK
    h ^= 4
    h = (h ^ h >> 16) * 0x85EBCA6B & _MASK
    h = (h ^ h >> 13) * 0xC2B2AE35 & _MASK
    h ^= h >> 16
    return h - (h >> 31 << 32)


def _rotate(value: int, by: int) -> int:
    value &= _MASK
    return (value << by | value >> 32 - by) & _MASK
