"""The header of a line: time, thread, number and logger, in the two supported patterns.

These are `%d{UNIX_MILLIS}|%t|%p|%c|[%sn|]%m%n` and Kafka's stock `[%d] %p %m (%c)%n`, which has no thread.
"""

from __future__ import annotations

from typing import Any

from generators.brokerlogs.scanning.arrays import Array, compiled
from generators.brokerlogs.scanning.byte_text import begins, digits, find, find_byte, integer, is_text, literal
from generators.brokerlogs.scanning.line_record import BROKEN, CONTINUATION, DUMPED, NOTED

YEAR_2010, YEAR_2100 = 1262304000000, 4102444800000
"""Milliseconds; a line with a time outside them is broken."""
_DUMPED = literal("| offset: ")
_CREATE_TIME = literal("CreateTime: ")
_BASE_OFFSET = literal("baseOffset: ")
_DUMPING = literal("Dumping ")
_STARTING = literal("Log starting offset")


@compiled
def stock_time(buf: Array, pos: int) -> int:
    """Local milliseconds of `[2026-08-22 10:00:00,125]` at pos (25 bytes there), -1 if it is none."""
    if buf[pos + 5] != 45 or buf[pos + 8] != 45 or buf[pos + 11] != 32 or buf[pos + 14] != 58 or buf[pos + 24] != 93:
        return -1
    year, month, day = digits(buf, pos + 1, 4), digits(buf, pos + 6, 2), digits(buf, pos + 9, 2)
    hour, minute, second = digits(buf, pos + 12, 2), digits(buf, pos + 15, 2), digits(buf, pos + 18, 2)
    millis = digits(buf, pos + 21, 3)
    if min(year, month, day, hour, minute, second, millis) < 0 or not 1 <= month <= 12:
        return -1
    year_from_march = year - (1 if month <= 2 else 0)  # days from civil, Howard Hinnant
    era = year_from_march // 400
    of_era = year_from_march - era * 400
    of_year = (153 * (month + (-3 if month > 2 else 9)) + 2) // 5 + day - 1
    days = era * 146097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719468
    return ((days * 24 + hour) * 60 + minute) * 60000 + second * 1000 + millis


@compiled
def piped(buf: Array, start: int, end: int, line: Any) -> tuple[int, int, int]:
    """Read `ts|thread|level|logger|[number|]message`: (end of the thread, start, end of the logger), -1 where it is
    none."""
    ts = digits(buf, start, 13)
    thread_end = find_byte(buf, start + 14, end, 124)
    logger = find_byte(buf, thread_end + 1, end, 124) + 1
    logger_end = find_byte(buf, logger, end, 124)
    if logger_end >= end or not YEAR_2010 <= ts < YEAR_2100:
        line.kind = CONTINUATION if ts < 0 and is_text(buf, start, end) else BROKEN
        return -1, -1, -1
    line.ts, line.message = ts, logger_end + 1
    number, after = integer(buf, logger_end + 1, end)
    if 0 < after < end and buf[after] == 124:
        line.number, line.message = number, after + 1
    return thread_end, logger, logger_end


@compiled
def stock(buf: Array, start: int, end: int, line: Any) -> tuple[int, int]:
    """Read `[time] level message (logger)`: (start, end of the logger), -1 where it is none; the time is local."""
    ts = stock_time(buf, start)
    line.ts, line.stock = ts, 1
    line.message = find_byte(buf, start + 26, end, 32) + 1
    logger = end - 1
    while logger > line.message and buf[logger - 1] != 40:
        logger -= 1
    if buf[end - 1] != 41 or logger - 2 < line.message or not YEAR_2010 <= ts < YEAR_2100:
        line.kind = CONTINUATION if is_text(buf, start, end) else BROKEN
        return -1, -1
    line.end = logger - 2
    return logger, end - 1


@compiled
def without_header(buf: Array, start: int, end: int, line: Any) -> int:
    """Kind of a line without a header: of the printed metadata log, or a continuation of a message."""
    line.message = start
    if begins(buf, start, end, _DUMPED):
        at = find(buf, start, end, _CREATE_TIME)
        ts, at = integer(buf, at, end) if at >= 0 else (0, -1)
        if at < 0 or not YEAR_2010 <= ts < YEAR_2100:
            return BROKEN
        line.ts = ts
        return DUMPED
    if begins(buf, start, end, _BASE_OFFSET) or begins(buf, start, end, _DUMPING) or begins(buf, start, end, _STARTING):
        return NOTED
    return CONTINUATION if is_text(buf, start, end) else BROKEN
