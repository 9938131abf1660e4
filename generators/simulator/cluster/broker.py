"""A broker: its process, its disks, what it knows from metadata, and the partitions it leads and follows."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from generators.simulator.cluster.alter_partitions import AlterPartitions
from generators.simulator.cluster.delayed_fetches import DelayedFetches
from generators.simulator.cluster.event_queue import BrokerClock
from generators.simulator.cluster.fetcher import Fetcher
from generators.simulator.cluster.leader_partition import LeaderPartition
from generators.simulator.cluster.leader_requests import Produced
from generators.simulator.cluster.log import Batch
from generators.simulator.cluster.peers import Peers
from generators.simulator.cluster.registration import NOBODY, BrokerRegistration, Registration
from generators.simulator.cluster.replica import Replica
from generators.simulator.cluster.settings import MS, Settings
from generators.simulator.cluster.simulation_event import REPLICATION, SimulationEvent
from generators.simulator.cluster.threads import Killed
from generators.simulator.cluster.versions import Version
from schemas.event_types import CLEAN_START, RACK, UNCLEAN_START

if TYPE_CHECKING:
    from generators.simulator.cluster.simulation import Simulation

Key = tuple[str, int]
_Action = tuple[Callable[..., Any], tuple[Any, ...]]


class Broker:
    """One broker. `replicas` are its disk and survive the process; everything else is lost with it."""

    def __init__(self, cluster: Simulation, id: int, clock: BrokerClock, version: Version) -> None:
        self.cluster = cluster
        self.id = id
        self.clock = clock
        self.version = version
        self.next_version = version
        self.throttle: int | None = None
        self.replicas: dict[Key, Replica] = {}
        self.process = 0
        self.running = self.frozen = self.stopping = False
        self.failed: set[int] = set()
        """Log directories that have failed, until the next start, which has new ones in their place."""
        self._offline: dict[Key, str] = {}
        """Replicas lost with them, and their topic ids."""
        self.dies_between_lines = False
        """Whether it is killed between the line of the next HW and that of the fetch which moved it."""
        self.kills: dict[int, int] = {}
        """By process the time at which it was killed; one that is shut down prints first what it has begun."""
        self.clean = True
        """The last process flushed and checkpointed before it ended (.kafka_cleanshutdown)."""
        self._forget()

    def _forget(self) -> None:
        self.epoch: int | None = None
        self.fetchers: dict[int, Fetcher] = {}
        self.peers = Peers(self.version)
        self._overdue_timers: list[_Action] = []
        self._unread: list[_Action] = []
        self.fetches = DelayedFetches(self)
        self.alter_partitions = AlterPartitions(self)

    @property
    def settings(self) -> Settings:
        return self.cluster.settings

    @property
    def now(self) -> int:
        return self.cluster.event_queue.now

    # the process

    def later(self, delay: int, action: Callable[..., Any], *arguments: Any) -> None:
        """`action` of this process after `delay` us: not if it has ended by then, not while it is frozen."""
        self.cluster.event_queue.after(delay, self._do, self._overdue_timers, self.process, action, arguments)

    def run(self, process: int, action: Callable[..., Any], *arguments: Any) -> None:
        """Handle a message to this process; while it is frozen the message waits in its socket."""
        self._do(self._unread, process, action, arguments)

    def _do(self, waiting: list[_Action], process: int, action: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
        if not self.running or process != self.process:
            return
        if self.frozen:
            waiting.append((action, arguments))
            return
        try:
            action(*arguments)
        except Killed:
            self.cluster.kill(self.id)

    def boot(self) -> None:
        """A new process: it loads logs, then registers (again and again while the session of its predecessor lasts)."""
        self.process += 1
        self.running, self.frozen, self.stopping = True, False, False
        self.version = self.next_version
        self.failed.clear()
        self._offline.clear()
        self._forget()
        for replica in self.replicas.values():
            replica.load()
        self.emit("config", None, replica=self.id, detail=f"kafka={self.version.released}")
        if self.process > 1:
            self.emit("config", None, replica=self.id, detail=CLEAN_START if self.clean else UNCLEAN_START)
        if rack := self.settings.racks.get(self.id):
            self.emit("config", None, replica=self.id, detail=RACK + rack)
        if self.version.lag_by_messages:
            most = self.settings.lag_max_messages
            self.emit("config", None, replica=self.id, detail=f"replica.lag.max.messages={most}")
        self.cluster.channel.register(self)

    def end(self) -> None:
        self.running = self.frozen = self.dies_between_lines = False
        if not self.clean:
            self.kills[self.process] = self.now
        for fetcher in self.fetchers.values():
            fetcher.session.wake_all()
        for replica in self.replicas.values():
            if replica.leader_partition is not None:
                replica.leader_partition.wake()
            replica.leader_partition = None
        self._forget()

    def thaw(self) -> None:
        """Continue: overdue timers run at once, before waiting messages are read."""
        self.frozen = False
        waiting = [*self._overdue_timers, *self._unread]
        self._overdue_timers.clear()
        self._unread.clear()
        for action, arguments in waiting:
            self.run(self.process, action, *arguments)

    def every(self, ms: int, action: Callable[[], None]) -> None:
        """Run at a fixed rate for as long as this process lives."""

        def again() -> None:
            self.later(ms * MS, again)
            action()

        self.later(ms * MS, again)

    # its disks

    def checkpoint(self) -> None:
        """Write every HW to replication-offset-checkpoint (ReplicaManager.checkpointHighWatermarks)."""
        for replica in self.replicas.values():
            replica.checkpointed = replica.hw

    def flush(self) -> None:
        """Everything up to the LEO is on disk: the recovery point."""
        for replica in self.replicas.values():
            replica.flushed = replica.log.leo

    def lose_power(self) -> None:
        """Lose all data that was not flushed."""
        for replica in self.replicas.values():
            replica.truncate(replica.flushed)

    @property
    def fullest(self) -> int | None:
        """The log directory with most replicas; None where no other working one would be left."""
        working = [directory for directory in range(self.settings.log_dirs) if directory not in self.failed]
        return max(working, key=lambda directory: (self._held(directory), -directory)) if len(working) > 1 else None

    def _held(self, directory: int) -> int:
        return sum(replica.directory == directory for replica in self.replicas.values())

    def lose(self, directory: int) -> None:
        """A log directory fails and its replicas are gone (ReplicaManager.handleLogDirFailure)."""
        self.failed.add(directory)
        gone = [replica for replica in self.replicas.values() if replica.directory == directory]
        for replica in gone:
            self.emit("offline", replica)
            self.drop(replica.key)
            self._offline[replica.key] = replica.topic_id
        self.emit("broker_state", None, replica=self.id, broker_epoch=self.epoch, detail="log_dir_offline")
        self.cluster.channel.directory_failed(self, [replica.key for replica in gone])

    # metadata

    def learn(self, id: int, registration: BrokerRegistration) -> None:
        self.peers.learn(id, registration)
        if self.id in (fetchers := self.cluster.brokers[id].fetchers):
            fetchers[self.id].session.wake_all()

    def configured(self, topic: str, topic_id: str, min_isr: int) -> None:
        """A new `min.insync.replicas` of a topic; emitted if this broker leads one of its partitions."""
        led = [
            r.leader_partition for r in self.replicas.values() if r.topic == topic and r.leader_partition is not None
        ]
        for leader_partition in led:
            leader_partition.min_isr = min_isr
        if led:
            self.emit("config", None, topic=topic, topic_id=topic_id, min_isr=min_isr)

    def apply(self, registration: Registration) -> None:
        """Apply a partition's registration: lead it, follow it, or delete the replica."""
        replica = self.replicas.get(registration.key)
        if self.id not in registration.replicas:
            if replica is not None and replica.topic_id == registration.topic_id:
                self.drop(registration.key)
            return
        if self._offline.get(registration.key) == registration.topic_id:
            return
        if replica is None or replica.topic_id != registration.topic_id:
            self.drop(registration.key)
            working = [directory for directory in range(self.settings.log_dirs) if directory not in self.failed]
            emptiest = min(working, key=lambda directory: (self._held(directory), directory))
            replica = Replica(registration.topic, registration.partition, registration.topic_id, directory=emptiest)
            self.replicas[registration.key] = replica
        if registration.partition_epoch > replica.partition_epoch:
            if replica.leader_partition is not None:
                replica.leader_partition.wake()
            replica.partition_epoch = registration.partition_epoch
            (self._lead if registration.leader == self.id else self._follow)(replica, registration)

    def drop(self, key: Key) -> None:
        """Delete a replica and its log."""
        replica = self.replicas.get(key)
        if replica is not None:
            self._leave(replica)
            if replica.leader_partition is not None:
                replica.leader_partition.wake()
                replica.leader_partition.resign()
            del self.replicas[key]
            self.fetches.complete(key)

    def _lead(self, replica: Replica, registration: Registration) -> None:
        before = replica.leader_partition
        if before is not None and before.epoch == registration.leader_epoch:
            before.registered(registration)
            return
        self._leave(replica)
        replica.leader, replica.leader_epoch = self.id, registration.leader_epoch
        replica.leader_partition = LeaderPartition(self, replica, registration, before)
        replica.leader_partition.begin()
        self.fetches.complete(replica.key)

    def _follow(self, replica: Replica, registration: Registration) -> None:
        if registration.leader_epoch <= replica.leader_epoch:
            self.emit("isr", replica, isr=registration.isr, replicas=registration.replicas, detail="metadata")
            return
        self._leave(replica)
        before, replica.leader_partition = replica.leader_partition, None
        replica.leader, replica.leader_epoch = registration.leader, registration.leader_epoch
        if self.version.truncates_to_high_watermark and replica.truncate(replica.hw):
            self.emit("truncate", replica, replica=self.id, leo=replica.log.leo)
        self.emit("follower", replica, replica=self.id, leo=replica.log.leo, hw=replica.hw)
        if before is not None:
            before.resign()
            self.fetches.complete(replica.key)
        if registration.leader != NOBODY:
            leader = registration.leader
            self.fetchers.setdefault(leader, Fetcher(self, leader)).add(replica.key)

    def _leave(self, replica: Replica) -> None:
        if replica.leader in self.fetchers:
            self.fetchers[replica.leader].remove(replica.key)

    # what others ask of it

    def leader_partition(self, key: Key) -> LeaderPartition | None:
        replica = self.replicas.get(key)
        return replica.leader_partition if replica is not None else None

    def produce(self, key: Key, count: int, acks: int, batch: Batch | None, answer: Callable[[Produced], None]) -> None:
        leader_partition = self.leader_partition(key)
        if leader_partition is None:
            answer(Produced("NOT_LEADER_OR_FOLLOWER"))
        else:
            leader_partition.append(count, acks, batch, answer)

    # the ISR

    def check_isr(self) -> None:
        """The isr-expiration task."""
        for replica in self.replicas.values():
            if replica.leader_partition is not None:
                replica.leader_partition.check_lag()

    # telemetry

    def emit(self, kind: str, replica: Replica | None, /, **more: Any) -> None:
        """Emit one event as this broker sees it."""
        self.cluster.observe(self.event(kind, replica, **more))

    def event(self, kind: str, replica: Replica | None, /, **more: Any) -> SimulationEvent:
        place: dict[str, Any] = {}
        if replica is not None:
            leader_partition = replica.leader_partition
            place = {
                "topic": replica.topic, "topic_id": replica.topic_id, "partition": replica.partition,
                "leader": replica.leader, "leader_epoch": replica.leader_epoch,
                "partition_epoch": replica.partition_epoch, "log_start": replica.log.start,
                "replicas": leader_partition.replicas if leader_partition is not None else None,
            }  # fmt: skip
        return SimulationEvent(self.now, self.clock.us, self.id, REPLICATION, kind, **{**place, **more})
