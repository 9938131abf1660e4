"""`gold/timeline`: one thing that happened, of one cause and minute; kept for 30 days."""

from schemas.declaration import Column, Table

TABLE = Table(
    "gold/timeline",
    "one thing that happened, as events tell it: rows of one cause, less than a second apart and of one minute",
    (
        Column("cluster", "string", "cluster name", null=False),
        Column("ts", "timestamp", "when the first of it happened", null=False),
        Column("until", "timestamp", "when the last of it happened", null=False),
        Column("kind", "string", "ISR, loss, term, HW, sync, telemetry, topic, broker, config, …", null=False),
        Column("severity", "string", "critical, warning or info", null=False),
        Column("broker_id", "int", "the broker that it is about; null: several, or none"),
        Column("topic", "string", "the topic of its partitions; null: several, or none"),
        Column("partitions", "bigint", "how many partitions it concerns", null=False),
        Column("examples", "array<string>", "some of them by name"),
        Column("summary", "string", "what happened, to whom, and within how long", null=False),
        Column("incident_id", "string", "the incident that it is part of; null: not known"),
    ),
)
ARROW = TABLE.arrow()
spark = TABLE.spark
