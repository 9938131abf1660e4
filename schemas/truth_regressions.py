"""`truth_regressions`: one fall of a high watermark and what was lost by it."""

from schemas.declaration import Column, Table
from schemas.keys import TRUE_PLACE

TABLE = Table(
    "truth_regressions",
    "one fall of a high watermark, or a log that was cut, and the committed records that are gone by it",
    (
        *TRUE_PLACE,
        Column("ts", "timestamp", "when it happened, on the clock of the broker concerned", null=False),
        Column("leader_id", "int", "who leads by then", null=False),
        Column("leader_epoch", "int", "epoch of that leader", null=False),
        Column(
            "class",
            "string",
            "unclean_loss, committed_loss, stale_leader_hw, hw_moved_back or uncommitted_truncation",
            null=False,
        ),
        Column("replica_id", "int", "the replica that was cut, where not the leader"),
        Column("hw_before", "bigint", "how far records were committed", null=False),
        Column("hw_after", "bigint", "the high watermark, or the end of the log, afterwards", null=False),
        Column("start_offset", "bigint", "log end offset with which the leader starts"),
        Column("lost_from", "bigint", "first committed record that is gone"),
        Column("lost_to", "bigint", "first one after it that is not"),
    ),
)
ARROW = TABLE.arrow()
spark = TABLE.spark
