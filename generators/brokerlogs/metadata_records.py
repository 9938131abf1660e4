"""Records of the printed metadata log (`kafka-dump-log --cluster-metadata-decoder`)."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from generators.brokerlogs.controllerlog import NO_CHANGE, ControllerLog, Registration
from generators.brokerlogs.statelog import Line
from generators.brokerlogs.telling import Telling


def read_record(log: ControllerLog, line: Line, telling: Telling) -> bool:
    """Tell the rows of one printed record; whether it was understood."""
    _, _, payload = line.message.partition(" payload: ")
    try:
        record: dict[str, Any] = json.loads(payload) if payload else {"type": "", "data": {}}
        if record["type"] in _RECORDS:
            _RECORDS[record["type"]](log, line, record["data"], telling)
    except (ValueError, KeyError, TypeError):
        return False
    return True


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


_RECORDS: dict[str, Callable[[ControllerLog, Line, dict[str, Any], Telling], None]] = {
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
