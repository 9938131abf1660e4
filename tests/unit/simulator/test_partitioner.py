"""Which partition a record goes to."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from generators.simulator.clients.partitioner import Partitioner, RoundRobin, Sticky, murmur2, of_key


@pytest.mark.parametrize(
    ("key", "hashed"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
        (bytes([12, 42, 56, 24, 109, 111]), 274204207),
        (b"", 275646681),
    ],
)
def test_murmur2_gives_the_hashes_of_kafkas_own_tests(key, hashed):
    assert murmur2(key) == hashed


def test_a_negative_hash_loses_its_sign_bit_rather_than_its_sign():
    assert of_key(b"foobar", 10) == 1_357_151_166 % 10 == 6
    assert of_key(b"foobar", 10) != abs(murmur2(b"foobar")) % 10


@pytest.mark.parametrize(
    ("key", "hashed"), [(b"kafka", 0xD067CF64), (b"1234", 0x9FC97B14), (b"234", 0xE7C009CA), (b"34", 0x873930DA)]
)
def test_murmur2_gives_the_hashes_of_librdkafkas_tests_for_every_length_of_tail(key, hashed):
    assert murmur2(key) & 0xFFFFFFFF == hashed


def test_a_named_partition_wins_over_the_key():
    assert Partitioner(10, RoundRobin(Random(1))).partition(key=b"foobar", named=2) == 2


def test_an_empty_key_is_a_key():
    assert Partitioner(10, RoundRobin(Random(1))).partition(key=b"") == 275646681 % 10


def test_round_robin_starts_anywhere_and_goes_round():
    starts = Counter()
    for seed in range(40):
        keyless = Partitioner(3, RoundRobin(Random(seed)))
        chosen = [keyless.partition() for _ in range(6)]
        assert [(p - chosen[0]) % 3 for p in chosen] == [0, 1, 2, 0, 1, 2]
        starts[chosen[0]] += 1
    assert set(starts) == {0, 1, 2}


def runs(chosen):
    """How many records in a row went to one partition; a switch to the same one again shows as none."""
    lengths, last = [], None
    for partition in chosen:
        if partition == last:
            lengths[-1] += 1
        else:
            lengths.append(1)
        last = partition
    return lengths


def test_sticky_stays_until_the_batch_size_is_produced():
    keyless = Partitioner(50, Sticky(Random(3), batch_size=1000))
    chosen = [keyless.partition(size=100) for _ in range(200)]
    assert len(set(chosen)) > 10
    assert all(length % 10 == 0 for length in runs(chosen))


def test_sticky_counts_bytes_not_records():
    keyless = Partitioner(1000, Sticky(Random(3), batch_size=1000))
    chosen = [keyless.partition(size=size) for size in [999, 1, 1000, 400, 400, 400, 1]]
    assert chosen[0] == chosen[1]
    assert chosen[3] == chosen[4] == chosen[5]
    assert len({chosen[0], chosen[2], chosen[3], chosen[6]}) == 4
