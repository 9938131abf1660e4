"""A broker: its process, its disks, what it knows from metadata, and the partitions it leads and follows."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from generators.simulator.cluster import threads
from generators.simulator.cluster.agenda import BrokerClock
from generators.simulator.cluster.fetcher import Fetcher, Request
from generators.simulator.cluster.happening import REPLICATION, Happening
from generators.simulator.cluster.leading import Fetched, Leading, Produced, Proposal
from generators.simulator.cluster.log import Batch
from generators.simulator.cluster.registration import NOBODY, BrokerRegistration, Registration
from generators.simulator.cluster.replica import Follower, Replica
from generators.simulator.cluster.settings import MS, Settings
from generators.simulator.cluster.threads import Killed, Pause
from generators.simulator.cluster.versions import Version

if TYPE_CHECKING:
    from generators.simulator.cluster.simulation import Simulation

Key = tuple[str, int]
_Action = tuple[Callable[..., Any], tuple[Any, ...]]


@dataclass(frozen=True)
class Peer:
    """Another broker, as metadata tells of it."""

    epoch: int
    fenced: bool
    stopping: bool


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
        """Log directories that have failed, until it starts again with others in their place."""
        self._offline: dict[Key, str] = {}
        """Replicas that are gone with them, and their topic ids."""
        self.dies_printing = False
        """It is to be killed between the line of the next HW and that of the fetch which moved it."""
        self.kills: dict[int, int] = {}
        """By process: when it was killed; one that is shut down first prints what it has begun."""
        self.clean = True
        """The last process flushed and checkpointed before it ended (.kafka_cleanshutdown)."""
        self._forget()

    def _forget(self) -> None:
        self.epoch: int | None = None
        self.fetchers: dict[int, Fetcher] = {}
        self.peers: dict[int, Peer] = {}
        self._parked: dict[int, Request] = {}
        self._overdue: list[_Action] = []
        self._unread: list[_Action] = []
        self._asked: list[tuple[Leading, Proposal]] = []
        self._asking = False
        self._outstanding: dict[tuple[str, int], Proposal] = {}
        """By topic id and partition: what the controller is yet to be asked for, or to answer."""

    @property
    def settings(self) -> Settings:
        return self.cluster.settings

    @property
    def now(self) -> int:
        return self.cluster.agenda.now

    # the process

    def later(self, delay: int, action: Callable[..., Any], *arguments: Any) -> None:
        """`action` of this process after `delay` us: not if it has ended by then, not while it is frozen."""
        self.cluster.agenda.after(delay, self._do, self._overdue, self.process, action, arguments)

    def run(self, process: int, action: Callable[..., Any], *arguments: Any) -> None:
        """What a message to this process brings; while it is frozen the message waits in its socket."""
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
        """A new process: logs are loaded, then it registers (until the session of its former self has ended)."""
        self.process += 1
        self.running, self.frozen, self.stopping = True, False, False
        self.version = self.next_version
        self.failed.clear()
        self._offline.clear()
        self._forget()
        for replica in self.replicas.values():
            replica.load()
        self.tell("config", None, replica=self.id, detail=f"kafka={self.version.released}")
        if self.version.lag_by_messages:
            most = self.settings.lag_max_messages
            self.tell("config", None, replica=self.id, detail=f"replica.lag.max.messages={most}")
        self.cluster.channel.register(self)

    def end(self) -> None:
        """The process is gone; what it had in memory too."""
        self.running = self.frozen = self.dies_printing = False
        if not self.clean:
            self.kills[self.process] = self.now
        for fetcher in self.fetchers.values():
            fetcher.session.wake_all()
        for replica in self.replicas.values():
            if replica.leading is not None:
                replica.leading.wake()
            replica.leading = None
        self._forget()

    def thaw(self) -> None:
        """Goes on: its timers are overdue and run at once, before what came meanwhile is read."""
        self.frozen = False
        waiting = [*self._overdue, *self._unread]
        self._overdue.clear()
        self._unread.clear()
        for action, arguments in waiting:
            self.run(self.process, action, *arguments)

    def every(self, ms: int, action: Callable[[], None]) -> None:
        """At a fixed rate, for as long as this process lives."""

        def again() -> None:
            self.later(ms * MS, again)
            action()

        self.later(ms * MS, again)

    # its disks

    def checkpoint(self) -> None:
        """Writes every HW to replication-offset-checkpoint (ReplicaManager.checkpointHighWatermarks)."""
        for replica in self.replicas.values():
            replica.checkpointed = replica.hw

    def flush(self) -> None:
        """Everything up to the LEO is on disk: the recovery point."""
        for replica in self.replicas.values():
            replica.flushed = replica.log.leo

    def lose_power(self) -> None:
        """What was not flushed is gone."""
        for replica in self.replicas.values():
            replica.truncate(replica.flushed)

    @property
    def fullest(self) -> int | None:
        """The log directory with most replicas, if another one that works would be left."""
        working = [d for d in range(self.settings.log_dirs) if d not in self.failed]
        return max(working, key=lambda d: (self._held(d), -d)) if len(working) > 1 else None

    def _held(self, directory: int) -> int:
        return sum(replica.directory == directory for replica in self.replicas.values())

    def lose(self, directory: int) -> None:
        """A log directory fails: what was in it is gone (ReplicaManager.handleLogDirFailure)."""
        self.failed.add(directory)
        gone = [replica for replica in self.replicas.values() if replica.directory == directory]
        for replica in gone:
            self.tell("offline", replica)
            self.drop(replica.key)
            self._offline[replica.key] = replica.topic_id
        self.tell("broker_state", None, replica=self.id, broker_epoch=self.epoch, detail="log_dir_offline")
        self.cluster.channel.directory_failed(self, [replica.key for replica in gone])

    # metadata

    def learn(self, id: int, registration: BrokerRegistration) -> None:
        self.peers[id] = Peer(registration.epoch, registration.fenced, registration.stopping)
        if self.id in (fetchers := self.cluster.brokers[id].fetchers):
            fetchers[self.id].session.wake_all()

    def configured(self, topic: str, topic_id: str, min_isr: int) -> None:
        """`min.insync.replicas` of a topic, told by whoever leads one of its partitions."""
        led = [r.leading for r in self.replicas.values() if r.topic == topic and r.leading is not None]
        for leading in led:
            leading.min_isr = min_isr
        if led:
            self.tell("config", None, topic=topic, topic_id=topic_id, min_isr=min_isr)

    def apply(self, registration: Registration) -> None:
        """A partition as the controller has it now: lead it, follow it, or drop it."""
        replica = self.replicas.get(registration.key)
        if self.id not in registration.replicas:
            if replica is not None and replica.topic_id == registration.topic_id:
                self.drop(registration.key)
            return
        if self._offline.get(registration.key) == registration.topic_id:
            return
        if replica is None or replica.topic_id != registration.topic_id:
            self.drop(registration.key)
            working = [d for d in range(self.settings.log_dirs) if d not in self.failed]
            emptiest = min(working, key=lambda d: (self._held(d), d))
            replica = Replica(registration.topic, registration.partition, registration.topic_id, directory=emptiest)
            self.replicas[registration.key] = replica
        if registration.partition_epoch > replica.partition_epoch:
            if replica.leading is not None:
                replica.leading.wake()
            replica.partition_epoch = registration.partition_epoch
            (self._lead if registration.leader == self.id else self._follow)(replica, registration)

    def drop(self, key: Key) -> None:
        """No replica here any more: its log is deleted."""
        replica = self.replicas.get(key)
        if replica is not None:
            self._leave(replica)
            if replica.leading is not None:
                replica.leading.wake()
                replica.leading.resign()
            del self.replicas[key]
            self._complete_parked(key)

    def _lead(self, replica: Replica, registration: Registration) -> None:
        before = replica.leading
        if before is not None and before.epoch == registration.leader_epoch:
            before.registered(registration)
            return
        self._leave(replica)
        replica.leader, replica.leader_epoch = self.id, registration.leader_epoch
        replica.leading = Leading(self, replica, registration, before)
        replica.leading.starts()
        self._complete_parked(replica.key)

    def _follow(self, replica: Replica, registration: Registration) -> None:
        if registration.leader_epoch <= replica.leader_epoch:
            self.tell("isr", replica, isr=registration.isr, replicas=registration.replicas, detail="metadata")
            return
        self._leave(replica)
        before, replica.leading = replica.leading, None
        replica.leader, replica.leader_epoch = registration.leader, registration.leader_epoch
        if self.version.truncates_to_high_watermark and replica.truncate(replica.hw):
            self.tell("truncate", replica, replica=self.id, leo=replica.log.leo)
        self.tell("follower", replica, replica=self.id, leo=replica.log.leo, hw=replica.hw)
        if before is not None:
            before.resign()
            self._complete_parked(replica.key)
        if registration.leader != NOBODY:
            self.fetcher(registration.leader).add(replica.key)

    def fetcher(self, leader: int) -> Fetcher:
        if leader not in self.fetchers:
            self.fetchers[leader] = Fetcher(self, leader)
        return self.fetchers[leader]

    def _leave(self, replica: Replica) -> None:
        if replica.leader in self.fetchers:
            self.fetchers[replica.leader].remove(replica.key)

    # what others ask of it

    def serve(self, request: Request) -> None:
        """A follower's fetch: answered at once if there is something to tell, else parked (DelayedFetch)."""
        request.fetcher.session.count(self)
        pause, last = threads.drawn(self.settings, self.cluster.random), next(reversed(request.asked), None)
        answers = {key: self._fetch(request, key, pause if key == last else threads.NONE) for key in request.asked}
        if pause.whole:
            self.later(pause.whole, self._answer, request, answers)
        else:
            self._answer(request, answers)

    def _answer(self, request: Request, answers: dict[Key, Fetched]) -> None:
        tells = any(a.error or a.diverging or a.runs for a in answers.values())
        if tells and not request.patient:
            self.cluster.answer_fetch(self, request, answers)
            return
        self._parked[request.follower] = request
        if self.settings.automatic:
            self.later(self.settings.fetch_wait_max_ms * MS, self.expire, request)

    def _fetch(self, request: Request, key: Key, pause: Pause) -> Fetched:
        leading = self._leading(key)
        if leading is None:
            return Fetched("NOT_LEADER_OR_FOLLOWER")
        return leading.fetch(request.follower, request.broker_epoch, request.asked[key], request.most, pause)

    def _leading(self, key: Key) -> Leading | None:
        replica = self.replicas.get(key)
        return replica.leading if replica is not None else None

    def grown(self, key: Key, followers: Iterable[int]) -> None:
        """Records for whoever waits for them."""
        for id in followers:
            request = self._parked.get(id)
            if request is not None and key in request.asked and request.most > 0 and not request.patient:
                self._complete(request)

    def _complete_parked(self, key: Key) -> None:
        for request in [r for r in self._parked.values() if key in r.asked]:
            self._complete(request)

    def parked(self, follower: int) -> Request | None:
        """What that follower waits for here."""
        return self._parked.get(follower)

    def expire(self, request: Request) -> None:
        """It has waited long enough (replica.fetch.wait.max.ms)."""
        if self._parked.get(request.follower) is request:
            self._complete(request)

    def _complete(self, request: Request) -> None:
        """A parked fetch is read again and does not count again (rule 2.6)."""
        del self._parked[request.follower]
        answers = {}
        for key, asked in request.asked.items():
            leading = self._leading(key)
            if leading is None or not asked.still(leading.replica):
                answers[key] = Fetched("NOT_LEADER_OR_FOLLOWER")
            else:
                answers[key] = leading.read(asked, request.most)
        self.cluster.answer_fetch(self, request, answers)

    def produce(self, key: Key, count: int, acks: int, batch: Batch | None, answer: Callable[[Produced], None]) -> None:
        leading = self._leading(key)
        if leading is None:
            answer(Produced("NOT_LEADER_OR_FOLLOWER"))
        else:
            leading.append(count, acks, batch, answer)

    # the ISR

    def check_isr(self) -> None:
        """The isr-expiration task."""
        for replica in self.replicas.values():
            if replica.leading is not None:
                replica.leading.check_lag()

    def admits(self, follower: Follower) -> bool:
        """Whether it may be in an ISR: not fenced, not stopping, and the incarnation that metadata knows (rule 3.2)."""
        if self.version.admits_ineligible:
            return True
        peer = self.peers.get(follower.id)
        return peer is not None and not peer.fenced and not peer.stopping and follower.broker_epoch == peer.epoch

    def outdates(self, id: int, broker_epoch: int | None) -> bool:
        """A fetch of an incarnation that is known to be gone (KIP-903)."""
        peer = self.peers.get(id)
        known = peer is not None and broker_epoch is not None and peer.epoch > broker_epoch
        return known and not self.version.admits_ineligible

    def propose(self, leading: Leading, proposal: Proposal, retry: bool = False) -> bool:
        """Queues an ISR for the controller; one request at a time, one change of a partition (AlterPartitionManager).

        False if another change of that partition is outstanding: metadata has settled it for the leader, but the
        controller has not answered yet.
        """
        place = proposal.topic_id, leading.replica.partition
        if self.version.refuses_second_change and place in self._outstanding:
            return False
        self._outstanding[place] = proposal
        self._asked.append((leading, proposal))
        if not self._asking:
            self._asking = True
            self.later(50 * MS if retry else 0, self._ask)
        return True

    def _ask(self) -> None:
        asked, self._asked = self._asked, []
        if not self.version.refuses_second_change:
            asked = [(leading, p) for leading, p in asked if leading.proposal is p]
        self._asking = bool(asked)
        if asked:
            self.cluster.channel.alter_partitions(self, asked)

    def altered(self, answers: list[tuple[Leading, Proposal, str | None, Registration | None]]) -> None:
        self._asking = False
        for leading, proposal, error, registration in answers:
            self._outstanding.pop((proposal.topic_id, leading.replica.partition), None)
            leading.answered(proposal, error, registration)
        if self._asked and not self._asking:
            self._asking = True
            self.later(0, self._ask)

    # telemetry

    def tell(self, kind: str, replica: Replica | None, /, **more: Any) -> None:
        """One happening as this broker sees it."""
        self.cluster.observe(self.happening(kind, replica, **more))

    def happening(self, kind: str, replica: Replica | None, /, **more: Any) -> Happening:
        place: dict[str, Any] = {}
        if replica is not None:
            leading = replica.leading
            place = {
                "topic": replica.topic, "topic_id": replica.topic_id, "partition": replica.partition,
                "leader": replica.leader, "leader_epoch": replica.leader_epoch,
                "partition_epoch": replica.partition_epoch, "log_start": replica.log.start,
                "replicas": leading.replicas if leading is not None else None,
            }  # fmt: skip
        return Happening(self.now, self.clock.us, self.id, REPLICATION, kind, **{**place, **more})
