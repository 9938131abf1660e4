"""Lines of a log out of its bytes: the kind of each, and the numbers of the frequent kinds."""

from __future__ import annotations

from typing import Any, NamedTuple

from generators.brokerlogs.scanning.arrays import Array, compiled
from generators.brokerlogs.scanning.interning import Table, hash_of, intern
from generators.brokerlogs.scanning.line_header import piped, stock, stock_time, without_header
from generators.brokerlogs.scanning.line_record import BROKEN
from generators.brokerlogs.scanning.loggers import logger_class
from generators.brokerlogs.scanning.message_kinds import classify


class Names(NamedTuple):
    """Numbers of the names in one piece of a log, filled by `scan`."""

    threads: Table
    loggers: Table
    logger_classes: Array
    """(class, start, end) of each logger: what its messages are, and where its name stands."""
    places: Table
    new_places: Array
    """(start, end) of the name of each partition that was not known before."""


@compiled
def _blank(line: Any, start: int, end: int) -> None:
    line.start, line.end, line.message = start, end, start
    line.kind, line.stock, line.ts, line.number, line.count, line.members = BROKEN, 0, -1, -1, 0, 0
    line.thread = line.logger = line.place = line.broker = line.replica = -1


@compiled
def _header(buf: Array, start: int, end: int, line: Any) -> tuple[int, int, int]:
    """(end of the thread, start, end of the logger); all -1 in a line without a header."""
    if end - start > 14 and buf[start + 13] == 124:
        return piped(buf, start, end, line)
    if end - start > 26 and buf[start] == 91 and stock_time(buf, start) >= 0:
        logger, logger_end = stock(buf, start, end, line)
        return -1, logger, logger_end
    line.kind = without_header(buf, start, end, line)
    return -1, -1, -1


@compiled
def scan(buf: Array, ends: Array, lines: Array, names: Names, known_places: int) -> tuple[int, int]:
    """Fill `lines` from the lines of `buf` that end, at a newline, at `ends`; returns (loggers, places) known then.

    The first `known_places` places are in their table already.
    """
    thread_count, logger_count, place_count, start = 0, 0, known_places, 0
    for n in range(ends.size):
        line, end = lines[n], ends[n]
        if end > start and buf[end - 1] == 13:
            end -= 1
        _blank(line, start, end)
        thread_end, logger, logger_end = _header(buf, start, end, line)
        if thread_end >= 0:
            line.thread, thread_count = intern(hash_of(buf, start + 14, thread_end), *names.threads, thread_count)
        start = ends[n] + 1
        if logger < 0:
            continue
        line.logger, count = intern(hash_of(buf, logger, logger_end), *names.loggers, logger_count)
        if count > logger_count:
            names.logger_classes[logger_count, 0] = logger_class(buf, logger, logger_end)
            names.logger_classes[logger_count, 1] = logger
            names.logger_classes[logger_count, 2] = logger_end
            logger_count = count
        line.kind, name, name_end = classify(buf, names.logger_classes[line.logger, 0], line.end, line)
        if name >= 0 and line.kind != BROKEN:
            line.place, count = intern(hash_of(buf, name, name_end), *names.places, place_count)
            if count > place_count:
                names.new_places[place_count - known_places, 0] = name
                names.new_places[place_count - known_places, 1] = name_end
                place_count = count
    return logger_count, place_count
