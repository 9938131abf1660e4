"""The brokers' answers as facts for the gate."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime

import numpy as np

from generators.cluster.asking.stopping import CLUSTER_REFUSED, Hosted, QuorumSeen
from generators.cluster.metadata.partitions import NOT_TOLD
from generators.cluster.observing.answers import UNKNOWN
from generators.cluster.standing import Standing, ask_standing
from generators.cluster.watcher import WatchOptions
from pipelines.gate.facts import Brokers, Facts, PartitionFacts, Quorum, chosen
from pipelines.gate.gold import Asked
from pipelines.verdict.words import brokers as named
from pipelines.verdict.words import listed

NO_QUORUM = "quorum not looked at: this broker knows no DescribeQuorum (controllers in ZooKeeper)"
ALLOW_CLUSTER = "allow DESCRIBE on the cluster"


def read(options: WatchOptions, asked: Asked, now: Callable[[], datetime]) -> Facts:
    """Ask the cluster. Raises NotAnswering, and UsageError for brokers that it does not have."""
    doubts: list[str] = []

    def choose(racks: Mapping[int, str | None]) -> Brokers:
        stopped, unknown = chosen(racks, asked.brokers, asked.rack)
        doubts.extend(unknown)
        return stopped

    as_of = now()
    return facts(ask_standing(options, choose), as_of, tuple(doubts))


def facts(standing: Standing, as_of: datetime, doubts: tuple[str, ...] = ()) -> Facts:
    """The answers as what the gate judges by; `as_of`: the wall clock before the first question."""
    partitions = standing.described.partitions
    up = {broker.broker_id for broker in partitions.brokers}
    seen = standing.quorum
    gone = set(standing.replicas.broker.tolist()) - up - partitions.behind_other_listeners
    silent = [f"broker {broker} does not answer: {why}" for broker, why in sorted(standing.silent.items())]
    return Facts(
        partitions.cluster_id or "the cluster",
        standing.stopped,
        tuple(_partitions(standing, frozenset(up))),
        as_of,
        "the cluster itself",
        quorum=Quorum(seen.voters | dict.fromkeys(gone & seen.voters.keys(), False)) if seen.voters else None,
        quorum_note=NO_QUORUM if not seen.error else "quorum not known",
        controllers_apart=not seen.voters,
        unknown=(*doubts, *_quorum_missing(seen), *_hidden(standing, up)),
        notes=(*silent,),
        down=standing.stopped - up,
    )


def _partitions(standing: Standing, up: Brokers) -> Iterator[PartitionFacts]:
    """The partitions that the brokers to be stopped host."""
    replicas = standing.replicas
    hosted = np.unique(replicas.partition[np.isin(replicas.broker, list(standing.stopped))])
    slots: dict[int, list[int]] = {row: [] for row in hosted.tolist()}
    for slot in np.flatnonzero(np.isin(replicas.partition, hosted)).tolist():
        slots[int(replicas.partition[slot])].append(slot)
    for row, mine in slots.items():
        yield _partition(standing, row, mine, up)


def _partition(standing: Standing, row: int, slots: list[int], up: Brokers) -> PartitionFacts:
    partitions, replicas = standing.described.partitions, standing.replicas
    topic = partitions.topics.names[int(partitions.topic[row])]
    number, leader = int(partitions.number[row]), int(partitions.leader[row])
    isr = frozenset(partitions.isr.values[slice(*partitions.isr.offsets[row : row + 2])].tolist())
    led = standing.leader_leo[row] != UNKNOWN
    silent = {int(replicas.broker[slot]) for slot in slots if not standing.answered[slot]} & isr
    late = {int(replicas.broker[slot]) for slot in slots if not standing.reached[slot]} & isr
    return PartitionFacts(
        topic,
        number,
        replicas=frozenset(int(replicas.broker[slot]) for slot in slots),
        isr=isr,
        leader=None if leader == NOT_TOLD else leader,
        min_isr=standing.settings.topics.get(topic),
        behind=(isr - up - partitions.behind_other_listeners) | frozenset(late - silent - {leader} if led else ()),
        unsure=frozenset(silent | (late if not led else set())),
        unsure_why=_unsure(silent, leader, led),
        eligible=standing.eligible.get((topic, number), frozenset()),
        unknown="the brokers' metadata differ: ask again" if standing.disputed[row] else "",
    )


def _unsure(silent: set[int], leader: int, led: bool) -> str:
    if silent:
        return f"{named(silent)} {'does' if len(silent) == 1 else 'do'} not answer for it"
    if leader == NOT_TOLD:
        return "its leader has no listener with the requested name"
    return "" if led else f"broker {leader}, named as its leader, does not answer as that"


def _quorum_missing(seen: QuorumSeen) -> Iterator[str]:
    if seen.error == CLUSTER_REFUSED:
        yield f"the quorum: DescribeQuorum is refused; {ALLOW_CLUSTER}"
    elif seen.error:
        yield f"the quorum: it was not answered (error code {seen.error}); ask again"


def _hidden(standing: Standing, up: set[int]) -> Iterator[str]:
    """The hosted partitions, and the settings, that may not be described to us."""
    partitions = standing.described.partitions
    known = set(partitions.topics.names)
    refused = sorted({name.removeprefix("topic ") for name in standing.settings.refused if name.startswith("topic ")})
    if refused:
        yield f"min.insync.replicas of {listed(refused)}: allow DESCRIBE_CONFIGS on the topics"
    for broker in sorted(standing.stopped & up):
        found = standing.hosted.get(broker, Hosted(error=UNKNOWN))
        if found.error == CLUSTER_REFUSED:
            yield f"whether broker {broker} hosts topics that may not be described: {ALLOW_CLUSTER}"
        elif found.error:
            yield f"what broker {broker} hosts: it does not answer (DescribeLogDirs)"
        elif hidden := sorted({topic for topic, _ in found.partitions} - known):
            yield f"{listed(hidden)} on broker {broker}: allow DESCRIBE on the topics"
