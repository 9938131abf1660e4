"""`silver/replica_hw`: one change of a follower's high watermark (off by default)."""

from schemas.declaration import Column, Table
from schemas.keys import LEVEL, PLACE

TABLE = Table(
    "silver/replica_hw",
    "one change of a follower's high watermark (off by default)",
    (
        *PLACE,
        Column("replica_id", "int", "the follower", null=False),
        Column("hw", "bigint", "min(leader HW in its last answer, own LEO)"),
        Column("reported_hw", "bigint", "what the follower reported"),
        LEVEL,
    ),
    key=("cluster", "topic", "topic_id", "partition", "replica_id", "leader_epoch", "ts", "hw"),
)
ARROW = TABLE.arrow()
spark = TABLE.spark
