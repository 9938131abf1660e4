"""Records of the printed metadata log (`kafka-dump-log --cluster-metadata-decoder`)."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from generators.brokerlogs.events.event_builder import EventBuilder
from generators.brokerlogs.messages.broker_state import Line
from generators.brokerlogs.messages.controller_state import ControllerLogState, Registration, RegistrationChange


def read_record(controller: ControllerLogState, line: Line, events: EventBuilder) -> str | None:
    """Append the rows of one printed record; returns what of it is unknown (its type), None where all is known."""
    _, _, payload = line.message.partition(" payload: ")
    kind = "a payload"
    try:
        record: dict[str, Any] = json.loads(payload) if payload else {"type": "NO_OP_RECORD", "data": {}}
        kind = str(record["type"])
        return append_rows(controller, line, kind, record["data"], events)
    except (ValueError, KeyError, TypeError):
        return kind


def append_rows(
    controller: ControllerLogState, line: Line, kind: str, data: dict[str, Any], events: EventBuilder
) -> str | None:
    """Append the rows of one record of that kind; returns the kind if it is unknown, else None.

    Raises ValueError, KeyError or TypeError where `data` is not that of such a record.
    """
    if kind in _RECORDS:
        _RECORDS[kind](controller, line, data, events)
    return None if kind in _RECORDS or kind in _SILENT else kind


def _topic_record(controller: ControllerLogState, line: Line, data: dict[str, Any], events: EventBuilder) -> None:
    controller.record_topic(data["topicId"], data["name"])


def _partition_record(controller: ControllerLogState, line: Line, data: dict[str, Any], events: EventBuilder) -> None:
    registration = Registration.of_fields({"partitionEpoch": 0, **data})
    is_unclean = data.get("leaderRecoveryState", 0) == 1
    controller.register(line, (data["topicId"], data["partitionId"]), registration, is_unclean, events)


def _change_record(controller: ControllerLogState, line: Line, data: dict[str, Any], events: EventBuilder) -> None:
    recovery = data.get("leaderRecoveryState", -1)
    is_recovering = None if recovery == -1 else recovery == 1
    key = data["topicId"], data["partitionId"]
    controller.change(line, key, Registration.of_fields(data), is_recovering, events)


def _clear_elr_record(controller: ControllerLogState, line: Line, data: dict[str, Any], events: EventBuilder) -> None:
    controller.clear_elr(data.get("topicName") or "")


def _register_record(controller: ControllerLogState, line: Line, data: dict[str, Any], events: EventBuilder) -> None:
    controller.broker_state(line, data["brokerId"], "started", data["brokerEpoch"], events)
    controller.rack(line, data["brokerId"], data.get("rack"), events)


def _registration_record(
    controller: ControllerLogState, line: Line, data: dict[str, Any], events: EventBuilder
) -> None:
    change = RegistrationChange(data.get("fenced", 0), data.get("inControlledShutdown", 0), bool(data.get("logDirs")))
    controller.registration_change(line, data["brokerId"], data["brokerEpoch"], change, events)


def _feature_record(controller: ControllerLogState, line: Line, data: dict[str, Any], events: EventBuilder) -> None:
    if data["name"] == "metadata.version":
        controller.version(line, _METADATA_VERSIONS[data["featureLevel"]], events)


def _broker_record(state: str) -> Callable[[ControllerLogState, Line, dict[str, Any], EventBuilder], None]:
    def handle(controller: ControllerLogState, line: Line, data: dict[str, Any], events: EventBuilder) -> None:
        broker = data["id"] if "id" in data else data["brokerId"]
        controller.broker_state(line, broker, state, data["epoch"] if "epoch" in data else data["brokerEpoch"], events)

    return handle


def _config_record(controller: ControllerLogState, line: Line, data: dict[str, Any], events: EventBuilder) -> None:
    controller.config(line, data["resourceType"], data["resourceName"], data["name"], str(data["value"]), events)


def _remove_record(controller: ControllerLogState, line: Line, data: dict[str, Any], events: EventBuilder) -> None:
    if topic := controller.broker_log.names.get(data["topicId"]):
        controller.delete_topic(line, topic, data["topicId"], events)


_RECORDS: dict[str, Callable[[ControllerLogState, Line, dict[str, Any], EventBuilder], None]] = {
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
"""Metadata records that change what is known."""
_SILENT_NAMES = """
ABORT_TRANSACTION ACCESS_CONTROL_ENTRY BEGIN_TRANSACTION CLIENT_QUOTA DELEGATION_TOKEN END_TRANSACTION NO_OP
PRODUCER_IDS REGISTER_CONTROLLER REMOVE_ACCESS_CONTROL_ENTRY REMOVE_DELEGATION_TOKEN REMOVE_USER_SCRAM_CREDENTIAL
UNREGISTER_CONTROLLER USER_SCRAM_CREDENTIAL ZK_MIGRATION_STATE
"""
_SILENT = frozenset(f"{name}_RECORD" for name in _SILENT_NAMES.split())
"""Metadata records without information on replication (Kafka 3.9 to 4.4)."""
_VERSIONS = """
3.0-IV1 3.1-IV0 3.2-IV0 3.3-IV0 3.3-IV1 3.3-IV2 3.3-IV3 3.4-IV0 3.5-IV0 3.5-IV1 3.5-IV2 3.6-IV0 3.6-IV1 3.6-IV2 3.7-IV0
3.7-IV1 3.7-IV2 3.7-IV3 3.7-IV4 3.8-IV0 3.9-IV0 4.0-IV0 4.0-IV1 4.0-IV2 4.0-IV3 4.1-IV0 4.1-IV1 4.2-IV0 4.2-IV1 4.3-IV0
4.4-IV0 4.4-IV1 4.4-IV2 4.5-IV0
"""
_METADATA_VERSIONS = dict(enumerate(_VERSIONS.split(), start=1))
"""Metadata versions by feature level (MetadataVersion of Kafka 4.4)."""
