"""What shows that the quorum has committed a change of a partition.

The active controller logs a change when it generates the record, ahead of Raft's commit; a standby logs it when the
quorum has committed it (QuorumController.handleCommit). An active controller that was frozen and wakes up logs changes
that no quorum ever commits. So what controllers alone report is provisional unless one of them was a standby.
"""

from __future__ import annotations

from pipelines.replication.partition.events import Note

LEADER, BROKER, METADATA_LOG, CONTROLLER, CONTROLLER_ONLY = (
    "leader", "broker", "metadata_log", "controller", "controller_only",
)  # fmt: skip
WITNESSES = (LEADER, BROKER, METADATA_LOG, CONTROLLER, CONTROLLER_ONLY)
"""Strongest first: the leader's own commit, a broker that applies the metadata, the printed metadata log, a standby
controller; and an active controller, or one whose role is not known, which proves nothing."""


def by_controller(note: Note) -> bool:
    """Whether a controller, or the printed metadata log, reports it."""
    return note.event_type == "election" or note.detail == "controller"


def witness_of(note: Note, leader_id: int | None) -> str:
    """What this row is as a witness of the change it reports; `leader_id` leads the partition then."""
    if by_controller(note):
        if note.broker_id < 0:
            return METADATA_LOG
        return CONTROLLER if note.committed else CONTROLLER_ONLY
    own = note.event_type == "leader" or note.detail == "alter_partition"
    return LEADER if own or note.broker_id == leader_id else BROKER


def provisional(note: Note) -> bool:
    """Whether nothing but this row of a controller says so, and it may never be committed."""
    return by_controller(note) and note.broker_id >= 0 and not note.committed


def stronger(one: str | None, other: str) -> str:
    """The stronger of two witnesses."""
    return other if one is None else min(one, other, key=WITNESSES.index)
