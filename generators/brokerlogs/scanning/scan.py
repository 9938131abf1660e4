"""Lines of a log out of its bytes: the kind of each, and the numbers of the frequent kinds."""

from __future__ import annotations

from typing import Any, NamedTuple

from generators.brokerlogs.scanning.arrays import Array, compiled
from generators.brokerlogs.scanning.interning import hash_of
from generators.brokerlogs.scanning.line_header import piped, stock, stock_time, without_header
from generators.brokerlogs.scanning.line_record import BROKEN, IGNORED, NOTED
from generators.brokerlogs.scanning.loggers import logger_class
from generators.brokerlogs.scanning.message_kinds import classify
from generators.brokerlogs.scanning.torn import two_lines
from pipelines.replication.compiled.hash_index import enter

THREADS, LOGGERS, PLACES = 0, 1, 2
"""Positions in Names.counts."""


Table = tuple[Array, int, Array]
"""Of a hash index, what `enter` takes ahead of the count."""


class Names(NamedTuple):
    """Numbers of the names in one piece of a log, filled by `scan`."""

    threads: Table
    loggers: Table
    places: Table
    counts: Array
    """How many threads, loggers and places have numbers."""
    logger_classes: Array
    """(class, start, end) of each logger: what its messages are, and where its name stands."""
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
def scan(buf: Array, ends: Array, lines: Array, names: Names, first: int, known_places: int) -> int:
    """Fill `lines` from line `first` of `buf` on; `ends` has the position of each line's newline.

    Returns the number of lines done. It is less than `ends.size` if a hash index is full; widen the index and call
    again. `known_places` is the number of places known before this piece.
    """
    counts = names.counts
    start = ends[first - 1] + 1 if first else 0
    for n in range(first, ends.size):
        line, end = lines[n], ends[n]
        if end > start and buf[end - 1] == 13:
            end -= 1
        _blank(line, start, end)
        thread_end, logger, logger_end = _header(buf, start, end, line)
        if thread_end >= 0:
            line.thread, counts[THREADS] = enter(*names.threads, counts[THREADS], hash_of(buf, start + 14, thread_end))
            if line.thread < 0:
                return n
        start = ends[n] + 1
        if logger < 0:
            continue
        line.logger, count = enter(*names.loggers, counts[LOGGERS], hash_of(buf, logger, logger_end))
        if line.logger < 0:
            return n
        if count > counts[LOGGERS]:
            names.logger_classes[line.logger, 0] = logger_class(buf, logger, logger_end)
            names.logger_classes[line.logger, 1] = logger
            names.logger_classes[line.logger, 2] = logger_end
            counts[LOGGERS] = count
        line.kind, name, name_end = classify(buf, names.logger_classes[line.logger, 0], line.end, line)
        if (line.kind == IGNORED or line.kind == NOTED) and two_lines(buf, line.message, line.end):
            line.kind = BROKEN
        if name >= 0 and line.kind != BROKEN:
            line.place, count = enter(*names.places, counts[PLACES], hash_of(buf, name, name_end))
            if line.place < 0:
                return n
            if count > counts[PLACES]:
                names.new_places[line.place - known_places, 0] = name
                names.new_places[line.place - known_places, 1] = name_end
                counts[PLACES] = count
    return int(ends.size)
