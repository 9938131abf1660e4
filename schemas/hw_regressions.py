"""`silver/hw_regressions`: one fall of a high watermark, or a log that ends below it, with its verdict."""

from schemas.declaration import Column, Table
from schemas.keys import LEVEL, PLACE, REVISION

TABLE = Table(
    "silver/hw_regressions",
    "one fall of a high watermark, or a log that ends below it, with its verdict",
    (
        *PLACE,
        Column("regression_id", "string", "stable id of the finding", null=False),
        Column(
            "class",
            "string",
            "stale_leader_hw, follower_hw_lowered, uncommitted_truncation, log_start_advance, topic_recreated, unclean_loss, committed_loss, hw_moved_back or loss_not_excluded",
            null=False,
        ),
        Column("severity", "string", "info, warning or critical", null=False),
        Column("replica_id", "int", "the replica it is about, where not the leader"),
        Column("leader_id_before", "int", "leader of the term before"),
        Column("leader_epoch_before", "int", "epoch of the term before"),
        Column("hw_before", "bigint", "largest HW known before"),
        Column("hw_after", "bigint", "the HW afterwards"),
        Column("start_offset", "bigint", "start offset of the new term"),
        Column("lost_from", "bigint", "first lost offset, at least"),
        Column("lost_to", "bigint", "first offset not lost, at least"),
        Column("lost_records", "bigint", "offsets lost, at least (compaction and markers count)"),
        Column("evidence", "string", "JSON: what the verdict rests on"),
        Column("proof", "string", "proven, bounded or unproven", null=False),
        LEVEL,
        REVISION,
    ),
    key=("cluster", "regression_id", "revision"),
)
UPPER_BOUND = "an upper bound of the HW before"
"""In the evidence under `missing`: with the start offset it is enough by itself, without it all the rest is needed."""
ARROW = TABLE.arrow()
spark = TABLE.spark
