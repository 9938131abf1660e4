"""Brokers' answers, decoded by kafka-python, as columns."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from itertools import chain
from typing import Any
from uuid import UUID

import numpy as np

from generators.cluster.asking.problems import NotAnswering
from generators.cluster.metadata.lists import I32, I64, Lists
from generators.cluster.metadata.partitions import NOT_TOLD, BrokerAddress, Partitions, Topics
from schemas.replication_events import as_int

_NO_ID = UUID(int=0)
WILD = "*?["


@dataclass(frozen=True)
class TopicFilter:
    """The watched topics: names and shell patterns; if there are none, all topics but the internal ones."""

    patterns: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    internal: bool = False

    def wants(self, name: str, is_internal: bool) -> bool:
        """Whether a topic is watched; a topic given by name is, even an internal one."""
        if any(fnmatchcase(name, pattern) for pattern in self.exclude):
            return False
        if name in self.patterns:
            return True
        fits = not self.patterns or any(fnmatchcase(name, pattern) for pattern in self.patterns)
        return fits and (self.internal or not is_internal)

    @property
    def names(self) -> list[str] | None:
        """The topics to request by name; None requests all topics, of which some are chosen."""
        if not self.patterns or any(set(WILD) & set(pattern) for pattern in self.patterns):
            return None
        return list(self.patterns)


@dataclass
class Described:
    """Metadata, and the topics that could not be described, by Kafka's error code."""

    partitions: Partitions
    refused: dict[str, int] = field(default_factory=dict)


def described(response: Any, topics: TopicFilter) -> Described:
    """A Metadata answer as columns: topics by name, partitions by number. Raises NotAnswering naming a wrong field."""
    if wrong := next(_wrong_fields(response), None):
        raise NotAnswering(f"its metadata are not believed: {wrong}")
    refused = {t.name: t.error_code for t in response.topics if t.error_code and t.name and t.error_code != _LEADERLESS}
    wanted = [t for t in response.topics if t.name and t.name not in refused and topics.wants(t.name, t.is_internal)]
    wanted.sort(key=lambda topic: topic.name)
    inside = [_in_order(topic.partitions) for topic in wanted]
    every = list(chain.from_iterable(inside))
    sizes = np.array([len(partitions) for partitions in inside], np.int64)
    count = len(every)
    partitions = Partitions(
        topics=Topics(
            tuple(t.name for t in wanted),
            tuple(topic_id(t.topic_id) for t in wanted),
            np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
        ),
        leader=np.fromiter((NOT_TOLD if p.error_code == _NO_LISTENER else p.leader_id for p in every), np.int32, count),
        leader_epoch=np.fromiter((p.leader_epoch for p in every), np.int32, count),
        isr=Lists.of([sorted(p.isr_nodes) for p in every]),
        replicas=Lists.of([p.replica_nodes for p in every]),
        brokers=tuple(sorted(BrokerAddress(b.node_id, b.host, b.port, b.rack or None) for b in response.brokers)),
        cluster_id=response.cluster_id or "",
    )
    return Described(partitions, refused)


MOST_BROKERS = 2_000
"""More than any cluster has: each that hosts something watched is a thread and a connection."""
_HOST = re.compile(r"[0-9A-Za-z_.:%-]{1,255}")
_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}")


def _wrong_fields(response: Any) -> Iterator[str]:
    """The fields of a Metadata answer with values that no Kafka broker sends."""
    brokers, topics = response.brokers, response.topics
    if brokers is None or topics is None:
        yield f"{'brokers' if brokers is None else 'topics'} is null"
        return
    if len(brokers) > MOST_BROKERS:
        yield f"brokers has {len(brokers):,} entries, at most {MOST_BROKERS:,} are asked"
    for one in brokers:
        if one.node_id < 0:
            yield f"node_id of a broker is {one.node_id}"
        if not _HOST.fullmatch(one.host or ""):
            yield f"host of broker {one.node_id} is {str(one.host)[:80]!r}"
        if not 0 < one.port < 1 << 16:
            yield f"port of broker {one.node_id} is {one.port}"
    for topic in topics:
        if topic.error_code not in (0, _LEADERLESS):
            continue
        if not _NAME.fullmatch(topic.name or "") or topic.partitions is None:
            nothing = " without partitions" if topic.partitions is None else ""
            yield f"name of a topic is {str(topic.name)[:80]!r}{nothing}"
        for one in topic.partitions or ():
            wrong = {
                "partition_index": one.partition_index < 0, "leader_id": one.leader_id < -1,
                "replica_nodes": one.replica_nodes is None, "isr_nodes": one.isr_nodes is None,
            }  # fmt: skip
            yield from (f"{name} of {topic.name}-{one.partition_index} is {getattr(one, name)}"
                        for name, is_wrong in wrong.items() if is_wrong)  # fmt: skip


_NO_LISTENER = 72
"""LISTENER_NOT_FOUND: a broker leads, though the answer has -1 (Kafka: KRaftMetadataCache.getPartitionMetadata)."""
_LEADERLESS = 5
"""LEADER_NOT_AVAILABLE of a topic that is being created: its partitions come next time."""


def _in_order(partitions: Sequence[Any]) -> list[Any]:
    """Partitions 0, 1, ... up to the first number that is missing."""
    ordered = sorted(partitions, key=lambda p: p.partition_index)
    numbers = [p.partition_index for p in ordered]
    whole = next((k for k, number in enumerate(numbers) if number != k), len(ordered))
    return ordered[:whole]


def topic_id(value: UUID | None) -> str | None:
    """Kafka's 22 characters for a topic id; None if the broker knows none."""
    from base64 import urlsafe_b64encode

    return None if value is None or value == _NO_ID else urlsafe_b64encode(value.bytes).rstrip(b"=").decode()


def offsets(response: Any, partitions: Partitions) -> tuple[I64, I64, I32, I32]:
    """Rows, offsets, error codes and leader epochs of a ListOffsets answer, of requested partitions only."""
    every = [p for topic in response.topics for p in topic.partitions]
    count = len(every)
    rows = _rows(partitions, [(t.name, len(t.partitions)) for t in response.topics], [p.partition_index for p in every])
    columns = (
        np.fromiter((p.offset for p in every), np.int64, count),
        np.fromiter((p.error_code for p in every), np.int32, count),
        np.fromiter((p.leader_epoch for p in every), np.int32, count),
    )
    known = rows >= 0
    return rows[known], columns[0][known], columns[1][known], columns[2][known]


def ends(response: Any, partitions: Partitions) -> tuple[I64, I64, I64]:
    """Rows, epochs (below 0 before Kafka 2.0) and end offsets in an OffsetForLeaderEpoch answer."""
    every = [p for topic in response.topics for p in topic.partitions]
    rows = _rows(partitions, [(t.topic, len(t.partitions)) for t in response.topics], [p.partition for p in every])
    end = np.array([-1 if p.error_code else p.end_offset for p in every], np.int64)
    epoch, kept = np.array([p.leader_epoch for p in every], np.int64), (rows >= 0) & (end >= 0)
    return rows[kept], epoch[kept], end[kept]


def _rows(partitions: Partitions, topics: Sequence[tuple[str, int]], numbers: Sequence[int]) -> I64:
    """The row of each partition in an answer, topic by topic; -1 for an unknown partition."""
    places, first = partitions.topic_numbers, partitions.topics.first
    which = np.repeat([places.get(name, -1) for name, _ in topics], [count for _, count in topics]).astype(np.int64)
    number = np.array(numbers, np.int64)
    if not len(number) or not len(places):
        return np.full(len(number), -1, np.int64)
    inside = (which >= 0) & (number >= 0) & (number < np.diff(first)[which])
    return np.where(inside, first[:-1][which] + number, -1)


def settings(response: Any) -> tuple[dict[str, dict[str, int]], dict[str, int]]:
    """Whole numbers by resource and key in a DescribeConfigs answer, and the error code of each refused resource."""
    found: dict[str, dict[str, int]] = {}
    refused: dict[str, int] = {}
    for result in response.results:
        if result.error_code:
            refused[result.resource_name] = result.error_code
            continue
        values = {c.name: as_int(c.value or "") for c in result.configs}
        found[result.resource_name] = {k: v for k, v in values.items() if v is not None}
    return found, refused
