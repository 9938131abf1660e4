"""Dense numbers for integer keys: an open-addressing hash table that numba fills.

A key may have a second part of 32 bits: (partition of a topic, source) and the like are wider than 64 bits together.
"""

from __future__ import annotations

import numpy as np

from pipelines.replication.compiled.decorators import hot, kernel
from pipelines.replication.compiled.types import I32, I64

_EMPTY = np.int64(-1)
_MIX, _MIX_SECOND = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xD6E8FEB86659FD93)
_ONE = np.uint64(1)
_NUMBER = (1 << 32) - 1


@hot
def _slot(table: I64, key: int | np.int64, second: int | np.int64, bits: int) -> np.uint64:
    """The slot of a key, or the one for it; the next slot has its second part << 32 | its number."""
    mask = np.uint64((2 << bits) - 1)
    at = ((np.uint64(key) * _MIX + np.uint64(second) * _MIX_SECOND) >> np.uint64(64 - bits)) << _ONE
    while table[at] != _EMPTY and (table[at] != key or table[at + _ONE] >> 32 != second):
        at = (at + _ONE + _ONE) & mask
    return at


@hot
def enter(
    table: I64, bits: int, keys: I64, count: int, key: int | np.int64, second: int | np.int64 = 0
) -> tuple[int, int]:  # fmt: skip
    """(number of a key, keys known): an unknown one gets the next, or -1 where the table is half full."""
    at = _slot(table, key, second, bits)
    if table[at] != _EMPTY:
        return int(table[at + _ONE] & _NUMBER), count
    if count >= 1 << (bits - 1):
        return -1, count
    table[at] = key
    table[at + _ONE] = (second << 32) | count
    keys[count] = key
    return count, count + 1


@kernel
def _number(table: I64, bits: int, keys: I64, count: int, wanted: I64, numbers: I32) -> tuple[int, int]:
    """Numbers for `wanted`; returns (rows done, keys known), early when the table is half full."""
    last, number = np.int64(-1), np.int32(-1)
    for row in range(len(wanted)):
        key = wanted[row]
        if key < 0 or key == last:
            numbers[row] = number if key == last else -1
            continue
        found, count = enter(table, bits, keys, count, key)
        if found < 0:
            return row, count
        last, number = key, np.int32(found)
        numbers[row] = number
    return len(wanted), count


@kernel
def _fill(table: I64, bits: int, keys: I64, seconds: I64, count: int) -> None:
    for number in range(count):
        at = _slot(table, keys[number], seconds[number], bits)
        table[at] = keys[number]
        table[at + _ONE] = (seconds[number] << 32) | number


class Keys:
    """Numbers keys from 0 in the order of their first appearance. Keys are >= 0, second parts 32 bits with a sign."""

    def __init__(self, keys: I64 | None = None, seconds: I64 | None = None) -> None:
        self.count = 0 if keys is None else len(keys)
        self._bits = max(10, (2 * self.count).bit_length() + 1)
        self._keys = np.empty(1 << (self._bits - 1), dtype=np.int64)
        if keys is not None:
            self._keys[: self.count] = keys
        self._rehash(np.zeros(self.count, dtype=np.int64) if seconds is None else seconds)

    def _rehash(self, seconds: I64) -> None:
        self._table = np.full(2 << self._bits, _EMPTY, dtype=np.int64)
        _fill(self._table, self._bits, self._keys, np.ascontiguousarray(seconds), self.count)

    @property
    def keys(self) -> I64:
        """The known keys by number."""
        return self._keys[: self.count]

    @property
    def seconds(self) -> I64:
        """The second parts of the known keys by number."""
        rows = self._table.reshape(-1, 2)
        behind = rows[rows[:, 0] != _EMPTY, 1]
        seconds = np.empty(self.count, dtype=np.int64)
        seconds[behind & _NUMBER] = behind >> 32
        return seconds

    def find(self, key: int) -> int:
        """The number of a key, -1 where it is unknown."""
        at = _slot(self._table, key, 0, self._bits)
        return int(self._table[at + 1]) if self._table[at] != _EMPTY else -1

    def number(self, wanted: I64, into: I32 | None = None) -> I32:
        """The number of each key; unknown keys get the next ones, and keys below 0 get -1."""
        numbers = np.empty(len(wanted), dtype=np.int32) if into is None else into
        done = 0
        while True:
            rows, self.count = _number(*self.table, wanted[done:], numbers[done:])
            done += rows
            if done == len(wanted):
                return numbers
            self.widen()

    @property
    def table(self) -> tuple[I64, int, I64, int]:
        """The arguments of `enter` before a key; set `count` to its result."""
        return self._table, self._bits, self._keys, self.count

    @property
    def is_full(self) -> bool:
        """Whether `enter` returns -1 for a new key."""
        return self.count == len(self._keys)

    def widen(self) -> None:
        """Make room for more keys."""
        seconds = self.seconds
        self._bits += 2
        self._keys = np.concatenate([self.keys, np.empty((1 << (self._bits - 1)) - self.count, dtype=np.int64)])
        self._rehash(seconds)
