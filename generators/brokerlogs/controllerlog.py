"""Elections, ISR changes, broker states and settings from a controller's log and from the printed metadata log.

Both tell changes of a registered partition: the controller's `partition change` lines with their epochs, a
PartitionChangeRecord without: there the partition epoch goes up by one with every record and the leader epoch with
every one that names a leader (PartitionRegistration.merge). A controller that restarts tells old changes again at
new log times; they are told again here, with the same epochs, for whoever reads them to count once.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Any

from generators.brokerlogs.statelog import Line, StateLog, numbers
from generators.brokerlogs.telling import Telling

NO_CHANGE = -2
"""What a PartitionChangeRecord says of its leader when that stays."""
TOPIC, BROKER = 2, 4
"""ConfigResource types in a ConfigRecord."""


@dataclass
class Registration:
    """A partition as the controller has it; None where its log began too late to say."""

    leader: int | None = None
    leader_epoch: int | None = None
    partition_epoch: int | None = None
    isr: list[int] | None = None
    replicas: list[int] | None = None


@dataclass
class ControllerLog:
    """Shapes of controller logs and metadata records to rows; returns whether a line was understood."""

    states: StateLog
    partitions: dict[tuple[str, int], Registration] = field(default_factory=dict)
    """By topic id and partition."""
    brokers: dict[int, int] = field(default_factory=dict)
    """Broker epochs."""
    changed: tuple[str, int] | None = None
    """The partition whose `partition change` line came last, and whose record repeats it."""

    def read(self, line: Line, telling: Telling) -> bool:
        """Tell the rows of one line of the controller."""
        for pattern, tell in SHAPES:
            match = pattern.match(line.message)
            if match:
                tell(self, line, match, telling)
                return True
        return line.message.startswith(SILENT)

    def read_record(self, line: Line, telling: Telling) -> bool:
        """Tell the rows of one line of the printed metadata log."""
        _, _, payload = line.message.partition(" payload: ")
        try:
            record: dict[str, Any] = json.loads(payload) if payload else {"type": "", "data": {}}
            tell = RECORDS.get(record["type"])
            if tell:
                tell(self, line, record["data"], telling)
        except (ValueError, KeyError, TypeError):
            return False
        return True

    def topic(self, topic_id: str, topic: str) -> None:
        """Remember the name of a topic id."""
        self.states.names[topic_id] = topic

    def register(self, line: Line, key: tuple[str, int], now: Registration, recovering: bool, telling: Telling) -> None:
        """A new partition: its first election."""
        self.partitions[key] = now
        self._tell("election", line, key, now, recovering, telling)

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
            )

    def broker(self, line: Line, broker: int, state: str, epoch: int | None, telling: Telling) -> None:
        """A state of a broker; without an epoch the one it registered with."""
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
        )

    def registration(self, line: Line, broker: int, epoch: int, fenced: int, stopping: int, telling: Telling) -> None:
        """A BrokerRegistrationChangeRecord: fenced 1 or -1, stopping 1, 0 for no change."""
        if fenced:
            self.broker(line, broker, "fenced" if fenced > 0 else "unfenced", epoch, telling)
        if stopping > 0:
            self.broker(line, broker, "controlled_shutdown", epoch, telling)

    def setting(self, line: Line, resource: int, name: str, key: str, value: str, telling: Telling) -> None:
        """min.insync.replicas of a topic or of the whole cluster."""
        if key != "min.insync.replicas" or not value.isdecimal() or (resource == BROKER and name):
            return
        place = self.states.known.setting(name) if resource == TOPIC else None
        if resource in (TOPIC, BROKER) and (place is None or self.states.wanted(place)):
            telling.tell("config", line.ts, line.broker, 0, place=place, min_isr=int(value))


_FIELDS = tuple(field.name for field in fields(Registration))


def _state(text: str | None) -> bool | None:
    return None if text is None else text in ("RECOVERING", "1")


def _partition_change(log: ControllerLog, line: Line, m: re.Match[str], telling: Telling) -> None:
    new = dict(_CHANGE.findall(m[5]))
    key = (m[4], int(m[3]))
    log.topic(m[4], m[2])
    log.changed = key
    told = Registration(
        _whole(new.get("leader")),
        _whole(new.get("leaderEpoch")),
        _whole(new.get("partitionEpoch")),
        numbers(new["isr"]) if "isr" in new else None,
        numbers(new["replicas"]) if "replicas" in new else None,
    )
    recovering = True if m[1] else _state(new.get("leaderRecoveryState"))
    log.change(line, key, told, recovering, telling)


def _whole(text: str | None) -> int | None:
    return None if text is None else int(text)


def _replayed_change(log: ControllerLog, line: Line, m: re.Match[str], telling: Telling) -> None:
    """The same change as a record, without epochs: news only where no `partition change` line told it."""
    said = dict(_RECORD_FIELD.findall(m[1]))
    key = (said["topicId"], int(said["partitionId"]))
    log.topic(said["topicId"], m[2])
    if log.changed == key:
        log.changed = None
        return
    leader = int(said["leader"])
    told = Registration(
        leader=None if leader == NO_CHANGE else leader,
        isr=None if said["isr"] == "null" else numbers(said["isr"]),
        replicas=None if said["replicas"] == "null" else numbers(said["replicas"]),
    )
    recovery = said.get("leaderRecoveryState", "-1")
    log.change(line, key, told, None if recovery == "-1" else _state(recovery), telling)


def _replayed_partition(log: ControllerLog, line: Line, m: re.Match[str], telling: Telling) -> None:
    said = dict(_RECORD_FIELD.findall(m[4]))
    log.topic(m[3], m[1])
    now = Registration(
        int(said["leader"]),
        int(said["leaderEpoch"]),
        int(said["partitionEpoch"]),
        numbers(said["isr"]),
        numbers(said["replicas"]),
    )
    log.register(line, (m[3], int(m[2])), now, said.get("leaderRecoveryState") == "RECOVERING", telling)


def _replayed_topic(log: ControllerLog, line: Line, m: re.Match[str], telling: Telling) -> None:
    log.topic(m[2], m[1])


def _registered(log: ControllerLog, line: Line, m: re.Match[str], telling: Telling) -> None:
    log.broker(line, int(m[1]), "started", int(m[2]), telling)


def _registration_changed(log: ControllerLog, line: Line, m: re.Match[str], telling: Telling) -> None:
    log.registration(line, int(m[1]), int(m[2]), int(m[3]), int(m[4] or 0), telling)


def _fencing(log: ControllerLog, line: Line, m: re.Match[str], telling: Telling) -> None:
    log.broker(line, int(m[1]), "fenced", int(m[2]), telling)


def _stopping(log: ControllerLog, line: Line, m: re.Match[str], telling: Telling) -> None:
    log.broker(line, int(m[1]), "controlled_shutdown", None, telling)


def _unfenced(log: ControllerLog, line: Line, m: re.Match[str], telling: Telling) -> None:
    log.broker(line, line.broker, "unfenced", None, telling)


def _unregistered(log: ControllerLog, line: Line, m: re.Match[str], telling: Telling) -> None:
    log.broker(line, int(m[1]), "unregistered", int(m[2]), telling)


def _configured(log: ControllerLog, line: Line, m: re.Match[str], telling: Telling) -> None:
    kind = {"TOPIC": TOPIC, "BROKER": BROKER}.get(m[1], 0)
    log.setting(line, kind, m[2], m[3], m[4], telling)


def _altered(log: ControllerLog, line: Line, m: re.Match[str], telling: Telling) -> None:
    """The later wording of an altered ISR, which tells the epochs; the `partition change` line repeats it."""
    topics = [topic_id for topic_id, topic in log.states.names.items() if topic == m[1]]
    if topics:
        told = Registration(isr=numbers(m[3]), partition_epoch=int(m[4]), leader_epoch=_whole(m[5]))
        log.change(line, (topics[-1], int(m[2])), told, None, telling)


_CHANGE = re.compile(r"(\w+): (?:\[[^\]]*\]|[^,\s]+) -> (\[[^\]]*\]|[^,\s]+)")
_RECORD_FIELD = re.compile(r"(\w+)=(\[[^\]]*\]|[^,\s)]+)")
_Tell = Callable[[ControllerLog, Line, re.Match[str], Telling], None]
SHAPES: tuple[tuple[re.Pattern[str], _Tell], ...] = (
    (re.compile(r"(UNCLEAN )?partition change for (\S+)-(\d+) with topic ID (\S{22}): (.*)"), _partition_change),
    (
        re.compile(r"Replayed partition (?:assignment )?change PartitionChangeRecord\((.*)\) for topic (\S+)"),
        _replayed_change,
    ),
    (
        re.compile(
            r"Replayed PartitionRecord for (?:new|existing) partition (\S+)-(\d+) with topic ID (\S{22}) and "
            r"PartitionRegistration\((.*)\)"
        ),
        _replayed_partition,
    ),
    (re.compile(r"Replayed TopicRecord for topic (\S+) with topic ID (\S{22})"), _replayed_topic),
    (
        re.compile(
            r"Replayed BrokerRegistrationChangeRecord .*?\(brokerId=(\d+), brokerEpoch=(\d+), fenced=(-?\d+)"
            r"(?:, inControlledShutdown=(-?\d+))?"
        ),
        _registration_changed,
    ),
    (re.compile(r"Replayed .*?RegisterBrokerRecord .*?\(brokerId=(\d+), .*?brokerEpoch=(\d+)"), _registered),
    (re.compile(r"Replayed .*?UnregisterBrokerRecord\(brokerId=(\d+), brokerEpoch=(\d+)"), _unregistered),
    (re.compile(r"Successfully registered broker (\d+) with broker epoch (\d+)"), _registered),
    (re.compile(r"The broker has been unfenced"), _unfenced),
    (re.compile(r"Fencing broker (\d+) at epoch (\d+)"), _fencing),
    (re.compile(r"Unfenced broker (\d+) has requested and been granted a controlled shutdown"), _stopping),
    (
        re.compile(
            r"Replayed ConfigRecord for ConfigResource\(type=(\w+), name='([^']*)'\) which set configuration (\S+) to (\S+)"
        ),
        _configured,
    ),
    (
        re.compile(
            r"Node \d+ has altered ISR for (\S+)-(\d+)\. isr: \[[^\]]*\] -> \[([^\]]*)\].*?partitionEpoch: \d+ -> (\d+)"
            r"(?:, leaderEpoch: (?:\d+ -> )?(\d+))?"
        ),
        _altered,
    ),
)
SILENT = (
    "Node ",  # has altered ISR …: its `partition change` line follows
    "No stale brokers",
    "The request from broker",
    "enterControlledShutdown",
    "handleBroker",
    "maybe",
    "CreateTopics result",
    "Removed ELRs",
    "Replayed RegisterControllerRecord",
    "Replayed ConfigRecord",
    "Replayed RemoveTopicRecord",
    "Broker ",
    "The broker ",
    "Incarnation ",
    "Unable to register",
    "Transitioning ",
    "registrationTimeout",
)
"""Beginnings of lines that are understood to tell nothing."""


def _topic_record(log: ControllerLog, line: Line, data: dict[str, Any], telling: Telling) -> None:
    log.topic(data["topicId"], data["name"])


def _partition_record(log: ControllerLog, line: Line, data: dict[str, Any], telling: Telling) -> None:
    now = Registration(
        data["leader"], data["leaderEpoch"], data.get("partitionEpoch", 0), data["isr"], data["replicas"]
    )
    log.register(line, (data["topicId"], data["partitionId"]), now, data.get("leaderRecoveryState", 0) == 1, telling)


def _change_record(log: ControllerLog, line: Line, data: dict[str, Any], telling: Telling) -> None:
    leader = data.get("leader")
    told = Registration(
        leader=None if leader == NO_CHANGE else leader, isr=data.get("isr"), replicas=data.get("replicas")
    )
    recovery = data.get("leaderRecoveryState", -1)
    recovering = None if recovery == -1 else recovery == 1
    log.change(line, (data["topicId"], data["partitionId"]), told, recovering, telling)


def _register_record(log: ControllerLog, line: Line, data: dict[str, Any], telling: Telling) -> None:
    log.broker(line, data["brokerId"], "started", data["brokerEpoch"], telling)


def _registration_record(log: ControllerLog, line: Line, data: dict[str, Any], telling: Telling) -> None:
    fenced, stopping = data.get("fenced", 0), data.get("inControlledShutdown", 0)
    log.registration(line, data["brokerId"], data["brokerEpoch"], fenced, stopping, telling)


def _broker_record(state: str) -> Callable[[ControllerLog, Line, dict[str, Any], Telling], None]:
    def tell(log: ControllerLog, line: Line, data: dict[str, Any], telling: Telling) -> None:
        broker = data["id"] if "id" in data else data["brokerId"]
        log.broker(line, broker, state, data["epoch"] if "epoch" in data else data["brokerEpoch"], telling)

    return tell


def _config_record(log: ControllerLog, line: Line, data: dict[str, Any], telling: Telling) -> None:
    log.setting(line, data["resourceType"], data["resourceName"], data["name"], str(data["value"]), telling)


def _remove_record(log: ControllerLog, line: Line, data: dict[str, Any], telling: Telling) -> None:
    log.partitions = {key: now for key, now in log.partitions.items() if key[0] != data["topicId"]}


RECORDS: dict[str, Callable[[ControllerLog, Line, dict[str, Any], Telling], None]] = {
    "TOPIC_RECORD": _topic_record,
    "PARTITION_RECORD": _partition_record,
    "PARTITION_CHANGE_RECORD": _change_record,
    "REGISTER_BROKER_RECORD": _register_record,
    "BROKER_REGISTRATION_CHANGE_RECORD": _registration_record,
    "FENCE_BROKER_RECORD": _broker_record("fenced"),
    "UNFENCE_BROKER_RECORD": _broker_record("unfenced"),
    "UNREGISTER_BROKER_RECORD": _broker_record("unregistered"),
    "CONFIG_RECORD": _config_record,
    "REMOVE_TOPIC_RECORD": _remove_record,
}
"""Metadata records that tell something."""
