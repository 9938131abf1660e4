"""Whether a node of the quorum was the active controller when it printed a line (QuorumController)."""

from __future__ import annotations

import re

from generators.brokerlogs.events.event_builder import EventBuilder
from generators.brokerlogs.messages.broker_state import Line
from generators.brokerlogs.messages.controller_state import ControllerLogState

_ACTIVE = re.compile(
    r"Becoming the active controller at epoch (\d+)|"
    r"We were the leader in epoch \d+, and are still the leader in the new epoch (\d+)\."
)
_STANDBY = re.compile(
    r"(?:Renouncing the leadership due to a metadata log event\. We were the leader at epoch \d+, but in|In) "
    r"the new epoch (\d+), the leader is (?:(\d+)|\(none\))"
)
_STARTING = re.compile(
    r"Creating new QuorumController |Renouncing the leadership at oldEpoch \d+ |"
    r"\S+: (?:event \w|failed with unknown server exception ).*\. +(?:Renouncing leadership and r|R)everting to "
)
"""A node that starts is not the active controller, nor is one that resigns because an event failed unexpectedly."""


def read_role(controller: ControllerLogState, line: Line, events: EventBuilder) -> bool:
    """Record the role in a message of QuorumController, and tell the active controller; returns whether it has one.

    The active controller prints a change when it generates the record, before the quorum commits it; a standby, and a
    node that starts or becomes active, prints what is committed (QuorumController.handleCommit).
    """
    if match := _ACTIVE.match(line.message):
        controller.learn(line, line.broker, int(match[1] or match[2]), events, active=True)
    elif (match := _STANDBY.match(line.message)) and match[2]:
        controller.learn(line, int(match[2]), int(match[1]), events, active=False)
    elif match or _STARTING.match(line.message):
        controller.active, controller.epoch = False, None
    else:
        return False
    return True
