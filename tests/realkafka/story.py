"""The run: three faults under load with hwmark beside them, and everything it takes to judge what hwmark said."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from pipelines.local_kafka.cluster import BROKERS, Cluster
from pipelines.local_kafka.processes import Journal, wait_until
from pipelines.local_kafka.versions import Version
from tests.realkafka import zookeeper
from tests.realkafka.beside import Beside
from tests.realkafka.load import Log, Place, Producers, Reader, Topic, read_back
from tests.realkafka.metadata_log import MetadataLog, dump
from tests.realkafka.segments import log_end
from tests.realkafka.watch import Evidence, Fault, Lost, Removed, Watch
from tests.realkafka.zookeeper import ZooKeeperCluster, ZooKeeperLog

LAG_MS, SESSION_MS = 4_000, 12_000
"""The lag rule acts first (at most 1.5 times the lag after a follower's last word), fencing after it."""

SETTINGS = {
    "replica.lag.time.max.ms": LAG_MS,
    "broker.session.timeout.ms": SESSION_MS,
    "min.insync.replicas": 2,
    "offsets.topic.replication.factor": 3,
    "transaction.state.log.replication.factor": 3,
    "transaction.state.log.min.isr": 2,
    "share.coordinator.state.topic.replication.factor": 3,
    "share.coordinator.state.topic.min.isr": 2,
}
LEAVES_ISR_PENDING = "2.8"
"""A leader whose change of an ISR fails while a later one waits ignores the failure, and waits for ever."""
ORDERS, CLICKS = Topic("orders", 3, 20), Topic("clicks", 2, 20)
TOPICS = [ORDERS, CLICKS]

CHANGED_WITHIN_S = 120
SEEN_WITHIN_S = 120
"""How long a row and an alert are waited for; what has not come by then is missing."""
WARM_WITHIN_S = 240
CALM_S = 5
FROZEN_S = 9
"""More than 1.5 times the lag, and, from a broker's last heartbeat, less than its session."""


@dataclass(frozen=True)
class Roles:
    """Who is what: the frozen broker is not the active controller, `alone` leads clicks and `stale` follows it."""

    frozen: int
    stale: int
    alone: int


@dataclass
class Story:
    """What happened, from the clients' side and the metadata log's, and where hwmark's answer is."""

    kafka: Version
    folder: Path
    cluster: Cluster
    beside: Beside
    faults: list[Fault] = field(default_factory=list)
    final: dict[Place, Log] = field(default_factory=dict)
    log_ends: dict[Place, tuple[int, int]] = field(default_factory=dict)
    """Of clicks: the log end of the stale replica, and of the leader that was alone, both dead."""
    logged_while_stopping: dict[int, str] = field(default_factory=dict)
    """What brokers wrote into replication.log after SIGTERM, while there was a quorum."""
    statuses: dict[str, int] = field(default_factory=dict)
    seconds: float = 0.0

    def __post_init__(self) -> None:
        self.producers = Producers(self.cluster.bootstrap, TOPICS)
        self.reader: Reader | None = None
        self.roles: Roles

    @property
    def metadata(self) -> MetadataLog | ZooKeeperLog:
        printed = self.folder / "metadata.txt"
        return ZooKeeperLog(printed) if isinstance(self.cluster, ZooKeeperCluster) else MetadataLog(printed)

    def play(self) -> None:
        """All of it, from the first broker's start to hwmark's last word."""
        began = time.monotonic()
        self.cluster.start()
        self.cluster.wait_until_up()
        self.beside.ingest()
        self.beside.run()
        self.roles = self._roles()
        self._load()
        self._freeze(self.roles.frozen)
        self._lose(self.roles)
        self._settle()
        self.seconds = time.monotonic() - began

    def close(self) -> None:
        """End what still runs, whatever happened."""
        self.producers.stop()
        if self.reader:
            self.reader.stop()
        self.statuses |= self.beside.stop()
        self.cluster.stop_all()

    def _roles(self) -> Roles:
        active = self.cluster.active_controller()
        frozen = next(node for node in reversed(BROKERS) if node != active)
        stale, alone = (node for node in BROKERS if node != frozen)
        self.cluster.journal.note("roles", frozen=frozen, stale=stale, alone=alone, active_controller=active)
        return Roles(frozen, stale, alone)

    def _load(self) -> None:
        around = [[1, 2, 3], [2, 3, 1], [3, 1, 2]]
        self.cluster.create_topic(ORDERS.name, around[: ORDERS.partitions])
        pairs = [[self.roles.alone, self.roles.stale]] * CLICKS.partitions
        self.cluster.create_topic(CLICKS.name, pairs, min_insync_replicas="1", unclean_leader_election_enable="true")
        self.reader = Reader(self.cluster.bootstrap, TOPICS)
        self.reader.start()
        self.producers.start()
        wait_until(
            lambda: self.beside.rows("silver/partition_hw"), WARM_WITHIN_S, "a first reconstructed HW", every_s=1
        )
        time.sleep(CALM_S)

    def _freeze(self, frozen: int) -> None:
        """A follower stands still for longer than the lag, and comes back."""
        watch = self._watch(f"broker {frozen} frozen: out of the ISR", self.cluster.freeze(frozen), Removed(frozen))
        time.sleep(FROZEN_S)
        # On a slow machine its leaders may come to it later than Kafka's rule has it.
        wait_until(lambda: self._out_of_isrs(frozen), CHANGED_WITHIN_S, f"broker {frozen} out of the ISRs", every_s=0.5)
        self.cluster.thaw(frozen)
        watch.wait()
        self._wait("the ISR with it again", ORDERS, lambda isr: frozen in isr)
        time.sleep(CALM_S)

    def _lose(self, roles: Roles) -> None:
        """A follower dies, its leader goes on alone and dies, and the stale follower is elected."""
        stale, alone = roles.stale, roles.alone
        watch = self._watch(f"broker {stale} killed: out of the ISR", self.cluster.kill(stale), Removed(stale))
        self._wait("the leader of clicks alone in its ISR", CLICKS, lambda isr: isr == [alone])
        watch.wait()
        time.sleep(CALM_S)
        watch = self._watch(f"broker {alone} killed, {stale} elected: loss", self.cluster.kill(alone), Lost())
        ends = [self.cluster.brokers[node].data for node in (stale, alone)]
        self.log_ends = {place: (log_end(ends[0], place), log_end(ends[1], place)) for place in CLICKS.places()}
        self.cluster.start(stale)
        self._wait("the stale broker leads clicks", CLICKS, lambda isr: isr == [stale])
        watch.wait()
        self.cluster.start(alone)
        self._wait("the old leader follows", CLICKS, lambda isr: alone in isr)
        if self.kafka.name != LEAVES_ISR_PENDING:
            self._wait("all in sync", ORDERS, lambda isr: len(isr) == len(BROKERS))
        time.sleep(CALM_S)

    def _settle(self) -> None:
        """Stop the load, read everything back, stop the brokers one after the other, and let hwmark come to its end."""
        self.producers.stop()
        self.final = read_back(self.cluster.bootstrap, TOPICS)
        assert self.reader is not None
        self.reader.stop()
        for node in BROKERS[:2]:  # the last one has no quorum to ask
            before = len(self.cluster.brokers[node].replication_log())
            self.cluster.stop(node)
            self.logged_while_stopping[node] = self.cluster.brokers[node].replication_log()[before:]
        self.cluster.stop_all()
        self.statuses = self.beside.stop()
        if isinstance(self.cluster, ZooKeeperCluster):
            self.cluster.print_truth(self.folder / "metadata.txt")
        else:
            dump(self.cluster, self.folder / "metadata.txt")
        self._write_down()
        self.beside.hwmark("run", "--once", "--drain")
        self.beside.hwmark("show", "regressions")
        elected = [e.ts_ms for e in self.metadata.elections if e.unclean and e.place[0] == CLICKS.name]
        self.faults[-1].elected_ms = min(elected, default=None)

    def _watch(self, name: str, at_ms: int, evidence: Evidence) -> Watch:
        self.faults.append(Fault(name, at_ms, evidence))
        return Watch(self.faults[-1], self.beside, SEEN_WITHIN_S)

    def _wait(self, what: str, topic: Topic, wanted: Callable[[list[int]], bool]) -> None:
        """Wait until the ISR of every partition of a topic is as wanted, as the brokers that live know it."""

        def reached() -> bool:
            found = self.cluster.leaders_and_isrs(topic.name)
            return len(found) == topic.partitions and all(leader in isr and wanted(isr) for leader, isr in found)

        wait_until(reached, CHANGED_WITHIN_S, what, every_s=0.5)

    def _out_of_isrs(self, node: int) -> bool:
        """Whether every other leader has removed it; those that it leads itself stay as they are until it is fenced."""
        found = self.cluster.leaders_and_isrs(ORDERS.name)
        return bool(found) and all(leader == node or node not in isr for leader, isr in found)

    def _write_down(self) -> None:
        """What the clients know, beside the logs."""
        assert self.reader is not None
        places = {
            f"{place[0]}-{place[1]}": {
                "sent": self.producers.sent[place],
                "acknowledged": sorted((offset, value.decode()) for offset, value in self.producers.acked[place]),
                "shown": sorted((offset, value.decode()) for offset, value in self.reader.shown[place]),
                "read_back": sorted((offset, value.decode()) for offset, value in log.items()),
            }
            for place, log in self.final.items()
        }
        (self.folder / "clients.json").write_text(json.dumps({"refused": self.producers.refused, "partitions": places}))


def run(kafka: Version, folder: Path) -> Story:
    """Play the whole story in a folder of its own; whatever happens, nothing is left running."""
    journal = Journal(folder)
    kind = ZooKeeperCluster if kafka.name in zookeeper.VERSIONS else Cluster
    cluster = kind(folder, kafka, journal, SETTINGS)
    story = Story(kafka, folder, cluster, Beside(folder, cluster.log_directories))
    try:
        story.play()
    finally:
        story.close()
    return story
