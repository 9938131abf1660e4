"""Readers of lost records: losses compared with committed offsets of groups and present log ends. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

Row = Mapping[str, Any]
Place = tuple[str, int]


class Read(Enum):
    """The relation of a committed offset to a lost range."""

    ABOVE_LOG_END = "has read what is gone; its next fetch is out of range"
    MAYBE = "has read what is gone, or what was written in its place"
    RANGE_NOT_KNOWN = "how much of it is gone is not known"
    OFFLINE = "reads a partition that is or was offline"


@dataclass(frozen=True)
class LostRead:
    """One group and one loss. `above`: offsets between the log end and what the group has committed, 0 where below.

    `lost_read`: of the lost offsets how many the group has read, or may have; None: the range is not known.
    """

    topic: str
    partition: int
    regression_id: str
    group: str
    committed: int
    log_end: int | None
    above: int | None
    lost_read: int | None
    read: Read


def lost_reads(
    losses: Sequence[Row], log_ends: Mapping[Place, int], committed: Mapping[str, Mapping[Place, int]]
) -> list[LostRead]:
    """Return the groups that have read lost records, or may have; those furthest above the log end come first.

    `losses` are rows of `silver/hw_regressions`. A group had read none of the lost records if its committed offset is
    at or below the first lost offset. If the first lost offset is not known, only groups above the log end count.
    """
    found = [
        one
        for loss in losses
        for group, offsets in committed.items()
        if (one := _lost_read(loss, group, offsets, log_ends)) is not None
    ]
    return sorted(found, key=lambda one: (-(one.above or 0), one.topic, one.partition, one.group, one.regression_id))


def offline_reads(
    places: Iterable[Place], log_ends: Mapping[Place, int], committed: Mapping[str, Mapping[Place, int]]
) -> list[LostRead]:
    """Return the groups that have committed an offset of these partitions, which nobody leads or led for a time."""
    found = [(*place, group, of[place]) for place in places for group, of in committed.items() if place in of]
    return [
        LostRead(topic, number, "", group, offset, log_ends.get((topic, number)), None, None, Read.OFFLINE)
        for topic, number, group, offset in sorted(found)
    ]


def _lost_read(loss: Row, group: str, offsets: Mapping[Place, int], log_ends: Mapping[Place, int]) -> LostRead | None:
    place = loss["topic"], loss["partition"]
    committed, end = offsets.get(place), log_ends.get(place)
    first = loss["lost_from"] if loss["lost_from"] is not None else loss["start_offset"]
    above = None if committed is None or end is None else max(0, committed - end)
    if committed is None or (first is not None and committed <= first) or (first is None and not above):
        return None
    known = loss["lost_from"] is not None and loss["lost_to"] is not None
    gone = min(committed, loss["lost_to"]) - loss["lost_from"] if known else None
    certain = Read.ABOVE_LOG_END if above else Read.MAYBE
    return LostRead(
        *place, loss["regression_id"], group, committed, end, above, gone, certain if known else Read.RANGE_NOT_KNOWN
    )
