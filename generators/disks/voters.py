"""The voters of a KRaft quorum, as control records of its log and of its snapshots name them."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections.abc import Iterable

from generators.disks.batches import KRAFT_VOTERS, LEADER_CHANGE
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
        key = Reader(record.key or b"")
        key.number(2)
        control, reader = key.number(2), Reader(record.value or b"")
        if control == LEADER_CHANGE:
            voters = with_directories(_leader_change(reader), voters)
        elif control == KRAFT_VOTERS:
            voters = _voters_record(reader)
    return voters


def with_directories(voters: Voters, known: Voters) -> Voters:
    """Voters with the directories that are known of them: Kafka 4.1 names none where it tells an election."""
    return {node: directory or known.get(node) for node, directory in voters.items()}


def _leader_change(reader: Reader) -> Voters:
    version, _ = reader.number(2), reader.number(4)
    found: Voters = {}
    for _ in range(reader.unsigned() - 1):
        node = reader.number(4)
        found[node] = _directory(reader) if version else None
        reader.take(reader.unsigned())  # no tagged fields: their count is 0
    return found


def _voters_record(reader: Reader) -> Voters:
    reader.number(2)
    found: Voters = {}
    for _ in range(reader.unsigned() - 1):
        node = reader.number(4)
        found[node] = _directory(reader)
        for _ in range(reader.unsigned() - 1):
            reader.take(reader.unsigned() - 1)
            reader.take(reader.unsigned() - 1)
            reader.take(2)
            reader.take(reader.unsigned())
        reader.take(4)
        reader.take(reader.unsigned() + reader.unsigned())
    return found


def _directory(reader: Reader) -> str | None:
    text = urlsafe_b64encode(reader.take(16)).decode().rstrip("=")
    return None if text == _NO_DIRECTORY else text
