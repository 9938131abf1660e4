"""Questions to single brokers before some are stopped: the quorum, hosted partitions, eligible leaders."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from kafka.errors import UnsupportedVersionError
from kafka.protocol.admin.cluster import DescribeLogDirsRequest, DescribeQuorumRequest
from kafka.protocol.admin.topics import DescribeTopicPartitionsRequest

from generators.cluster.asking.link import BrokerLink
from schemas.event_types import CAUGHT_UP_MS

CLUSTER_REFUSED = 31
"""Kafka's error code CLUSTER_AUTHORIZATION_FAILED."""
METADATA_LOG = "__cluster_metadata"
PAGE = 2_000


@dataclass(frozen=True)
class QuorumSeen:
    """The voters, and whether each is caught up (None: not told), or the error code; neither if there is no quorum."""

    voters: dict[int, bool | None] = field(default_factory=dict)
    error: int = 0


@dataclass(frozen=True)
class Hosted:
    """The partitions in a broker's log directories, even of topics that may not be described, or the error code."""

    partitions: frozenset[tuple[str, int]] = frozenset()
    error: int = 0


async def ask_quorum(link: BrokerLink) -> QuorumSeen:
    """The controllers' quorum; a broker passes the question on to the active one. Raises kafka-python's errors."""
    topic = DescribeQuorumRequest.TopicData
    asked = topic(topic_name=METADATA_LOG, partitions=[topic.PartitionData(partition_index=0)])
    try:
        answer = await link.ask(DescribeQuorumRequest(max_version=2, topics=[asked]))
    except UnsupportedVersionError:
        return QuorumSeen()
    partitions = [one for topic in answer.topics for one in topic.partitions]
    if answer.error_code or not partitions or partitions[0].error_code:
        return QuorumSeen(error=answer.error_code or (partitions[0].error_code if partitions else -1))
    leader, voters = partitions[0].leader_id, partitions[0].current_voters
    present = max((v.last_caught_up_timestamp or -1 for v in voters if v.replica_id == leader), default=-1)
    return QuorumSeen({v.replica_id: _caught_up(v, leader, present) for v in voters})


def _caught_up(voter: object, leader: int, present: int) -> bool | None:
    """`present` is the leader's clock in milliseconds; -1 from brokers before 3.3, which do not return it."""
    if getattr(voter, "replica_id") == leader:  # noqa: B009
        return True
    if present < 0:
        return None
    last: int = getattr(voter, "last_caught_up_timestamp")  # noqa: B009
    return last >= present - CAUGHT_UP_MS


async def ask_hosted(link: BrokerLink) -> Hosted:
    """Every partition that a broker hosts. Raises kafka-python's errors.

    Without the right brokers before 3.2 answer nothing at all, not even the directories.
    """
    answer = await link.ask(DescribeLogDirsRequest(max_version=4, topics=None))
    if answer.error_code or not answer.results:
        return Hosted(error=answer.error_code or CLUSTER_REFUSED)
    found = {
        (topic.name, partition.partition_index)
        for folder in answer.results
        for topic in folder.topics
        for partition in topic.partitions
        if not partition.is_future_key
    }
    return Hosted(frozenset(found - {(METADATA_LOG, 0)}))


async def ask_eligible(link: BrokerLink, topics: Sequence[str]) -> Mapping[tuple[str, int], frozenset[int]]:
    """The eligible leader replicas of partitions that have some; none of brokers before 4.0. Raises as others do."""
    found: dict[tuple[str, int], frozenset[int]] = {}
    named = [DescribeTopicPartitionsRequest.TopicRequest(name=name) for name in sorted(topics)]
    cursor = None
    while True:
        request = DescribeTopicPartitionsRequest(topics=named, response_partition_limit=PAGE, cursor=cursor)
        try:
            answer = await link.ask(request)
        except UnsupportedVersionError:
            return {}
        for topic in answer.topics:
            for one in topic.partitions:
                if one.eligible_leader_replicas:
                    found[topic.name, one.partition_index] = frozenset(one.eligible_leader_replicas)
        if answer.next_cursor is None:
            return found
        place = answer.next_cursor
        cursor = DescribeTopicPartitionsRequest.Cursor(
            topic_name=place.topic_name, partition_index=place.partition_index
        )
