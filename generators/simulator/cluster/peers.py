"""The other brokers as one broker knows them from metadata, and which of their replicas may be in an ISR."""

from __future__ import annotations

from generators.simulator.cluster.registration import BrokerRegistration
from generators.simulator.cluster.replica import Follower
from generators.simulator.cluster.versions import Version


class Peers:
    """The registrations that have reached one process of a broker of this version."""

    def __init__(self, version: Version) -> None:
        self._version = version
        self._known: dict[int, BrokerRegistration] = {}

    def learn(self, id: int, registration: BrokerRegistration) -> None:
        self._known[id] = registration

    def admits(self, follower: Follower) -> bool:
        """Whether a follower may be in an ISR: neither fenced nor stopping, and the incarnation in the metadata
        (Partition.isReplicaIsrEligible)."""
        if self._version.admits_ineligible:
            return True
        peer = self._known.get(follower.id)
        return peer is not None and peer.active and follower.broker_epoch == peer.epoch

    def outdates(self, id: int, broker_epoch: int | None) -> bool:
        """Whether a fetch is of an incarnation that is known to be replaced (KIP-903)."""
        peer = self._known.get(id)
        known = peer is not None and broker_epoch is not None and peer.epoch > broker_epoch
        return known and not self._version.admits_ineligible
