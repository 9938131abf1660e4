"""Where the rows of one call are collected, with the lists and words that they point into."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from generators.brokerlogs.events.clock_offsets import Clock
from generators.brokerlogs.events.event_rows import BLANK, LOST, ROW, TYPES, UNKNOWN, UNREADABLE, table
from generators.brokerlogs.events.source_state import Known

_AT = {name: k for k, name in enumerate(ROW.names or ())}
_TYPE = {name: k for k, name in enumerate(TYPES)}
_LISTS = ("isr", "replicas")


class Telling:
    """Rows so far; `tell` appends one, the kernels append in place through `rows` and `count`."""

    def __init__(self, capacity: int, known: Known, topic_ids: list[str]) -> None:
        self.rows = np.empty(capacity, ROW)
        self.count = 0
        self.known = known
        self.topic_ids = topic_ids
        self.places: list[tuple[str | None, int]] = []
        self.lists: list[Sequence[int]] = []
        self.words: list[str] = []

    def room(self, count: int) -> None:
        """Make room for as many more rows."""
        if self.count + count > len(self.rows):
            self.rows = np.concatenate([self.rows, np.empty(len(self.rows) + count, ROW)])

    def tell(self, type: str, ts: int, broker_id: int, level: int, **fields: Any) -> None:
        """Append one row; fields by their column names, `place` for topic and partition."""
        self.room(1)
        row = list(BLANK)
        row[_AT["ts"]], row[_AT["type"]], row[_AT["broker_id"]], row[_AT["level"]] = ts, _TYPE[type], broker_id, level
        for name, value in fields.items():
            if value is not None:
                row[_AT[name]] = self._index(name, value)
        self.rows[self.count] = tuple(row)
        self.count += 1

    def _index(self, name: str, value: Any) -> Any:
        if name in _LISTS:
            self.lists.append(value)
            return len(self.lists) - 1
        if name == "detail":
            self.words.append(value)
            return len(self.words) - 1
        if name == "topic_id":
            return self.topic(value)
        return value

    def topic(self, topic_id: str) -> int:
        """The number of a topic id."""
        if topic_id not in self.topic_ids:
            self.topic_ids.append(topic_id)
        return self.topic_ids.index(topic_id)

    def correct(self, clock: Clock) -> int:
        """Take from the times of the rows what their brokers' clocks are ahead by; the greatest time then."""
        rows = self.rows[: self.count]
        rows["ts"] -= clock.ahead(rows["broker_id"])
        return int(rows["ts"].max(initial=0))

    def table(self, cluster: str, source_id: str) -> pa.Table:
        """All rows in the schema EVENTS."""
        rows = self.rows[: self.count]
        lost = (rows["type"] == LOST) & (rows["detail"] < 0)
        rows["detail"][lost] = len(self.words) + np.arange(np.count_nonzero(lost))
        self.words.extend(_lost(int(count)) for count in rows["broker_epoch"][lost])
        rows["broker_epoch"][lost] = UNKNOWN
        return table(rows, cluster, source_id, self.known.places, self.topic_ids, self.lists, self.words)


def _lost(count: int) -> str:
    if count == UNREADABLE:
        return "at least 1 line: what stands there cannot be read"
    return f"{count} line{'s' if count > 1 else ''}: numbers (%sn) that never came"
