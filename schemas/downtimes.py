"""`ops/downtimes`: one window in which brokers may be away."""

from schemas.declaration import Column, Table

TABLE = Table(
    "ops/downtimes",
    "one window in which named brokers may be away",
    (
        Column("downtime_id", "string", "stable id; of one id the row written last counts", null=False),
        Column("cluster", "string", "cluster name", null=False),
        Column("brokers", "array<int>", "the brokers; null: all of the cluster"),
        Column("rack", "string", "the rack that was named, whose brokers these are"),
        Column("begins", "timestamp", "from when, wall clock", null=False),
        Column("until", "timestamp", "until when, wall clock", null=False),
        Column("reason", "string", "what for", null=False),
        Column("author", "string", "who said it, as the operating system knows them"),
        Column("written_at", "timestamp", "when, wall clock", null=False),
    ),
    key=("downtime_id", "written_at"),
)
ARROW = TABLE.arrow()
spark = TABLE.spark
