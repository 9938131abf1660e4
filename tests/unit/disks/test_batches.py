"""Headers of batches as Kafka's own tool prints them, and damaged ones: a clear word, no crash, no more memory."""

import re

import numpy as np
import pytest

from generators.disks import segments
from generators.disks.batches import CRC_TABLES, FAULTS, HEADER, STRIPE, WHOLE, crc32c, crc_by_tables
from generators.disks.segments import Segment, WalkEnd, blocks
from tests.unit.disks.disk_files import VERSIONS, batch, checksum, recorded

PRINTED = re.compile(
    r"baseOffset: (\d+) lastOffset: (\d+) count: (\d+) baseSequence: (-?\d+) lastSequence: -?\d+ producerId: (-?\d+) "
    r"producerEpoch: (-?\d+) partitionLeaderEpoch: (\d+) isTransactional: (\w+) isControl: (\w+) .*? position: (\d+) "
    r"CreateTime: (\d+) size: (\d+) magic: (\d) compresscodec: \w+ crc: (\d+) isvalid: true"
)
NAMES = ("base", "last", "count", "sequence", "producer", "producer_epoch", "epoch", "position", "max_ts", "size",
         "magic", "crc")  # fmt: skip


def walked(path):
    end = WalkEnd()
    found = [block for block, _ in blocks(Segment(path, int(path.stem)), end)]
    return (np.concatenate(found) if found else np.zeros(0, segments.BATCH)), end


def printed(folder, dumps):
    """By segment what Kafka's tool printed of each batch."""
    path, rows = None, {}
    for line in (line for dump in dumps for line in dump.read_text().splitlines()):
        if line.startswith("Dumping "):
            path = folder / "data" / line.split("/data/")[1]
            rows[path] = []
        elif match := PRINTED.match(line):
            *numbers, position, ts, size, magic, crc = (*match.groups()[:7], *match.groups()[9:])
            rows[path].append(tuple(int(n) for n in (*numbers, position, ts, size, magic, crc)))
    return rows


@pytest.mark.parametrize("version", VERSIONS)
def test_headers_are_those_that_kafkas_own_tool_prints(tmp_path, version):
    recorded(tmp_path, f"unclean_election_{version}")
    rows = printed(tmp_path, sorted((tmp_path / "dumps").iterdir()))
    assert sum(map(len, rows.values())) > 1000
    for path, expected in rows.items():
        found, end = walked(path)
        assert [tuple(int(row[name]) for name in NAMES) for row in found] == expected, path
        assert (found["fault"] == WHOLE).all()
        assert FAULTS[end.reason] in ("whole", FAULTS[6])


@pytest.mark.parametrize("window", [HEADER + 20, 200, 1000])
def test_a_window_of_any_size_gives_the_same_batches(tmp_path, monkeypatch, window):
    path = tmp_path / f"{0:020d}.log"
    path.write_bytes(b"".join(batch(k * 5, 5, epoch=k // 7) for k in range(40)))
    whole, _ = walked(path)
    monkeypatch.setattr(segments, "WINDOW", window)
    cut, end = walked(path)
    assert len(whole) == 40
    assert np.array_equal(cut, whole)
    assert end.reason == WHOLE


@pytest.mark.parametrize("byte", range(HEADER + 4))
@pytest.mark.parametrize("bit", [0, 7])
def test_a_flipped_bit_in_any_field_is_told_or_changes_nothing_that_is_told_of_others(tmp_path, byte, bit):
    content = bytearray(b"".join(batch(k, 1) for k in range(5)))
    at = 2 * len(batch(0, 1)) + byte
    content[at] ^= 1 << bit
    path = tmp_path / f"{0:020d}.log"
    path.write_bytes(content)
    found, end = walked(path)
    intact = [int(row["base"]) for row in found if row["fault"] == WHOLE]
    in_epoch = 12 <= byte < 16
    if in_epoch:  # the leader epoch is outside the checksum, as a leader sets it: lineages and other replicas tell
        assert intact == [0, 1, 2, 3, 4]
        assert found["epoch"][2] != 0
    else:
        assert end.reason != WHOLE or (found["fault"] != WHOLE).any()
        assert intact[:2] == [0, 1]


@pytest.mark.parametrize("length", [-(1 << 31), -1, 1, 48, (1 << 31) - 1, (1 << 31) - 12])
def test_a_length_that_cannot_be_ends_the_walk(tmp_path, length):
    content = bytearray(batch(0) + batch(1) + batch(2))
    content[len(batch(0)) + 8 : len(batch(0)) + 12] = length.to_bytes(4, "big", signed=True)
    path = tmp_path / f"{0:020d}.log"
    path.write_bytes(content)
    found, end = walked(path)
    assert found["base"].tolist() == [0]
    assert FAULTS[end.reason] in ("its length is impossible", "it ends in the middle of a batch")
    assert end.position == len(batch(0))


def test_a_torn_end_and_a_preallocated_tail_are_told_apart(tmp_path):
    path = tmp_path / f"{0:020d}.log"
    for tail, words in (
        (b"", "whole"),
        (bytes(10), "zeros follow: preallocated, never written"),
        (bytes(100_000), "zeros follow: preallocated, never written"),
        (batch(1)[:30], "it ends in the middle of a batch"),
        (batch(1)[:-1], "it ends in the middle of a batch"),
    ):
        path.write_bytes(batch(0) + tail)
        found, end = walked(path)
        assert (len(found), FAULTS[end.reason]) == (1, words)


def test_random_bytes_are_no_batches(tmp_path):
    random = np.random.default_rng(7)
    path = tmp_path / f"{0:020d}.log"
    for _ in range(50):
        path.write_bytes(batch(0) + random.bytes(int(random.integers(1, 5000))))
        found, end = walked(path)
        assert found["base"][found["fault"] == WHOLE].tolist() == [0]
        assert end.reason != WHOLE or len(found) > 1


def test_the_checksum_is_castagnolis():
    assert checksum(b"123456789") == 0xE3069283
    assert checksum(b"") == 0


def test_the_processors_instruction_gives_the_checksum_of_the_tables():
    """At every alignment and length; where there is no such instruction both are the same."""
    content = np.frombuffer(np.random.default_rng(41).bytes(64), np.uint8)
    for start in range(9):
        for end in range(start, len(content)):
            by_tables = crc_by_tables(7, content, start, end, CRC_TABLES)
            assert crc32c(7, content, start, end, CRC_TABLES) == by_tables


def test_three_stripes_at_once_give_the_checksum_of_the_tables():
    content = np.frombuffer(np.random.default_rng(42).bytes(7 * STRIPE + 8), np.uint8)
    for end in (*range(3 * STRIPE - 9, 3 * STRIPE + 18), *range(6 * STRIPE - 9, 6 * STRIPE + 18), len(content)):
        for start in (0, 1, 7):
            by_tables = crc_by_tables(7, content, start, end, CRC_TABLES)
            assert crc32c(7, content, start, end, CRC_TABLES) == by_tables
