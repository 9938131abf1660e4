"""Bronze events for tests, source by source in milliseconds; and rows of facts as tuples."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa

from schemas import replication_events

BASE_MS = 1_767_225_600_000
"""Millisecond 0 of every test: like a real clock, far from 0 (a replica that never fetched was caught up at 0)."""


class Source:
    """One telemetry source and its rows; `source_seq` and `seq` number themselves.

    Every call adds one row: milliseconds first, then the columns of the event. `more` names any other column.
    """

    def __init__(self, source_id: str = "broker-1/replication.log", source_epoch: int = 0, **columns: Any) -> None:
        self.broker = int(next(part for part in source_id.split("/") if "-" in part).rpartition("-")[2])
        self.common = {"cluster": "c", "source_id": source_id, "source_epoch": source_epoch, "level": 3} | columns
        self.place = {"topic": "clicks", "topic_id": "first-id", "partition": 0}
        self.rows: list[dict[str, Any]] = []
        self._next: Counter[tuple[Any, ...]] = Counter()

    def on(self, **place: Any) -> Source:
        """The rows that follow are about another partition, or another topic id."""
        self.place = self.place | place
        return self

    def at_level(self, level: int) -> Source:
        self.common = self.common | {"level": level}
        return self

    def skip(self, rows: int = 1) -> Source:
        """Rows that were written and got lost: their numbers stay empty."""
        for _ in range(rows):
            self.number(self.place)
        return self

    def event(self, ms: float, event_type: str, wide: bool = False, **more: Any) -> Source:
        place = {"topic": None, "topic_id": None, "partition": -1} if wide else self.place
        row = {"ts": round((BASE_MS + ms) * 1000), "broker_id": self.broker, "event_type": event_type}
        self.rows.append(self.common | place | row | self.number(place | more) | more)
        return self

    def number(self, place: dict[str, Any]) -> dict[str, int]:
        """The numbers of the next row, of this place."""
        series, source = (place["topic"], place["partition"]), ("source",)
        numbers = {"seq": self._next[series], "source_seq": self._next[source]}
        self._next.update([series, source])
        return numbers

    def leader(self, ms: float, epoch: int, leo: int, hw: int, isr: list[int], **more: Any) -> Source:
        columns = {"leader_id": self.broker, "partition_epoch": epoch, "replicas": [1, 2, 3], **more}
        return self.event(ms, "leader", leader_epoch=epoch, leo=leo, hw=hw, isr=isr, **columns)

    def follower(self, ms: float, epoch: int, leo: int, hw: int, of: int) -> Source:
        return self.event(ms, "follower", leader_epoch=epoch, leader_id=of, leo=leo, hw=hw)

    def election(self, ms: float, leader: int, epoch: int, **more: Any) -> Source:
        return self.event(ms, "election", leader_id=leader, leader_epoch=epoch, **more)

    def append(self, ms: float, leader_leo: int) -> Source:
        return self.event(ms, "append", leader_leo=leader_leo, leader_id=self.broker)

    def fetch(self, ms: float, replica: int, leo: int, leader_leo: int | None = None, **more: Any) -> Source:
        columns = {"leader_id": self.broker, "leader_leo": leader_leo, **more}
        return self.event(ms, "fetch", replica_id=replica, leo=leo, **columns)

    def replica_leo(self, ms: float, replica: int, leo: int) -> Source:
        return self.event(ms, "replica_leo", replica_id=replica, leo=leo, leader_id=self.broker)

    def hw(self, ms: float, hw: int) -> Source:
        """This broker reports that its HW, as leader, became `hw`."""
        return self.event(ms, "hw", replica_id=self.broker, hw=hw, leader_id=self.broker)

    def follower_hw(self, ms: float, hw: int, of: int) -> Source:
        return self.event(ms, "hw", replica_id=self.broker, hw=hw, leader_id=of)

    def proposed(self, ms: float, isr: list[int], detail: str) -> Source:
        return self.event(ms, "isr_proposed", isr=isr, detail=detail, leader_id=self.broker)

    def isr(self, ms: float, isr: list[int], epoch: int | None, detail: str = "alter_partition", **more: Any) -> Source:
        columns = {"leader_id": None if detail == "controller" else self.broker, **more}
        return self.event(ms, "isr", isr=isr, partition_epoch=epoch, detail=detail, **columns)

    def rejected(self, ms: float) -> Source:
        return self.event(ms, "isr_rejected", leader_id=self.broker)

    def truncate(self, ms: float, leo: int) -> Source:
        return self.event(ms, "truncate", replica_id=self.broker, leo=leo)

    def broker_state(self, ms: float, broker: int, detail: str, epoch: int | None = None) -> Source:
        return self.event(ms, "broker_state", True, replica_id=broker, detail=detail, broker_epoch=epoch)

    def config(self, ms: float, topic: str | None = None, **settings: int) -> Source:
        return self.event(ms, "config", True, topic=topic, **settings)

    def progress(self, ms: float) -> Source:
        return self.event(ms, "progress", True)

    def lost(self, ms: float, detail: str = "7 lines") -> Source:
        return self.event(ms, "lost", True, detail=detail)


def controller(**columns: Any) -> Source:
    return Source("controller-9/controller.log", level=0, **columns)


def table(*sources: Source) -> pa.Table:
    """All rows of these sources, in the bronze schema."""
    return events_of([row for source in sources for row in source.rows])


def events_of(rows: list[dict[str, Any]]) -> pa.Table:
    """Rows as they stand; a null where the schema has none is for the reconstruction to refuse."""
    nullable = pa.schema([field.with_nullable(True) for field in replication_events.ARROW])
    return pa.Table.from_pylist(rows, nullable)


def values_of(facts: pa.Table, *columns: str, **where: Any) -> list[Any]:
    """The named columns of the rows where `where` holds, in order of time; `ms` stands for ts since BASE_MS.

    One column comes as plain values, several as tuples.
    """
    rows = sorted(facts.to_pylist(), key=lambda row: row["ts"])
    for row in rows:
        row["ms"] = since_base(row["ts"])
    kept = [row for row in rows if all(row[name] == value for name, value in where.items())]
    return [row[columns[0]] if len(columns) == 1 else tuple(row[c] for c in columns) for row in kept]


def since_base(ts: Any) -> int | None:
    return None if ts is None else round(ts.timestamp() * 1000) - BASE_MS


def advances(facts: Any, **where: Any) -> list[tuple[int, int]]:
    """(ms, hw) of every rise of the reconstructed HW."""
    return values_of(facts.partition_hw, "ms", "hw", kind="advance", **where)


def last_rows(facts: pa.Table, key: str) -> list[dict[str, Any]]:
    """Of each key only the row of the highest revision."""
    last: dict[Any, dict[str, Any]] = {}
    for row in facts.to_pylist():
        if row[key] not in last or row["revision"] > last[row[key]]["revision"]:
            last[row[key]] = row
    return list(last.values())
