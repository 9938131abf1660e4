"""The rows of one call of the parser, with the lists and texts that they refer to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from generators.brokerlogs.events.clock_offsets import ClockOffsets
from generators.brokerlogs.events.event_rows import BLANK, LOST, ROW, TYPES, UNKNOWN, UNREADABLE, table
from generators.brokerlogs.events.source_state import PartitionStates
from schemas.replication_events import INT

_COLUMN = {name: k for k, name in enumerate(ROW.names or ())}
_TYPE_CODE = {name: k for k, name in enumerate(TYPES)}
_LISTS = ("isr", "replicas")


class TopicIds(list[str]):
    """The topic ids of a source, in the order of their numbers; only grows at its end."""

    def __init__(self, topic_ids: Sequence[str] = ()) -> None:
        super().__init__(topic_ids)
        self._numbers = {topic_id: number for number, topic_id in enumerate(topic_ids)}

    def number(self, topic_id: str) -> int:
        """The number of a topic id, the next one if it is new."""
        number = self._numbers.setdefault(topic_id, len(self))
        if number == len(self):
            self.append(topic_id)
        return number


class EventBuilder:
    """Rows so far: `append` adds one, the kernels write into `rows` and set `count`."""

    def __init__(self, capacity: int, partitions: PartitionStates, topic_ids: TopicIds) -> None:
        self.rows = np.empty(capacity, ROW)
        self.count = 0
        self.partitions = partitions
        self.topic_ids = topic_ids
        self.lists: list[Sequence[int]] = []
        self.details: list[str] = []

    def reserve(self, count: int) -> None:
        """Make room for `count` more rows."""
        if self.count + count > len(self.rows):
            self.rows = np.concatenate([self.rows, np.empty(len(self.rows) + count, ROW)])

    def append(self, type: str, ts: int, broker_id: int, level: int, **fields: Any) -> None:
        """Append one row; `ts` in ms. `fields` are named like columns of ROW, `place` stands for topic and
        partition. Raises OverflowError where a number does not fit."""
        self.reserve(1)
        row = list(BLANK)
        fixed = {"ts": ts, "type": _TYPE_CODE[type], "broker_id": broker_id, "level": level}
        for name, value in fixed.items():
            row[_COLUMN[name]] = value
        for name, value in fields.items():
            if value is not None:
                row[_COLUMN[name]] = self._index(name, value)
        self.rows[self.count] = tuple(row)
        self.count += 1

    def _index(self, name: str, value: Any) -> Any:
        if name == "lag_max_ms":
            return min(value, INT)
        if name in _LISTS:
            if max(value, default=0) > INT:
                raise OverflowError("an id that no column has room for")
            self.lists.append(value)
            return len(self.lists) - 1
        if name == "detail":
            self.details.append(value)
            return len(self.details) - 1
        if name == "topic_id":
            return self.topic_number(value)
        return value

    def topic_number(self, topic_id: str) -> int:
        """The number of a topic id, a new one where it was not known."""
        return self.topic_ids.number(topic_id)

    def subtract_clock_offsets(self, clock_offsets: ClockOffsets) -> int:
        """Subtract the clock offsets from the times of the rows; returns the greatest time (ms) then."""
        rows = self.rows[: self.count]
        rows["ts"] -= clock_offsets.ahead_ms(rows["broker_id"])
        return int(rows["ts"].max(initial=0))

    def table(self, cluster: str, source_id: str) -> pa.Table:
        """All rows in the schema EVENTS."""
        rows = self.rows[: self.count]
        lost = (rows["type"] == LOST) & (rows["detail"] < 0)
        rows["detail"][lost] = len(self.details) + np.arange(np.count_nonzero(lost))
        self.details.extend(_lost_detail(int(count)) for count in rows["broker_epoch"][lost])
        rows["broker_epoch"][lost] = UNKNOWN
        return table(rows, cluster, source_id, self.partitions.places, self.topic_ids, self.lists, self.details)


def _lost_detail(count: int) -> str:
    if count == UNREADABLE:
        return "at least 1 line: what stands there cannot be read"
    return f"{count} line{'s' if count > 1 else ''}: numbers (%sn) that never came"
