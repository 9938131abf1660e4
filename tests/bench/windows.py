"""The question in SQL, for the engines that speak it: window functions over each partition's events.

In the load that is asked about one leader leads throughout, every leader appends each second, LEOs do not fall, and
a replica that is let into the ISR has the leader's LEO: without that these statements would not do.
"""

from dataclasses import dataclass

SECOND_US = 1_000_000
COLUMNS = ["event_type", "topic", "partition", "seq", "ts", "replica_id", "leo", "leader_leo", "isr"]


@dataclass(frozen=True)
class Dialect:
    """What the engines write differently; `first` is the index of a list's first element."""

    microseconds: str
    contains: str
    integer: str
    first: int

    def last(self, column: str) -> str:
        """The last value of a column that is not null, so far."""
        raise NotImplementedError


class DuckDB(Dialect):
    def last(self, column: str) -> str:
        return f"last_value({column} IGNORE NULLS) OVER so_far"


class Spark(Dialect):
    def last(self, column: str) -> str:
        return f"last_value({column}) IGNORE NULLS OVER so_far"


DUCKDB = DuckDB("epoch_us", "list_contains", "//", 1)
SPARK = Spark("unix_micros", "array_contains", "div", 0)


def known(sql: Dialect) -> str:
    """Of `events`, at each event of a partition: the HW, and what the leader knew of its own log."""
    committed = "('leader', 'isr')"
    leader, follower, other = sql.last("leader"), sql.last("follower"), sql.last("other")
    return f"""
WITH led AS (SELECT topic, partition, isr AS replicas FROM events WHERE event_type = 'leader'),
reported AS (
    SELECT events.topic, events.partition, seq, {sql.microseconds}(ts) AS us, event_type, replica_id, leo,
        CASE event_type WHEN 'append' THEN leader_leo WHEN 'leader' THEN leo END AS leader,
        CASE WHEN replica_id = replicas[{sql.first + 1}] THEN leo END AS follower,
        CASE WHEN replica_id = replicas[{sql.first + 2}] THEN leo END AS other,
        CASE WHEN event_type IN {committed} THEN {sql.contains}(isr, replicas[{sql.first + 1}]) END AS has_follower,
        CASE WHEN event_type IN {committed} THEN {sql.contains}(isr, replicas[{sql.first + 2}]) END AS has_other
    FROM events JOIN led ON events.topic = led.topic AND events.partition = led.partition
)
SELECT topic, partition, seq, us, event_type, replica_id, leo, {leader} AS leader_leo,
    least(
        {leader},
        CASE WHEN {sql.last("has_follower")} THEN coalesce({follower}, 0) END,
        CASE WHEN {sql.last("has_other")} THEN coalesce({other}, 0) END
    ) AS hw
FROM reported
WINDOW so_far AS (PARTITION BY topic, partition ORDER BY seq ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)
"""


def high_watermarks(sql: Dialect, resolution_us: int) -> str:
    """Of `known`: the HW at the end of each `resolution_us` in which it rose; at each rise where that is 0."""
    us = f"us {sql.integer} {resolution_us} * {resolution_us}" if resolution_us else "us"
    return f"""
WITH stretches AS (SELECT topic, partition, {us} AS us, max(hw) AS hw FROM known GROUP BY topic, partition, {us}),
beside AS (SELECT *, lag(hw) OVER (PARTITION BY topic, partition ORDER BY us) AS before FROM stretches)
SELECT topic, partition, us, hw FROM beside WHERE hw > coalesce(before, 0)
"""


def isr_changes(sql: Dialect) -> str:
    """Of `events`: every committed ISR with the one before it."""
    return f"""
WITH reported AS (
    SELECT topic, partition, seq, {sql.microseconds}(ts) AS us, isr AS isr_after,
        lag(isr) OVER (PARTITION BY topic, partition ORDER BY seq) AS isr_before
    FROM events WHERE event_type IN ('leader', 'isr')
)
SELECT topic, partition, us, isr_before, isr_after FROM reported
WHERE isr_before IS NOT NULL AND isr_before <> isr_after
"""


def out_of_sync(lag_max_ms: int) -> str:
    """Of `known`: from when to when each follower was not caught up for longer than the lag allows.

    As Kafka has it: a fetch at the leader's LEO is caught up; one at the LEO of the leader at the fetch before it was
    caught up when that fetch came.
    """
    lag_us = lag_max_ms * 1000
    return f"""
WITH fetches AS (
    SELECT *, lag(leader_leo) OVER fetched AS leader_before, lag(us) OVER fetched AS us_before
    FROM known WHERE event_type = 'fetch'
    WINDOW fetched AS (PARTITION BY topic, partition, replica_id ORDER BY seq)
),
caught AS (
    SELECT topic, partition, replica_id, seq, us,
        max(CASE WHEN leo >= leader_leo THEN us WHEN leo >= leader_before THEN us_before END) OVER (
            PARTITION BY topic, partition, replica_id ORDER BY seq ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
        ) AS caught_up
    FROM fetches
),
beside AS (
    SELECT *, us > caught_up + {lag_us} AS is_out, lag(caught_up) OVER fetched AS caught_before,
        lag(us) OVER fetched > lag(caught_up) OVER fetched + {lag_us} AS was_out
    FROM caught
    WINDOW fetched AS (PARTITION BY topic, partition, replica_id ORDER BY seq)
),
edges AS (
    SELECT topic, partition, replica_id, seq, us, is_out,
        CASE WHEN NOT coalesce(was_out, false) THEN caught_before + {lag_us + 1000} END AS since
    FROM beside WHERE us > caught_before + {lag_us}
),
ended AS (
    SELECT *, max(since) OVER (
        PARTITION BY topic, partition, replica_id ORDER BY seq ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
    ) AS begun
    FROM edges
)
SELECT topic, partition, replica_id, begun AS since, us AS until FROM ended WHERE NOT is_out
"""
