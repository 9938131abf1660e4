"""Whether the quorum has committed a change of a partition that a row reports.

The active controller logs a change when it generates the record, before Raft commits it; a standby logs it when the
quorum has committed it (QuorumController.handleCommit). An active controller that was frozen and wakes up logs changes
that no quorum ever commits. So what only controllers report is provisional, unless one of them was a standby.
"""

from __future__ import annotations

from pipelines.replication.partition.events import PartitionEvent

LEADER, BROKER, METADATA_LOG, CONTROLLER, CONTROLLER_ONLY = (
    "leader", "broker", "metadata_log", "controller", "controller_only",
)  # fmt: skip
WITNESSES = (LEADER, BROKER, METADATA_LOG, CONTROLLER, CONTROLLER_ONLY)
"""Strongest first: the leader's own commit, a broker that applies the metadata, the printed metadata log, a standby
controller; last an active controller, or one whose role is not known, which proves nothing."""

_RANK = {witness: rank for rank, witness in enumerate(WITNESSES)}


def by_controller(event: PartitionEvent) -> bool:
    """Whether a controller, or the printed metadata log, reports it."""
    return event.event_type == "election" or event.detail == "controller"


def witness_of(event: PartitionEvent, leader_id: int | None) -> str:
    """The kind of witness that the row is of its change, while `leader_id` leads the partition."""
    if by_controller(event):
        if event.broker_id < 0 and event.committed is not False:
            return METADATA_LOG
        return CONTROLLER if event.committed else CONTROLLER_ONLY
    if event.watched:
        return BROKER
    own = event.event_type == "leader" or event.detail == "alter_partition"
    return LEADER if own or event.broker_id == leader_id else BROKER


def provisional(event: PartitionEvent) -> bool:
    """Whether the row is one of a controller, or of the end of a metadata log, that does not show it as committed."""
    uncommitted = event.committed is False if event.broker_id < 0 else not event.committed
    return by_controller(event) and uncommitted


def stronger(one: str | None, other: str) -> str:
    """The stronger of two witnesses."""
    return other if one is None or _RANK[other] < _RANK[one] else one
