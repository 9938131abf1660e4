"""The faults that `hwmark try` does to a cluster, step by step."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pipelines.local_kafka.cluster import BROKERS, Cluster
from pipelines.local_kafka.processes import wait_until

LAG_MS, SESSION_MS = 4_000, 9_000
SETTINGS = {
    "replica.lag.time.max.ms": LAG_MS,
    "broker.session.timeout.ms": SESSION_MS,
    "min.insync.replicas": 2,
    "offsets.topic.replication.factor": 3,
}
WITHIN_S = 90
FROZEN = 3
OUT_S = 3
"""For how many seconds more FROZEN stands still once it is out of the ISR, so that a round of a watcher sees it."""

Say = Callable[[str], None]


@dataclass(frozen=True)
class Topic:
    """A topic to which records are written during the fault."""

    name: str
    assignment: Sequence[Sequence[int]]
    config: dict[str, str]


@dataclass(frozen=True)
class Fault:
    """A fault: what it is for, its topic, and what is done."""

    words: str
    topic: Topic
    play: Callable[[Cluster, str, Say], None]


def _kill_leader(cluster: Cluster, topic: str, say: Say) -> None:
    say(f"kill -9 broker 1, which leads {topic}-0")
    cluster.kill(1)
    _wait(cluster, topic, "another leader", lambda leader, isr: leader not in (1, -1) and 1 not in isr)
    say("another broker leads; broker 1 starts again")
    cluster.start(1)
    _whole(cluster, topic, len(BROKERS), say)


def _freeze_follower(cluster: Cluster, topic: str, say: Say) -> None:
    """Not the active controller: the leader's AlterPartition could not be answered until another is elected."""
    if cluster.active_controller() == FROZEN:
        say(f"broker {FROZEN} is the active controller: it restarts, and another takes over")
        cluster.stop(FROZEN)
        cluster.start(FROZEN)
        _whole(cluster, topic, len(BROKERS), say)
    say(f"broker {FROZEN} is frozen (SIGSTOP) for longer than replica.lag.time.max.ms = {LAG_MS} ms")
    cluster.freeze(FROZEN)
    _wait(cluster, topic, f"broker {FROZEN} out of the ISR", lambda _, isr: FROZEN not in isr)
    time.sleep(OUT_S)
    cluster.thaw(FROZEN)
    say(f"broker {FROZEN} was out of the ISR, and goes on")
    _whole(cluster, topic, len(BROKERS), say)


def _unclean_election(cluster: Cluster, topic: str, say: Say) -> None:
    say(f"kill -9 broker 2, the only follower of {topic}-0; its leader, broker 1, goes on alone")
    cluster.kill(2)
    _wait(cluster, topic, "the leader alone in its ISR", lambda _, isr: isr == [1])
    time.sleep(4)
    say("kill -9 broker 1: what it acknowledged alone is on no other broker")
    cluster.kill(1)
    say(f"broker 2 starts, and may lead without being in sync (unclean.leader.election.enable of {topic})")
    cluster.start(2)
    _wait(cluster, topic, "broker 2 leading", lambda leader, _: leader == 2)
    say("broker 2 leads; broker 1 comes back, and cuts its log to that of broker 2")
    cluster.start(1)
    _whole(cluster, topic, 2, say)


_THREE = [[1, 2, 3], [2, 3, 1]]
FAULTS = {
    "kill-leader": Fault("a leader dies: nothing is lost", Topic("orders", _THREE, {}), _kill_leader),
    "freeze-follower": Fault(
        "a follower stands still: it leaves the ISR, and nothing is lost", Topic("orders", _THREE, {}), _freeze_follower
    ),
    "unclean-election": Fault(
        "a replica out of sync is elected: acknowledged records are lost",
        Topic("clicks", [[1, 2]], {"min_insync_replicas": "1", "unclean_leader_election_enable": "true"}),
        _unclean_election,
    ),
}


def _whole(cluster: Cluster, topic: str, replicas: int, say: Say) -> None:
    _wait(cluster, topic, "all replicas in sync", lambda _, isr: len(isr) == replicas)
    say("all replicas are in sync again")


def _wait(cluster: Cluster, topic: str, what: str, reached: Callable[[int, list[int]], bool]) -> None:
    """Wait until partition 0, as the first broker that answers knows it, has such a leader and ISR."""

    def there() -> bool:
        found = cluster.leaders_and_isrs(topic)
        return bool(found) and reached(*found[0])

    wait_until(there, WITHIN_S, what, every_s=0.5)
