"""Partition of a record: the named one, else by hash of its key, else by the strategy for keyless records."""

from __future__ import annotations

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

    def choose(self, partitions: int, size: int) -> int: ...


class RoundRobin:
    """One partition after the other from a random start (DefaultPartitioner until 2.3)."""

    def __init__(self, random: Random) -> None:
        self._next = random.getrandbits(31)

    def choose(self, partitions: int, size: int) -> int:
        at = to_positive(self._next)
        self._next += 1
        return at % partitions


class Sticky:
    """One partition until `batch_size` bytes went to it, then a random one (KIP-480, BuiltInPartitioner of KIP-794)."""

    def __init__(self, random: Random, batch_size: int = BATCH_SIZE) -> None:
        self._random = random
        self._batch_size = batch_size
        self._partition: int | None = None
        self._produced = 0

    def choose(self, partitions: int, size: int) -> int:
        chosen = self._random.getrandbits(31) % partitions if self._partition is None else self._partition
        self._produced += size
        self._partition = chosen
        if self._produced >= self._batch_size:
            self._produced, self._partition = 0, self._random.getrandbits(31) % partitions
        return chosen


class Partitioner:
    """The partitions of one topic's records, as KafkaProducer.partition chooses them."""

    def __init__(self, partitions: int, keyless: Keyless) -> None:
        self.partitions = partitions
        self._keyless = keyless

    def partition(self, key: bytes | None = None, named: int | None = None, size: int = 0) -> int:
        if named is not None:
            return named
        if key is not None:
            return of_key(key, self.partitions)
        return self._keyless.choose(self.partitions, size)
