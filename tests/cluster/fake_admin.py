"""What fake brokers answer to who administers a cluster: quorum, log directories, eligible leaders, groups."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from kafka.protocol.admin.cluster import (
    DescribeClusterRequest,
    DescribeClusterResponse,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeQuorumRequest,
    DescribeQuorumResponse,
)
from kafka.protocol.admin.groups import ListGroupsRequest, ListGroupsResponse
from kafka.protocol.admin.topics import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from kafka.protocol.consumer.group import OffsetFetchRequest, OffsetFetchResponse

CLUSTER_REFUSED, GROUP_REFUSED, NO_CONTROLLER, DESCRIBE = 31, 30, 41, 8
REQUESTS = (
    DescribeClusterRequest,
    DescribeLogDirsRequest,
    DescribeQuorumRequest,
    ListGroupsRequest,
    DescribeTopicPartitionsRequest,
    ListPartitionReassignmentsRequest,
    OffsetFetchRequest,
)
VERSIONS = {46: (0, 0), 55: (0, 2), 35: (1, 4), 75: (0, 0), 16: (0, 5), 9: (1, 9), 60: (0, 1)}
NOW_MS = 1_700_000_000_000


@dataclass
class FakeGroup:
    """A consumer group, the broker that coordinates it, and what it has committed."""

    coordinator: int
    committed: dict[tuple[str, int], int] = field(default_factory=dict)
    refused: bool = False


class AdminAnswers:
    """The answers of one connection to a broker of `cluster`."""

    cluster: Any
    broker: Any

    def _55(self, _: Any, version: int) -> Any:
        topic = DescribeQuorumResponse.TopicData
        item = topic.PartitionData
        voters = [
            item.ReplicaState(
                version=version,
                replica_id=voter,
                log_end_offset=100,
                last_fetch_timestamp=NOW_MS,
                last_caught_up_timestamp=NOW_MS - behind_ms,
            )
            for voter, behind_ms in self.cluster.voters.items()
        ]
        code = 0 if self.cluster.describe_cluster else CLUSTER_REFUSED
        code = code or (0 if voters else NO_CONTROLLER)
        partition = item(
            version=version, partition_index=0, error_code=0, leader_id=next(iter(self.cluster.voters), -1),
            leader_epoch=1, high_watermark=100, current_voters=voters, observers=[],
        )  # fmt: skip
        topics = [] if code else [topic(version=version, topic_name="__cluster_metadata", partitions=[partition])]
        return DescribeQuorumResponse(version=version, error_code=code, topics=topics, nodes=[])

    def _35(self, _: Any, version: int) -> Any:
        item = DescribeLogDirsResponse.DescribeLogDirsResult
        topic = item.DescribeLogDirsTopic
        topics = [
            topic(version=version, name=name, partitions=[
                topic.DescribeLogDirsPartition(
                    version=version, partition_index=k, partition_size=1, offset_lag=0, is_future_key=False
                )
                for k, one in enumerate(known.partitions) if self.broker.broker_id in one.replicas
            ])
            for name, known in self.cluster.topics.items()
        ]  # fmt: skip
        allowed = self.cluster.describe_cluster
        code = 0 if allowed else CLUSTER_REFUSED
        folder = item(version=version, error_code=0, log_dir="/data", topics=topics, total_bytes=1, usable_bytes=1)
        return DescribeLogDirsResponse(
            version=version, throttle_time_ms=0, error_code=code, results=[folder] if allowed else []
        )

    def _75(self, request: Any, version: int) -> Any:
        item = DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponseTopic
        topics = [
            item(version=version, error_code=0, name=one.name, partitions=[
                item.DescribeTopicPartitionsResponsePartition(
                    version=version, error_code=0, partition_index=k, leader_id=p.leader, leader_epoch=p.epoch,
                    replica_nodes=p.replicas, isr_nodes=p.isr, eligible_leader_replicas=p.eligible,
                    last_known_elr=[], offline_replicas=[],
                )
                for k, p in enumerate(self.cluster.topics[one.name].partitions)
            ])
            for one in request.topics
        ]  # fmt: skip
        return DescribeTopicPartitionsResponse(version=version, throttle_time_ms=0, topics=topics, next_cursor=None)

    def _46(self, _: Any, version: int) -> Any:
        item = ListPartitionReassignmentsResponse.OngoingTopicReassignment
        topics = [
            item(version=version, name=name, partitions=[
                item.OngoingPartitionReassignment(
                    version=version, partition_index=k, replicas=p.replicas, adding_replicas=p.adding,
                    removing_replicas=[],
                )
                for k, p in enumerate(topic.partitions) if p.adding
            ])
            for name, topic in self.cluster.topics.items()
        ]  # fmt: skip
        code = 0 if self.cluster.describe_cluster else CLUSTER_REFUSED
        return ListPartitionReassignmentsResponse(
            version=version, throttle_time_ms=0, error_code=code, error_message=None,
            topics=[] if code else [one for one in topics if one.partitions],
        )  # fmt: skip

    def _16(self, _: Any, version: int) -> Any:
        item = ListGroupsResponse.ListedGroup
        mine = [name for name, one in self.cluster.groups.items() if one.coordinator == self.broker.broker_id]
        groups = [item(version=version, group_id=name, protocol_type="consumer", group_state="Stable") for name in mine]
        return ListGroupsResponse(version=version, throttle_time_ms=0, error_code=0, groups=groups)

    def _9(self, request: Any, version: int) -> Any:
        item = OffsetFetchResponse.OffsetFetchResponseTopic
        group = self.cluster.groups[request.group_id]
        topics = [
            item(version=version, name=topic.name, partitions=[
                item.OffsetFetchResponsePartition(
                    version=version, partition_index=k, committed_offset=group.committed.get((topic.name, k), -1),
                    committed_leader_epoch=-1, metadata="", error_code=0,
                )
                for k in topic.partition_indexes
            ])
            for topic in request.topics
        ]  # fmt: skip
        code = GROUP_REFUSED if group.refused else 0
        return OffsetFetchResponse(version=version, throttle_time_ms=0, error_code=code, topics=[] if code else topics)

    def _60(self, _: Any, version: int) -> Any:
        return DescribeClusterResponse(
            version=version, throttle_time_ms=0, error_code=0, cluster_id="fake", controller_id=1,
            brokers=[DescribeClusterResponse.DescribeClusterBroker(
                version=version, broker_id=broker, host="h", port=1, rack=None, is_fenced=False
            ) for broker in self.cluster.registered],
            authorized_operations={DESCRIBE} if self.cluster.describe_cluster else set(),
        )  # fmt: skip
