"""Bytes of a log to a column of lines: where each begins, its time, thread, logger, shape and numbers.

Two patterns are understood, line by line: `%d{UNIX_MILLIS}|%t|%p|%c|[%sn|]%m%n` and Kafka's stock
`[%d] %p %m (%c)%n`, which names no thread. The frequent shapes of `kafka.cluster.Partition` and of the replica
fetcher are read to their numbers here; the others are only told apart, by logger and first words.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from generators.brokerlogs.compiled import Array, compiled

Table = tuple[Array, Array]

CONTINUATION, BROKEN, IGNORED, REQUEST, NOTED = 0, 1, 2, 3, 4
RECORDED, ADVANCED, SKIPPED, UNDER_MIN, FOLLOWER_HW = 5, 6, 7, 8, 9
RARE, PROPOSED, ALTER, TRUNCATING, UNIFIED, CREATING, LEADING, DUMPED = 10, 11, 12, 13, 14, 15, 16, 17
"""Shapes. From RARE on a line is read one at a time, by regular expression, and may move what is known."""

LINE = np.dtype(
    [
        ("start", "i8"),
        ("end", "i8"),
        ("message", "i8"),
        ("ts", "i8"),
        ("number", "i8"),  # %sn, -1 without
        ("kind", "i1"),
        ("stock", "i1"),
        ("thread", "i4"),  # -1 in the stock pattern
        ("logger", "i4"),
        ("place", "i4"),
        ("broker", "i4"),
        ("replica", "i4"),  # of a follower's HW line: the leader
        ("count", "i4"),  # at most so many replicas are named by a SKIPPED line
        ("a", "i8"),
        ("b", "i8"),
    ],
    align=True,
)
LONGEST = 8 << 20
"""Bytes; a longer line is counted as broken."""

YEAR_2010, YEAR_2100 = 1262304000000, 4102444800000

_PARTITION, _STATE, _ALTER, _FETCHER, _UNIFIED, _REQUEST, _CONTROLLER, _OTHER = range(8)


def _bytes(text: str) -> Array:
    return np.frombuffer(text.encode(), np.uint8)


_L_PARTITION = _bytes("cluster.Partition")
_L_STATE = _bytes("state.change.logger")
_L_ALTER = _bytes("AlterPartitionManager")
_L_FETCHER = _bytes("ReplicaFetcherThread")
_L_UNIFIED = _bytes("UnifiedLog")
_L_REQUEST = _bytes("kafka.request.logger")
_L_REPLICATION_CONTROL = _bytes("ReplicationControlManager")
_L_CLUSTER_CONTROL = _bytes("ClusterControlManager")
_L_CONFIGURATION_CONTROL = _bytes("ConfigurationControlManager")
_L_HEARTBEAT = _bytes("BrokerHeartbeatManager")
_L_LIFECYCLE = _bytes("BrokerLifecycleManager")
_M_PARTITION = _bytes("[Partition ")
_M_BROKER = _bytes(" broker=")
_M_RECORDED = _bytes("Recorded replica ")
_M_LEO = _bytes(" log end offset (LEO) position ")
_M_LOG_START = _bytes(" and log start offset ")
_M_ADVANCED = _bytes("High watermark updated from (offset=")
_M_TO = _bytes("to (offset=")
_M_SKIPPED = _bytes("Skipping update high watermark")
_M_LEOS = _bytes("All current LEOs are ")
_SHORTEST_LEO = len("replica 1: (offset=0")
_M_UNDER_MIN = _bytes("Not increasing HWM")
_M_PROGRESS = _bytes("Progress awaiting")
_M_EXISTS = _bytes("UnifiedLog already exists")
_M_SUBMITTING = _bytes("Submitting ISR state change")
_M_EXPANDING = _bytes("Expanding ISR from")
_M_REPLICA_ID = _bytes("replicaId=")
_M_LEADER_ID = _bytes("leaderId=")
_M_RECEIVED = _bytes("Follower received high watermark ")
_M_UPDATED = _bytes("updated replica high watermark to ")
_M_NOT_UPDATED = _bytes("but did not update")
_M_FOR_PARTITION = _bytes(" for partition ")
_M_FOLLOWER_HAS = _bytes("Follower has replica log end offset")
_M_TRUNCATING = _bytes("Truncating partition ")
_M_CREATING = _bytes("Creating new partition ")
_M_LEADER = _bytes("Leader ")
_M_DUMPED = _bytes("| offset: ")
_M_CREATE_TIME = _bytes("CreateTime: ")
_M_BASE_OFFSET = _bytes("baseOffset: ")
_M_DUMPING = _bytes("Dumping ")
_M_STARTING = _bytes("Log starting offset")


@compiled
def _at(buf: Array, pos: int, end: int, words: Array) -> bool:
    if end - pos < words.size:
        return False
    for k in range(words.size):  # noqa: SIM110  (a generator cannot be compiled)
        if buf[pos + k] != words[k]:
            return False
    return True


@compiled
def find(buf: Array, pos: int, end: int, words: Array) -> int:
    """Position right after the first `words` in buf[pos:end], -1 if there are none."""
    first = words[0]
    for k in range(pos, end - words.size + 1):
        if buf[k] == first and _at(buf, k, end, words):
            return k + words.size
    return -1


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
def _find_byte(buf: Array, pos: int, end: int, byte: int) -> int:
    while pos < end and buf[pos] != byte:
        pos += 1
    return pos


@compiled
def _ends(buf: Array, start: int, end: int, words: Array) -> bool:
    return end - start >= words.size and _at(buf, end - words.size, end, words)


@compiled
def _hash(buf: Array, pos: int, end: int) -> int:
    h = np.int64(-3750763034362895579)
    for k in range(pos, end):
        h = (h ^ np.int64(buf[k])) * np.int64(1099511628211)
    return int(h ^ (h >> 29))


@compiled
def _intern(h: int, keys: Array, ids: Array, count: int) -> tuple[int, int]:
    """(id, number of names) of a name by its 64-bit hash; a new one gets the next id."""
    mask = keys.size - 1
    k = h & mask
    while ids[k] >= 0:
        if keys[k] == h:
            return ids[k], count
        k = (k + 1) & mask
    keys[k] = h
    ids[k] = count
    return count, count + 1


@compiled
def hashes(buf: Array, offsets: Array) -> Array:
    """Hash of each name buf[offsets[k]:offsets[k + 1]]."""
    out = np.empty(offsets.size - 1, np.int64)
    for k in range(out.size):
        out[k] = _hash(buf, offsets[k], offsets[k + 1])
    return out


@compiled
def fill(keys: Array, ids: Array, known: Array) -> None:
    """Put the hashes of known names into an empty table, ids in order."""
    count = 0
    for h in known:
        _, count = _intern(h, keys, ids, count)


@compiled
def _digits(buf: Array, pos: int, count: int) -> int:
    value = 0
    for k in range(pos, pos + count):
        if not 48 <= buf[k] <= 57:
            return -1
        value = value * 10 + (buf[k] - 48)
    return value


@compiled
def _stock_time(buf: Array, pos: int) -> int:
    """Local milliseconds of `[2026-08-22 10:00:00,125]` at pos (25 bytes there), -1 if it is none."""
    if buf[pos + 5] != 45 or buf[pos + 8] != 45 or buf[pos + 11] != 32 or buf[pos + 14] != 58 or buf[pos + 24] != 93:
        return -1
    year, month, day = _digits(buf, pos + 1, 4), _digits(buf, pos + 6, 2), _digits(buf, pos + 9, 2)
    hour, minute, second = _digits(buf, pos + 12, 2), _digits(buf, pos + 15, 2), _digits(buf, pos + 18, 2)
    millis = _digits(buf, pos + 21, 3)
    if min(year, month, day, hour, minute, second, millis) < 0 or not 1 <= month <= 12:
        return -1
    y = year - (1 if month <= 2 else 0)  # days from civil, Howard Hinnant
    era = y // 400
    of_era = y - era * 400
    of_year = (153 * (month + (-3 if month > 2 else 9)) + 2) // 5 + day - 1
    days = era * 146097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719468
    return ((days * 24 + hour) * 60 + minute) * 60000 + second * 1000 + millis


@compiled
def _is_text(buf: Array, pos: int, end: int) -> bool:
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


@compiled
def _logger_class(buf: Array, pos: int, end: int) -> int:
    if _ends(buf, pos, end, _L_PARTITION):
        return _PARTITION
    if _ends(buf, pos, end, _L_STATE):
        return _STATE
    if _ends(buf, pos, end, _L_ALTER):
        return _ALTER
    if _ends(buf, pos, end, _L_FETCHER):
        return _FETCHER
    if _ends(buf, pos, end, _L_UNIFIED):
        return _UNIFIED
    if _ends(buf, pos, end, _L_REQUEST):
        return _REQUEST
    if (
        _ends(buf, pos, end, _L_REPLICATION_CONTROL)
        or _ends(buf, pos, end, _L_CLUSTER_CONTROL)
        or _ends(buf, pos, end, _L_CONFIGURATION_CONTROL)
        or _ends(buf, pos, end, _L_HEARTBEAT)
        or _ends(buf, pos, end, _L_LIFECYCLE)
    ):
        return _CONTROLLER
    return _OTHER


@compiled
def _recorded(buf: Array, pos: int, end: int, line: Any) -> int:
    value, pos = integer(buf, pos + _M_RECORDED.size, end)
    if pos < 0 or not _at(buf, pos, end, _M_LEO):
        return BROKEN
    line.replica = value
    line.a, pos = integer(buf, pos + _M_LEO.size, end)
    if pos < 0 or not _at(buf, pos, end, _M_LOG_START):
        return BROKEN
    line.b, pos = integer(buf, pos + _M_LOG_START.size, end)
    return RECORDED if pos == end - 1 and buf[pos] == 46 else BROKEN


@compiled
def _advanced(buf: Array, pos: int, end: int, line: Any) -> int:
    line.a, pos = integer(buf, pos + _M_ADVANCED.size, end)
    if pos < 0 or buf[end - 1] != 41:
        return BROKEN
    pos = find(buf, pos, end, _M_TO)
    if pos < 0:
        return BROKEN
    line.b, pos = integer(buf, pos, end)
    return ADVANCED if 0 <= pos < end else BROKEN


@compiled
def _skipped(buf: Array, pos: int, end: int, line: Any) -> int:
    pos = find(buf, pos, end, _M_LEOS)
    if pos < 0 or (buf[end - 1] != 41 and buf[end - 1] != 93):
        return BROKEN
    line.a = pos
    line.count = (end - pos) // _SHORTEST_LEO + 1
    return SKIPPED


@compiled
def _of_partition(buf: Array, pos: int, end: int, line: Any) -> int:
    """Shape of a message of kafka.cluster.Partition after its prefix."""
    if _at(buf, pos, end, _M_RECORDED):
        return _recorded(buf, pos, end, line)
    if _at(buf, pos, end, _M_ADVANCED):
        return _advanced(buf, pos, end, line)
    if _at(buf, pos, end, _M_SKIPPED):
        return _skipped(buf, pos, end, line)
    if _at(buf, pos, end, _M_PROGRESS) or _at(buf, pos, end, _M_EXISTS):
        return NOTED
    if _at(buf, pos, end, _M_UNDER_MIN):
        return UNDER_MIN
    if _at(buf, pos, end, _M_SUBMITTING) or _at(buf, pos, end, _M_EXPANDING):
        return PROPOSED
    return RARE


@compiled
def _of_fetcher(buf: Array, pos: int, end: int, line: Any) -> tuple[int, int]:
    """(shape, start of the partition's name) of a message of the replica fetcher."""
    close = _find_byte(buf, pos, end, 93)
    at = find(buf, pos, close, _M_REPLICA_ID)
    if at < 0:
        return NOTED, -1
    line.broker, _ = integer(buf, at, close)
    at = find(buf, pos, close, _M_LEADER_ID)
    if at >= 0:
        line.replica, _ = integer(buf, at, close)
    pos = close + 2
    if _at(buf, pos, end, _M_TRUNCATING):
        return TRUNCATING, -1
    if _at(buf, pos, end, _M_FOLLOWER_HAS):
        return NOTED, -1
    if not _at(buf, pos, end, _M_RECEIVED):
        return RARE, -1
    line.a, at = integer(buf, pos + _M_RECEIVED.size, end)
    updated = find(buf, pos, end, _M_UPDATED)
    if updated < 0:
        return NOTED, -1
    line.b, updated = integer(buf, updated, end)
    name = find(buf, updated, end, _M_FOR_PARTITION) if updated >= 0 else -1
    return (FOLLOWER_HW, name) if 0 <= name < end else (BROKEN, -1)


@compiled
def _dumped(buf: Array, start: int, end: int, line: Any) -> int:
    """Shape of a line that has no header: of the printed metadata log, or the rest of a message."""
    line.message = start
    if _at(buf, start, end, _M_DUMPED):
        at = find(buf, start, end, _M_CREATE_TIME)
        ts, at = integer(buf, at, end) if at >= 0 else (0, -1)
        if at < 0 or not YEAR_2010 <= ts < YEAR_2100:
            return BROKEN
        line.ts = ts
        return DUMPED
    if _at(buf, start, end, _M_BASE_OFFSET) or _at(buf, start, end, _M_DUMPING) or _at(buf, start, end, _M_STARTING):
        return NOTED
    return CONTINUATION if _is_text(buf, start, end) else BROKEN


@compiled
def scan(
    buf: Array,
    ends: Array,
    lines: Array,
    thread_table: Table,
    logger_table: Table,
    logger_classes: Array,
    place_table: Table,
    place_count: int,
    new_places: Array,
) -> tuple[int, int]:
    """Fill `lines` from the lines of buf that end (with a newline) at `ends`; returns how many (loggers, places) are known.

    A table is (keys, ids). `new_places` gets (start, end) of each partition name not in its table before,
    `logger_classes` (class, start, end) of each logger of this buffer.
    """
    threads, loggers, pos, first_new = 0, 0, 0, place_count
    for n in range(ends.size):
        line, end = lines[n], ends[n]
        start = pos
        line.start, line.end = start, end
        pos = end + 1
        if end > start and buf[end - 1] == 13:
            end -= 1
        line.kind, line.stock, line.ts, line.number, line.count = BROKEN, 0, -1, -1, 0
        line.thread = line.logger = line.place = line.broker = line.replica = -1
        if end - start > LONGEST:
            continue
        if end - start > 14 and buf[start + 13] == 124:
            ts = _digits(buf, start, 13)
            thread_end = _find_byte(buf, start + 14, end, 124)
            logger = _find_byte(buf, thread_end + 1, end, 124) + 1
            logger_end = _find_byte(buf, logger, end, 124)
            if logger_end >= end or not YEAR_2010 <= ts < YEAR_2100:
                line.kind = CONTINUATION if ts < 0 and _is_text(buf, start, end) else BROKEN
                continue
            message = logger_end + 1
            number, after = integer(buf, message, end)
            if after > 0 and after < end and buf[after] == 124:
                line.number = number
                message = after + 1
            line.thread, threads = _intern(_hash(buf, start + 14, thread_end), *thread_table, threads)
        elif end - start > 26 and buf[start] == 91 and _stock_time(buf, start) >= 0:
            ts = _stock_time(buf, start)
            line.stock = 1
            message = _find_byte(buf, start + 26, end, 32) + 1
            logger_end = end - 1
            logger = logger_end
            while logger > message and buf[logger - 1] != 40:
                logger -= 1
            if buf[logger_end] != 41 or logger - 2 < message or not YEAR_2010 <= ts < YEAR_2100:
                line.ts = ts
                line.kind = BROKEN if not _is_text(buf, start, end) else CONTINUATION
                continue
            end = logger - 2
        else:
            line.kind = _dumped(buf, start, end, line)
            line.end = end
            continue
        line.ts, line.message, line.end = ts, message, end
        line.logger, count = _intern(_hash(buf, logger, logger_end), *logger_table, loggers)
        if count > loggers:
            logger_classes[loggers, 0] = _logger_class(buf, logger, logger_end)
            logger_classes[loggers, 1] = logger
            logger_classes[loggers, 2] = logger_end
            loggers = count
        kind = logger_classes[line.logger, 0]
        name, name_end = -1, end
        if kind == _PARTITION:
            if not _at(buf, message, end, _M_PARTITION):
                continue
            name = message + _M_PARTITION.size
            name_end = _find_byte(buf, name, end, 32)
            if not _at(buf, name_end, end, _M_BROKER):
                continue
            line.broker, after = integer(buf, name_end + _M_BROKER.size, end)
            if after < 0 or after + 2 >= end:
                continue
            line.kind = _of_partition(buf, after + 2, end, line)
        elif kind == _FETCHER:
            line.kind, name = _of_fetcher(buf, message, end, line)
        elif kind == _STATE:
            close = _find_byte(buf, message, end, 93)
            creating, leading = _at(buf, close + 2, end, _M_CREATING), _at(buf, close + 2, end, _M_LEADER)
            line.kind = CREATING if creating else LEADING if leading else RARE
        elif kind == _ALTER:
            line.kind = ALTER
        elif kind == _UNIFIED:
            line.kind = UNIFIED
        elif kind == _CONTROLLER:
            line.kind = RARE
        else:
            line.kind = REQUEST if kind == _REQUEST else IGNORED
        if name >= 0 and line.kind != BROKEN:
            line.place, count = _intern(_hash(buf, name, name_end), *place_table, place_count)
            if count > place_count:
                new_places[place_count - first_new, 0] = name
                new_places[place_count - first_new, 1] = name_end
                place_count = count
    return loggers, place_count
