"""Bytes of a line: search, comparison, numbers."""

from __future__ import annotations

import numpy as np

from generators.brokerlogs.scanning.arrays import Array, compiled


def literal(text: str) -> Array:
    """Text to search for, as bytes."""
    return np.frombuffer(text.encode(), np.uint8)


@compiled
def begins(buf: Array, pos: int, end: int, literal: Array) -> bool:
    """Whether buf[pos:end] begins with `literal`."""
    if end - pos < literal.size:
        return False
    for k in range(literal.size):  # noqa: SIM110  (a generator cannot be compiled)
        if buf[pos + k] != literal[k]:
            return False
    return True


@compiled
def ends_with(buf: Array, start: int, end: int, literal: Array) -> bool:
    """Whether buf[start:end] ends with `literal`."""
    return end - start >= literal.size and begins(buf, end - literal.size, end, literal)


@compiled
def find(buf: Array, pos: int, end: int, literal: Array) -> int:
    """Position right after the first `literal` in buf[pos:end], -1 if there is none."""
    first = literal[0]
    for k in range(pos, end - literal.size + 1):
        if buf[k] == first and begins(buf, k, end, literal):
            return k + literal.size
    return -1


@compiled
def is_cut(buf: Array, pos: int, end: int, shape: Array) -> bool:
    """Whether buf[pos:end] ends within `shape`, in which a byte of 1 stands for a number."""
    k = 0
    while pos < end and k < shape.size:
        if shape[k] != 1:
            if buf[pos] != shape[k]:
                return False
            pos, k = pos + 1, k + 1
            continue
        _, after = integer(buf, pos, end)
        if after < 0:
            return bool(buf[pos] == 45 and pos + 1 == end)
        pos, k = after, k + 1
    return pos >= end and k < shape.size


@compiled
def find_byte(buf: Array, pos: int, end: int, byte: int) -> int:
    """Position of the first `byte` in buf[pos:end], `end` if there is none."""
    while pos < end and buf[pos] != byte:
        pos += 1
    return pos


@compiled
def integer(buf: Array, pos: int, end: int) -> tuple[int, int]:
    """(value, position after it) of the decimal at `pos`; the position is -1 where there is none."""
    sign = 1
    if pos < end and buf[pos] == 45:
        sign = -1
        pos += 1
    value, digits = 0, 0
    while pos < end and 48 <= buf[pos] <= 57 and digits < 19:
        value = value * 10 + (buf[pos] - 48)
        pos += 1
        digits += 1
    return (sign * value, pos) if digits else (0, -1)


@compiled
def digits(buf: Array, pos: int, count: int) -> int:
    """The number in `count` digits at `pos`, -1 if they are not all digits."""
    value = 0
    for k in range(pos, pos + count):
        if not 48 <= buf[k] <= 57:
            return -1
        value = value * 10 + (buf[k] - 48)
    return value


@compiled
def is_text(buf: Array, pos: int, end: int) -> bool:
    """Whether the bytes are UTF-8 without control characters."""
    follow = 0
    for k in range(pos, end):
        c = buf[k]
        if follow:
            if c & 0xC0 != 0x80:
                return False
            follow -= 1
        elif c < 32:
            if c != 9:
                return False
        elif c >= 0x80:
            if c < 0xC2 or c > 0xF4:
                return False
            follow = 1 if c < 0xE0 else (2 if c < 0xF0 else 3)
    return follow == 0
