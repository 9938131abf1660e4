"""The voters of a KRaft quorum, as control records of its log name them."""

from __future__ import annotations

from collections.abc import Iterable

from generators.disks.batches import LEADER_CHANGE
from generators.disks.records import Reader, Record


def named_voters(control: int, records: Iterable[Record]) -> frozenset[int]:
    """The voters that a LeaderChangeMessage (by configuration) or a VotersRecord (KIP-853) names.

    `control`: the type of its batch. Raises Damaged.
    """
    found: set[int] = set()
    for record in records:
        reader = Reader(record.value or b"")
        version = reader.number(2)
        if control == LEADER_CHANGE:
            reader.number(4)
            for _ in range(reader.unsigned() - 1):
                found.add(reader.number(4))
                reader.take(16 if version else 0)
                reader.take(reader.unsigned())  # no tagged fields: their count is 0
        else:
            found |= _voters_record(reader)
    return frozenset(found)


def _voters_record(reader: Reader) -> set[int]:
    found = set()
    for _ in range(reader.unsigned() - 1):
        found.add(reader.number(4))
        reader.take(16)
        for _ in range(reader.unsigned() - 1):
            reader.take(reader.unsigned() - 1)
            reader.take(reader.unsigned() - 1)
            reader.take(2)
            reader.take(reader.unsigned())
        reader.take(4)
        reader.take(reader.unsigned() + reader.unsigned())
    return found
