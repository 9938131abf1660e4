"""The broker that is asked for the metadata of a cluster, and whether its answer is believed."""

from __future__ import annotations

from dataclasses import dataclass, field
from time import monotonic, time_ns

from kafka.future import Future

from generators.cluster.asking.decoded import Described
from generators.cluster.asking.link import BrokerLink
from generators.cluster.asking.problems import NotAnswering, why
from generators.cluster.asking.round import ask_metadata
from generators.cluster.cluster_links import ClusterLinks
from generators.cluster.metadata.partitions import Partitions
from generators.cluster.notes import Notes
from generators.cluster.observing.answers import Instant
from generators.cluster.observing.observer import Observer

BOOTSTRAP_EVERY_S = 10.0
"""Seconds after which the bootstrap servers are asked again while no broker answers."""
DESCRIBES_FOR_S = 60.0
"""Seconds for which one broker provides the metadata: if its own no longer change, another broker shows that."""


@dataclass
class MetadataSource:
    """The broker that provides the metadata, and those with doubted metadata; `bootstrap`: the bootstrap servers."""

    bootstrap: tuple[tuple[str, int], ...]
    links: ClusterLinks
    observer: Observer
    notes: Notes
    broker: int = -1
    asked_us: int = 0
    """When that broker was asked last."""
    disputed: bool = False
    """Whether brokers list different brokers: then each provides the metadata for a round."""
    _until: float = 0.0
    _doubted: list[tuple[int, Partitions]] = field(default_factory=list)
    """Brokers whose metadata are not believed yet."""
    _bootstrap_at: float = 0.0
    """When the bootstrap servers may be asked again (monotonic seconds)."""
    _named: list[tuple[BrokerLink, Future]] = field(default_factory=list)
    """Bootstrap servers that are being asked again."""

    def ask(self, until: float) -> tuple[int, Described, Instant] | None:
        """Believed metadata and the broker that sent it; None if none came by `until` (monotonic seconds).

        Raises NotAnswering if the brokers are those of another cluster.
        """
        if self._named:
            self._take_named()
        elif self.notes.all_silent(self.links.by_broker) and monotonic() >= self._bootstrap_at:
            self._bootstrap_at = monotonic() + BOOTSTRAP_EVERY_S
            self._ask_named()
        while True:
            self.asked_us = time_ns() // 1000
            if (found := self.links.describe(until)) is None:
                return None
            broker, described, _ = found
            if not self._doubts(broker, described.partitions):
                break
            self._doubted.append((broker, described.partitions))
            self.links.pass_on()
        self._require_same_cluster(described.partitions)
        if self.broker != broker:
            self._until = monotonic() + DESCRIBES_FOR_S
        self.broker = broker
        self._doubted.clear()
        return found

    def take_turns(self) -> None:
        """Let another broker provide the metadata if this one has for DESCRIBES_FOR_S, or if brokers disagree."""
        if self.disputed or monotonic() >= self._until:
            self._until = monotonic() + DESCRIBES_FOR_S
            self.links.pass_on()

    def _doubts(self, broker: int, partitions: Partitions) -> bool:
        """Whether another broker, if there is one, is asked before this one is believed.

        Metadata has no partition epochs: an ISR that differs within a leader epoch may be newer or older. From the
        broker that was asked before it is newer; from another one it is believed once a second broker says the same.
        """
        known, doubted = self.observer.partitions, self._doubted
        if known is None or len(doubted) >= len(self.links.by_broker):
            return False
        differs = broker != self.broker and partitions.differs_in_isr(known)
        if older := partitions.older_than(known):
            self._say_older(broker)
        elif doubted and not differs:
            self._say_older(doubted[-1][0])
        confirmed = any(other != broker and not partitions.changed_since(said).any() for other, said in doubted)
        return older or (differs and not confirmed)

    def _say_older(self, broker: int) -> None:
        self.notes.say(f"metadata of broker {broker} is older than what is known: another broker is asked")

    def _ask_named(self) -> None:
        """Ask the bootstrap servers if no broker answers: all may have new addresses."""
        for host, port in self.bootstrap:
            link = self.links.link_to(host, port)
            self._named.append((link, link.begin(ask_metadata, self.links.topics, done=self.links.wake.set)))

    def _take_named(self) -> None:
        """Take the metadata of the first bootstrap server that answers, without waiting for the others."""
        done = [work for _, work in self._named if work.is_done]
        found = next((work.value[0] for work in done if work.exception is None), None)
        if found is None and len(done) < len(self._named):
            return
        for link, _ in self._named:
            link.close()
        self._named.clear()
        if found is None:
            each = zip(self.bootstrap, done, strict=True)
            reasons = (f"{host}:{port}: {why(work.exception, self.links.security)}" for (host, port), work in each)
            self.notes.once(f"no cluster can be asked: {'; '.join(reasons)}")
            return
        self._require_same_cluster(found.partitions)
        self.links.connect(found.partitions.brokers)

    def close(self) -> None:
        """Close the connections to bootstrap servers that are being asked."""
        for link, _ in self._named:
            link.close()

    def _require_same_cluster(self, partitions: Partitions) -> None:
        """Raise NotAnswering if the brokers belong to another cluster now, whose offsets say nothing of this one."""
        known = self.observer.partitions
        if known is not None and known.cluster_id and partitions.cluster_id not in ("", known.cluster_id):
            raise NotAnswering(
                f"the brokers are those of the cluster with id {partitions.cluster_id} now, not of {known.cluster_id}: "
                "start hwmark watch anew, with another --cluster"
            )
