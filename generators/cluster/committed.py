"""How far consumer groups have committed, and where the logs end now: asked of a cluster after a loss."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from time import monotonic
from typing import Any

import numpy as np

from generators.cluster.asking import decoded, requests
from generators.cluster.asking.decoded import TopicFilter
from generators.cluster.asking.groups import GroupsSeen, Place, ask_all_groups_shown, ask_groups, together
from generators.cluster.asking.link import BrokerLink, silence_library
from generators.cluster.asking.problems import why
from generators.cluster.cluster_links import ClusterLinks
from generators.cluster.metadata.partitions import Partitions
from generators.cluster.watcher import WatchOptions


@dataclass
class Committed:
    """The answers; what was not answered or refused is named."""

    log_ends: dict[Place, int] = field(default_factory=dict)
    topic_ids: dict[str, str | None] = field(default_factory=dict)
    groups: GroupsSeen = field(default_factory=GroupsSeen)
    all_groups_shown: bool = False
    refused_topics: dict[str, int] = field(default_factory=dict)
    silent: dict[int, str] = field(default_factory=dict)


def ask_committed(options: WatchOptions, places: Sequence[Place]) -> Committed:
    """Ask once about these partitions. Raises NotAnswering where no broker answers."""
    silence_library(options.debug)
    names = tuple(sorted({topic for topic, _ in places}))
    links = ClusterLinks(options.security, TopicFilter(names), options.timeout_s)
    try:
        described = links.bootstrap(options.bootstrap)
        links.connect(described.partitions.brokers)
        topics = described.partitions.topics
        found = Committed(
            topic_ids=dict(zip(topics.names, topics.ids, strict=True)), refused_topics=dict(described.refused)
        )
        asking = _Asking(options, links, found.silent)
        for ends in asking.every(_ask_log_ends, described.partitions).values():
            found.log_ends |= {place: end for place, end in ends.items() if place in set(places)}
        found.groups = together(asking.every(ask_groups, list(places)))
        found.all_groups_shown = any(asking.every(ask_all_groups_shown).values())
        return found
    finally:
        links.close()


@dataclass
class _Asking:
    options: WatchOptions
    links: ClusterLinks
    silent: dict[int, str]

    def every(self, work: Callable[..., Awaitable[Any]], *arguments: Any) -> dict[int, Any]:
        """What each broker answers; one that does not is asked no more."""
        wake = self.links.wake.set
        works = {
            broker: link.begin(work, *arguments, done=wake)
            for broker, link in self.links.by_broker.items()
            if broker not in self.silent
        }
        self.links.wait(list(works.values()), monotonic() + 6 * self.options.timeout_s)
        for broker, one in works.items():
            if not one.is_done or one.exception is not None:
                error = one.exception if one.is_done else TimeoutError("timed out")
                self.silent[broker] = why(error, self.options.security)
        return {broker: one.value for broker, one in works.items() if broker not in self.silent}


async def _ask_log_ends(link: BrokerLink, partitions: Partitions) -> Mapping[Place, int]:
    """The log ends of the partitions that this broker leads. Raises kafka-python's errors."""
    led = np.flatnonzero(partitions.leader == link.address.broker_id)
    if not len(led):
        return {}
    answer = await link.ask(requests.offsets(partitions, led, requests.OF_WHOEVER_IS_ASKED))
    rows, ends, errors, _ = decoded.offsets(answer, partitions)
    names = partitions.topics.names
    return {
        (names[int(partitions.topic[row])], int(partitions.number[row])): int(end)
        for row, end, error in zip(rows, ends, errors, strict=True)
        if not error
    }
