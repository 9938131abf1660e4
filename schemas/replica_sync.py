"""`silver/replica_sync`: one state change of one replica."""

from schemas.declaration import Column, Table
from schemas.keys import LEVEL, PLACE

TABLE = Table(
    "silver/replica_sync",
    "one state change of one replica",
    (
        *PLACE,
        Column("replica_id", "int", "the replica", null=False),
        Column("state", "string", "in_sync, lagging or out_of_sync", null=False),
        Column("previous_state", "string", "the state before, null at the first"),
        Column("in_isr", "boolean", "member of the committed ISR at that moment"),
        Column("last_caught_up_ts", "timestamp", "when it was last caught up, as Kafka computes it"),
        Column("leo", "bigint", "its log end offset as the leader knew it"),
        Column("leader_leo", "bigint", "log end offset of the leader"),
        Column("lag_records", "bigint", "offsets behind the leader"),
        Column("lag_ms", "bigint", "milliseconds since last caught up"),
        Column("reason", "string", "silent, behind, no_state; recovered; unassigned: no replica any more"),
        LEVEL,
    ),
    key=("cluster", "topic", "topic_id", "partition", "replica_id", "leader_epoch", "ts", "state"),
)
ARROW = TABLE.arrow()
spark = TABLE.spark
