"""Questions about consumer groups: their names, and their committed offsets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from kafka.protocol.admin.cluster import DescribeClusterRequest
from kafka.protocol.admin.groups import ListGroupsRequest
from kafka.protocol.consumer.group import OffsetFetchRequest

from generators.cluster.asking.link import BrokerLink

DESCRIBE = 8
"""Kafka's number of the operation DESCRIBE among those that are authorized."""
ONE_GROUP = 7
"""The last version of OffsetFetch that asks for one group; all brokers from 2.5 on know it."""
Place = tuple[str, int]


@dataclass
class GroupsSeen:
    """Committed offsets by group and partition, and the error code of each refused group or topic."""

    committed: dict[str, dict[Place, int]] = field(default_factory=dict)
    refused: dict[str, int] = field(default_factory=dict)
    refused_topics: dict[str, int] = field(default_factory=dict)
    error: int = 0
    """The error code of the list of groups itself."""


async def ask_all_groups_shown(link: BrokerLink) -> bool:
    """Whether DESCRIBE on the cluster is allowed, so that no group is hidden. Raises kafka-python's errors."""
    answer = await link.ask(DescribeClusterRequest(max_version=0, include_cluster_authorized_operations=True))
    return not answer.error_code and DESCRIBE in (answer.authorized_operations or ())


async def ask_groups(link: BrokerLink, places: Sequence[Place]) -> GroupsSeen:
    """The groups that this broker coordinates, and what they committed for these partitions. Raises as others do."""
    seen = GroupsSeen()
    listed = await link.ask(ListGroupsRequest(max_version=4, states_filter=[]))
    seen.error = listed.error_code
    topic = OffsetFetchRequest.OffsetFetchRequestTopic
    topics = [
        topic(name=name, partition_indexes=[number for _, number in some])
        for name, some in groupby(sorted(places), key=lambda place: place[0])
    ]
    for group in sorted(one.group_id for one in listed.groups):
        answer = await link.ask(OffsetFetchRequest(max_version=ONE_GROUP, group_id=group, topics=topics))
        if answer.error_code:
            seen.refused[group] = answer.error_code
            continue
        seen.committed[group] = {}
        for found in answer.topics:
            for one in found.partitions:
                if one.error_code:
                    seen.refused_topics[found.name] = one.error_code
                elif one.committed_offset >= 0:
                    seen.committed[group][found.name, one.partition_index] = one.committed_offset
    return seen


def together(every: Mapping[int, GroupsSeen]) -> GroupsSeen:
    """The answers of all brokers as one."""
    whole = GroupsSeen()
    for seen in every.values():
        whole.committed |= seen.committed
        whole.refused |= seen.refused
        whole.refused_topics |= seen.refused_topics
        whole.error = whole.error or seen.error
    return whole
