"""Records inside a batch (format v2): what a batch is uncompressed to, and its records one by one."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from generators.disks.batches import COMPRESSION, HEADER

CODECS = {1: "gzip", 2: "snappy", 3: "lz4", 4: "zstd"}
LARGEST = 256 << 20
"""Bytes of one batch uncompressed; a broker takes 1 MB of compressed ones by default."""
TIMESTAMP_TYPE, BASE_TIMESTAMP_AT = 0x08, 27
_XERIAL = b"\x82SNAPPY\0"


class Damaged(ValueError):
    """The records of a batch that are not what its header says."""


class Record(NamedTuple):
    """One record; `ts` in ms, None stands for a null key, value or header value."""

    offset: int
    ts: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


def records(batch: np.void, content: bytes) -> Iterator[Record]:
    """The records of a batch whose whole bytes are `content`. Raises Damaged."""
    first_ts = int.from_bytes(content[BASE_TIMESTAMP_AT : BASE_TIMESTAMP_AT + 8], "big", signed=True)
    payload, base = payload_of(batch, content), int(batch["base"])
    reader, log_append = Reader(payload), int(batch["attributes"]) & TIMESTAMP_TYPE
    for _ in range(int(batch["count"])):
        end = reader.varint() + reader.at
        reader.take(1)
        ts, offset = first_ts + reader.varint(), base + reader.varint()
        key, value = reader.sized(), reader.sized()
        headers = tuple((_text(reader.sized()), reader.sized()) for _ in range(reader.count()))
        if reader.at != end or not base <= offset <= int(batch["last"]):
            raise Damaged(f"a record of the batch at offset {base} is not as long, or not where, it says")
        yield Record(offset, int(batch["max_ts"]) if log_append else ts, key, value, headers)
    if reader.at != len(payload):
        raise Damaged(f"the batch at offset {base} has more bytes than its {int(batch['count'])} records")


def payload_of(batch: np.void, content: bytes) -> bytes:
    """The bytes of a batch's records, uncompressed, in bounded memory. Raises Damaged."""
    packed, codec = content[HEADER:], int(batch["attributes"]) & COMPRESSION
    if codec == 0:
        return packed
    if codec not in CODECS:
        raise Damaged(f"the batch at offset {int(batch['base'])} is compressed by no codec that there is ({codec})")
    try:
        payload = _unsnapped(packed) if codec == 2 else _streamed(packed, CODECS[codec])
    except (pa.ArrowException, OSError, struct.error, MemoryError) as error:
        raise Damaged(f"the batch at offset {int(batch['base'])} cannot be uncompressed: {error}") from None
    if len(payload) > LARGEST:
        raise Damaged(f"the batch at offset {int(batch['base'])} has more than {LARGEST >> 20} MB uncompressed")
    return payload


def _streamed(packed: bytes, codec: str) -> bytes:
    with pa.CompressedInputStream(pa.BufferReader(packed), codec) as stream:
        return bytes(stream.read(LARGEST + 1))


def _unsnapped(packed: bytes) -> bytes:
    """Snappy in blocks as Java's library frames them (xerial), or one block without a frame."""
    if not packed.startswith(_XERIAL):
        return _unsnapped_block(packed)
    at, parts, total = 16, [], 0
    while at < len(packed) and total <= LARGEST:
        (size,) = struct.unpack_from(">i", packed, at)
        parts.append(_unsnapped_block(packed[at + 4 : at + 4 + max(size, 0)]))
        at, total = at + 4 + max(size, 0), total + len(parts[-1])
    return b"".join(parts)


def _unsnapped_block(block: bytes) -> bytes:
    reader = Reader(block)
    size = reader.unsigned()
    if size > LARGEST:
        raise Damaged(f"a block of {size:,} bytes uncompressed")
    return bytes(pa.decompress(block, decompressed_size=size, codec="snappy", asbytes=True))


def _text(content: bytes | None) -> str:
    return (content or b"").decode("utf-8", "backslashreplace")


class Reader:
    """Reads numbers and sized fields one after the other; Damaged where they reach past the end."""

    def __init__(self, content: bytes) -> None:
        self.content, self.at = content, 0

    def take(self, size: int) -> bytes:
        """The next bytes."""
        if size < 0 or self.at + size > len(self.content):
            raise Damaged(f"{size} bytes wanted where {len(self.content) - self.at} are left")
        self.at += size
        return self.content[self.at - size : self.at]

    def number(self, size: int) -> int:
        """A signed number of so many bytes."""
        return int.from_bytes(self.take(size), "big", signed=True)

    def unsigned(self) -> int:
        """An unsigned varint."""
        value = shift = 0
        while True:
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            if (shift := shift + 7) > 63:
                raise Damaged("a number of more than ten bytes")

    def varint(self) -> int:
        """A zigzag varint."""
        value = self.unsigned()
        return (value >> 1) ^ -(value & 1)

    def count(self) -> int:
        """A number of things that follow, at least a byte each."""
        count = self.varint()
        if not 0 <= count <= len(self.content) - self.at:
            raise Damaged(f"{count} headers where {len(self.content) - self.at} bytes are left")
        return count

    def sized(self) -> bytes | None:
        """Bytes after their length, None for a length of -1."""
        return None if (size := self.varint()) == -1 else self.take(size)
