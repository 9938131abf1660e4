"""Elections, ISR changes, broker states and settings from a controller's log and from the printed metadata log.

Both contain changes of registered partitions: a controller's `partition change` line with epochs, a
PartitionChangeRecord without. There the partition epoch increases by one with every record, and the leader epoch with
every record that names a leader (PartitionRegistration.merge). A controller that restarts prints old changes again with
new log times; they become rows again with the same epochs, and the reconstruction counts them once.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple

from generators.brokerlogs.events.event_builder import EventBuilder
from generators.brokerlogs.messages.broker_state import BrokerLogState, Line, append_row, broker_ids, first_word
from schemas.event_types import ACTIVE_CONTROLLER, RACK, TOPIC_DELETED

NO_CHANGE = -2
"""Leader in a PartitionChangeRecord that does not change it."""
TOPIC, BROKER = 2, 4
"""ConfigResource types in a ConfigRecord."""


METADATA_LOG = -1
"""broker_id of rows of the printed metadata log."""


class RegistrationChange(NamedTuple):
    """A BrokerRegistrationChangeRecord: `fenced` 1, -1 or 0 for no change, `stopping` 1 or 0, `directories` whether it
    lists log directories."""

    fenced: int = 0
    stopping: int = 0
    directories: bool = False


@dataclass
class Registration:
    """A partition as the controller has registered it; None where its log began too late to know."""

    leader: int | None = None
    leader_epoch: int | None = None
    partition_epoch: int | None = None
    isr: list[int] | None = None
    replicas: list[int] | None = None
    elr: list[int] | None = None
    last_known_elr: list[int] | None = None

    @classmethod
    def of_fields(cls, fields: Mapping[str, Any]) -> Registration:
        """Return what these fields say, as Kafka prints them or as JSON has them; None for what changes nothing."""
        fields = {name: value for name, value in fields.items() if value not in (NO_CHANGE, f"{NO_CHANGE}", "null")}
        numbers = (fields.get(name) for name in ("leader", "leaderEpoch", "partitionEpoch"))
        elr = fields.get("elr", fields.get("eligibleLeaderReplicas"))
        lists = (fields.get("isr"), fields.get("replicas"), elr, fields.get("lastKnownElr"))
        leader, epoch, version = (None if number is None else int(number) for number in numbers)
        return cls(leader, epoch, version, *(broker_ids(ids) if isinstance(ids, str) else ids for ids in lists))


@dataclass
class ControllerLogState:
    """The state from a controller's lines or from metadata records."""

    broker_log: BrokerLogState
    registrations: dict[tuple[str, int], Registration] = field(default_factory=dict)
    """By topic id and partition."""
    brokers: dict[int, int] = field(default_factory=dict)
    """Broker epochs."""
    changed: tuple[str, int] | None = None
    """Partition of the last `partition change` line, whose record repeats it."""
    active: bool | None = None
    """Whether the node is the active controller; None where its lines do not say."""
    assigned: dict[str, list[int]] = field(default_factory=dict)
    """Replicas of new partitions, by name, until their first leader is elected (ZooKeeper)."""
    epoch: int | None = None
    """Epoch of the active controller as the node knows it."""
    told_epochs: dict[str, int] = field(default_factory=dict)
    """By partition the leader epoch that the controller told last (ZooKeeper)."""
    uncommitted: bool = False
    """Whether it is not known that the quorum committed the record being read; of the metadata log alone."""

    def read(self, patterns: ControllerPatterns, line: Line, events: EventBuilder) -> bool:
        """Append the rows of one line; returns whether a pattern matched."""
        for pattern, handle in patterns.get(line.message.partition(" ")[0], ()):
            if match := pattern.match(line.message):
                handle(self, line, match, events)
                return True
        return False

    def forget_role(self) -> None:
        """Lines are missing: the role is unknown until a line shows it again."""
        self.active = self.epoch = None

    def learn(self, line: Line, leader: int, epoch: int, events: EventBuilder, *, active: bool) -> None:
        """Append the active controller that the node has learnt of; `active`: it is the one."""
        self.active, self.epoch = active, epoch
        append_row(events, "config", line, replica_id=leader, detail=ACTIVE_CONTROLLER, **self._commit_fields(line))

    def record_topic(self, topic_id: str, topic: str) -> None:
        """Set the name of a topic id."""
        self.broker_log.names[topic_id] = topic

    def register(
        self, line: Line, key: tuple[str, int], registration: Registration, is_recovering: bool, events: EventBuilder
    ) -> None:
        """A PartitionRecord: an election of the first leader where the partition is new, else (from a snapshot) an
        ISR. Raises KeyError where not all of it is there."""
        if None in (getattr(registration, name) for name in _FIELDS[:5]):
            raise KeyError(key)
        self.registrations[key] = registration
        kind, detail = ("election", None) if registration.partition_epoch == 0 else ("isr", "controller")
        self._append(kind, line, key, registration, is_recovering, events, detail)

    def change(
        self, line: Line, key: tuple[str, int], update: Registration, is_recovering: bool | None, events: EventBuilder
    ) -> None:
        """A change of a partition: an election where it names a leader, an ISR where it names one.

        Without a partition epoch the epochs follow from the registration; of a partition that is not registered nothing
        is known then.
        """
        before = self.registrations.get(key, Registration())
        if update.partition_epoch is None:
            if before.partition_epoch is None or before.leader_epoch is None:
                return
            update.partition_epoch = before.partition_epoch + 1
            update.leader_epoch = before.leader_epoch + (update.leader is not None)
        registration = Registration(
            *(getattr(update if getattr(update, name) is not None else before, name) for name in _FIELDS)
        )
        self.registrations[key] = registration
        if update.leader is not None and registration.leader_epoch is not None:
            self._append("election", line, key, registration, is_recovering, events)
        if registration.isr is not None and (update.isr is not None or update.replicas is not None):
            self._append("isr", line, key, registration, is_recovering, events, detail="controller")

    def _append(
        self,
        type: str,
        line: Line,
        key: tuple[str, int],
        registration: Registration,
        is_recovering: bool | None,
        events: EventBuilder,
        detail: str | None = None,
    ) -> None:
        topic = self.broker_log.names.get(key[0])
        place = self.broker_log.partitions.place_of(f"{topic}-{key[1]}") if topic else -1
        if self.broker_log.wanted(place):
            told: dict[str, Any] = {name: getattr(registration, name) for name in _FIELDS[1:5]}
            told |= {"leader_id": registration.leader, "unclean": None if is_recovering is None else int(is_recovering)}
            told |= self._commit_fields(line)
            append_row(events, type, line, place=place, topic_id=key[0], detail=detail, **told)

    def _commit_fields(self, line: Line) -> dict[str, Any]:
        """Return the columns `committed` and `controller_epoch` for the rows of a line.

        The active controller prints a change before it is committed. A record of the printed metadata log is committed,
        except while `uncommitted` is True.
        """
        if line.broker == METADATA_LOG:
            return {"committed": int(not self.uncommitted)}
        return {"committed": None if self.active is None else int(not self.active), "controller_epoch": self.epoch}

    def broker_state(
        self, line: Line, broker: int, state: str, epoch: int | None, events: EventBuilder, *, own_report: bool = False
    ) -> None:
        """Append a state of a broker that a controller, or with `own_report` the broker itself, has printed.

        Without `epoch` the row has the broker epoch that was printed last.
        """
        if epoch is not None:
            self.brokers[broker] = epoch
        about = {"broker_epoch": self.brokers.get(broker)} | ({} if own_report else self._commit_fields(line))
        append_row(events, "broker_state", line, replica_id=broker, detail=state, **about)

    def registration_change(
        self, line: Line, broker: int, epoch: int, change: RegistrationChange, events: EventBuilder
    ) -> None:
        """A BrokerRegistrationChangeRecord; it lists log directories only where another one of the broker has
        failed."""
        if change.fenced:
            self.broker_state(line, broker, "fenced" if change.fenced > 0 else "unfenced", epoch, events)
        if change.stopping > 0:
            self.broker_state(line, broker, "controlled_shutdown", epoch, events)
        if change.directories:
            self.broker_state(line, broker, "log_dir_offline", epoch, events)

    def version(self, line: Line, version: str, events: EventBuilder) -> None:
        """The cluster's metadata version, whose rules the node follows from here on."""
        replica = None if line.broker == METADATA_LOG else line.broker
        append_row(
            events, "config", line, replica_id=replica, detail=f"metadata={version}", **self._commit_fields(line)
        )

    def rack(self, line: Line, broker: int, rack: str | None, events: EventBuilder) -> None:
        """The rack that a broker registered with."""
        if rack:
            append_row(events, "config", line, replica_id=broker, detail=RACK + rack, **self._commit_fields(line))

    def clear_elr(self, topic: str) -> None:
        """A ClearElrRecord: the partition epoch increases where there was an ELR or a last known one; "" stands for all
        topics."""
        for (topic_id, _), registration in self.registrations.items():
            if (registration.elr or registration.last_known_elr) and topic in ("", self.broker_log.names.get(topic_id)):
                registration.elr, registration.last_known_elr = [], []
                registration.partition_epoch = (
                    None if registration.partition_epoch is None else registration.partition_epoch + 1
                )

    def delete_topic(self, line: Line, topic: str, topic_id: str | None, events: EventBuilder) -> None:
        """A topic that is deleted; without an id (ZooKeeper) the one that has the name now."""
        self.registrations = {key: known for key, known in self.registrations.items() if key[0] != topic_id}
        place = self.broker_log.partitions.place_of_topic(topic)
        if self.broker_log.wanted(place):
            committed = {"committed": 1} if topic_id is None else self._commit_fields(line)
            append_row(events, "config", line, place=place, topic_id=topic_id, detail=TOPIC_DELETED, **committed)

    def config(self, line: Line, resource: int, name: str, key: str, value: str, events: EventBuilder) -> None:
        """min.insync.replicas of a topic or of the whole cluster."""
        if key != "min.insync.replicas" or not value.isdecimal() or (resource == BROKER and name):
            return
        place = self.broker_log.partitions.place_of_topic(name) if resource == TOPIC else None
        if resource in (TOPIC, BROKER) and (place is None or self.broker_log.wanted(place)):
            append_row(events, "config", line, place=place, min_isr=int(value), **self._commit_fields(line))


_FIELDS = tuple(field.name for field in fields(Registration))


ControllerHandler = Callable[[ControllerLogState, Line, re.Match[str], EventBuilder], None]
ControllerPatterns = Mapping[str, tuple[tuple[re.Pattern[str], ControllerHandler], ...]]
"""By first word of a message its patterns, and the functions that append its rows."""


def controller_patterns(
    *shapes: tuple[ControllerHandler, str],
) -> dict[str, tuple[tuple[re.Pattern[str], ControllerHandler], ...]]:
    """Patterns by the first word of their messages, in this order."""
    patterns = defaultdict[str, tuple[tuple[re.Pattern[str], ControllerHandler], ...]](tuple)
    for handle, text in shapes:
        patterns[first_word(text)] += ((re.compile(text), handle),)
    return patterns
