"""Columns that tables share: where and when, and under which leader."""

from schemas.declaration import Column

PLACE = (
    Column("cluster", "string", "cluster name", null=False),
    Column("topic", "string", "topic name", null=False),
    Column("topic_id", "string", "Kafka's 22-character id; another one where the topic was created again"),
    Column("partition", "int", "partition number", null=False),
    Column("ts", "timestamp", "when it happened, on the clock of the broker that saw it", null=False),
    Column("leader_id", "int", "the leading broker, -1 when nobody leads"),
    Column("leader_epoch", "int", "epoch of that leader"),
)

TRUE_PLACE = (
    Column("cluster", "string", "cluster name", null=False),
    Column("topic", "string", "topic name", null=False),
    Column("topic_id", "string", "Kafka's 22-character id; another one where the topic was created again", null=False),
    Column("partition", "int", "partition number", null=False),
    Column("at", "timestamp", "true time, which no broker's clock shows", null=False),
)

LEVEL = Column("level", "int", "telemetry level of the leading broker's source: 0 INFO, 1 polled, 2 lean TRACE, 3 full")
REVISION = Column(
    "revision",
    "int",
    "1 when first written; a later row with the same key and a higher one replaces it",
    null=False,
)
