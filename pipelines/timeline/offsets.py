"""The offsets of one partition over time: LEO of each replica and HW, thinned so that a chart shows the same."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from pipelines.lake.lake import Lake
from pipelines.lake.queries import Filter, View, select_rows
from schemas import partition_hw, replica_sync, replication_events
from schemas.declaration import Table

HW = "HW"
"""The series of the high watermark; the others are `broker N`."""
BINS = 240
"""Pieces of time that a chart tells apart; of each series at most four points of each are kept."""

_LEO_EVENTS = "'fetch', 'append', 'leader', 'follower', 'truncate', 'replica_leo', 'sample'"
_BRONZE = (
    "SELECT ts, concat('broker ', CASE WHEN event_type = 'append' OR replica_id IS NULL THEN broker_id ELSE replica_id "
    "END) AS series, CASE event_type WHEN 'append' THEN leader_leo ELSE leo END AS value FROM t "
    f"WHERE event_type IN ({_LEO_EVENTS}) AND {{where}}"
)
_LEADER = (
    "SELECT ts, concat('broker ', leader_id) AS series, leader_leo AS value FROM t WHERE leader_id >= 0 AND {where}"
)
_FOLLOWER = "SELECT ts, concat('broker ', replica_id) AS series, leo AS value FROM t WHERE {where}"
_HW = f"SELECT ts, '{HW}' AS series, hw AS value FROM t WHERE kind <> 'report' AND {{where}}"

SERIES: tuple[tuple[Table, str], ...] = (
    (partition_hw.TABLE, _HW),
    (partition_hw.TABLE, _LEADER),
    (replica_sync.TABLE, _FOLLOWER),
    (replication_events.TABLE, _BRONZE),
)
"""Where LEOs and HWs are recorded: a leader alone in its ISR has no row of its own in bronze, silver has its LEO."""

# M4: of each piece of time the first, the last, the least and the largest value draw the same line as all of them.
_THINNED = """
SELECT series, first_value(value ORDER BY ts) AS first, last_value(value ORDER BY ts) AS last, min(value) AS least,
  max(value) AS most, min(ts) AS first_ts, max(ts) AS last_ts, first_value(ts ORDER BY value, ts) AS least_ts,
  first_value(ts ORDER BY value DESC, ts) AS most_ts
FROM ({points}) WHERE value >= 0
GROUP BY series, date_bin(interval '{step} milliseconds', ts)
"""


@dataclass(frozen=True, order=True)
class Point:
    """An offset of one series from a time on."""

    ts: datetime
    series: str
    offset: int


def offsets(lake: Lake, wanted: Filter, bins: int = BINS) -> list[Point]:
    """The points of one partition in order of time; `wanted` has a partition and, as moments, `since` and `until`."""
    span = _span(lake, wanted)
    if span is None:
        return []
    step = max(1, int((span[1] - span[0]) / timedelta(milliseconds=1)) // bins)
    return sorted({point for table, sql in SERIES for point in _thinned(lake, wanted, table, sql, step)})


def _thinned(lake: Lake, wanted: Filter, table: Table, sql: str, step: int) -> Iterator[Point]:
    points = sql.format(where=wanted.where(View(table, "ts", "")))
    for row in select_rows(lake, table, _THINNED.format(points=points, step=step)):
        for name in ("first", "least", "most", "last"):
            yield Point(row[f"{name}_ts"], row["series"], row[name])


def _span(lake: Lake, wanted: Filter) -> tuple[datetime, datetime] | None:
    """The first and the last time of which a series has anything."""
    found = list(_ends(lake, wanted))
    return (min(first for first, _ in found), max(last for _, last in found)) if found else None


def _ends(lake: Lake, wanted: Filter) -> Iterator[tuple[datetime, datetime]]:
    for table in (partition_hw.TABLE, replica_sync.TABLE, replication_events.TABLE):
        where = wanted.where(View(table, "ts", ""))
        for row in select_rows(lake, table, f"SELECT min(ts) AS first, max(ts) AS last FROM t WHERE {where}"):
            if row["first"] is not None:
                yield row["first"], row["last"]
