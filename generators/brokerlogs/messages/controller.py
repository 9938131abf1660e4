"""Messages of a controller, and of a broker about its own registration."""

from __future__ import annotations

import re

from generators.brokerlogs.events.event_builder import EventBuilder
from generators.brokerlogs.messages.broker_state import Line, is_recovering, printed_fields
from generators.brokerlogs.messages.controller_state import (
    BROKER,
    TOPIC,
    ControllerHandler,
    ControllerLogState,
    ControllerPatterns,
    Registration,
    RegistrationChange,
    controller_patterns,
)


def _partition_change(controller: ControllerLogState, line: Line, match: re.Match[str], events: EventBuilder) -> None:
    new = dict(_CHANGE.findall(match[5]))
    key = (match[4], int(match[3]))
    controller.record_topic(match[4], match[2])
    controller.changed = key
    unclean = True if match[1] else is_recovering(new.get("leaderRecoveryState"))
    controller.change(line, key, Registration.of_fields(new), unclean, events)


def _optional_int(text: str | None) -> int | None:
    return None if text is None else int(text)


def _replayed_change(controller: ControllerLogState, line: Line, match: re.Match[str], events: EventBuilder) -> None:
    """A change as a record, without epochs: skipped where a `partition change` line came before it."""
    record = printed_fields(match[1])
    key = (record["topicId"], int(record["partitionId"]))
    controller.record_topic(record["topicId"], match[2])
    if controller.changed == key:
        controller.changed = None
        return
    if not {"leader", "isr", "replicas"} <= record.keys():
        raise KeyError(key)
    recovery = record.get("leaderRecoveryState", "-1")
    is_unclean = None if recovery == "-1" else is_recovering(recovery)
    controller.change(line, key, Registration.of_fields(record), is_unclean, events)


def _replayed_partition(controller: ControllerLogState, line: Line, match: re.Match[str], events: EventBuilder) -> None:
    record = printed_fields(match[4])
    controller.record_topic(match[3], match[1])
    key, is_unclean = (match[3], int(match[2])), record.get("leaderRecoveryState") == "RECOVERING"
    controller.register(line, key, Registration.of_fields(record), is_unclean, events)


def _replayed_topic(controller: ControllerLogState, line: Line, match: re.Match[str], events: EventBuilder) -> None:
    controller.record_topic(match[2], match[1])


def _deleted_topic(controller: ControllerLogState, line: Line, match: re.Match[str], events: EventBuilder) -> None:
    controller.delete_topic(line, match[1], match[2], events)


def _registered(controller: ControllerLogState, line: Line, match: re.Match[str], events: EventBuilder) -> None:
    controller.broker_state(line, int(match[1]), "started", int(match[2]), events)
    rack = re.search(r"\brack='([^']*)'", line.message)
    controller.rack(line, int(match[1]), rack[1] if rack else None, events)


def _registration_changed(
    controller: ControllerLogState, line: Line, match: re.Match[str], events: EventBuilder
) -> None:
    record = printed_fields(match[1])
    change = RegistrationChange(
        int(record.get("fenced", 0)), int(record.get("inControlledShutdown", 0)), record.get("logDirs", "[]") != "[]"
    )
    controller.registration_change(line, int(record["brokerId"]), int(record["brokerEpoch"]), change, events)


def _cleared(controller: ControllerLogState, line: Line, match: re.Match[str], events: EventBuilder) -> None:
    controller.clear_elr(match[1] or "")


def _version(controller: ControllerLogState, line: Line, match: re.Match[str], events: EventBuilder) -> None:
    controller.version(line, match[1], events)


def _state(state: str, *, own_report: bool = False) -> ControllerHandler:
    """A handler of lines that name a broker, or are its own, and perhaps its epoch."""

    def handle(controller: ControllerLogState, line: Line, match: re.Match[str], events: EventBuilder) -> None:
        broker, epoch = (*match.groups(), None, None)[:2]
        controller.broker_state(
            line, int(broker or line.broker), state, _optional_int(epoch), events, own_report=own_report
        )

    return handle


def _configured(controller: ControllerLogState, line: Line, match: re.Match[str], events: EventBuilder) -> None:
    kind = {"TOPIC": TOPIC, "BROKER": BROKER}.get(match[1], 0)
    controller.config(line, kind, match[2], match[3], match[4].strip("'"), events)


_CHANGE = re.compile(r"(\w+): (?:\[[^\]]*\]|[^,\s]+) -> (\[[^\]]*\]|[^,\s]+)")
_CHANGED = r"partition change for (\S+)-(\d+) with topic ID (\S{22}): (.*)"
_CONFIGURED = (
    (re.compile(r"ConfigResource\(type=(\w+), name='([^']*)'\): set configuration (\S+) to (\S+)"), _configured),
)
PATTERNS: ControllerPatterns = controller_patterns(
    (_partition_change, "()" + _CHANGED),
    (_partition_change, "(UNCLEAN) " + _CHANGED),
    (
        _replayed_change,
        r"Replayed partition (?:assignment )?change PartitionChangeRecord\((.*?)\) for topic " r"(\S+?)(?:\. \(.*)?$",
    ),
    (
        _replayed_partition,
        r"Replayed PartitionRecord for (?:new|existing) partition (\S+)-(\d+) with topic ID (\S{22}) and "
        r"PartitionRegistration\((.*)\)",
    ),
    (_replayed_topic, r"Replayed TopicRecord for topic (\S+) with topic ID (\S{22})"),
    (_deleted_topic, r"Replayed RemoveTopicRecord for topic (\S+) with ID (\S{22})"),
    (_registration_changed, r"Replayed BrokerRegistrationChangeRecord .*?: BrokerRegistrationChangeRecord(\(.*)"),
    (_registered, r"Replayed .*?RegisterBrokerRecord .*?\(brokerId=(\d+), .*?brokerEpoch=(\d+)"),
    (_state("fenced"), r"Replayed FenceBrokerRecord .*?\(id=(\d+), epoch=(\d+)"),
    (_state("unfenced"), r"Replayed UnfenceBrokerRecord .*?\(id=(\d+), epoch=(\d+)"),
    (_state("unregistered"), r"Replayed .*?UnregisterBrokerRecord\(brokerId=(\d+), brokerEpoch=(\d+)"),
    (_version, r"Replayed a FeatureLevelRecord setting metadata[. ]version to (\S+)"),
    (
        _configured,
        r"Replayed ConfigRecord for ConfigResource\(type=(\w+), name='([^']*)'\) which set configuration "
        r"(\S+) to (\S+)",
    ),
    (_state("started", own_report=True), r"Successfully registered broker (\d+) with broker epoch (\d+)"),
    (_state("log_dir_offline"), r"Directories .* in broker (\d+) marked offline, remaining directories: "),
    # the next five, "Unregistered", the first for "Removed" and _CONFIGURED are of Kafka 3.0 to 3.5
    (_replayed_topic, r"Created topic (\S+) with topic ID (\S{22})"),
    (_replayed_partition, r"Created partition (\S+)-(\d+) with topic ID (\S{22}) and PartitionRegistration\((.*)\)"),
    (_registered, r"Registered new broker: RegisterBrokerRecord\(brokerId=(\d+), .*?brokerEpoch=(\d+)"),
    (_registered, r"Re-registered broker [^:]*: RegisterBrokerRecord\(brokerId=(\d+), .*?brokerEpoch=(\d+)"),
    (_state("fenced"), r"Fenced broker: \w+Record\((?:id|brokerId)=(\d+), (?:epoch|brokerEpoch)=(\d+)"),
    (_deleted_topic, r"Removed topic (\S+) with ID (\S{22})"),
    (_cleared, r"Removed ELRs from \d+ partitions (?:of topic (\S+)\.|in all topics)"),
    (_state("unregistered"), r"Unregistered broker: UnregisterBrokerRecord\(brokerId=(\d+), brokerEpoch=(\d+)"),
    (_state("unfenced", own_report=True), r"The broker has been unfenced"),
    (_state("fenced"), r"Fencing broker (\d+)(?: at epoch (\d+))? because its session has timed out"),
    (_state("unfenced"), r"Unfenced broker: \w+Record\((?:id|brokerId)=(\d+), (?:epoch|brokerEpoch)=(\d+)"),
    (
        _state("controlled_shutdown"),
        r"Unfenced broker (\d+) has requested and been granted (?:a controlled|an immediate) shutdown",
    ),
) | {f"ConfigResource(type={kind},": _CONFIGURED for kind in ("TOPIC", "BROKER")}
