"""The request for the replicas that reassignments are adding."""

from __future__ import annotations

from collections.abc import Mapping

from kafka.errors import ClusterAuthorizationFailedError, NotControllerError, UnsupportedVersionError, for_code
from kafka.protocol.admin.topics import ListPartitionReassignmentsRequest

from generators.cluster.asking.link import PROBE_S, BrokerLink

Adding = Mapping[tuple[str, int], frozenset[int]]
"""The replicas that are being added, by topic and partition; only of partitions that are being reassigned."""


async def ask_adding(link: BrokerLink) -> Adding:
    """The replicas being added; none if the right is missing (DESCRIBE on the cluster), or if the broker is not the
    controller of a cluster with ZooKeeper. Raises kafka-python's errors, also for other error codes of the answer."""
    try:
        answer = await link.ask(ListPartitionReassignmentsRequest(timeout_ms=round(PROBE_S * 1000), topics=None))
    except UnsupportedVersionError:
        return {}
    if answer.error_code not in (0, ClusterAuthorizationFailedError.errno, NotControllerError.errno):
        raise for_code(answer.error_code)()
    every = ((topic.name, one) for topic in answer.topics for one in topic.partitions)
    return {(name, one.partition_index): frozenset(one.adding_replicas) for name, one in every if one.adding_replicas}
