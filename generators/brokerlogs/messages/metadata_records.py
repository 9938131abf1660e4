"""Records of the printed metadata log (`kafka-dump-log --cluster-metadata-decoder`)."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from generators.brokerlogs.events.event_builder import Telling
from generators.brokerlogs.messages.broker_state import Line
from generators.brokerlogs.messages.controller_state import NO_CHANGE, ControllerLog, Registration, RegistrationChange


def read_record(log: ControllerLog, line: Line, telling: Telling) -> str | None:
    """Tell the rows of one printed record; what was not understood of it, None where all was."""
    _, _, payload = line.message.partition(" payload: ")
    kind = "a payload"
    try:
        record: dict[str, Any] = json.loads(payload) if payload else {"type": "NO_OP_RECORD", "data": {}}
        kind = str(record["type"])
        if kind in _RECORDS:
            _RECORDS[kind](log, line, record["data"], telling)
    except (ValueError, KeyError, TypeError):
        return kind
    return None if kind in _RECORDS or kind in _SILENT else kind


def _topic_record(log: ControllerLog, line: Line, data: dict[str, Any], telling: Telling) -> None:
    log.topic(data["topicId"], data["name"])


def _partition_record(log: ControllerLog, line: Line, data: dict[str, Any], telling: Telling) -> None:
    now = Registration(
        data["leader"],
        data["leaderEpoch"],
        data.get("partitionEpoch", 0),
        data["isr"],
        data["replicas"],
        data.get("eligibleLeaderReplicas"),
        data.get("lastKnownElr"),
    )
    log.register(line, (data["topicId"], data["partitionId"]), now, data.get("leaderRecoveryState", 0) == 1, telling)


def _change_record(log: ControllerLog, line: Line, data: dict[str, Any], telling: Telling) -> None:
    leader = data.get("leader")
    told = Registration(
        leader=None if leader == NO_CHANGE else leader,
        isr=data.get("isr"),
        replicas=data.get("replicas"),
        elr=data.get("eligibleLeaderReplicas"),
        last_known_elr=data.get("lastKnownElr"),
    )
    recovery = data.get("leaderRecoveryState", -1)
    recovering = None if recovery == -1 else recovery == 1
    log.change(line, (data["topicId"], data["partitionId"]), told, recovering, telling)


def _clear_elr_record(log: ControllerLog, line: Line, data: dict[str, Any], telling: Telling) -> None:
    log.clear_elr(data.get("topicName") or "")


def _register_record(log: ControllerLog, line: Line, data: dict[str, Any], telling: Telling) -> None:
    log.broker(line, data["brokerId"], "started", data["brokerEpoch"], telling)
    log.rack(line, data["brokerId"], data.get("rack"), telling)


def _registration_record(log: ControllerLog, line: Line, data: dict[str, Any], telling: Telling) -> None:
    change = RegistrationChange(data.get("fenced", 0), data.get("inControlledShutdown", 0), bool(data.get("logDirs")))
    log.registration(line, data["brokerId"], data["brokerEpoch"], change, telling)


def _feature_record(log: ControllerLog, line: Line, data: dict[str, Any], telling: Telling) -> None:
    if data["name"] == "metadata.version":
        log.version(line, _METADATA_VERSIONS[data["featureLevel"]], telling)


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
    "CLEAR_ELR_RECORD": _clear_elr_record,
    "FEATURE_LEVEL_RECORD": _feature_record,
}
"""Metadata records that tell something."""
_SILENT_NAMES = """
ABORT_TRANSACTION ACCESS_CONTROL_ENTRY BEGIN_TRANSACTION CLIENT_QUOTA DELEGATION_TOKEN END_TRANSACTION NO_OP
PRODUCER_IDS REGISTER_CONTROLLER REMOVE_ACCESS_CONTROL_ENTRY REMOVE_DELEGATION_TOKEN REMOVE_USER_SCRAM_CREDENTIAL
UNREGISTER_CONTROLLER USER_SCRAM_CREDENTIAL ZK_MIGRATION_STATE
"""
_SILENT = frozenset(f"{name}_RECORD" for name in _SILENT_NAMES.split())
"""And those that tell nothing of replication (Kafka 3.9 to 4.4)."""
_VERSIONS = """
3.0-IV1 3.1-IV0 3.2-IV0 3.3-IV0 3.3-IV1 3.3-IV2 3.3-IV3 3.4-IV0 3.5-IV0 3.5-IV1 3.5-IV2 3.6-IV0 3.6-IV1 3.6-IV2 3.7-IV0
3.7-IV1 3.7-IV2 3.7-IV3 3.7-IV4 3.8-IV0 3.9-IV0 4.0-IV0 4.0-IV1 4.0-IV2 4.0-IV3 4.1-IV0 4.1-IV1 4.2-IV0 4.2-IV1 4.3-IV0
4.4-IV0 4.4-IV1 4.4-IV2 4.5-IV0
"""
_METADATA_VERSIONS = dict(enumerate(_VERSIONS.split(), start=1))
"""By feature level (MetadataVersion of Kafka 4.4)."""
