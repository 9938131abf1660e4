"""Shapes of a controller's lines, and of a broker's own about its registration."""

from __future__ import annotations

import re
from collections.abc import Callable

from generators.brokerlogs.controllerlog import BROKER, NO_CHANGE, TOPIC, ControllerLog, Registration
from generators.brokerlogs.statelog import Line, named, numbers, recovering
from generators.brokerlogs.telling import Telling


def read(log: ControllerLog, line: Line, telling: Telling) -> bool:
    """Tell the rows of one line; whether it was understood."""
    for pattern, tell in _SHAPES:
        match = pattern.match(line.message)
        if match:
            tell(log, line, match, telling)
            return True
    return line.message.startswith(_SILENT)


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
    unclean = True if m[1] else recovering(new.get("leaderRecoveryState"))
    log.change(line, key, told, unclean, telling)


def _whole(text: str | None) -> int | None:
    return None if text is None else int(text)


def _replayed_change(log: ControllerLog, line: Line, m: re.Match[str], telling: Telling) -> None:
    """The same change as a record, without epochs: news only where no `partition change` line told it."""
    said = named(m[1])
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
    log.change(line, key, told, None if recovery == "-1" else recovering(recovery), telling)


def _replayed_partition(log: ControllerLog, line: Line, m: re.Match[str], telling: Telling) -> None:
    said = named(m[4])
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
    log.broker(line, int(m[1]), "fenced", _whole(m[2]), telling)


def _stopping(log: ControllerLog, line: Line, m: re.Match[str], telling: Telling) -> None:
    log.broker(line, int(m[1]), "controlled_shutdown", None, telling)


def _unfenced(log: ControllerLog, line: Line, m: re.Match[str], telling: Telling) -> None:
    log.broker(line, line.broker, "unfenced", None, telling)


def _unregistered(log: ControllerLog, line: Line, m: re.Match[str], telling: Telling) -> None:
    log.broker(line, int(m[1]), "unregistered", int(m[2]), telling)


def _configured(log: ControllerLog, line: Line, m: re.Match[str], telling: Telling) -> None:
    kind = {"TOPIC": TOPIC, "BROKER": BROKER}.get(m[1], 0)
    log.setting(line, kind, m[2], m[3], m[4], telling)


_CHANGE = re.compile(r"(\w+): (?:\[[^\]]*\]|[^,\s]+) -> (\[[^\]]*\]|[^,\s]+)")
_Tell = Callable[[ControllerLog, Line, re.Match[str], Telling], None]
_SHAPES: tuple[tuple[re.Pattern[str], _Tell], ...] = (
    (re.compile(r"(UNCLEAN )?partition change for (\S+)-(\d+) with topic ID (\S{22}): (.*)"), _partition_change),
    (
        re.compile(
            r"Replayed partition (?:assignment )?change PartitionChangeRecord\((.*?)\) for topic (\S+?)(?:\. \(.*)?$"
        ),
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
    (re.compile(r"Fencing broker (\d+)(?: at epoch (\d+))? because its session has timed out"), _fencing),
    (
        re.compile(r"Unfenced broker (\d+) has requested and been granted (?:a controlled|an immediate) shutdown"),
        _stopping,
    ),
    (
        re.compile(
            r"Replayed ConfigRecord for ConfigResource\(type=(\w+), name='([^']*)'\) which set configuration "
            r"(\S+) to (\S+)"
        ),
        _configured,
    ),
)
_SILENT = (
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
