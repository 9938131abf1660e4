"""Elections, ISR changes, broker states and settings from a controller's log and from the printed metadata log.

Both tell changes of a registered partition: the controller's `partition change` lines with their epochs, a
PartitionChangeRecord without: there the partition epoch goes up by one with every record and the leader epoch with
every one that names a leader (PartitionRegistration.merge). A controller that restarts tells old changes again at
new log times; they are told again here, with the same epochs, for whoever reads them to count once.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import NamedTuple

from generators.brokerlogs.events.event_builder import Telling
from generators.brokerlogs.messages.broker_state import Line, StateLog

NO_CHANGE = -2
"""What a PartitionChangeRecord says of its leader when that stays."""
TOPIC, BROKER = 2, 4
"""ConfigResource types in a ConfigRecord."""


METADATA_LOG = -1
"""What stands for the broker in rows of the printed metadata log."""


class RegistrationChange(NamedTuple):
    """Of a broker's registration: fenced 1 or -1, stopping 1, 0 for no change; the log directories that are left."""

    fenced: int = 0
    stopping: int = 0
    directories: bool = False


@dataclass
class Registration:
    """A partition as the controller has it; None where its log began too late to say."""

    leader: int | None = None
    leader_epoch: int | None = None
    partition_epoch: int | None = None
    isr: list[int] | None = None
    replicas: list[int] | None = None
    elr: list[int] | None = None
    last_known_elr: list[int] | None = None


@dataclass
class ControllerLog:
    """What a controller's lines, or metadata records, have told so far."""

    states: StateLog
    partitions: dict[tuple[str, int], Registration] = field(default_factory=dict)
    """By topic id and partition."""
    brokers: dict[int, int] = field(default_factory=dict)
    """Broker epochs."""
    changed: tuple[str, int] | None = None
    """The partition whose `partition change` line came last, and whose record repeats it."""
    active: bool | None = None
    """Whether the node is the active controller, as far as its lines tell."""
    epoch: int | None = None
    """Of the active controller as the node knows it."""

    def forget_role(self) -> None:
        """Lines are missing: the role is not known until it is told again."""
        self.active = self.epoch = None

    def topic(self, topic_id: str, topic: str) -> None:
        """Remember the name of a topic id."""
        self.states.names[topic_id] = topic

    def register(self, line: Line, key: tuple[str, int], now: Registration, recovering: bool, telling: Telling) -> None:
        """A new partition, or one from a snapshot: the first is elected its leader, the other had one before."""
        self.partitions[key] = now
        elected = now.partition_epoch == 0
        self._tell(
            "election" if elected else "isr", line, key, now, recovering, telling, None if elected else "controller"
        )

    def change(
        self, line: Line, key: tuple[str, int], told: Registration, recovering: bool | None, telling: Telling
    ) -> None:
        """One change of a partition: an election where it names a leader, an ISR where it names one.

        Without a partition epoch the epochs follow from what is registered; of a partition not seen registered
        nothing can be said then.
        """
        before = self.partitions.get(key, Registration())
        if told.partition_epoch is None:
            if before.partition_epoch is None or before.leader_epoch is None:
                return
            told.partition_epoch = before.partition_epoch + 1
            told.leader_epoch = before.leader_epoch + (told.leader is not None)
        now = Registration(*(getattr(told if getattr(told, n) is not None else before, n) for n in _FIELDS))
        self.partitions[key] = now
        if told.leader is not None and now.leader_epoch is not None:
            self._tell("election", line, key, now, recovering, telling)
        if now.isr is not None and (told.isr is not None or told.replicas is not None):
            self._tell("isr", line, key, now, recovering, telling, detail="controller")

    def _tell(
        self,
        type: str,
        line: Line,
        key: tuple[str, int],
        now: Registration,
        recovering: bool | None,
        telling: Telling,
        detail: str | None = None,
    ) -> None:
        topic = self.states.names.get(key[0])
        place = self.states.known.place(f"{topic}-{key[1]}") if topic else -1
        if self.states.wanted(place):
            telling.tell(
                type,
                line.ts,
                line.broker,
                0,
                place=place,
                topic_id=key[0],
                leader_id=now.leader,
                leader_epoch=now.leader_epoch,
                partition_epoch=now.partition_epoch,
                isr=now.isr,
                replicas=now.replicas,
                unclean=None if recovering is None else int(recovering),
                detail=detail,
                **self._witness(line),
            )

    def _witness(self, line: Line) -> dict[str, int | None]:
        """Whether the quorum had committed what a row tells, and under which controller; the printed log always had."""
        if line.broker == METADATA_LOG:
            return {"committed": 1}
        return {"committed": None if self.active is None else int(not self.active), "controller_epoch": self.epoch}

    def broker(
        self, line: Line, broker: int, state: str, epoch: int | None, telling: Telling, *, itself: bool = False
    ) -> None:
        """A state of a broker, told by a controller or by `itself`; without an epoch the one it registered with."""
        if epoch is not None:
            self.brokers[broker] = epoch
        telling.tell(
            "broker_state",
            line.ts,
            line.broker,
            0,
            replica_id=broker,
            broker_epoch=self.brokers.get(broker),
            detail=state,
            **({} if itself else self._witness(line)),
        )

    def registration(self, line: Line, broker: int, epoch: int, change: RegistrationChange, telling: Telling) -> None:
        """A BrokerRegistrationChangeRecord; it names log directories only where others of the broker have failed."""
        if change.fenced:
            self.broker(line, broker, "fenced" if change.fenced > 0 else "unfenced", epoch, telling)
        if change.stopping > 0:
            self.broker(line, broker, "controlled_shutdown", epoch, telling)
        if change.directories:
            self.broker(line, broker, "log_dir_offline", epoch, telling)

    def version(self, line: Line, version: str, telling: Telling) -> None:
        """The metadata version of the cluster, by whose rules the node goes from here on."""
        replica = None if line.broker == METADATA_LOG else line.broker
        telling.tell(
            "config", line.ts, line.broker, 0, replica_id=replica, detail=f"metadata={version}", **self._witness(line)
        )

    def rack(self, line: Line, broker: int, rack: str | None, telling: Telling) -> None:
        """The rack that a broker registered with."""
        if rack:
            telling.tell(
                "config", line.ts, line.broker, 0, replica_id=broker, detail=f"rack={rack}", **self._witness(line)
            )

    def clear_elr(self, topic: str) -> None:
        """A ClearElrRecord: a partition epoch more where there was an ELR or a last known one; "" means all topics."""
        for (topic_id, _), now in self.partitions.items():
            if (now.elr or now.last_known_elr) and topic in ("", self.states.names.get(topic_id)):
                now.elr, now.last_known_elr = [], []
                now.partition_epoch = None if now.partition_epoch is None else now.partition_epoch + 1

    def setting(self, line: Line, resource: int, name: str, key: str, value: str, telling: Telling) -> None:
        """min.insync.replicas of a topic or of the whole cluster."""
        if key != "min.insync.replicas" or not value.isdecimal() or (resource == BROKER and name):
            return
        place = self.states.known.setting(name) if resource == TOPIC else None
        if resource in (TOPIC, BROKER) and (place is None or self.states.wanted(place)):
            telling.tell("config", line.ts, line.broker, 0, place=place, min_isr=int(value), **self._witness(line))


_FIELDS = tuple(field.name for field in fields(Registration))
