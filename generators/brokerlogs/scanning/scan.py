"""Bytes of a log to a column of lines, the frequent shapes read to their numbers, the others told apart."""

from __future__ import annotations

from typing import Any

from generators.brokerlogs.scanning.arrays import Array, compiled
from generators.brokerlogs.scanning.interning import Table, hash_of, intern
from generators.brokerlogs.scanning.line_header import piped, stock, stock_time, without_header
from generators.brokerlogs.scanning.line_record import BROKEN
from generators.brokerlogs.scanning.loggers import logger_class
from generators.brokerlogs.scanning.message_kinds import shape


@compiled
def _blank(line: Any, start: int, end: int) -> None:
    line.start, line.end, line.message = start, end, start
    line.kind, line.stock, line.ts, line.number, line.count, line.members = BROKEN, 0, -1, -1, 0, 0
    line.thread = line.logger = line.place = line.broker = line.replica = -1


@compiled
def _head(buf: Array, start: int, end: int, line: Any) -> tuple[int, int, int]:
    """(end of the thread, start, end of the logger); the logger is -1 in a line without a head."""
    if end - start > 14 and buf[start + 13] == 124:
        return piped(buf, start, end, line)
    if end - start > 26 and buf[start] == 91 and stock_time(buf, start) >= 0:
        logger, logger_end = stock(buf, start, end, line)
        return -1, logger, logger_end
    line.kind = without_header(buf, start, end, line)
    return -1, -1, -1


@compiled
def scan(
    buf: Array,
    ends: Array,
    lines: Array,
    threads: Table,
    loggers: Table,
    classes: Array,
    places: Table,
    known: int,
    new: Array,
) -> tuple[int, int]:
    """Fill `lines` from the lines of buf that end, at a newline, at `ends`; returns (loggers, places) known then.

    `known` places are in their table already, `new` gets (start, end) of each further one; `classes` gets
    (class, start, end) of each logger.
    """
    thread_count, logger_count, place_count, start = 0, 0, known, 0
    for n in range(ends.size):
        line, end = lines[n], ends[n]
        if end > start and buf[end - 1] == 13:
            end -= 1
        _blank(line, start, end)
        thread_end, logger, logger_end = _head(buf, start, end, line)
        if thread_end >= 0:
            line.thread, thread_count = intern(hash_of(buf, start + 14, thread_end), *threads, thread_count)
        start = ends[n] + 1
        if logger < 0:
            continue
        line.logger, count = intern(hash_of(buf, logger, logger_end), *loggers, logger_count)
        if count > logger_count:
            classes[logger_count, 0] = logger_class(buf, logger, logger_end)
            classes[logger_count, 1] = logger
            classes[logger_count, 2] = logger_end
            logger_count = count
        line.kind, name, name_end = shape(buf, classes[line.logger, 0], line.end, line)
        if name >= 0 and line.kind != BROKEN:
            line.place, count = intern(hash_of(buf, name, name_end), *places, place_count)
            if count > place_count:
                new[place_count - known, 0] = name
                new[place_count - known, 1] = name_end
                place_count = count
    return logger_count, place_count
