"""`truth_isr`: one committed change of a partition's in-sync replicas, and what truly caused it."""

from schemas.declaration import Column, Table
from schemas.keys import TRUE_PLACE

TABLE = Table(
    "truth_isr",
    "one committed change of a partition's in-sync replicas, as the controller put it on record",
    (
        *TRUE_PLACE,
        Column("leader_id", "int", "who leads after it, -1 for nobody", null=False),
        Column("leader_epoch", "int", "epoch of that leader", null=False),
        Column("partition_epoch", "int", "partition epoch of the change", null=False),
        Column("isr_before", "array<int>", "in-sync replicas before", null=False),
        Column("isr_after", "array<int>", "in-sync replicas after", null=False),
        Column(
            "cause",
            "string",
            "election, controlled_shutdown, controller_fenced, lag, caught_up, reassignment or unknown",
            null=False,
        ),
    ),
)
ARROW = TABLE.arrow()
spark = TABLE.spark
