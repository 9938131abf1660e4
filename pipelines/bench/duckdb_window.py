"""A SQL window in DuckDB: the least of the last LEOs told by the ISR, at every event, then the last of each second."""

from __future__ import annotations

from typing import TYPE_CHECKING

from generators.lake import read_events
from pipelines.bench.answer import ordered

if TYPE_CHECKING:
    import pyarrow as pa

COLUMNS = ["event_type", "topic", "partition", "seq", "ts", "replica_id", "leo", "leader_leo", "isr"]

QUERY = """
WITH led AS (SELECT topic, partition, isr FROM events WHERE event_type = 'leader'),
told AS (
    SELECT topic, partition, seq, epoch_us(ts) // 1000000 AS second,
        CASE event_type WHEN 'leader' THEN leo ELSE leader_leo END AS leader,
        CASE WHEN replica_id = led.isr[2] THEN leo END AS follower,
        CASE WHEN replica_id = led.isr[3] THEN leo END AS other
    FROM events JOIN led USING (topic, partition)
),
known AS (
    SELECT topic, partition, second,
        least(
            last_value(leader IGNORE NULLS) OVER so_far,
            coalesce(last_value(follower IGNORE NULLS) OVER so_far, 0),
            coalesce(last_value(other IGNORE NULLS) OVER so_far, 0)
        ) AS hw
    FROM told
    WINDOW so_far AS (PARTITION BY topic, partition ORDER BY seq ROWS UNBOUNDED PRECEDING)
),
seconds AS (SELECT topic, partition, second, max(hw) AS hw FROM known GROUP BY ALL)
SELECT topic, partition, second, hw FROM seconds
QUALIFY hw > coalesce(lag(hw) OVER (PARTITION BY topic, partition ORDER BY second), 0)
"""


class DuckDBWindow:
    """Counted: Arrow in memory to the HW after each second as Arrow; no agreement, ISR, sync, verdicts or tables."""

    NAME = "DuckDB window"
    COUNTED = "Arrow in memory to min LEO over the ISR after each second in memory, nothing else, all cores"

    def __init__(self, lake: str, folder: str) -> None:
        import duckdb

        self._duckdb = duckdb.connect()
        self._duckdb.execute("SET enable_progress_bar = false")
        self._duckdb.register("events", read_events(lake, columns=COLUMNS))

    def prepare(self) -> None:
        self._told = None

    def run(self) -> None:
        self._told = self._duckdb.sql(QUERY).to_arrow_table()

    def answer(self) -> pa.Table:
        return ordered(self._told)

    def close(self) -> None:
        self._duckdb.close()
