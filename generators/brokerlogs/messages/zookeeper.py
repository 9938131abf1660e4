"""Messages of a controller that keeps the cluster's state in ZooKeeper (Kafka 1.1 to 3.9).

It logs a change once ZooKeeper has it, so its rows are committed. No line says that an election was unclean: only a
leader recovery state of RECOVERING does (IBP 3.2 and later), RECOVERED is printed before that, too.
"""

from __future__ import annotations

import re
from typing import Any

from generators.brokerlogs.events.event_builder import EventBuilder
from generators.brokerlogs.messages.broker_state import Line, append_row, broker_ids
from generators.brokerlogs.messages.controller_state import ControllerLogState, ControllerPatterns, controller_patterns

_STATE = re.compile(r"\b(leader|leaderEpoch|zkVersion|partitionEpoch|leaderRecoveryState)=(-?\w+)")
_ISR = re.compile(r"\bisr=List\(([\d, ]*)\)")
_MEMBER = re.compile(r"BrokerState\(brokerId=(\d+)")
_LISTS = re.compile(r"\b(isr|replicas)=\[?([\d, ]*?)\]?(?=, [a-zA-Z]|\))")
_EPOCH = re.compile(r"(\d+) -> (\d+)")


def _place(controller: ControllerLogState, name: str) -> int:
    place = controller.broker_log.partitions.place_of(name)
    return place if controller.broker_log.wanted(place) else -1


def _leader_and_isr(text: str) -> dict[str, Any]:
    """The fields of a printed LeaderAndIsr as columns."""
    fields: dict[str, str] = dict(_STATE.findall(text))
    members, version = _ISR.search(text), fields.get("partitionEpoch") or fields.get("zkVersion")
    return {
        "leader_id": int(fields["leader"]),
        "leader_epoch": int(fields["leaderEpoch"]),
        "partition_epoch": int(version) if version else None,
        "isr": broker_ids(members[1]) if members else [int(broker) for broker in _MEMBER.findall(text)],
        "unclean": 1 if fields.get("leaderRecoveryState") == "RECOVERING" else None,
    }


def _append(
    controller: ControllerLogState, line: Line, type: str, events: EventBuilder, place: int, **fields: Any
) -> None:
    append_row(events, type, line, committed=1, controller_epoch=controller.epoch, place=place, **fields)


def _assigned(controller: ControllerLogState, line: Line, match: re.Match[str], events: EventBuilder) -> None:
    """A new partition: its assignment comes with the election of its first leader."""
    controller.assigned[match[1]] = broker_ids(match[2])


def _sent(controller: ControllerLogState, line: Line, match: re.Match[str], events: EventBuilder) -> None:
    """Append what a controller tells a broker once ZooKeeper has it, the same for each replica.

    Up to Kafka 2.5 no other line shows that a replica left the ISR with its broker, or that nobody leads. What was so
    before is sent, too: by a controller that begins, and to a broker that comes back.
    """
    fields, lists, place = dict(_STATE.findall(match[1])), dict(_LISTS.findall(match[1])), _place(controller, match[2])
    epoch = int(fields["leaderEpoch"])
    before, controller.told_epochs[match[2]] = controller.told_epochs.get(match[2], epoch), epoch
    if place >= 0 and epoch > before:
        about = {"leader_id": int(fields["leader"]), "leader_epoch": epoch, "partition_epoch": int(fields["zkVersion"])}
        members = {name: broker_ids(lists[name]) for name in ("isr", "replicas")}
        _append(controller, line, "isr", events, place, detail="controller", **about, **members)


def _elected(controller: ControllerLogState, line: Line, match: re.Match[str], events: EventBuilder) -> None:
    fields, replicas = _leader_and_isr(match[2]), controller.assigned.pop(match[1], None)
    _append_change(controller, line, match[1], fields | {"replicas": replicas}, events)


def _removed(controller: ControllerLogState, line: Line, match: re.Match[str], events: EventBuilder) -> None:
    """A replica left the ISR as its broker stopped or failed, which begins a new leader epoch, with or without a
    leader. Kafka 3.0 prints no version."""
    controller.epoch = int(match[6])
    fields = {"leader_id": int(match[2]), "isr": broker_ids(match[3]), "leader_epoch": int(match[4])}
    fields["partition_epoch"] = int(match[5]) if match[5] else None
    _append_change(controller, line, match[1], fields, events)


def _append_change(
    controller: ControllerLogState, line: Line, name: str, fields: dict[str, Any], events: EventBuilder
) -> None:
    place = _place(controller, name)
    controller.told_epochs[name] = fields["leader_epoch"]
    if place >= 0:
        _append(controller, line, "election", events, place, **fields)
        _append(controller, line, "isr", events, place, detail="controller", **(fields | {"unclean": None}))


def _isr_updated(controller: ControllerLogState, line: Line, match: re.Match[str], events: EventBuilder) -> None:
    place = _place(controller, match[1])
    if place < 0:
        return
    if match[2] is not None:
        fields = {"isr": broker_ids(match[2]), "partition_epoch": int(match[3])}
    else:
        fields = _leader_and_isr(match[4]) | {"unclean": None}
    _append(controller, line, "isr", events, place, detail="controller", **fields)


def _brokers(controller: ControllerLogState, line: Line, match: re.Match[str], events: EventBuilder) -> None:
    """Brokers whose registrations came or went. A session that expired looks like a restart here, and counts as one."""
    for broker in broker_ids(match[2]) + broker_ids(match[3] or ""):
        _state(controller, line, broker, "fenced", events)
    for broker in broker_ids(match[1]) + broker_ids(match[3] or ""):
        if not controller.brokers:  # before Kafka 2.2 registrations have no epochs
            _state(controller, line, broker, "started", events)
        _state(controller, line, broker, "unfenced", events)


def _state(controller: ControllerLogState, line: Line, broker: int, state: str, events: EventBuilder) -> None:
    epoch = controller.brokers.get(broker) if state == "started" else None
    _append(controller, line, "broker_state", events, -1, replica_id=broker, broker_epoch=epoch, detail=state)


def _known_epochs(controller: ControllerLogState, line: Line, match: re.Match[str], events: EventBuilder) -> None:
    controller.brokers |= {int(broker): int(epoch) for broker, epoch in _EPOCH.findall(match[1])}


def _new_epochs(controller: ControllerLogState, line: Line, match: re.Match[str], events: EventBuilder) -> None:
    for broker, epoch in ((int(broker), int(epoch)) for broker, epoch in _EPOCH.findall(match[1])):
        if controller.brokers.get(broker) != epoch:
            controller.brokers[broker] = epoch
            _state(controller, line, broker, "started", events)


def _registered(controller: ControllerLogState, line: Line, match: re.Match[str], events: EventBuilder) -> None:
    controller.broker_state(line, int(match[1]), "started", int(match[2]), events, own_report=True)


def _deleted_topics(controller: ControllerLogState, line: Line, match: re.Match[str], events: EventBuilder) -> None:
    """Topics are deleted once brokers that are down are back; from now on nobody is told of them any more."""
    for topic in match[1].split(","):
        controller.delete_topic(line, topic, None, events)


def _stopping(controller: ControllerLogState, line: Line, match: re.Match[str], events: EventBuilder) -> None:
    _state(controller, line, int(match[1]), "controlled_shutdown", events)


PATTERNS: ControllerPatterns = controller_patterns(
    (_elected, r"Changed partition (\S+) from \w+ to OnlinePartition with state LeaderAndIsr(\(.*)"),
    (_assigned, r"Changed partition (\S+) state from \w+ to NewPartition with assigned replicas (.*)"),
    (
        _removed,
        r"Partition (\S+) state changed to \(Leader:(-?\d+),ISR:([\d,]*)(?:,LeaderRecoveryState:\w+)?,"
        r"LeaderEpoch:(\d+)(?:,ZkVersion:(\d+))?,ControllerEpoch:(\d+)\)",
    ),
    (
        _sent,
        r"Sending become-\w+ LeaderAndIsr request (?:LeaderAndIsr)?PartitionState(\(.*\)) to broker \d+ for "
        r"partition (\S+)$",
    ),
    (
        _isr_updated,
        r"ISR for partition (\S+) updated to (?:\[([\d,]*)\] and zkVersion updated to \[(\d+)\]"
        r"|LeaderAndIsr(\(.*))",
    ),
    (_brokers, r"Newly added brokers: ([\d,]*), deleted brokers: ([\d,]*)(?:, bounced brokers: ([\d,]*))?"),
    (_known_epochs, r"Initialized broker epochs cache: (.*)"),
    (_new_epochs, r"Updated broker epochs cache: (.*)"),
    (_registered, r"Registered broker (\d+) at path /\S+ .*czxid \(broker epoch\): (\d+)"),
    (_deleted_topics, r"Starting topic deletion for topics (\S+)$"),
    (_stopping, r"Shutting down broker (\d+)$"),
)
