"""The voters of a KRaft quorum, as control records of its log and of its snapshots name them."""

from __future__ import annotations

from collections.abc import Iterable

from generators.disks.batches import KRAFT_VOTERS, LEADER_CHANGE
from generators.disks.metadata_messages import decode_control
from generators.disks.records import Reader, Record

Voters = dict[int, str | None]
"""Node ids with the directory id that votes (KIP-853), None where the configuration names voters by node alone."""
_NO_DIRECTORY = "A" * 22


def named_voters(records: Iterable[Record], known: Voters) -> Voters:
    """The voters that the last LeaderChangeMessage or VotersRecord names, those `known` without one. Raises Damaged.

    One batch has several control records: a leader appends the voters behind its LeaderChangeMessage
    (LeaderState.appendStartOfEpochControlRecords), a snapshot behind its header.
    """
    voters = known
    for record in records:
        control = Reader((record.key or b"")[2:]).number(2)
        if control in (LEADER_CHANGE, KRAFT_VOTERS):
            told = decode_control(control, record.value or b"")["voters"]
            named = {one["voterId"]: _directory(one.get("voterDirectoryId")) for one in told}
            voters = with_directories(named, voters) if control == LEADER_CHANGE else named
    return voters


def with_directories(voters: Voters, known: Voters) -> Voters:
    """Voters with the directories that are known of them: Kafka 4.1 names none where it tells an election."""
    return {node: directory or known.get(node) for node, directory in voters.items()}


def _directory(told: str | None) -> str | None:
    return None if told == _NO_DIRECTORY else told
