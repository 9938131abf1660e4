"""`gold/partition_health`: the present state of one partition."""

from schemas.declaration import Column, Table
from schemas.keys import LEVEL

TABLE = Table(
    "gold/partition_health",
    "the present state of one partition",
    (
        Column("cluster", "string", "cluster name", null=False),
        Column("topic", "string", "topic name", null=False),
        Column("topic_id", "string", "Kafka's topic id"),
        Column("partition", "int", "partition number", null=False),
        Column("leader_id", "int", "present leader, -1 when nobody leads"),
        Column("leader_epoch", "int", "its epoch"),
        Column("partition_epoch", "int", "last partition epoch seen"),
        Column("hw", "bigint", "reconstructed high watermark"),
        Column("leader_leo", "bigint", "log end offset of the leader"),
        Column("ar", "array<int>", "assigned replicas"),
        Column("isr", "array<int>", "in-sync replicas"),
        Column("osr", "array<int>", "assigned but not in sync"),
        Column("out_of_sync", "array<int>", "replicas out of sync by Kafka's rule, in the ISR or not"),
        Column("holding_replicas", "array<int>", "who holds the HW back"),
        Column("under_replicated", "boolean", "fewer in sync than assigned"),
        Column("under_min_isr", "boolean", "fewer in sync than min.insync.replicas"),
        Column("offline", "boolean", "nobody leads"),
        Column("lag_records", "bigint", "largest lag of a replica"),
        Column("stalled_ms", "bigint", "milliseconds for which the HW has stood below the leader's LEO"),
        Column("last_event_ts", "timestamp", "last telemetry about it"),
        LEVEL,
    ),
)
ARROW = TABLE.arrow()
spark = TABLE.spark
