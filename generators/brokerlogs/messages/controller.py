"""Shapes of a controller's lines, and of a broker's own about its registration."""

from __future__ import annotations

import re
from collections.abc import Callable

from generators.brokerlogs.events.event_builder import Telling
from generators.brokerlogs.messages.broker_state import Line, named, numbers, recovering
from generators.brokerlogs.messages.controller_state import (
    BROKER,
    NO_CHANGE,
    TOPIC,
    ControllerLog,
    Registration,
    RegistrationChange,
)


def read(log: ControllerLog, line: Line, telling: Telling) -> bool:
    """Tell the rows of one line; whether a shape fits it."""
    for pattern, tell in _SHAPES.get(line.message.partition(" ")[0], ()):
        match = pattern.match(line.message)
        if match:
            tell(log, line, match, telling)
            return True
    return False


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
        numbers(new["elr"]) if "elr" in new else None,
        numbers(new["lastKnownElr"]) if "lastKnownElr" in new else None,
    )
    unclean = True if m[1] else recovering(new.get("leaderRecoveryState"))
    log.change(line, key, told, unclean, telling)


def _whole(text: str | None) -> int | None:
    return None if text is None else int(text)


def _list(text: str) -> list[int] | None:
    return None if text == "null" else numbers(text)


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
        isr=_list(said["isr"]),
        replicas=_list(said["replicas"]),
        elr=_list(said.get("eligibleLeaderReplicas", "null")),
        last_known_elr=_list(said.get("lastKnownElr", "null")),
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
        numbers(said.get("elr", "")),
        numbers(said.get("lastKnownElr", "")),
    )
    log.register(line, (m[3], int(m[2])), now, said.get("leaderRecoveryState") == "RECOVERING", telling)


def _replayed_topic(log: ControllerLog, line: Line, m: re.Match[str], telling: Telling) -> None:
    log.topic(m[2], m[1])


def _registered(log: ControllerLog, line: Line, m: re.Match[str], telling: Telling) -> None:
    log.broker(line, int(m[1]), "started", int(m[2]), telling)
    rack = re.search(r"\brack='([^']*)'", line.message)
    log.rack(line, int(m[1]), rack[1] if rack else None, telling)


def _registers(log: ControllerLog, line: Line, m: re.Match[str], telling: Telling) -> None:
    log.broker(line, int(m[1]), "started", int(m[2]), telling, itself=True)


def _registration_changed(log: ControllerLog, line: Line, m: re.Match[str], telling: Telling) -> None:
    said = named(m[1])
    change = RegistrationChange(
        int(said.get("fenced", 0)), int(said.get("inControlledShutdown", 0)), said.get("logDirs", "[]") != "[]"
    )
    log.registration(line, int(said["brokerId"]), int(said["brokerEpoch"]), change, telling)


def _directories(log: ControllerLog, line: Line, m: re.Match[str], telling: Telling) -> None:
    log.broker(line, int(m[1]), "log_dir_offline", None, telling)


def _cleared(log: ControllerLog, line: Line, m: re.Match[str], telling: Telling) -> None:
    log.clear_elr(m[1] or "")


def _version(log: ControllerLog, line: Line, m: re.Match[str], telling: Telling) -> None:
    log.version(line, m[1], telling)


def _fencing(log: ControllerLog, line: Line, m: re.Match[str], telling: Telling) -> None:
    log.broker(line, int(m[1]), "fenced", _whole(m[2]), telling)


def _unfencing(log: ControllerLog, line: Line, m: re.Match[str], telling: Telling) -> None:
    log.broker(line, int(m[1]), "unfenced", int(m[2]), telling)


def _stopping(log: ControllerLog, line: Line, m: re.Match[str], telling: Telling) -> None:
    log.broker(line, int(m[1]), "controlled_shutdown", None, telling)


def _unfenced(log: ControllerLog, line: Line, m: re.Match[str], telling: Telling) -> None:
    log.broker(line, line.broker, "unfenced", None, telling, itself=True)


def _unregistered(log: ControllerLog, line: Line, m: re.Match[str], telling: Telling) -> None:
    log.broker(line, int(m[1]), "unregistered", int(m[2]), telling)


def _configured(log: ControllerLog, line: Line, m: re.Match[str], telling: Telling) -> None:
    kind = {"TOPIC": TOPIC, "BROKER": BROKER}.get(m[1], 0)
    log.setting(line, kind, m[2], m[3], m[4], telling)


_CHANGE = re.compile(r"(\w+): (?:\[[^\]]*\]|[^,\s]+) -> (\[[^\]]*\]|[^,\s]+)")
_Tell = Callable[[ControllerLog, Line, re.Match[str], Telling], None]
_Shape = tuple[re.Pattern[str], _Tell]
_CHANGED: tuple[_Shape, ...] = (
    (re.compile(r"(UNCLEAN )?partition change for (\S+)-(\d+) with topic ID (\S{22}): (.*)"), _partition_change),
)
_SHAPES: dict[str, tuple[_Shape, ...]] = {
    "UNCLEAN": _CHANGED,
    "partition": _CHANGED,
    "Replayed": (
        (
            re.compile(
                r"Replayed partition (?:assignment )?change PartitionChangeRecord\((.*?)\) for topic "
                r"(\S+?)(?:\. \(.*)?$"
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
            re.compile(r"Replayed BrokerRegistrationChangeRecord .*?: BrokerRegistrationChangeRecord(\(.*)"),
            _registration_changed,
        ),
        (re.compile(r"Replayed .*?RegisterBrokerRecord .*?\(brokerId=(\d+), .*?brokerEpoch=(\d+)"), _registered),
        (re.compile(r"Replayed FenceBrokerRecord .*?\(id=(\d+), epoch=(\d+)"), _fencing),
        (re.compile(r"Replayed UnfenceBrokerRecord .*?\(id=(\d+), epoch=(\d+)"), _unfencing),
        (re.compile(r"Replayed .*?UnregisterBrokerRecord\(brokerId=(\d+), brokerEpoch=(\d+)"), _unregistered),
        (re.compile(r"Replayed a FeatureLevelRecord setting metadata\.version to (\S+)"), _version),
        (
            re.compile(
                r"Replayed ConfigRecord for ConfigResource\(type=(\w+), name='([^']*)'\) which set configuration "
                r"(\S+) to (\S+)"
            ),
            _configured,
        ),
    ),
    "Successfully": ((re.compile(r"Successfully registered broker (\d+) with broker epoch (\d+)"), _registers),),
    "Directories": (
        (re.compile(r"Directories .* in broker (\d+) marked offline, remaining directories: "), _directories),
    ),
    "Removed": ((re.compile(r"Removed ELRs from \d+ partitions (?:of topic (\S+)\.|in all topics)"), _cleared),),
    "The": ((re.compile(r"The broker has been unfenced"), _unfenced),),
    "Fencing": ((re.compile(r"Fencing broker (\d+)(?: at epoch (\d+))? because its session has timed out"), _fencing),),
    "Unfenced": (
        (
            re.compile(r"Unfenced broker (\d+) has requested and been granted (?:a controlled|an immediate) shutdown"),
            _stopping,
        ),
    ),
}
"""By first word: the lines and what they tell."""
