"""Committed offsets of consumer groups and present log ends, requested from a cluster after a loss."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from time import monotonic, sleep
from typing import Any

import numpy as np

from generators.cluster.asking import decoded, requests
from generators.cluster.asking.decoded import TopicFilter
from generators.cluster.asking.groups import GroupsSeen, Place, ask_all_groups_shown, ask_groups, together
from generators.cluster.asking.link import BrokerLink, silence_library
from generators.cluster.asking.problems import why
from generators.cluster.asking.requests import OF_THE_LEADER, OF_WHOEVER_IS_ASKED
from generators.cluster.asking.stopping import ask_eligible
from generators.cluster.cluster_links import ClusterLinks
from generators.cluster.metadata.partitions import Partitions
from generators.cluster.watcher import WatchOptions

STANDS_S = 3.0
"""Seconds after which a last stable offset below the HW is requested again, to see whether it moves with the HW."""


@dataclass(frozen=True)
class Stable:
    """The last stable offset and the HW of a partition; both again some seconds later if they differed."""

    lso: int
    hw: int
    later: tuple[int, int] | None = None

    @property
    def waits(self) -> bool:
        """Whether consumers with read_committed wait below the HW and made no progress between the two answers."""
        return self.lso < self.hw and (self.later is None or self.later[0] == self.lso)


@dataclass
class Committed:
    """The answers, and the names of what was refused or not answered."""

    stable: dict[Place, Stable] = field(default_factory=dict)
    log_ends: dict[Place, int] = field(default_factory=dict)
    awaited: dict[Place, tuple[int, ...]] = field(default_factory=dict)
    """The brokers that may lead without loss, by partition without a leader; empty if no broker told them."""
    topic_ids: dict[str, str | None] = field(default_factory=dict)
    groups: GroupsSeen = field(default_factory=GroupsSeen)
    all_groups_shown: bool = False
    refused_topics: dict[str, int] = field(default_factory=dict)
    silent: dict[int, str] = field(default_factory=dict)


def ask_committed(options: WatchOptions, places: Sequence[Place], pause: Callable[[float], None] = sleep) -> Committed:
    """Ask once about these partitions. Raises NotAnswering if no broker answers."""
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
        asking, asked = _Asking(options, links, found.silent), set(places)

        def offsets(*how: Any) -> dict[Place, int]:
            every = asking.every(_ask_offsets, described.partitions, *how).values()
            return {place: end for ends in every for place, end in ends.items() if place in asked}

        def stable() -> dict[Place, tuple[int, int]]:
            hws, lsos = offsets(OF_THE_LEADER), offsets(OF_THE_LEADER, True)
            return {place: (lso, hws[place]) for place, lso in lsos.items() if place in hws}

        found.awaited = _awaited(described.partitions, asked)
        if found.awaited:
            for eligible in asking.every(ask_eligible, sorted({topic for topic, _ in found.awaited})).values():
                for place in eligible.keys() & found.awaited:
                    found.awaited[place] = tuple(sorted({*found.awaited[place], *eligible[place]}))
        found.log_ends = offsets(OF_WHOEVER_IS_ASKED)
        found.stable = {place: Stable(*both) for place, both in stable().items()}
        if any(one.waits for one in found.stable.values()):
            pause(STANDS_S)
            later = stable()
            found.stable = {place: replace(one, later=later.get(place)) for place, one in found.stable.items()}
        found.groups = together(asking.every(ask_groups, list(places)))
        found.all_groups_shown = any(asking.every(ask_all_groups_shown).values())
        return found
    finally:
        links.close()


def _awaited(seen: Partitions, asked: Collection[Place]) -> dict[Place, tuple[int, ...]]:
    """The ISR by partition without a leader; without eligible leader replicas it keeps its last member."""
    rows = np.flatnonzero(seen.leader == -1).tolist()
    places = {row: (seen.topics.names[int(seen.topic[row])], int(seen.number[row])) for row in rows}
    first, isr = seen.isr.offsets, seen.isr.values
    return {place: tuple(isr[first[row] : first[row + 1]].tolist()) for row, place in places.items() if place in asked}


@dataclass
class _Asking:
    options: WatchOptions
    links: ClusterLinks
    silent: dict[int, str]

    def every(self, work: Callable[..., Awaitable[Any]], *arguments: Any) -> dict[int, Any]:
        """The answer of each broker; a broker that does not answer is not asked again."""
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


async def _ask_offsets(
    link: BrokerLink, partitions: Partitions, replica_id: int, stable: bool = False
) -> Mapping[Place, int]:
    """Log ends, HWs or last stable offsets of the partitions that this broker leads. Raises kafka-python's errors."""
    led = np.flatnonzero(partitions.leader == link.address.broker_id)
    if not len(led):
        return {}
    answer = await link.ask(requests.offsets(partitions, led, replica_id, stable=stable))
    rows, ends, errors, _ = decoded.offsets(answer, partitions)
    names = partitions.topics.names
    return {
        (names[int(partitions.topic[row])], int(partitions.number[row])): int(end)
        for row, end, error in zip(rows, ends, errors, strict=True)
        if not error
    }
