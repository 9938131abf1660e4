"""The decisions of a controller: registrations, sessions, elections (ReplicationControlManager)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from generators.simulator.cluster import elections, metadata_records, placement
from generators.simulator.cluster.leader_requests import Proposal
from generators.simulator.cluster.metadata_log import Image, Record
from generators.simulator.cluster.registration import NOBODY, BrokerRegistration, Registration
from generators.simulator.cluster.settings import MS, Topic

if TYPE_CHECKING:
    from generators.simulator.cluster.simulation import Simulation

Key = tuple[str, int]
TRANSIENT = ("OPERATION_NOT_ATTEMPTED", "UNKNOWN_SERVER_ERROR")
"""Errors of a healthy controller now and then: the leader reverts its proposal, or tries again."""


Append = Callable[[Record], object]
"""Appends a change to the log: it is printed, committed later, and then reaches each broker in order."""


class Controller:
    """The active controller: it decides by its own changes, whether committed or not."""

    def __init__(self, cluster: Simulation, append: Append) -> None:
        self.cluster = cluster
        self._append = append
        self.partitions: dict[Key, Registration] = {}
        self.brokers: dict[int, BrokerRegistration] = {}
        self.refusals = cluster.settings.alter_partition_errors
        """Share of ISR changes refused with a transient error."""
        self._offline: set[tuple[int, Key]] = set()
        """Brokers and the replicas that they have lost with a log directory."""
        self._offset = 0
        self.topics = 0
        """Topics created so far."""
        settings = cluster.settings
        self._elr = settings.version.eligible_leader_replicas if settings.elr is None else settings.elr

    def copy(self, append: Append) -> Controller:
        """A copy that continues on its own from here."""
        made = Controller(self.cluster, append)
        made.partitions, made._offset, made.topics = dict(self.partitions), self._offset, self.topics
        made.brokers = {id: replace(known) for id, known in self.brokers.items()}
        made._offline = set(self._offline)
        return made

    def restore(self, image: Image) -> None:
        """Another controller is active: it has what is committed, and allows every broker a whole session."""
        self.partitions, self.brokers, self._offline = image.partitions, image.brokers, image.offline
        for known in self.brokers.values():
            known.last_heartbeat = self.cluster.event_queue.now

    # brokers

    def register(self, id: int, process: int, clean: bool) -> int | None:
        """The epoch of this incarnation; None while the session of another one is open."""
        known = self.brokers.get(id)
        if known is not None and not known.fenced and self._in_session(known):
            return None
        self._offset += 1
        self.brokers[id] = BrokerRegistration(self._offset, process, last_heartbeat=self.cluster.event_queue.now)
        self._offline = {lost for lost in self._offline if lost[0] != id}
        self._append_broker(id, "started")
        if known is not None and not clean and self._elr:
            self._unclean_shutdown(id)
        return self._offset

    def _in_session(self, known: BrokerRegistration) -> bool:
        settings = self.cluster.settings
        return (
            settings.automatic
            and self.cluster.event_queue.now - known.last_heartbeat <= settings.session_timeout_ms * MS
        )

    def _unclean_shutdown(self, id: int) -> None:
        """With eligible leader replicas a broker that was not shut down cleanly loses its eligibility everywhere."""
        for registration in self._with(id):
            isr = [i for i in registration.isr if i != id]
            self._change(
                registration, elections.elect(registration, isr, self._serving(registration), elr=True, distrusted=id)
            )

    def heartbeat(self, id: int, process: int) -> None:
        """A heartbeat; it unfences a fenced broker."""
        known = self.brokers.get(id)
        if known is None or known.process != process:
            return
        known.last_heartbeat = self.cluster.event_queue.now
        if known.fenced and not known.stopping:
            known.fenced = False
            self._append_broker(id, "unfenced")
            for registration in [r for r in self.partitions.values() if r.leader == NOBODY and id in r.replicas]:
                after = elections.elect(registration, registration.isr, self._serving(registration), elr=self._elr)
                self._change(registration, after)

    def check_sessions(self) -> None:
        """Fence brokers whose session has timed out."""
        for id, known in list(self.brokers.items()):
            if not known.fenced and not self._in_session(known):
                self.fence(id)

    def fence(self, id: int) -> None:
        known = self.brokers[id]
        known.fenced = True
        self._append_broker(id, "fenced")
        for registration in self._with(id):
            self._reelect(registration, id)

    def shut_down(self, id: int) -> None:
        """A controlled shutdown: other brokers take over what it leads, and it leaves every ISR with another member."""
        self.brokers[id].stopping = True
        self._append_broker(id, "controlled_shutdown")
        for registration in self._with(id):
            self._reelect(registration, id)

    def directory_failed(self, id: int, keys: list[Key]) -> None:
        """These replicas of a broker are gone: it no longer leads them (handleDirectoriesOffline)."""
        self._offline |= {(id, key) for key in keys}
        self._append_broker(id, "log_dir_offline", keys)
        for registration in self._with(id):
            if registration.key in keys:
                self._reelect(registration, id)

    def active(self, id: int) -> bool:
        known = self.brokers.get(id)
        return known is not None and known.active

    def _serving(self, registration: Registration) -> Callable[[int], bool]:
        """Whether a broker is active and has its replica of a partition."""
        return lambda id: self.active(id) and (id, registration.key) not in self._offline

    def _with(self, id: int) -> list[Registration]:
        return [r for r in self.partitions.values() if id == r.leader or id in r.isr or id in r.eligible]

    # partitions

    def _reelect(self, registration: Registration, without: int) -> None:
        isr = [i for i in registration.isr if i != without]
        after = elections.elect(registration, isr, self._serving(registration), elr=self._elr)
        self._change(self.partitions[registration.key], after)

    def _change(self, before: Registration | None, after: Registration) -> None:
        """Register a change and append it to the log."""
        if after == before:
            return
        self.partitions[after.key] = after
        self._append(metadata_records.change_record(before, after))

    def create(self, topic: Topic) -> None:
        """Create a topic; its partitions are led by the first assigned replica that is active."""
        self.topics += 1
        topic_id = placement.topic_id(topic.name, self.topics)
        if topic.min_isr > 1:
            self._append(metadata_records.settings_record(topic.name, topic_id, topic.min_isr))
        for partition in range(topic.partitions):
            replicas = placement.assigned(topic, partition, self.cluster.settings.brokers)
            isr = tuple(r for r in replicas if self.active(r))
            leader = isr[0] if isr else NOBODY
            made = Registration(
                topic.name, partition, topic_id, replicas, isr or replicas[:1], leader,
                min_isr=topic.min_isr, unclean=topic.unclean,
            )  # fmt: skip
            self._change(None, made)

    def delete(self, topic: str) -> None:
        gone = [r for r in self.partitions.values() if r.topic == topic]
        for registration in gone:
            del self.partitions[registration.key]
            last = replace(registration, replicas=(), partition_epoch=registration.partition_epoch + 1)
            self._append(metadata_records.removal_record(last))

    def configure(self, topic: str | None, min_isr: int | None, unclean: bool | None) -> None:
        """Settings of one topic, or of all; a new min ISR clears the eligible replicas."""
        for key, known in list(self.partitions.items()):
            if topic in (None, known.topic):
                now = known if min_isr is None else replace(self._without_elr(known), min_isr=min_isr)
                self.partitions[key] = now if unclean is None else replace(now, unclean=unclean)
        for name, topic_id in {r.topic: r.topic_id for r in self.partitions.values()}.items():
            if topic in (None, name):
                of_topic = [r for r in self.partitions.values() if r.topic == name]
                self._append(metadata_records.settings_record(name, topic_id, min_isr, of_topic))

    def _without_elr(self, known: Registration) -> Registration:
        """CLEAR_ELR: a new partition epoch where there was anything to clear, which brokers get before the setting."""
        if not known.eligible and known.last_known is None:
            return known
        now = replace(known, eligible=(), last_known=None, partition_epoch=known.partition_epoch + 1)
        self._append(metadata_records.change_record(now, now))
        return now

    def reassign(self, key: Key, target: tuple[int, ...]) -> None:
        """Reassign a partition: new replicas join first, old ones leave when all of the target are in sync."""
        before = self.partitions[key]
        now = dict.fromkeys((*target, *before.replicas))
        after = replace(
            before,
            replicas=tuple(now),
            adding=tuple(t for t in target if t not in before.replicas),
            removing=tuple(r for r in before.replicas if r not in target),
            partition_epoch=before.partition_epoch + 1,
        )
        self._change(before, self._reassigned(after))

    def _reassigned(self, registration: Registration) -> Registration:
        """The registration after a reassignment whose target is in sync, else unchanged."""
        target = tuple(r for r in registration.replicas if r not in registration.removing)
        if not (registration.adding or registration.removing) or not set(target) <= set(registration.isr):
            return registration
        done = replace(registration, replicas=target, adding=(), removing=())
        isr = tuple(i for i in done.isr if i in target)
        led = elections.elect(done, isr, self._serving(done), elr=self._elr)
        if registration.removing and led.leader_epoch == registration.leader_epoch:
            led = replace(led, leader_epoch=led.leader_epoch + 1)
        return replace(led, partition_epoch=registration.partition_epoch)

    def prefer(self, topic: str | None = None, partition: int | None = None) -> None:
        """Elect preferred replicas."""
        for registration in list(self.partitions.values()):
            if topic in (None, registration.topic) and partition in (None, registration.partition):
                self._change(registration, elections.prefer(registration, self._serving(registration)))

    def elect_unclean(self, topic: str | None = None, partition: int | None = None, forced: bool = True) -> None:
        """Elect any live replica where nobody leads; only where that is allowed unless `forced`."""
        for registration in list(self.partitions.values()):
            chosen = topic in (None, registration.topic) and partition in (None, registration.partition)
            if chosen and registration.leader == NOBODY:
                active = self._serving(registration)
                after = elections.elect(registration, registration.isr, active, elr=self._elr, unclean=forced)
                self._change(registration, after)

    # what leaders ask for

    def alter(self, id: int, epoch: int | None, key: Key, asked: Proposal) -> tuple[str | None, Registration | None]:
        """A leader's ISR, validated and registered (validateAlterPartitionData): an error, or the new registration."""
        before = self.partitions.get(key)
        if before is None or before.topic_id != asked.topic_id:
            return "UNKNOWN_TOPIC_ID", None
        error = self._refuses(id, epoch, before, asked)
        if error is not None:
            return error, None
        after = self._reassigned(elections.with_isr(before, asked.isr, elr=self._elr))
        self._change(before, after)
        led_here = after.leader == id and after.leader_epoch == asked.leader_epoch
        return (None, after) if led_here else ("NEW_LEADER_ELECTED", None)

    def _refuses(self, id: int, epoch: int | None, before: Registration, asked: Proposal) -> str | None:
        known = self.brokers.get(id)
        if known is None or known.epoch != epoch:
            return "STALE_BROKER_EPOCH"
        if asked.leader_epoch > before.leader_epoch or asked.partition_epoch > before.partition_epoch:
            return "NOT_CONTROLLER"
        if asked.leader_epoch < before.leader_epoch:
            return "FENCED_LEADER_EPOCH"
        if id != before.leader:
            return "INVALID_REQUEST"
        if asked.partition_epoch < before.partition_epoch:
            return "INVALID_UPDATE_VERSION"
        if not set(asked.isr) <= set(before.replicas) or id not in asked.isr:
            return "INVALID_REQUEST"
        if not all(self._eligible(*member) for member in asked.members):
            return "INELIGIBLE_REPLICA"
        refused = self.refusals > 0 and self.cluster.random.random() < self.refusals
        return self.cluster.random.choice(TRANSIENT) if refused else None

    def _eligible(self, id: int, epoch: int | None) -> bool:
        if self.cluster.settings.version.admits_ineligible:
            return True
        known = self.brokers.get(id)
        return known is not None and known.active and (epoch is None or epoch == known.epoch)

    # reporting

    def _append_broker(self, id: int, state: str, lost: Iterable[Key] = ()) -> None:
        self._append(metadata_records.broker_record(id, replace(self.brokers[id]), state, lost))
