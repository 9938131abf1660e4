"""Partition of a record: the named one, else by hash of its key, else by the strategy for keyless records."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from random import Random
from typing import Protocol

BATCH_SIZE = 16_384
"""batch.size by default, in bytes."""

_SEED, _MULTIPLIER, _WORD = 0x9747B28C, 0x5BD1E995, 0xFFFFFFFF


def murmur2(data: bytes) -> int:
    """Kafka's hash of a key, a signed 32-bit number (Utils.murmur2)."""
    whole = len(data) & ~3
    event = _SEED ^ len(data)
    for at in range(0, whole, 4):
        k = int.from_bytes(data[at : at + 4], "little") * _MULTIPLIER & _WORD
        k = (k ^ k >> 24) * _MULTIPLIER & _WORD
        event = event * _MULTIPLIER & _WORD ^ k
    if whole < len(data):
        event = (event ^ int.from_bytes(data[whole:], "little")) * _MULTIPLIER & _WORD
    event = (event ^ event >> 13) * _MULTIPLIER & _WORD
    event ^= event >> 15
    return event - (_WORD + 1) if event >> 31 else event


def to_positive(number: int) -> int:
    """The number without its sign bit: not its absolute value (Utils.toPositive)."""
    return number & 0x7FFFFFFF


def of_key(key: bytes, partitions: int) -> int:
    """The partition of a key, among all partitions whether or not they have a leader."""
    return to_positive(murmur2(key)) % partitions


class Keyless(Protocol):
    """Chooses a partition for a record of `size` bytes that names none and has no key."""

    def choose(self, available: Sequence[int], size: int) -> int: ...


class RoundRobin:
    """One partition after the other from a random start (DefaultPartitioner until 2.3)."""

    def __init__(self, random: Random) -> None:
        self._next = random.getrandbits(31)

    def choose(self, available: Sequence[int], size: int) -> int:
        at = to_positive(self._next)
        self._next += 1
        return available[at % len(available)]


class Sticky:
    """One partition until `batch_size` bytes went to it, then a random one (KIP-480, BuiltInPartitioner of KIP-794).

    While the last batch is still open (`batch_open`) it stays, so as not to send half-filled ones, but not beyond twice
    the size. `load` sets the queue lengths that weigh the draw; without them, or all equal, it is even.
    """

    def __init__(self, random: Random, batch_size: int = BATCH_SIZE) -> None:
        self._random = random
        self._batch_size = batch_size
        self._partition: int | None = None
        self._produced = 0
        self._queues: dict[int, int] = {}
        self.batch_open = False

    def load(self, queues: dict[int, int]) -> None:
        """How many batches wait in the queue of each available partition (partitioner.adaptive.partitioning.enable)."""
        self._queues = dict(queues) if len(set(queues.values())) > 1 else {}

    def choose(self, available: Sequence[int], size: int) -> int:
        if self._partition not in available:
            self._switch(available)
        chosen = self._partition
        assert chosen is not None
        self._produced += size
        if self._produced >= self._batch_size * (2 if self.batch_open else 1):
            self._switch(available)
        return chosen

    def _switch(self, available: Sequence[int]) -> None:
        self._produced = 0
        draw = self._random.getrandbits(31)
        if self._queues:
            self._partition = by_queue(self._queues, draw)
        else:
            self._partition = available[draw % len(available)]


def by_queue(queues: dict[int, int], draw: int) -> int:
    """The partition that `draw` selects when each weighs as much as its queue is shorter than the longest plus one."""
    longest = max(queues.values()) + 1
    bounds = list(accumulate(longest - length for length in queues.values()))
    return list(queues)[bisect_right(bounds, draw % bounds[-1])]


class Partitioner:
    """What KafkaProducer.partition does for one topic; `available`: the partitions that have a leader."""

    def __init__(self, partitions: int, keyless: Keyless) -> None:
        self.partitions = partitions
        self.available: Sequence[int] = range(partitions)
        self._keyless = keyless

    def partition(self, key: bytes | None = None, named: int | None = None, size: int = 0) -> int:
        if named is not None:
            if not 0 <= named < self.partitions:
                raise ValueError(f"partition {named} is not one of 0 to {self.partitions - 1}: name one of those")
            return named
        if key is not None:
            return of_key(key, self.partitions)
        return self._keyless.choose(self.available or range(self.partitions), size)
