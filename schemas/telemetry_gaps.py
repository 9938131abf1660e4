"""`silver/telemetry_gaps`: telemetry that is missing, late, restarted, out of time, or contradicts other."""

from schemas.declaration import Column, Table
from schemas.keys import LEVEL

NOT_UNDERSTOOD = "not understood: "
"""How the detail begins where the lines are there, in a shape that the reader does not know."""
UNREAD = "unread: "
"""How the detail begins where a file, or all of a stream, was offered and could not be read."""

TABLE = Table(
    "silver/telemetry_gaps",
    "telemetry that is missing, late, restarted, out of time, or contradicts other",
    (
        Column("cluster", "string", "cluster name", null=False),
        Column("topic", "string", "topic name, where one partition's series is concerned"),
        Column("topic_id", "string", "Kafka's topic id"),
        Column("partition", "int", "partition, -1 for a source's series", null=False),
        Column("ts", "timestamp", "where in time it was noticed", null=False),
        Column("leader_id", "int", "leader at that moment"),
        Column("leader_epoch", "int", "its epoch"),
        Column("source_id", "string", "the telemetry writer", null=False),
        Column("source_epoch", "int", "its incarnation", null=False),
        Column("series", "string", "partition or source", null=False),
        Column(
            "seq_from",
            "bigint",
            "first number concerned; of a wrong clock the first of its stretch, null in a partition",
        ),
        Column("seq_to", "bigint", "last number concerned, inclusive; of a wrong clock as seq_from"),
        Column("kind", "string", "gap, late, reset, clock or contradiction", null=False),
        Column("detail", "string", "what the reader knows of it"),
        LEVEL,
    ),
    key=("cluster", "topic", "topic_id", "partition", "source_id", "source_epoch", "series", "kind", "seq_from", "ts"),
)
ARROW = TABLE.arrow()
spark = TABLE.spark
