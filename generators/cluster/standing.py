"""The state of a cluster, asked of every broker before some of them are stopped."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from time import monotonic, sleep
from typing import Any

import numpy as np
from kafka.future import Future

from generators.cluster.asking.decoded import Described, TopicFilter
from generators.cluster.asking.link import PROBE_S, BrokerLink, silence_library
from generators.cluster.asking.plan import plan
from generators.cluster.asking.problems import why
from generators.cluster.asking.round import Outcome, Settings, ask_metadata, ask_round, ask_settings
from generators.cluster.asking.stopping import Hosted, QuorumSeen, ask_eligible, ask_hosted, ask_quorum
from generators.cluster.cluster_links import ClusterLinks
from generators.cluster.metadata.lists import I64, Mask
from generators.cluster.metadata.replicas import Replicas
from generators.cluster.observing.answers import NO_ANSWER, UNKNOWN, Terms
from generators.cluster.watcher import WatchOptions

CATCHES_UP_WITHIN_S = 3.0
"""How long a replica may take to reach its leader's first LEO: a fetching one takes milliseconds."""
PAUSE_S = 0.2

Choose = Callable[[Mapping[int, str | None]], frozenset[int]]
"""A function from the racks of all brokers to the brokers that are to be stopped."""


@dataclass
class Standing:
    """The metadata, and the brokers' answers for its replicas; `slots` as in Replicas."""

    described: Described
    stopped: frozenset[int]
    replicas: Replicas
    leader_leo: I64
    """The leader's LEO in the first round, by row of the metadata; UNKNOWN if the leader did not tell it."""
    reached: Mask
    """Whether a replica was seen at that LEO or above, by slot."""
    answered: Mask
    """Whether a replica answered its LEO in the last round, by slot."""
    disputed: Mask
    """Whether another broker's metadata differs, by row."""
    settings: Settings = field(default_factory=Settings)
    eligible: Mapping[tuple[str, int], frozenset[int]] = field(default_factory=dict)
    quorum: QuorumSeen = field(default_factory=QuorumSeen)
    hosted: dict[int, Hosted] = field(default_factory=dict)
    silent: dict[int, str] = field(default_factory=dict)
    """The brokers that left a request unanswered, with the reason."""


def ask_standing(options: WatchOptions, choose: Choose) -> Standing:
    """Ask all brokers, and followers again for up to CATCHES_UP_WITHIN_S.

    Raises NotAnswering if no broker answers, and whatever `choose` raises.
    """
    silence_library(options.debug)
    links = ClusterLinks(options.security, TopicFilter(internal=True), options.timeout_s)
    try:
        described = links.bootstrap(options.bootstrap)
        partitions = described.partitions
        members = np.unique(partitions.replicas.values).tolist()
        racks = dict.fromkeys(members) | {broker.broker_id: broker.rack for broker in partitions.brokers}
        stopped = choose(racks)
        links.connect(partitions.brokers)
        return _Asking(options, links, _begun(described, stopped)).all()
    finally:
        links.close()


def _begun(described: Described, stopped: frozenset[int]) -> Standing:
    count, replicas = len(described.partitions), Replicas.of(described.partitions)
    return Standing(
        described, stopped, replicas,
        leader_leo=np.full(count, UNKNOWN, np.int64),
        reached=np.zeros(len(replicas), np.bool_),
        answered=np.zeros(len(replicas), np.bool_),
        disputed=np.zeros(count, np.bool_),
    )  # fmt: skip


@dataclass
class _Asking:
    options: WatchOptions
    links: ClusterLinks
    standing: Standing

    def all(self) -> Standing:
        """Ask for everything, in an order in which no answer is older than the one it is compared with."""
        self._leaders_first()
        self._cluster()
        until = monotonic() + CATCHES_UP_WITHIN_S
        self._followers()
        while self._awaited() and monotonic() < until:
            sleep(PAUSE_S)
            self._followers()
        return self.standing

    def _leaders_first(self) -> None:
        """Take every leader's LEO in the epoch of the metadata."""
        for outcome in self._round():
            if (answer := outcome.answer) is not None:
                rows = self.standing.replicas.partition[answer.slots]
                led = answer.leads & (answer.hw_error == 0) & (answer.error == 0)
                self.standing.leader_leo[rows[led]] = answer.leo[led]

    def _followers(self) -> None:
        """Mark the replicas that are at their leader's first LEO or above."""
        standing = self.standing
        standing.answered[:] = False
        for outcome in self._round():
            if (answer := outcome.answer) is not None:
                target = standing.leader_leo[standing.replicas.partition[answer.slots]]
                said = answer.error == 0
                standing.answered[answer.slots] = said
                standing.reached[answer.slots] |= said & (target != UNKNOWN) & (answer.leo >= target)

    def _awaited(self) -> bool:
        """Whether some replica answers and has not yet reached its leader's first LEO."""
        standing = self.standing
        known = standing.leader_leo[standing.replicas.partition] != UNKNOWN
        return bool((known & standing.answered & ~standing.reached).any())

    def _round(self) -> list[Outcome]:
        """Ask every broker for the LEO of all its replicas."""
        partitions, replicas = self.standing.described.partitions, self.standing.replicas
        nothing, works = Terms(np.empty(0, np.int64), np.empty(0, np.int64)), {}
        for broker, link in self._idle():
            works[broker] = self._begin(
                link, ask_round, plan(broker, partitions, replicas), nothing, self.options.pace, None
            )
        found: dict[int, Outcome] = self._done(works)
        for broker, outcome in found.items():
            if outcome.error is not None:
                self.standing.silent[broker] = why(outcome.error, self.options.security)
        return list(found.values())

    def _cluster(self) -> None:
        """Ask one broker about the cluster, and those that are to be stopped about themselves."""
        standing = self.standing
        stopping = [(b, link) for b, link in self._idle() if b in standing.stopped]
        standing.hosted = self._done({b: self._begin(link, ask_hosted) for b, link in stopping})
        others = [link for b, link in self._idle() if b not in standing.stopped] or [link for _, link in self._idle()]
        if not others:
            return
        link, broker = others[-1], others[-1].address.broker_id
        if settings := self._one(link, ask_settings, broker, self._topics()):
            standing.settings = settings
        if again := self._one(link, ask_metadata, TopicFilter(internal=True)):
            standing.disputed = standing.described.partitions.changed_since(again[0].partitions)
        if emptied := self._emptied():
            standing.eligible = self._one(link, ask_eligible, emptied) or {}
        standing.quorum = self._quorum(link)

    def _quorum(self, link: BrokerLink) -> QuorumSeen:
        """The quorum, over a connection of its own: a broker forwards the question, to a controller that may hang."""
        own = BrokerLink(link.address, self.options.security, PROBE_S)
        try:
            work = self._begin(own, ask_quorum)
            self.links.wait([work], monotonic() + 2 * PROBE_S)
            return work.value if work.is_done and work.exception is None else QuorumSeen(error=NO_ANSWER)
        finally:
            own.close()

    def _one(self, link: BrokerLink, work: Callable[..., Awaitable[Any]], *arguments: Any) -> Any:
        """One broker's answer; None if there is none."""
        broker = link.address.broker_id
        return self._done({broker: self._begin(link, work, *arguments)}).get(broker)

    def _topics(self) -> list[str]:
        """The topics that the brokers to be stopped host."""
        partitions, replicas = self.standing.described.partitions, self.standing.replicas
        hosted = partitions.topic[replicas.partition[np.isin(replicas.broker, list(self.standing.stopped))]]
        return [partitions.topics.names[topic] for topic in np.unique(hosted).tolist()]

    def _emptied(self) -> list[str]:
        """The topics of partitions whose whole ISR is to be stopped."""
        partitions, stopped = self.standing.described.partitions, list(self.standing.stopped)
        rows = np.repeat(np.arange(len(partitions)), partitions.isr.sizes)
        stays = ~np.isin(partitions.isr.values, stopped)
        left = np.bincount(rows[stays], minlength=len(partitions))
        names = partitions.topics.names
        return sorted({names[topic] for topic in partitions.topic[left == 0].tolist()})

    def _idle(self) -> list[tuple[int, BrokerLink]]:
        return [(b, link) for b, link in sorted(self.links.by_broker.items()) if b not in self.standing.silent]

    def _begin(self, link: BrokerLink, work: Callable[..., Awaitable[Any]], *arguments: Any) -> Future:
        return link.begin(work, *arguments, done=self.links.wake.set)

    def _done(self, works: Mapping[int, Future]) -> dict[int, Any]:
        """The result of each work; a broker that fails or answers too late is not asked again."""
        self.links.wait(list(works.values()), monotonic() + 2 * self.options.timeout_s)
        found = {}
        for broker, work in works.items():
            if work.is_done and work.exception is None:
                found[broker] = work.value
            else:
                error = work.exception if work.is_done else TimeoutError("timed out")
                self.standing.silent[broker] = why(error, self.options.security)
        return found
