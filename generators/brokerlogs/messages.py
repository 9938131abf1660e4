"""The message of a line: its shape by logger and first words, and the numbers of the frequent ones."""

from __future__ import annotations

from typing import Any

from generators.brokerlogs.compiled import Array, compiled
from generators.brokerlogs.lines import (
    ADVANCED,
    ALTER,
    BROKEN,
    CREATING,
    FOLLOWER_HW,
    IGNORED,
    LEADING,
    NOTED,
    PROPOSED,
    RARE,
    RECORDED,
    REQUEST,
    SKIPPED,
    TRUNCATING,
    UNDER_MIN,
    UNIFIED,
)
from generators.brokerlogs.text import begins, ends_with, find, find_byte, integer, words

PARTITION, STATE, FETCHER = 101, 102, 103
"""Loggers whose messages have several shapes; every other logger stands for one."""
_L_PARTITION = words("cluster.Partition")
_L_STATE = words("state.change.logger")
_L_ALTER = words("AlterPartitionManager")
_L_FETCHER = words("ReplicaFetcherThread")
_L_UNIFIED = words("UnifiedLog")
_L_REQUEST = words("kafka.request.logger")
_L_REPLICATION_CONTROL = words("ReplicationControlManager")
_L_CLUSTER_CONTROL = words("ClusterControlManager")
_L_CONFIGURATION_CONTROL = words("ConfigurationControlManager")
_L_HEARTBEAT = words("BrokerHeartbeatManager")
_L_LIFECYCLE = words("BrokerLifecycleManager")
_M_PARTITION = words("[Partition ")
_M_BROKER = words(" broker=")
_M_RECORDED = words("Recorded replica ")
_M_LEO = words(" log end offset (LEO) position ")
_M_LOG_START = words(" and log start offset ")
_M_ADVANCED = words("High watermark updated from (offset=")
_M_TO = words("to (offset=")
_M_SKIPPED = words("Skipping update high watermark")
_M_LEOS = words("All current LEOs are ")
_SHORTEST_LEO = len("replica 1: (offset=0")
_M_UNDER_MIN = words("Not increasing HWM")
_M_PROGRESS = words("Progress awaiting")
_M_EXISTS = words("UnifiedLog already exists")
_M_SUBMITTING = words("Submitting ISR state change")
_M_EXPANDING = words("Expanding ISR from")
_M_REPLICA_ID = words("replicaId=")
_M_LEADER_ID = words("leaderId=")
_M_RECEIVED = words("Follower received high watermark ")
_M_UPDATED = words("updated replica high watermark to ")
_M_FOR_PARTITION = words(" for partition ")
_M_FOLLOWER_HAS = words("Follower has replica log end offset")
_M_TRUNCATING = words("Truncating partition ")
_M_CREATING = words("Creating new partition ")
_M_LEADER = words("Leader ")


@compiled
def logger_class(buf: Array, pos: int, end: int) -> int:
    """What a logger's name says of its messages: PARTITION, STATE, FETCHER, or their one shape."""
    if ends_with(buf, pos, end, _L_PARTITION):
        return PARTITION
    if ends_with(buf, pos, end, _L_STATE):
        return STATE
    if ends_with(buf, pos, end, _L_ALTER):
        return ALTER
    if ends_with(buf, pos, end, _L_FETCHER):
        return FETCHER
    if ends_with(buf, pos, end, _L_UNIFIED):
        return UNIFIED
    if ends_with(buf, pos, end, _L_REQUEST):
        return REQUEST
    if (
        ends_with(buf, pos, end, _L_REPLICATION_CONTROL)
        or ends_with(buf, pos, end, _L_CLUSTER_CONTROL)
        or ends_with(buf, pos, end, _L_CONFIGURATION_CONTROL)
        or ends_with(buf, pos, end, _L_HEARTBEAT)
        or ends_with(buf, pos, end, _L_LIFECYCLE)
    ):
        return RARE
    return IGNORED


@compiled
def _recorded(buf: Array, pos: int, end: int, line: Any) -> int:
    value, pos = integer(buf, pos + _M_RECORDED.size, end)
    if pos < 0 or not begins(buf, pos, end, _M_LEO):
        return BROKEN
    line.replica = value
    line.a, pos = integer(buf, pos + _M_LEO.size, end)
    if pos < 0 or not begins(buf, pos, end, _M_LOG_START):
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
    if begins(buf, pos, end, _M_RECORDED):
        return _recorded(buf, pos, end, line)
    if begins(buf, pos, end, _M_ADVANCED):
        return _advanced(buf, pos, end, line)
    if begins(buf, pos, end, _M_SKIPPED):
        return _skipped(buf, pos, end, line)
    if begins(buf, pos, end, _M_PROGRESS) or begins(buf, pos, end, _M_EXISTS):
        return NOTED
    if begins(buf, pos, end, _M_UNDER_MIN):
        return UNDER_MIN
    if begins(buf, pos, end, _M_SUBMITTING) or begins(buf, pos, end, _M_EXPANDING):
        return PROPOSED
    return RARE


@compiled
def _of_fetcher(buf: Array, pos: int, end: int, line: Any) -> tuple[int, int]:
    """(shape, start of the partition's name) of a message of the replica fetcher."""
    close = find_byte(buf, pos, end, 93)
    at = find(buf, pos, close, _M_REPLICA_ID)
    if at < 0:
        return NOTED, -1
    line.broker, _ = integer(buf, at, close)
    at = find(buf, pos, close, _M_LEADER_ID)
    if at >= 0:
        line.replica, _ = integer(buf, at, close)
    pos = close + 2
    if begins(buf, pos, end, _M_TRUNCATING):
        return TRUNCATING, -1
    if begins(buf, pos, end, _M_FOLLOWER_HAS):
        return NOTED, -1
    if not begins(buf, pos, end, _M_RECEIVED):
        return RARE, -1
    line.a, at = integer(buf, pos + _M_RECEIVED.size, end)
    updated = find(buf, pos, end, _M_UPDATED)
    if updated < 0:
        return NOTED, -1
    line.b, updated = integer(buf, updated, end)
    name = find(buf, updated, end, _M_FOR_PARTITION) if updated >= 0 else -1
    return (FOLLOWER_HW, name) if 0 <= name < end else (BROKEN, -1)


@compiled
def shape(buf: Array, kind: int, end: int, line: Any) -> tuple[int, int, int]:
    """(shape, start, end of the partition's name or -1) of the message of a line, by the class of its logger."""
    message = line.message
    if kind == STATE:
        close = find_byte(buf, message, end, 93)
        creating, leading = begins(buf, close + 2, end, _M_CREATING), begins(buf, close + 2, end, _M_LEADER)
        return CREATING if creating else LEADING if leading else RARE, -1, -1
    if kind == FETCHER:
        found, name = _of_fetcher(buf, message, end, line)
        return found, name, end
    if kind != PARTITION:
        return kind, -1, -1
    name = message + _M_PARTITION.size
    name_end = find_byte(buf, name, end, 32)
    if not begins(buf, message, end, _M_PARTITION) or not begins(buf, name_end, end, _M_BROKER):
        return BROKEN, -1, -1
    line.broker, after = integer(buf, name_end + _M_BROKER.size, end)
    if after < 0 or after + 2 >= end:
        return BROKEN, -1, -1
    return _of_partition(buf, after + 2, end, line), name, name_end
