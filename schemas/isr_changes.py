"""`silver/isr_changes`: one committed change of a partition's in-sync replicas."""

from schemas.declaration import Column, Table
from schemas.keys import LEVEL, PLACE, REVISION

TABLE = Table(
    "silver/isr_changes",
    "one committed change of a partition's in-sync replicas; a later revision with none removed and none added takes "
    "the change back",
    (
        *PLACE,
        Column("partition_epoch", "int", "partition epoch of the commit"),
        Column("change", "string", "shrink, expand, replace or retracted: it was never committed", null=False),
        Column(
            "witness",
            "string",
            "what shows that it was committed: leader, broker (its metadata), metadata_log or controller; "
            "controller_only: nothing does, an active controller wrote it and no one else speaks",
        ),
        Column("isr_before", "array<int>", "in-sync replicas before"),
        Column("isr_after", "array<int>", "in-sync replicas after"),
        Column("removed", "array<int>", "replicas that left"),
        Column("added", "array<int>", "replicas that joined"),
        Column(
            "cause",
            "string",
            "election, controlled_shutdown, controller_fenced, log_dir_offline, lag, caught_up, reassignment or unknown",
            null=False,
        ),
        Column("proposed_ts", "timestamp", "when the leader asked for it"),
        Column("commit_ms", "bigint", "milliseconds from proposal to commit, on the leader's clock"),
        Column("under_min_isr", "boolean", "fewer in sync than min.insync.replicas afterwards"),
        Column("predicted", "boolean", "the lag rule said so before it was committed"),
        LEVEL,
        REVISION,
    ),
    key=("cluster", "topic", "topic_id", "partition", "partition_epoch", "ts", "revision"),
)
ARROW = TABLE.arrow()
spark = TABLE.spark
