"""`gold/partition_changes`: one change of a partition's present, for who follows it."""

from schemas.declaration import Column, Table
from schemas.partition_health import TABLE as HEALTH

PASSING = (
    "hw",
    "leader_leo",
    "lag_records",
    "stalled_ms",
    "last_event_ts",
    "holding_replicas",
    "behind",
    "one_failure_away",
)
"""Columns of `gold/partition_health` that change with every fetch: offsets, lag, times, and what follows from lag."""

TABLE = Table(
    "gold/partition_changes",
    "one partition whose present changed in more than offsets, lag and times; append-only, to be followed as a stream",
    (
        *HEALTH.columns,
        Column("changed", "array<string>", "the columns that changed; null: it is here for the first time"),
        Column("gone", "boolean", "its topic is no longer in the metadata: the row as it was last", null=False),
    ),
)
ARROW = TABLE.arrow()
spark = TABLE.spark
