"""The requests of a watcher, encoded once and sent every round."""

from __future__ import annotations

import struct
from itertools import pairwise
from typing import Any

import numpy as np
from kafka.protocol.admin.configs import DescribeConfigsRequest
from kafka.protocol.consumer.offsets import ListOffsetsRequest, OffsetForLeaderEpochRequest
from kafka.protocol.metadata.metadata import MetadataRequest

from generators.cluster.metadata.lists import I64
from generators.cluster.metadata.partitions import Partitions

OF_WHOEVER_IS_ASKED, OF_THE_LEADER = -2, -1
"""Replica ids in ListOffsets: the first returns the LEO of any replica, the second the HW, from the leader only."""
LATEST = -1
LIST_OFFSETS, METADATA, END_OF_EPOCH, DESCRIBE_CONFIGS = 7, 12, 4, 4
"""Request versions: known to all brokers from 3.0 on, and the lowest that returns the needed fields."""
TOPIC, BROKER = 2, 4
"""Kinds of resources that have settings."""


class Encoded:
    """A request as bytes, in the shape in which kafka-python sends requests.

    To encode takes three times as long as to decode the answer, and a watcher asks the same every round.
    """

    def __init__(self, request: Any, version: int) -> None:
        self._request, self.API_VERSION = request, version
        self._body: bytes = request.encode(version=version)

    @property
    def header(self) -> Any:
        return self._request.header

    def with_header(self, correlation_id: int, client_id: str) -> None:
        """The header of the next send."""
        self._request.with_header(correlation_id=correlation_id, client_id=client_id)

    def encode(self, *, framed: bool, header: bool) -> bytes:
        """The bytes of the next send."""
        head: bytes = self.header.encode(flexible=self._request.flexible_version_q(self.API_VERSION))
        return b"".join((struct.pack(">i", len(head) + len(self._body)), head, self._body))

    def expect_response(self) -> bool:
        return True

    def __len__(self) -> int:
        return len(self._body)


class AnswerBytes:
    """An answer that is not decoded yet: metadata is seldom different from the round before."""

    def __init__(self, body: bytes, response_type: Any) -> None:
        self._body, self._response_type = body, response_type

    @property
    def throttle_time_ms(self) -> int:
        """The time for which kafka-python must pause; the first field of every answer that is read as bytes."""
        return int.from_bytes(self._body[:4])

    def says_the_same(self, other: AnswerBytes) -> bool:
        """Whether both answers are equal, byte by byte, except for the throttle time."""
        return self._body[4:] == other._body[4:]

    def decoded(self) -> Any:
        """The answer as kafka-python decodes it."""
        return self._response_type.decode(self._body)


class AnsweredInBytes(Encoded):
    """A request whose answer kafka-python passes on as AnswerBytes."""

    @property
    def header(self) -> Any:
        return _BytesHeader(self._request.header)


class _BytesHeader:
    """A request's header from which kafka-python takes a decoder that leaves the answer in bytes."""

    def __init__(self, header: Any) -> None:
        self._header, self.correlation_id = header, header.correlation_id

    def __getattr__(self, name: str) -> Any:
        return getattr(self._header, name)

    def get_response_class(self) -> Any:
        return _BytesResponse(self._header.get_response_class())


class _BytesResponse:
    def __init__(self, response_type: Any) -> None:
        self._response_type = response_type

    def parse_header(self, buffer: Any) -> Any:
        return self._response_type.parse_header(buffer)

    def decode(self, buffer: Any) -> AnswerBytes:
        return AnswerBytes(bytes(buffer.read()), self._response_type)


def offsets(partitions: Partitions, rows: I64, replica_id: int, *, stable: bool = False) -> Encoded:
    """ListOffsets for these rows: the HW from the leader in the known epoch, or the LEO from any replica.

    `stable`: the last stable offset from the leader, up to which consumers with read_committed read.
    """
    topic_type = ListOffsetsRequest.ListOffsetsTopic
    partition_type = topic_type.ListOffsetsPartition
    fenced = replica_id == OF_THE_LEADER
    epochs = partitions.leader_epoch[rows] if fenced else np.full(len(rows), -1)
    request = ListOffsetsRequest(
        replica_id=replica_id,
        isolation_level=int(stable),
        topics=[
            topic_type(
                name=name,
                partitions=[
                    partition_type(partition_index=number, current_leader_epoch=epoch, timestamp=LATEST)
                    for number, epoch in zip(numbers, epochs[at].tolist(), strict=True)
                ],
            )
            for name, numbers, at in by_topic(partitions, rows)
        ],
    )
    return Encoded(request, LIST_OFFSETS)


def ends_of_epochs(partitions: Partitions, rows: I64, asked: I64) -> Encoded:
    """OffsetForLeaderEpoch for these rows: the end of each requested epoch in the leader's log."""
    topic_type = OffsetForLeaderEpochRequest.OffsetForLeaderTopic
    partition_type = topic_type.OffsetForLeaderPartition
    epochs = partitions.leader_epoch[rows]
    request = OffsetForLeaderEpochRequest(
        replica_id=OF_WHOEVER_IS_ASKED,
        topics=[
            topic_type(
                topic=name,
                partitions=[
                    partition_type(partition=number, current_leader_epoch=epoch, leader_epoch=end)
                    for number, epoch, end in zip(numbers, epochs[at].tolist(), asked[at].tolist(), strict=True)
                ],
            )
            for name, numbers, at in by_topic(partitions, rows)
        ],
    )
    return Encoded(request, END_OF_EPOCH)


def by_topic(partitions: Partitions, rows: I64) -> list[tuple[str, list[int], slice]]:
    """Topic names, each with its partition numbers among the ascending `rows` and their positions there."""
    topic, number = partitions.topic[rows], partitions.number[rows]
    bounds = [0, *(np.flatnonzero(np.diff(topic)) + 1).tolist(), len(rows)] if len(rows) else [0]
    return [
        (partitions.topics.names[topic[first]], number[first:end].tolist(), slice(first, end))
        for first, end in pairwise(bounds)
    ]


def metadata(topics: list[str] | None, version: int) -> AnsweredInBytes:
    """A Metadata request for these topics, or for all that may be described."""
    topic_type = MetadataRequest.MetadataRequestTopic
    named = None if topics is None else [topic_type(name=name) for name in topics]
    return AnsweredInBytes(MetadataRequest(topics=named, allow_auto_topic_creation=False), version)


def settings(kind: int, names: list[str], keys: list[str]) -> Any:
    """A DescribeConfigs request for these brokers or topics."""
    resource = DescribeConfigsRequest.DescribeConfigsResource
    resources = [resource(resource_type=kind, resource_name=name, configuration_keys=keys) for name in names]
    return DescribeConfigsRequest(
        max_version=DESCRIBE_CONFIGS, resources=resources, include_synonyms=False, include_documentation=False
    )
