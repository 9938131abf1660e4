"""SQL over tables of events and facts: other numbers, other ISRs, and what became of partitions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa

from pipelines.replication import Facts

Row = dict[str, Any]
STOOD_US = 1_000_000
"""Below the leader's LEO for longer the HW stands: fetches of a follower that keeps up come sooner."""
_ISRS = pa.schema([
    ("cluster", pa.string()), ("topic", pa.string()), ("partition", pa.int32()), ("us", pa.timestamp("us", "UTC")),
    ("leader_id", pa.int32()), ("isr", pa.list_(pa.int32())),
])  # fmt: skip
_REPORTED = {"ts": "i.us", "event_type": "'isr'", "isr": "i.isr", "detail": "'alter_partition'"}
_SHARED = (
    "cluster", "source_id", "source_epoch", "source_seq", "seq", "broker_id", "topic", "topic_id", "partition", "level",
)  # fmt: skip
"""What a row that reports an ISR has of its own, in SQL, and what it shares with the row before it."""


def query(sql: str, tables: Mapping[str, pa.Table]) -> pa.Table:
    """The result of a query over these tables."""
    import duckdb

    with duckdb.connect() as connection:
        for name, table in tables.items():
            connection.register(name, table)
        return connection.sql(sql).to_arrow_table()


def rows_of(sql: str, **tables: pa.Table) -> list[Row]:
    """The rows of a query."""
    rows: list[Row] = query(sql, tables).to_pylist()
    return rows


def renumbered(events: pa.Table) -> pa.Table:
    """The events with `source_seq` and `seq` without the holes that rows which were not read leave behind."""
    return _numbered("SELECT *, false AS added FROM events", events=events)


def with_isrs(events: pa.Table, isrs: Iterable[Row]) -> pa.Table:
    """The events with these ISRs, each behind the last row of its leader, in place of those that were reported."""
    values = _REPORTED | {name: f"e.{name}" for name in _SHARED}
    added = ", ".join(f"{value} AS {name}" for name, value in values.items())
    return _numbered(
        f"""
        SELECT *, false AS added FROM events WHERE event_type NOT IN ('isr', 'isr_proposed', 'isr_rejected')
        UNION ALL BY NAME SELECT {added}, true AS added FROM isrs i
        ASOF JOIN (
            SELECT * FROM events WHERE event_type IN ('leader', 'append', 'fetch')
            QUALIFY row_number() OVER (
                PARTITION BY cluster, topic, partition, broker_id, ts
                ORDER BY source_epoch DESC, source_seq DESC, source_id
            ) = 1
        ) e
        ON {_same_place("i", "e")} AND i.leader_id = e.broker_id AND i.us >= e.ts""",
        events=events,
        isrs=pa.Table.from_pylist([{name: row[name] for name in _ISRS.names} for row in isrs], _ISRS),
    )


def _numbered(sql: str, **tables: pa.Table) -> pa.Table:
    series = "cluster, source_id, source_epoch"
    number = "(row_number() OVER (PARTITION BY {} ORDER BY source_seq, added, ts) - 1)"
    replaced = f"{number.format(series)} AS source_seq, {number.format(f'{series}, topic, partition')} AS seq"
    schema = tables["events"].schema
    ordered = f"SELECT * EXCLUDE (added) REPLACE ({replaced}) FROM ({sql}) ORDER BY {series}, source_seq"
    return query(ordered, tables).select(schema.names).cast(schema)


def measure(events: pa.Table, facts: Facts, begin: int, end: int) -> list[Row]:
    """Rows (cluster, topic, partition, measure, us): how long each measure held within a time."""
    until = f"coalesce(lead(epoch_us(ts)) OVER (PARTITION BY cluster, topic, partition, {{}}), {end}) AS until"
    until_next, until_replica = (
        until.format("NULL ORDER BY ts, hw, leader_epoch, kind"),
        until.format("replica_id ORDER BY ts"),
    )
    return rows_of(
        f"""
        WITH terms AS (SELECT * FROM partition_hw WHERE kind = 'term_start'),
        hws AS (SELECT *, {until_next} FROM partition_hw WHERE kind IN ('term_start', 'advance')),
        leos AS (
            SELECT e.cluster, e.topic, e.partition, t.leader_epoch, end_offset, min(epoch_us(e.ts)) AS us FROM (
                SELECT *, coalesce(leader_leo, CASE WHEN event_type = 'leader' THEN leo END) AS end_offset FROM events
            ) e ASOF JOIN terms t ON {_same_place("e", "t")} AND e.broker_id = t.leader_id AND e.ts >= t.ts
            WHERE end_offset IS NOT NULL GROUP BY ALL
        ),
        spans AS (
            SELECT h.cluster, h.topic, h.partition, 'hw_stood_us' AS measure,
                greatest(epoch_us(h.ts), l.us) AS since, until
            FROM hws h ASOF JOIN leos l
            ON {_same_place("h", "l")} AND h.leader_epoch = l.leader_epoch AND h.hw < l.end_offset
            WHERE until - greatest(epoch_us(h.ts), l.us) > {STOOD_US}
            UNION ALL
            SELECT s.cluster, s.topic, s.partition, 'out_of_sync_us', epoch_us(s.ts), least(until, epoch_us(t.ts))
            FROM (SELECT *, {until_replica} FROM replica_sync) s
            ASOF LEFT JOIN terms t ON {_same_place("s", "t")} AND s.ts < t.ts
            WHERE s.state = 'out_of_sync'
            UNION ALL
            SELECT cluster, topic, partition, 'under_min_isr_us', epoch_us(ts), until
            FROM (SELECT *, {until_next} FROM partition_hw) WHERE frozen
        )
        SELECT cluster, topic, partition, measure, sum(least(until, {end}) - greatest(since, {begin}))::BIGINT AS us
        FROM spans WHERE least(until, {end}) > greatest(since, {begin}) GROUP BY ALL""",
        events=events,
        partition_hw=facts.partition_hw,
        replica_sync=facts.replica_sync,
    )


def _same_place(one: str, other: str) -> str:
    return " AND ".join(f"{one}.{name} = {other}.{name}" for name in ("cluster", "topic", "partition"))
