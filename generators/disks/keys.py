"""Keys of records against the partitions they lie in, in compiled code: `hwmark audit --deep`."""

from __future__ import annotations

from typing import Any

import numpy as np

from generators.disks.batches import HEADER, OLD_CRC_TABLES, Array, crc_by_tables
from pipelines.replication.compiled.decorators import compiled, kernel

RECORDS, KEYED, BY_MURMUR2, BY_CRC32 = range(4)
"""Counts of records: all, with a key, and with a key that either hash maps to their partition."""


@kernel
def murmur2(buf: Array, start: int, end: int) -> int:
    """The hash of Java's default partitioner (org.apache.kafka.common.utils.Utils.murmur2), as a positive number."""
    mask, m = 0xFFFFFFFF, 0x5BD1E995
    h = 0x9747B28C ^ (end - start)
    while end - start >= 4:
        k = int(buf[start]) | int(buf[start + 1]) << 8 | int(buf[start + 2]) << 16 | int(buf[start + 3]) << 24
        k = (k * m) & mask
        k = ((k ^ (k >> 24)) * m) & mask
        h = ((h * m) & mask) ^ k
        start += 4
    if start < end:
        for byte in range(end - start):
            h ^= int(buf[start + byte]) << (8 * byte)
        h = (h * m) & mask
    h = ((h ^ (h >> 13)) * m) & mask
    return (h ^ (h >> 15)) & 0x7FFFFFFF


@kernel
def _varint(buf: Array, state: Array, end: int) -> int:
    """Read the zigzag varint at state[0] and move state[0] behind it; state[1] becomes 1 if it reaches past the end."""
    value, shift = 0, 0
    while state[0] < end and shift < 64:
        byte = int(buf[state[0]])
        state[0] += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 128:
            return (value >> 1) ^ -(value & 1)
    state[1] = 1
    return 0


@compiled
def count_keys(payload: Array, count: int, place: Any, counts: Array) -> bool:
    """Add the records of a batch to `counts`; returns False if they do not fit its header.

    `place`: the partition they lie in, and how many partitions the topic has.
    """
    state, end = np.zeros(2, np.int64), len(payload)
    for _ in range(count):
        size = _varint(payload, state, end)
        record_end = state[0] + size
        if state[1] or size < 1 or record_end > end:
            return False
        state[0] += 1
        _varint(payload, state, record_end)
        _varint(payload, state, record_end)
        key_size = _varint(payload, state, record_end)
        key = state[0]
        if state[1] or key_size < -1 or key + key_size > record_end:
            return False
        counts[RECORDS] += 1
        if key_size >= 0:
            counts[KEYED] += 1
            counts[BY_MURMUR2] += murmur2(payload, key, key + key_size) % place[1] == place[0]
            crc32 = crc_by_tables(0, payload, key, key + key_size, OLD_CRC_TABLES)
            counts[BY_CRC32] += crc32 % place[1] == place[0]
        state[0] = record_end
    return bool(state[0] == end)


@compiled
def count_plain_keys(buf: Array, batches: Array, place: Any, counts: Array, faults: Array) -> None:
    """Add the records of uncompressed batches at their positions in `buf`; `faults` marks damaged batches."""
    for k in range(len(batches)):
        one = batches[k]
        payload = buf[one.position + HEADER : one.position + one.size]
        faults[k] = not count_keys(payload, one.count, place, counts)


def words(counts: Array, partitions: int) -> str | None:
    """The topic's partitioner in words; None without keys, or if fewer than two partitions are known."""
    keyed = int(counts[KEYED])
    if partitions < 2 or not keyed:
        return None
    for which, name in ((BY_MURMUR2, "murmur2, Java's default"), (BY_CRC32, "CRC32, librdkafka's default")):
        if counts[which] == keyed:
            return f"by key ({name}): {keyed:,} records, {partitions} partitions"
    elsewhere = f"{keyed - int(counts[BY_MURMUR2]):,} of {keyed:,} records are not where murmur2 puts them"
    return f"not by key: {elsewhere}, {partitions} partitions"
