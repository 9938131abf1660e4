"""The request for the brokers that are registered with the controllers, and for those that are fenced."""

from __future__ import annotations

from collections.abc import Mapping

from kafka.errors import UnsupportedVersionError
from kafka.protocol.admin.cluster import DescribeClusterRequest

from generators.cluster.asking.link import BrokerLink

SAYS_FENCED = 2
"""The first version of DescribeCluster that lists fenced brokers (KIP-1073, Kafka 4.0)."""

Registered = Mapping[int, bool]
"""Whether each registered broker is fenced, by broker."""


async def ask_registered(link: BrokerLink) -> Registered | None:
    """The registered brokers; None if the broker cannot tell who is fenced, or the right is missing (DESCRIBE on the
    cluster). Raises kafka-python's errors."""
    try:
        if await link.version(DescribeClusterRequest, SAYS_FENCED) < SAYS_FENCED:
            return None
    except UnsupportedVersionError:
        return None
    asked = DescribeClusterRequest(
        include_cluster_authorized_operations=False, include_fenced_brokers=True, min_version=SAYS_FENCED
    )
    answer = await link.ask(asked)
    return None if answer.error_code else {one.broker_id: bool(one.is_fenced) for one in answer.brokers}
