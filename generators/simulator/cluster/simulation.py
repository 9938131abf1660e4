"""A cluster that runs: brokers, controllers and the network on one event queue, and all that can be done to them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from random import Random
from typing import Any

from generators.simulator.cluster.broker import Broker
from generators.simulator.cluster.channel import Channel
from generators.simulator.cluster.controller import Controller
from generators.simulator.cluster.event_queue import BrokerClock, EventQueue
from generators.simulator.cluster.fetcher import Request
from generators.simulator.cluster.leader_requests import Fetched, Produced
from generators.simulator.cluster.log import Batch, Run
from generators.simulator.cluster.metadata_log import Node
from generators.simulator.cluster.network import Network
from generators.simulator.cluster.produce_requests import Clients
from generators.simulator.cluster.quorum import Quorum
from generators.simulator.cluster.registration import NOBODY, Registration
from generators.simulator.cluster.replica import Replica
from generators.simulator.cluster.settings import MS, SECOND, Clock, Settings, Topic
from generators.simulator.cluster.simulation_event import Observer, Recorder, SimulationEvent, StateObserver
from generators.simulator.cluster.versions import Version

Key = tuple[str, int]
RestingFetches = Callable[[SimulationEvent], None]
"""Takes a fetch of a follower at rest, afterwards."""
RETRY = SECOND
"""How long a restart waits for a broker that is stopping."""
START_LIMIT = 60 * SECOND


class Simulation:
    """One cluster from one seed. Observers see every event; `acknowledged` is what producers got answers for.

    Every method acts now (`event_queue.now`); its consequences follow as time passes.

    With `rest` followers that are level with their leaders cost nothing until something changes (`sessions`): of their
    fetches only the last before each change is emitted, to `rest` alone and afterwards, with the time it had.
    """

    def __init__(
        self,
        settings: Settings,
        observers: Iterable[Observer] = (),
        rest: RestingFetches | None = None,
    ) -> None:
        self.settings = settings
        self.rest = rest
        self.random = Random(settings.seed)
        self.event_queue = EventQueue(settings.start)
        self.network = Network(settings, self.event_queue, self.random)
        self.observers = list(observers)
        self._terms = 0
        self.pipelined = False
        """In a cluster that a script moves: a producer sends the next request before the last one is answered."""
        self.channel = Channel(self)
        self.clients = Clients(self)
        clocks = {
            id: BrokerClock(self.event_queue, settings.clocks.get(id, Clock()))
            for id in (*settings.controllers, *settings.brokers)
        }
        self.quorum = Quorum(self, [Node(id, clocks[id]) for id in settings.controllers])
        self.controller = Controller(self, self.quorum.append)
        self.brokers = {
            id: Broker(self, id, clocks[id], settings.versions.get(id, settings.version)) for id in settings.brokers
        }

    def attach(self, observer: StateObserver) -> None:
        """Add an observer that also reads the state of this simulation."""
        self.observers.append(observer)
        observer.follow(self)

    def observe(self, event: SimulationEvent) -> None:
        for observer in self.observers:
            observer.observe(event)

    def record(self, events: Iterable[SimulationEvent]) -> None:
        """The quorum has committed these changes."""
        recorders = [observer for observer in self.observers if isinstance(observer, Recorder)]
        for event in events:
            for recorder in recorders:
                recorder.recorded(event)

    def next_term(self) -> int:
        self._terms += 1
        return self._terms

    # time

    def start(self) -> None:
        """Start until all brokers are up and unfenced, and all topics created and led."""
        self.quorum.start()
        for broker in self.brokers.values():
            broker.boot()
        self._until(lambda: all(self.controller.active(id) for id in self.brokers))
        for topic in self.settings.topics:
            self.controller.create(topic)
        self._until(lambda: all(self._led(key) for key in self.controller.partitions))
        if self.settings.automatic:
            self._every(self.settings.session_timeout_ms // 8, self._check_sessions)
            self._every(self.settings.preferred_election_ms, lambda: self.quorum.ask(self.controller.prefer))
            self._every(self.settings.unclean_election_ms, self._elect_unclean)
            if self.settings.retention is not None:
                self._every(self.settings.retention_check_ms, self.clean_up)

    def _check_sessions(self) -> None:
        if self.quorum.working:
            self.controller.check_sessions()
        self.quorum.check_zombies()

    def _elect_unclean(self) -> None:
        self.quorum.ask(lambda: self.controller.elect_unclean(forced=False))

    def _led(self, key: Key) -> bool:
        leader = self.controller.partitions[key].leader
        replica = self.brokers[leader].replicas.get(key) if leader != NOBODY else None
        return replica is not None and replica.leader_partition is not None

    def _until(self, done: Callable[[], bool]) -> None:
        limit = self.event_queue.now + START_LIMIT
        while not done() and (self.event_queue.next or limit) < limit:
            self.event_queue.step()

    def _every(self, ms: int, action: Callable[[], Any]) -> None:
        def again() -> None:
            self.event_queue.after(ms * MS, again)
            action()

        self.event_queue.after(ms * MS, again)

    def run(self, seconds: float) -> None:
        """Let so many seconds pass."""
        self.event_queue.run(self.event_queue.now + int(seconds * SECOND))

    def emit_resting(self) -> None:
        """Emit the last fetch of each follower at rest to `rest`."""
        for broker in self.brokers.values():
            for fetcher in broker.fetchers.values():
                fetcher.session.emit()

    def settle(self) -> None:
        """In a cluster that a script moves: run all consequences of what was done."""
        self.event_queue.drain()

    # faults

    def kill(self, id: int) -> None:
        """End the process at once (kill -9); its disk keeps the logs, and the HWs of the last checkpoint."""
        broker = self.brokers[id]
        if broker.running:
            self._end(broker, clean=False)

    def kill_between_lines(self, id: int, armed: bool = True) -> None:
        """Kill it as soon as it has printed that a fetch raised a HW, before it prints that fetch."""
        self.brokers[id].dies_between_lines = armed

    def power_off(self, id: int) -> None:
        """As `kill`, and what was not flushed to disk is gone."""
        broker = self.brokers[id]
        if broker.running:
            self._end(broker, clean=False)
            broker.lose_power()

    def stop(self, id: int) -> None:
        """Shut it down: it ends when other brokers lead what it led."""
        broker = self.brokers[id]
        if broker.running and not broker.stopping:
            broker.stopping = True
            broker.run(broker.process, self.channel.stop, broker, lambda: self._stopped(broker))

    def _stopped(self, broker: Broker) -> None:
        broker.checkpoint()
        broker.flush()
        self._end(broker, clean=True)
        self.channel.gone(broker)

    def _end(self, broker: Broker, clean: bool) -> None:
        broker.clean = clean
        broker.end()
        if broker.id in self.quorum.nodes:
            self.quorum.kill(broker.id)
        self.clients.disconnected(broker.id)
        for other in self.brokers.values():
            fetcher = other.fetchers.get(broker.id)
            if fetcher is not None and fetcher.flying is not None:
                self.network.send(other.run, other.process, fetcher.failed, fetcher.flying)

    def restart(self, id: int) -> None:
        """Start a new process on the same disk; one that is stopping is started when it has ended."""
        broker = self.brokers[id]
        if broker.stopping and broker.running:
            self.event_queue.after(RETRY, self.restart, id)
        elif not broker.running:
            broker.boot()
            if id in self.quorum.nodes:
                self.quorum.restart(id)

    def freeze(self, id: int) -> None:
        """Suspend the process (SIGSTOP); messages to it wait."""
        if self.brokers[id].running:
            self.brokers[id].frozen = True
            if id in self.quorum.nodes:
                self.quorum.freeze(id)

    def thaw(self, id: int) -> None:
        if self.brokers[id].frozen:
            if id in self.quorum.nodes:
                self.quorum.thaw(id)
            self.brokers[id].thaw()

    def lose_disk(self, id: int) -> None:
        """Replace its disk by an empty one."""
        if self.brokers[id].running:
            raise ValueError(f"broker {id} is running: kill it before its disk is lost")
        self.brokers[id].replicas.clear()

    def lose_log_dir(self, id: int) -> None:
        """Fail the fullest log directory of a broker; where it is the only one, the broker ends and finds it empty
        later."""
        broker = self.brokers[id]
        directory = broker.fullest
        if not broker.running:
            return
        if directory is not None:
            broker.lose(directory)
        else:
            self._end(broker, clean=False)
            broker.replicas.clear()

    def cut(self, one: int, other: int) -> None:
        """Let no fetch pass between two brokers; both still reach the controller."""
        self.network.cut(one, other)

    def heal(self, one: int, other: int) -> None:
        self.network.heal(one, other)
        for follower, leader in ((one, other), (other, one)):
            broker = self.brokers[follower]
            fetcher = broker.fetchers.get(leader)
            if fetcher is not None and fetcher.flying is not None:
                broker.run(broker.process, fetcher.failed, fetcher.flying)

    def throttle(self, id: int, records_per_fetch: int | None) -> None:
        """Limit this broker's fetches to so many records, with a pause after each; None removes the limit."""
        self.brokers[id].throttle = records_per_fetch

    def jump_clock(self, id: int, microseconds: int) -> None:
        self.brokers[id].clock.jump(microseconds)

    def refuse_alter_partitions(self, share: float) -> None:
        """Refuse this share of ISR changes with a transient error."""
        self.controller.refusals = share

    def upgrade(self, id: int, version: Version) -> None:
        """Use another version from its next start on."""
        self.brokers[id].next_version = version

    # operations

    def create_topic(self, topic: Topic) -> None:
        self.quorum.ask(lambda: self.controller.create(topic))

    def delete_topic(self, name: str) -> None:
        self.quorum.ask(lambda: self.controller.delete(name))

    def configure(self, topic: str | None, min_isr: int | None = None, unclean: bool | None = None) -> None:
        self.quorum.ask(lambda: self.controller.configure(topic, min_isr, unclean))

    def reassign(self, topic: str, partition: int, replicas: tuple[int, ...]) -> None:
        self.quorum.ask(lambda: self._reassign((topic, partition), replicas))

    def _reassign(self, key: Key, replicas: tuple[int, ...]) -> None:
        if key in self.controller.partitions:
            self.controller.reassign(key, replicas)

    def elect_preferred(self, topic: str | None = None, partition: int | None = None) -> None:
        self.quorum.ask(lambda: self.controller.prefer(topic, partition))

    def elect_unclean(self, topic: str, partition: int) -> None:
        self.quorum.ask(lambda: self.controller.elect_unclean(topic, partition))

    def retain(self, topic: str, partition: int, offset: int) -> None:
        """Delete records below `offset`, but none at or above the HW, where a leader knows that it leads."""
        leader = self.leader(topic, partition)
        replica = None if leader is None else self.brokers[leader].replicas.get((topic, partition))
        if replica is not None and replica.leader_partition is not None:
            replica.leader_partition.wake()
            replica.log.advance_start(min(offset, replica.hw))

    def clean_up(self) -> None:
        """Delete segments at leaders as retention requires (LogManager.cleanupLogs); followers follow the log start."""
        retention = self.settings.retention
        if retention is None:
            return
        for broker in (one for one in self.brokers.values() if one.running and not one.frozen):
            for replica in (one for one in broker.replicas.values() if one.leader_partition is not None):
                start = retention.start(replica.log.start, replica.log.leo, replica.hw)
                if start > replica.log.start and replica.leader_partition is not None:
                    replica.leader_partition.wake()
                    replica.log.advance_start(start)

    def produce(
        self,
        topic: str,
        partition: int,
        count: int = 1,
        acks: int = 1,
        batch: Batch | None = None,
        done: Callable[[Produced], None] | None = None,
    ) -> None:
        """A client's request to the broker it believes to lead; `done` is called once with the answer."""
        self.clients.produce((topic, partition), count, acks, batch, done)
        if not (self.settings.automatic or self.pipelined):
            self.settle()

    @property
    def acknowledged(self) -> dict[Key, list[Run]]:
        """Records that producers got answers for, in order of the answers."""
        return self.clients.acknowledged

    # moved by a script

    def expire(self, id: int) -> None:
        """Fence a broker, as when its session has timed out."""
        if not self.controller.brokers[id].fenced:
            self.controller.fence(id)

    def fetch(
        self, follower: int, topic: str | None = None, partition: int | None = None, take: int | None = None
    ) -> None:
        """One fetch of a follower from each of its leaders, with its answer; one that finds nothing waits first."""
        self._fetch(follower, topic, partition, take)
        self.answer(follower)

    def park(self, follower: int, take: int | None = None) -> None:
        """A fetch that counts, and waits for more records than there will be, until `answer`."""
        self._fetch(follower, None, None, take, patient=True)

    def _fetch(self, id: int, topic: str | None, partition: int | None, take: int | None, **how: bool) -> None:
        broker = self.brokers[id]
        for fetcher in list(broker.fetchers.values()):
            keys = [k for k in fetcher.keys if topic in (None, k[0]) and partition in (None, k[1])]
            if keys:
                request = fetcher.request(keys, **how)
                request.most = request.most if take is None else take
                fetcher.flying = request
                self.deliver_fetch(request, fetcher.leader)
        self.settle()

    def answer(self, follower: int) -> None:
        """Answer what was parked, with the current HW."""
        for broker in self.brokers.values():
            request = broker.fetches.parked(follower)
            if request is not None:
                broker.fetches.expire(request)
        self.settle()

    # messages

    def deliver_fetch(self, request: Request, leader: int) -> None:
        broker, follower = self.brokers[leader], request.fetcher.broker
        if not self.network.reaches(follower.id, leader):
            return
        if broker.running:
            self.network.send(broker.run, broker.process, broker.fetches.serve, request)
        else:
            self.network.send(follower.run, follower.process, request.fetcher.failed, request)

    def answer_fetch(self, leader: Broker, request: Request, answers: dict[Key, Fetched]) -> None:
        follower = request.fetcher.broker
        request.answered = True
        if self.network.reaches(follower.id, leader.id):
            self.network.send(follower.run, request.process, request.fetcher.received, request, answers)

    # looking

    def registration(self, topic: str, partition: int) -> Registration:
        return self.controller.partitions[topic, partition]

    def leader(self, topic: str, partition: int) -> int | None:
        """The leader as registered with the controller; None if nobody leads."""
        leader = self.registration(topic, partition).leader
        return None if leader == NOBODY else leader

    def replica(self, topic: str, partition: int, broker: int) -> Replica:
        return self.brokers[broker].replicas[topic, partition]
