"""The kind of a message by logger and first words, and the numbers of the frequent ones."""

from __future__ import annotations

from typing import Any

from generators.brokerlogs.events.event_rows import UNKNOWN
from generators.brokerlogs.scanning.arrays import Array, compiled
from generators.brokerlogs.scanning.byte_text import begins, find, find_byte, integer, literal
from generators.brokerlogs.scanning.line_record import (
    ADVANCED,
    BROKEN,
    CREATING,
    FOLLOWER_HW,
    LEADING,
    NOTED,
    PROPOSED,
    RARE,
    RECORDED,
    SKIPPED,
    TRUNCATING,
    UNDER_MIN,
    UNIFIED,
)
from generators.brokerlogs.scanning.loggers import DIRECTORIES, FETCHER, LOG_LAYER, PARTITION, STATE
from generators.brokerlogs.scanning.torn import T_ADVANCED, T_ADVANCED_TO, T_RECORDED, T_SKIPPED, torn, two_lines

_M_PARTITION = literal("[Partition ")
_M_BROKER = literal(" broker=")
_M_RECORDED = literal("Recorded replica ")
_M_LEO = literal(" log end offset (LEO) position ")
_M_LOG_START = literal(" and log start offset ")
_M_ADVANCED = literal("High watermark updated from (offset=")
_M_ADVANCED_TO = literal("High watermark updated to (offset=")
_M_TO = literal("to (offset=")
_M_SKIPPED = literal("Skipping update high watermark")
_M_LEOS = literal("All current LEOs are ")
_SHORTEST_LEO = len("replica 1: (offset=0")
_M_UNDER_MIN = literal("Not increasing HWM")
_M_PROGRESS = literal("Progress awaiting")
_M_EXISTS = literal("UnifiedLog already exists")
_M_SUBMITTING = literal("Submitting ISR state change")
_M_EXPANDING = literal("Expanding ISR from")
_M_REPLICA_ID = literal("replicaId=")
_M_LEADER_ID = literal("leaderId=")
_M_RECEIVED = literal("Follower received high watermark ")
_M_UPDATED = literal("updated replica high watermark to ")
_M_SET = literal("Follower set replica high watermark for partition ")
_M_SET_TO = literal(" to ")
_M_FOR_PARTITION = literal(" for partition ")
_M_FOLLOWER_HAS = literal("Follower has replica log end offset")
_M_TRUNCATING, _M_RESET = literal("Truncating partition "), literal("Reset fetch offset for partition ")
_M_CREATING = literal("Creating new partition ")
_M_LEADER = literal("Leader ")
_M_SKIPPED_CHANGE = literal("Skipped the become-")
_M_FOR = literal(" state change for ")
_M_STARTS_ISR = literal(" ISR [")
_M_ISR = literal("isr=[")
_M_ISR_UPDATED = literal("ISR updated to ")
_M_NOT_UPDATED = literal(" but did not update replica high watermark")
_M_APPENDED = literal("Appended message set")
_M_SETTING = literal("Setting high watermark ")
_M_STOPPING = literal("Stopping serving ")
_M_SKIPPING, _M_RECOVERING = literal("Skipping recovery "), literal("Recovering ")
_M_ATTEMPTING, _M_NO_LOGS = literal("Attempting recovery "), literal("No logs found ")
_M_CREATED, _M_FUTURE = literal("Created log for "), literal("-future with properties")
_M_REPLACED = literal("The current replica is successfully replaced ")
_M_PROCESSED = literal("Processed ")
_M_EXECUTING = literal("Executing ")
_M_COMPLETING = literal("Completing ")
_M_READ = literal("Read-")
_M_REPLAYING = literal("Replaying ")


@compiled
def _recorded(buf: Array, start: int, end: int, line: Any) -> int:
    value, pos = integer(buf, start + _M_RECORDED.size, end)
    if pos < 0 or not begins(buf, pos, end, _M_LEO):
        return torn(buf, start, end, T_RECORDED)
    line.replica = value
    line.a, pos = integer(buf, pos + _M_LEO.size, end)
    if 0 <= pos == end - 1 and buf[pos] == 46:  # up to Kafka 2.3 without the log start
        line.b = UNKNOWN
        return RECORDED
    if pos < 0 or not begins(buf, pos, end, _M_LOG_START):
        return torn(buf, start, end, T_RECORDED)
    line.b, pos = integer(buf, pos + _M_LOG_START.size, end)
    return RECORDED if pos == end - 1 and buf[pos] == 46 else torn(buf, start, end, T_RECORDED)


@compiled
def _advanced(buf: Array, start: int, end: int, line: Any) -> int:
    line.a, pos = integer(buf, start + _M_ADVANCED.size, end)
    pos = find(buf, pos, end, _M_TO) if pos >= 0 else -1
    if pos < 0 or buf[end - 1] != 41:
        return torn(buf, start, end, T_ADVANCED)
    line.b, pos = integer(buf, pos, end)
    return ADVANCED if 0 <= pos < end else torn(buf, start, end, T_ADVANCED)


@compiled
def _advanced_to(buf: Array, start: int, end: int, line: Any) -> int:
    """The same up to Kafka 2.3, which prints no HW of before."""
    line.a, (line.b, pos) = UNKNOWN, integer(buf, start + _M_ADVANCED_TO.size, end)
    return ADVANCED if 0 <= pos < end and buf[end - 1] == 41 else torn(buf, start, end, T_ADVANCED_TO)


@compiled
def _skipped(buf: Array, start: int, end: int, line: Any) -> int:
    pos = find(buf, start, end, _M_LEOS)
    if pos < 0:
        return torn(buf, start, end, T_SKIPPED)
    if buf[end - 1] != 41 and buf[end - 1] != 93:
        return BROKEN
    line.a = pos
    line.count = (end - pos) // _SHORTEST_LEO + 1
    return SKIPPED


@compiled
def _members(buf: Array, pos: int, end: int) -> int:
    """Number of brokers in the list at `pos`, which ends at what is neither a number nor a separator."""
    if pos < 0 or pos >= end or not 48 <= buf[pos] <= 57:
        return 0
    count = 1
    while pos < end and (48 <= buf[pos] <= 57 or buf[pos] == 44 or (buf[pos] == 32 and buf[pos - 1] == 44)):
        count += buf[pos] == 44
        pos += 1
    return count


@compiled
def _of_partition(buf: Array, pos: int, end: int, line: Any) -> int:
    """Kind of a message of kafka.cluster.Partition after its prefix."""
    if begins(buf, pos, end, _M_RECORDED):
        return _recorded(buf, pos, end, line)
    if begins(buf, pos, end, _M_ADVANCED):
        return _advanced(buf, pos, end, line)
    if begins(buf, pos, end, _M_ADVANCED_TO):
        return _advanced_to(buf, pos, end, line)
    if begins(buf, pos, end, _M_SKIPPED):
        return _skipped(buf, pos, end, line)
    if begins(buf, pos, end, _M_PROGRESS) or begins(buf, pos, end, _M_EXISTS):
        return NOTED
    if begins(buf, pos, end, _M_UNDER_MIN):
        return UNDER_MIN
    if begins(buf, pos, end, _M_SUBMITTING) or begins(buf, pos, end, _M_EXPANDING):
        return PROPOSED
    if begins(buf, pos, end, _M_ISR_UPDATED):
        line.members = _members(buf, pos + _M_ISR_UPDATED.size, end)
    return RARE


@compiled
def _of_state_change(buf: Array, pos: int, end: int, line: Any) -> tuple[int, int, int]:
    """(kind, start, end of the partition's name or -1) of a message of state.change.logger after its prefix."""
    if begins(buf, pos, end, _M_CREATING):
        return CREATING, -1, -1
    if begins(buf, pos, end, _M_LEADER):
        line.members = _members(buf, find(buf, pos, end, _M_STARTS_ISR), end)
        name = pos + _M_LEADER.size
        return LEADING, name, find_byte(buf, name, end, 32)
    name = find(buf, pos, end, _M_FOR) if begins(buf, pos, end, _M_SKIPPED_CHANGE) else -1
    if name < 0:
        return RARE, -1, -1
    line.members = _members(buf, find(buf, name, end, _M_ISR), end)
    return RARE, name, find_byte(buf, name, end, 32)


@compiled
def _of_fetcher(buf: Array, pos: int, end: int, line: Any) -> tuple[int, int, int]:
    """(kind, start, end of the partition's name or -1) of a message of the replica fetcher."""
    close = find_byte(buf, pos, end, 93)
    at = find(buf, pos, close, _M_REPLICA_ID)
    if at < 0:
        return RARE, -1, -1
    line.broker, _ = integer(buf, at, close)
    at = find(buf, pos, close, _M_LEADER_ID)
    if at >= 0:
        line.replica, _ = integer(buf, at, close)
    pos = close + 2
    if begins(buf, pos, end, _M_TRUNCATING) or begins(buf, pos, end, _M_RESET):
        return TRUNCATING, -1, -1
    if begins(buf, pos, end, _M_FOLLOWER_HAS):
        return NOTED, -1, -1
    if begins(buf, pos, end, _M_SET):  # up to Kafka 3.3
        name = pos + _M_SET.size
        to = find(buf, name, end, _M_SET_TO)
        line.b, at = integer(buf, to, end) if to >= 0 else (UNKNOWN, -1)
        return (FOLLOWER_HW, name, to - _M_SET_TO.size) if at == end else (BROKEN, -1, -1)
    if not begins(buf, pos, end, _M_RECEIVED):
        return RARE, -1, -1
    line.a, at = integer(buf, pos + _M_RECEIVED.size, end)
    updated = find(buf, pos, end, _M_UPDATED)
    if updated < 0:
        return NOTED if find(buf, pos, end, _M_NOT_UPDATED) >= 0 else RARE, -1, -1
    line.b, updated = integer(buf, updated, end)
    name = find(buf, updated, end, _M_FOR_PARTITION) if updated >= 0 else -1
    return (FOLLOWER_HW, name, end) if 0 <= name < end else (BROKEN, -1, -1)


@compiled
def _of_few_shapes(buf: Array, kind: int, pos: int, end: int) -> int:
    """Kind of a message, after its prefix, of a logger most of whose messages are irrelevant."""
    if kind == LOG_LAYER:
        return NOTED if begins(buf, pos, end, _M_APPENDED) or begins(buf, pos, end, _M_SETTING) else UNIFIED
    if kind == DIRECTORIES:
        rare = begins(buf, pos, end, _M_STOPPING) or begins(buf, pos, end, _M_SKIPPING)
        rare = rare or begins(buf, pos, end, _M_RECOVERING) or begins(buf, pos, end, _M_ATTEMPTING)
        rare = rare or begins(buf, pos, end, _M_REPLACED) or begins(buf, pos, end, _M_NO_LOGS)
        rare = rare or (begins(buf, pos, end, _M_CREATED) and find(buf, pos, end, _M_FUTURE) >= 0)
        return RARE if rare else NOTED
    frequent = begins(buf, pos, end, _M_PROCESSED) or begins(buf, pos, end, _M_EXECUTING)
    frequent = frequent or begins(buf, pos, end, _M_COMPLETING) or begins(buf, pos, end, _M_READ)
    return NOTED if frequent or begins(buf, pos, end, _M_REPLAYING) else RARE


@compiled
def classify(buf: Array, kind: int, end: int, line: Any) -> tuple[int, int, int]:
    """(kind, start, end of the partition's name or -1) of the message of a line, by the class of its logger."""
    message = line.message
    if kind == FETCHER:
        return _of_fetcher(buf, message, end, line)
    if kind > PARTITION:
        close = find_byte(buf, message, end, 93) if message < end and buf[message] == 91 else message - 2
        if kind == STATE:
            return _of_state_change(buf, close + 2, end, line)
        return _of_few_shapes(buf, kind, close + 2, end), -1, -1
    if kind != PARTITION:
        return kind, -1, -1
    name = message + _M_PARTITION.size
    name_end = find_byte(buf, name, end, 32)
    if not begins(buf, message, end, _M_PARTITION) or not begins(buf, name_end, end, _M_BROKER):
        cut = find_byte(buf, message, end, 93) == end
        return BROKEN if cut or two_lines(buf, message, end) else RARE, -1, -1
    line.broker, after = integer(buf, name_end + _M_BROKER.size, end)
    if after < 0 or after + 2 >= end:
        return BROKEN, -1, -1
    return _of_partition(buf, after + 2, end, line), name, name_end
