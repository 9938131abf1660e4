"""Messages of the KRaft metadata log that say something of replication, decoded as Kafka's dump tool prints them.

The fields are those of Kafka's metadata/src/main/resources/common/metadata (3.3 to 4.4): by version what is written one
after the other, then tagged fields.
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from typing import Any, NamedTuple

from generators.disks.batches import KRAFT_VOTERS, LEADER_CHANGE
from generators.disks.records import Damaged, Reader

_FEATURES = "features [name s minSupportedVersion i2 maxSupportedVersion i2]"
_ENDPOINTS = f"endPoints [name s host s port n2 securityProtocol i2] {_FEATURES}"
_MESSAGES = f"""
0 REGISTER_BROKER_RECORD 4 : brokerId i4 isMigratingZkBroker b@2 incarnationId u brokerEpoch i8 {_ENDPOINTS} rack s
  fenced b inControlledShutdown b@1 : 0 logDirs [u] 1 cordonedLogDirs [u]
1 UNREGISTER_BROKER_RECORD 0 : brokerId i4 brokerEpoch i8 :
2 TOPIC_RECORD 0 : name s topicId u :
3 PARTITION_RECORD 2 : partitionId i4 topicId u replicas [i4] isr [i4] removingReplicas [i4] addingReplicas [i4]
  leader i4 leaderEpoch i4 partitionEpoch i4 directories [u]@1 : 0 leaderRecoveryState i1
  1 eligibleLeaderReplicas [i4] 2 lastKnownElr [i4]
4 CONFIG_RECORD 0 : resourceType i1 resourceName s name s value s :
5 PARTITION_CHANGE_RECORD 2 : partitionId i4 topicId u : 0 isr [i4] 1 leader i4 2 replicas [i4]
  3 removingReplicas [i4] 4 addingReplicas [i4] 5 leaderRecoveryState i1 6 eligibleLeaderReplicas [i4]
  7 lastKnownElr [i4] 8 directories [u]
7 FENCE_BROKER_RECORD 0 : id i4 epoch i8 :
8 UNFENCE_BROKER_RECORD 0 : id i4 epoch i8 :
9 REMOVE_TOPIC_RECORD 0 : topicId u :
12 FEATURE_LEVEL_RECORD 0 : name s featureLevel i2 :
17 BROKER_REGISTRATION_CHANGE_RECORD 3 : brokerId i4 brokerEpoch i8 : 0 fenced i1 1 inControlledShutdown i1
  2 logDirs [u] 3 cordonedLogDirs [u]
23 BEGIN_TRANSACTION_RECORD 0 : : 0 name s
24 END_TRANSACTION_RECORD 0 : :
25 ABORT_TRANSACTION_RECORD 0 : : 0 reason s
28 CLEAR_ELR_RECORD 0 : topicName s :
-{LEADER_CHANGE} LEADER_CHANGE 1 : leaderId i4 voters [voterId i4 voterDirectoryId u@1] :
-{KRAFT_VOTERS} KRAFT_VOTERS 0 : voters [voterId i4 voterDirectoryId u endPoints [name s host s port n2]
  minSupportedVersion i2 maxSupportedVersion i2 tags i1] :
"""
_SILENT = frozenset((10, 11, 14, 15, 18, 19, 20, 21, 22, 26, 27, 29))
"""Users, delegation tokens, quotas, ids of producers, ACLs, no-ops, migration, controllers."""
_SIZES = {"i1": 1, "i2": 2, "i4": 4, "i8": 8}


class Message(NamedTuple):
    """The layout of one message: its name, newest version known, and its fields, tagged ones by their tag."""

    name: str
    newest: int
    fields: list[tuple[str, Any, int]]
    tagged: dict[int, tuple[str, Any, int]]


class UnknownRecord(ValueError):
    """A record of a kind, or of a version, that this program does not know; the message says which."""


def decode(value: bytes) -> tuple[str, dict[str, Any]] | None:
    """Name and fields of one record of the metadata log; None if it says nothing of replication.

    Raises UnknownRecord, and Damaged where its bytes end early.
    """
    reader = Reader(value)
    frame, key, version = reader.unsigned(), reader.unsigned(), reader.unsigned()
    if frame not in (0, 1):
        raise UnknownRecord(f"frame version {frame}")
    if key in _SILENT:
        return None
    message = MESSAGES.get(key)
    if message is None or version > message.newest:
        raise UnknownRecord(f"{message.name if message else f'message {key}'} in version {version}")
    data = _fields(reader, message.fields, version)
    for _ in range(reader.unsigned()):
        tag, size = reader.unsigned(), reader.unsigned()
        if tag in message.tagged:
            name, kind, _ = message.tagged[tag]
            data[name] = _value(Reader(reader.take(size)), kind, version)
        else:
            reader.take(size)
    return message.name, data


def decode_control(control: int, value: bytes) -> dict[str, Any]:
    """Fields of a control record of the quorum; MESSAGES has its message by its negated type. Raises Damaged."""
    reader = Reader(value)
    version = reader.number(2)
    return _fields(reader, MESSAGES[-control].fields, version)


def _fields(reader: Reader, fields: list[tuple[str, Any, int]], version: int) -> dict[str, Any]:
    return {name: _value(reader, kind, version) for name, kind, since in fields if version >= since}


def _value(reader: Reader, kind: Any, version: int) -> Any:
    if isinstance(kind, tuple):
        return [_value(reader, kind[0], version) for _ in range(_length(reader) or 0)]
    if isinstance(kind, list):
        data = _fields(reader, kind, version)
        for _ in range(reader.unsigned()):
            reader.unsigned()
            reader.take(reader.unsigned())
        return data
    if kind == "s":
        return None if (size := _length(reader)) is None else reader.take(size).decode("utf-8", "backslashreplace")
    if kind == "u":
        return urlsafe_b64encode(reader.take(16)).decode().rstrip("=")
    if kind == "n2":
        return reader.number(2) & 0xFFFF
    return reader.number(1) != 0 if kind == "b" else reader.number(_SIZES[kind])


def _length(reader: Reader) -> int | None:
    """A compact length; None for null."""
    size = reader.unsigned() - 1
    if size > len(reader.content):
        raise Damaged(f"{size} elements where {len(reader.content) - reader.at} bytes are left")
    return None if size < 0 else size


def _layouts(text: str) -> dict[int, Message]:
    words = text.replace("[", " [ ").replace("]", " ] ").replace("] @", "]@").split()
    messages: dict[int, Message] = {}
    while words:
        key, name, newest, _ = (words.pop(0) for _ in range(4))
        fields = _parse_fields(words, ":")
        tagged: dict[int, tuple[str, Any, int]] = {}
        while len(words) > 2 and words[0].isdecimal() and words[1][0].islower():
            tag = int(words.pop(0))
            tagged[tag] = (words.pop(0), *_parse_type(words))
        messages[int(key)] = Message(name, int(newest), fields, tagged)
    return messages


def _parse_fields(words: list[str], end: str) -> list[tuple[str, Any, int]]:
    fields: list[tuple[str, Any, int]] = []
    while (name := words.pop(0)) != end:
        fields.append((name, *_parse_type(words)))
    return fields


def _parse_type(words: list[str]) -> tuple[Any, int]:
    """A type and the version since which it is written; `(element,)` for an array."""
    kind: Any = words.pop(0)
    if kind != "[":
        kind, _, since = kind.partition("@")
        return kind, int(since or 0)
    if words[1] == "]" or words[1].startswith("]@"):
        return (words.pop(0),), int(words.pop(0)[2:] or 0)
    return (_parse_fields(words, "]"),), 0


MESSAGES = _layouts(_MESSAGES)
