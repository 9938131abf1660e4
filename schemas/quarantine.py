"""`bronze/quarantine`: whole events that break the contract, with the reasons."""

from schemas import replication_events
from schemas.declaration import Column, Table

TABLE = Table(
    "bronze/quarantine",
    "an event that breaks the contract, whole, with every reason",
    (
        *(Column(c.name, c.type, c.words) for c in replication_events.TABLE.columns),
        Column("reasons", "array<string>", "every rule it breaks, with the bad value", null=False),
        Column("quarantined_at", "timestamp", "wall-clock time of the micro-batch that set it aside", null=False),
    ),
)
ARROW = TABLE.arrow()
spark = TABLE.spark
