"""The end of what the quorum has committed of the metadata log, as a live cluster answers (DescribeQuorum)."""

from __future__ import annotations

from time import monotonic
from typing import Any, NamedTuple

from generators.cluster.asking.link import PROBE_S, silence_library
from generators.cluster.asking.problems import why
from generators.cluster.asking.security import Security

AGAIN_S = 60.0
"""Seconds until brokers that did not answer are asked again, so that not every look at the disks waits for them."""


class QuorumEnd(NamedTuple):
    """The metadata log's high watermark, which the leader of `epoch` told, and the id of its cluster."""

    epoch: int
    high_watermark: int
    cluster_id: str | None


class Quorum:
    """Brokers of a live cluster: each passes the question on to the active controller."""

    def __init__(self, bootstrap: str, security: Security) -> None:
        self._bootstrap, self._security = bootstrap, security
        self._client: Any = None
        self._cluster_id: str | None = None
        self._failed: tuple[float, str] | None = None
        silence_library(False)

    def ask(self) -> QuorumEnd | str:
        """The high watermark, or why it is not known."""
        from kafka.errors import ClusterAuthorizationFailedError

        if self._failed is not None and monotonic() < self._failed[0] + AGAIN_S:
            return self._failed[1]
        try:
            if self._client is None:
                self._connect()
            partition = self._client.describe_metadata_quorum()["topics"][0]["partitions"][0]
            return QuorumEnd(partition["leader_epoch"], partition["high_watermark"], self._cluster_id)
        except Exception as error:  # whatever the library raises, what the disks show is told all the same
            self.close()
            refused = isinstance(error, ClusterAuthorizationFailedError)
            reason = "allow DESCRIBE on the cluster" if refused else why(error, self._security)
            self._failed = monotonic(), f"{self._bootstrap} does not say what the quorum has committed: {reason}"
            return self._failed[1]

    def _connect(self) -> None:
        from kafka.admin import KafkaAdminClient

        limits = dict.fromkeys(("bootstrap_timeout_ms", "request_timeout_ms"), round(PROBE_S * 1000))
        self._client = KafkaAdminClient(
            bootstrap_servers=self._bootstrap.split(","), **limits, **self._security.kafka()
        )
        self._cluster_id = self._client.describe_cluster()["cluster_id"]

    def close(self) -> None:
        """End the connection; the next question makes another one."""
        if self._client is not None:
            self._client.close()
        self._client = None
