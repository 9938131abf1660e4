"""Headers of record batches (format v2, KIP-98) out of a segment's bytes, in compiled code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.registry import cpu_target
from numba.extending import intrinsic

from pipelines.replication.compiled.decorators import compiled, kernel

Array = np.ndarray[Any, Any]

BATCH = np.dtype(
    [
        ("position", "i8"),
        ("base", "i8"),
        ("last", "i8"),
        ("max_ts", "i8"),
        ("producer", "i8"),
        ("size", "i4"),
        ("epoch", "i4"),
        ("sequence", "i4"),
        ("count", "i4"),
        ("crc", "u4"),
        ("attributes", "i2"),
        ("producer_epoch", "i2"),
        ("control", "i2"),
        ("magic", "i1"),
        ("fault", "i1"),
    ],
    align=True,
)
"""One batch: `size` with its first 12 bytes, `control` the type of a control record (-1: none), `fault` below."""

HEADER = 61
"""Bytes of a v2 batch before its records."""
PREFIX = 12
"""Bytes that `batchLength` does not count: base offset and that length."""
SMALLEST_OLD = 26
"""Bytes of an empty message of format v0; its magic stands where that of v2 does."""
MAGIC_AT = 16
MOST_OFFSETS = (1 << 31) - 1
"""Offsets of one segment behind its base (LogSegment.canConvertToRelativeOffset)."""
COMPRESSION, TRANSACTIONAL, CONTROL = 0x07, 0x10, 0x20
ABORT, COMMIT, LEADER_CHANGE, SNAPSHOT_HEADER, SNAPSHOT_FOOTER, KRAFT_VERSION, KRAFT_VOTERS = range(7)
"""ControlRecordType."""

WHOLE, CHECKSUM, OFFSETS, SIZE, MAGIC, TORN, ZEROS = range(7)
"""What is wrong with a batch (0 to 2: the next one can be read), or why the walk ended (3 to 6)."""
FAULTS = (
    "whole",
    "its checksum does not fit its bytes",
    "its offsets do not follow those before it",
    "its length is impossible",
    "its magic is none of 0, 1, 2",
    "it ends in the middle of a batch",
    "zeros follow: preallocated, never written",
)


def chosen(block: Array, where: Array) -> Array:
    """The chosen rows of a block; the block itself, not a copy, if all are chosen."""
    return block if where.all() else block[where]


def _crc_tables(polynomial: int) -> Array:
    """The checksum of each byte by a reversed polynomial, then with 1 to 7 zero bytes behind it."""
    tables = np.zeros((8, 256), np.uint32)
    tables[0] = np.arange(256)
    for _ in range(8):
        tables[0] = np.where(tables[0] & 1, (tables[0] >> 1) ^ np.uint32(polynomial), tables[0] >> 1)
    for k in range(1, 8):
        tables[k] = (tables[k - 1] >> 8) ^ tables[0][tables[k - 1] & 0xFF]
    return tables


CRC_TABLES = _crc_tables(0x82F63B78)
"""CRC-32C (Castagnoli), of batches."""
OLD_CRC_TABLES = _crc_tables(0xEDB88320)
"""CRC-32, of messages before 0.11, and of keys by librdkafka's default partitioner."""
STRIPE = 512
"""Bytes of a stripe; three are checksummed in turns, as the instruction takes three cycles and can start in each."""


def _with_zeros(stripes: int) -> Array:
    """Tables by byte of a register: what each value adds to a checksum that goes on over `stripes` stripes of zeros."""
    values = np.arange(256, dtype=np.uint32) << np.arange(0, 32, 8, dtype=np.uint32)[:, None]
    for _ in range(stripes * STRIPE // 8):
        values = np.bitwise_xor.reduce([CRC_TABLES[7 - k][(values >> (8 * k)) & 0xFF] for k in range(4)])
    return values


_ONE_BEHIND, _TWO_BEHIND = _with_zeros(1), _with_zeros(2)


@kernel
def crc_by_tables(crc: int, buf: Array, start: int, end: int, tables: Array) -> int:
    """The checksum `crc` (0 at first) continued over `buf[start:end]`, eight bytes at a time."""
    value, at = np.uint32(crc) ^ np.uint32(0xFFFFFFFF), np.uint64(start)
    for _ in range((end - start) >> 3):
        low = value ^ (
            np.uint32(buf[at])
            | np.uint32(buf[at + np.uint64(1)]) << np.uint32(8)
            | np.uint32(buf[at + np.uint64(2)]) << np.uint32(16)
            | np.uint32(buf[at + np.uint64(3)]) << np.uint32(24)
        )
        value = (
            tables[7, low & np.uint32(0xFF)]
            ^ tables[6, (low >> np.uint32(8)) & np.uint32(0xFF)]
            ^ tables[5, (low >> np.uint32(16)) & np.uint32(0xFF)]
            ^ tables[4, low >> np.uint32(24)]
            ^ tables[3, buf[at + np.uint64(4)]]
            ^ tables[2, buf[at + np.uint64(5)]]
            ^ tables[1, buf[at + np.uint64(6)]]
            ^ tables[0, buf[at + np.uint64(7)]]
        )
        at += np.uint64(8)
    while at < np.uint64(end):
        value = (value >> np.uint32(8)) ^ tables[0, (value ^ np.uint32(buf[at])) & np.uint32(0xFF)]
        at += np.uint64(1)
    return int(value ^ np.uint32(0xFFFFFFFF))


def _next_word(typing: Any, value: Any, buf: Any, at: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        number = ir.IntType(64)
        first = builder.gep(context.make_array(buf)(context, builder, values[1]).data, [values[2]])
        word = builder.load(builder.bitcast(first, number.as_pointer()), align=1)
        kind = ir.FunctionType(number, [number, number])
        instruction = cgutils.get_or_insert_function(builder.module, kind, "llvm.x86.sse42.crc32.64.64")
        return builder.call(instruction, [values[0], word])

    return types.uint64(types.uint64, buf, types.uint64), generate


next_word: Callable[..., Any] = intrinsic(_next_word)
"""next_word(value, buf, at): CRC-32C over the eight bytes there, by an instruction that x86 processors have."""


@kernel
def _behind(value: Any, tables: Array) -> Any:
    """The checksum `value` continued over zeros, by the tables (`_with_zeros`) of its four bytes."""
    low, byte = np.uint64(value), np.uint64(0xFF)
    return np.uint64(
        tables[0, low & byte]
        ^ tables[1, (low >> np.uint64(8)) & byte]
        ^ tables[2, (low >> np.uint64(16)) & byte]
        ^ tables[3, low >> np.uint64(24)]
    )


@kernel
def _crc32c_by_words(crc: int, buf: Array, start: int, end: int, tables: Array) -> int:
    value, at, stripe = np.uint64(crc) ^ np.uint64(0xFFFFFFFF), np.uint64(start), np.uint64(STRIPE)
    for _ in range((end - start) // (3 * STRIPE)):
        second = third = np.uint64(0)
        for _ in range(STRIPE >> 3):
            value = next_word(value, buf, at)
            second = next_word(second, buf, at + stripe)
            third = next_word(third, buf, at + stripe + stripe)
            at += np.uint64(8)
        value = third ^ _behind(value, _TWO_BEHIND) ^ _behind(second, _ONE_BEHIND)
        at += stripe + stripe
    for _ in range((np.uint64(end) - at) >> np.uint64(3)):
        value = next_word(value, buf, at)
        at += np.uint64(8)
    return crc_by_tables(int(value ^ np.uint64(0xFFFFFFFF)), buf, int(at), end, tables)


HAS_CRC32C = "+crc32," in cpu_target.target_context.codegen().magic_tuple()[2]
"""Whether the target processor has that instruction."""
crc32c = _crc32c_by_words if HAS_CRC32C else crc_by_tables
"""CRC-32C, as `crc_by_tables` with CRC_TABLES: ten times as fast if the processor has the instruction."""


@kernel
def _big_endian(buf: Array, at: int, size: int) -> int:
    """The signed number of so many bytes."""
    value = int(buf[at]) - (256 if buf[at] > 127 else 0)
    for k in range(1, size):
        value = (value << 8) | int(buf[at + k])
    return value


@kernel
def _control_type(buf: Array, at: int, end: int) -> int:
    """The type in the key of a control batch's record, -1 if it cannot be read: five varints, then version and type."""
    for field in range(5):
        if field == 1:
            at += 1  # the record's attributes
            continue
        while at < end and buf[at] > 127:
            at += 1
        at += 1
    return _big_endian(buf, at + 2, 2) if at + 4 <= end else -1


@kernel
def _all_zero(buf: Array, start: int, end: int) -> bool:
    while start < end and not buf[start]:
        start += 1
    return start == end


@compiled
def walk(buf: Array, state: Array, out: Array, tables: Array, old_tables: Array, last_window: bool) -> int:
    """Fill `out` with the batches of a window of a segment; returns how many.

    `state`: the window's position in the file, the offset that the next batch may have at least, where in the window
    to go on, why the walk ended (WHOLE: it goes on with the next window), the size of a batch larger than the window,
    the offset that the last whole batch might have had at least, the segment's base offset.
    """
    file_position, at, count = state[0], state[2], 0
    state[3], state[4] = WHOLE, 0
    while count < len(out):
        rest = len(buf) - at
        if rest <= MAGIC_AT:
            if last_window and rest:
                state[3] = ZEROS if _all_zero(buf, at, len(buf)) else TORN
            break
        size, magic = _big_endian(buf, at + 8, 4) + PREFIX, int(buf[at + MAGIC_AT])
        if size == PREFIX and _all_zero(buf, at, len(buf)):
            state[3] = ZEROS
            break
        if magic > 2:
            state[3] = MAGIC
            break
        if size < (HEADER if magic == 2 else SMALLEST_OLD) or size > np.int64(0x7FFFFFFF):
            state[3] = SIZE
            break
        if size > rest:
            state[3] = TORN if last_window else WHOLE
            state[4] = size
            break
        batch = out[count]
        if magic == 2:
            _read_header(buf, at, size, batch, tables)
        else:
            _read_old_header(buf, at, size, magic, state[1], batch, old_tables)
        batch.position = file_position + at
        if batch.fault == WHOLE:
            _judge_offsets(out, count, state)
        at += size
        count += 1
    state[2] = at
    return count


@compiled
def _judge_offsets(out: Array, count: int, state: Array) -> None:
    """Judge the offsets of batch `count`; its checksum does not cover them.

    If a batch lies below the one before it, and that one skipped offsets, one of the two is damaged. It is the one
    before if this one begins where that would have ended without the skip; else it is not known which.
    """
    batch, before = out[count], out[max(count - 1, 0)]
    if batch.last < batch.base or batch.last - state[6] > MOST_OFFSETS:
        batch.fault = OFFSETS
        return
    if batch.base < state[1]:
        stepped = count > 0 and before.fault == WHOLE and before.base > state[5]
        if not stepped or batch.base < state[5]:
            batch.fault = OFFSETS
            return
        before.fault = OFFSETS
        state[1] = state[5]
        if batch.base != state[5] + before.last - before.base + 1:
            batch.fault = OFFSETS
            return
    state[5], state[1] = state[1], batch.last + 1


@compiled
def _read_old_header(buf: Array, at: int, size: int, magic: int, least: int, batch: Any, tables: Array) -> None:
    """Read a message of before 0.11; a compressed one has the offset of the last that it wraps."""
    batch.size, batch.magic, batch.fault, batch.control = size, magic, WHOLE, -1
    batch.last, batch.attributes, batch.count = _big_endian(buf, at, 8), np.int64(buf[at + MAGIC_AT + 1]), 1
    batch.base = min(least, batch.last) if batch.attributes & COMPRESSION else batch.last
    batch.max_ts, batch.producer, batch.epoch, batch.sequence, batch.producer_epoch = -1, -1, -1, -1, -1
    batch.crc = _big_endian(buf, at + 12, 4) & np.int64(0xFFFFFFFF)
    if crc_by_tables(0, buf, at + MAGIC_AT, at + size, tables) != np.int64(batch.crc):
        batch.fault = CHECKSUM


@compiled
def _read_header(buf: Array, at: int, size: int, batch: Any, tables: Array) -> None:
    batch.base, batch.size, batch.magic, batch.fault = _big_endian(buf, at, 8), size, 2, WHOLE
    batch.control = -1
    batch.epoch, batch.crc = _big_endian(buf, at + 12, 4), _big_endian(buf, at + 17, 4) & np.int64(0xFFFFFFFF)
    batch.attributes, batch.last = _big_endian(buf, at + 21, 2), batch.base + _big_endian(buf, at + 23, 4)
    batch.max_ts, batch.producer = _big_endian(buf, at + 35, 8), _big_endian(buf, at + 43, 8)
    batch.producer_epoch, batch.sequence = _big_endian(buf, at + 51, 2), _big_endian(buf, at + 53, 4)
    batch.count = _big_endian(buf, at + 57, 4)
    if batch.attributes & CONTROL:
        batch.control = _control_type(buf, at + HEADER, at + size)
    if crc32c(0, buf, at + 21, at + size, tables) != np.int64(batch.crc):
        batch.fault = CHECKSUM
