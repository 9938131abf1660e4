"""`gold/replica_lag`: the replicas of a cluster that were furthest behind at one gold interval; kept for seven days."""

from schemas.declaration import Column, Table
from schemas.keys import LEVEL

WORST = 1000
"""So many replicas of a cluster have a row at each interval: those that never fetched in this term, of which no lag in
records is known, then the largest lag first."""

TABLE = Table(
    "gold/replica_lag",
    f"one of the {WORST:,} followers of a cluster that were furthest behind at one gold interval",
    (
        Column("cluster", "string", "cluster name", null=False),
        Column("topic", "string", "topic name", null=False),
        Column("topic_id", "string", "Kafka's topic id"),
        Column("partition", "int", "partition number", null=False),
        Column("replica_id", "int", "the follower", null=False),
        Column("ts", "timestamp", "event time of the interval, one for all rows of its cluster", null=False),
        Column("as_of", "timestamp", "up to when the leader's telemetry had been read: the time of these values"),
        Column("leader_id", "int", "the leader"),
        Column("leader_epoch", "int", "its epoch"),
        Column("state", "string", "in_sync, lagging or out_of_sync; null: its broker does not answer the watcher"),
        Column("in_isr", "boolean", "member of the committed ISR"),
        Column("leo", "bigint", "its log end offset as the leader knew it; null: not known"),
        Column("leader_leo", "bigint", "log end offset of the leader"),
        Column("lag_records", "bigint", "offsets behind the leader; null: it has not fetched in this term"),
        Column("lag_ms", "bigint", "milliseconds since last caught up; null: not known"),
        LEVEL,
    ),
    key=("cluster", "topic", "partition", "replica_id", "ts"),
)
ARROW = TABLE.arrow()
spark = TABLE.spark
