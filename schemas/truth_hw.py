"""`truth_hw`: one change of a partition's high watermark as it truly was."""

from schemas.declaration import Column, Table
from schemas.keys import TRUE_PLACE

TABLE = Table(
    "truth_hw",
    "one change of a partition's high watermark, on the broker that led it then",
    (
        *TRUE_PLACE,
        Column("ts", "timestamp", "when it happened, on the leader's clock", null=False),
        Column("leader_id", "int", "who led", null=False),
        Column("leader_epoch", "int", "epoch of that leader", null=False),
        Column("term", "int", "number of the stretch of leading, over the whole simulation", null=False),
        Column("kind", "string", "term_start or advance", null=False),
        Column("hw", "bigint", "the high watermark from then on", null=False),
        Column("leader_leo", "bigint", "log end offset of the leader", null=False),
        Column("isr", "array<int>", "in-sync replicas as the leader had them committed", null=False),
    ),
)
ARROW = TABLE.arrow()
spark = TABLE.spark
