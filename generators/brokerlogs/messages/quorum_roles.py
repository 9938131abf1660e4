"""Whether a node of the quorum was the active controller when it printed a line (QuorumController)."""

from __future__ import annotations

import re

from generators.brokerlogs.messages.controller_state import ControllerLogState

_ACTIVE = re.compile(
    r"Becoming the active controller at epoch (\d+)|"
    r"We were the leader in epoch \d+, and are still the leader in the new epoch (\d+)\."
)
_STANDBY = re.compile(
    r"(?:Renouncing the leadership due to a metadata log event\. We were the leader at epoch \d+, but in|In) "
    r"the new epoch (\d+), the leader is (?:\d+|(\(none\)))"
)
_STARTING = re.compile(
    r"Creating new QuorumController |Renouncing the leadership at oldEpoch \d+ |"
    r"\S+: (?:event \w|failed with unknown server exception ).*\. +(?:Renouncing leadership and r|R)everting to "
)
"""A node that starts is not the active controller, nor is one that resigns because an event failed unexpectedly."""


def read_role(controller: ControllerLogState, message: str) -> bool:
    """Record the role in a message of QuorumController; returns whether it has one.

    The active controller prints a change when it generates the record, before the quorum commits it; a standby, and a
    node that starts or becomes active, prints what is committed (QuorumController.handleCommit).
    """
    if match := _ACTIVE.match(message):
        controller.active, controller.epoch = True, int(match[1] or match[2])
    elif match := _STANDBY.match(message):
        controller.active, controller.epoch = False, None if match[2] else int(match[1])
    elif _STARTING.match(message):
        controller.active, controller.epoch = False, None
    else:
        return False
    return True
