"""`truth_out_of_sync`: one stretch in which Kafka's rule held a follower for out of sync."""

from schemas.declaration import Column, Table
from schemas.keys import TRUE_PLACE

TABLE = Table(
    "truth_out_of_sync",
    "one stretch in which a follower was out of sync by its leader's own state",
    (
        *TRUE_PLACE,
        Column("leader_id", "int", "who led", null=False),
        Column("leader_epoch", "int", "epoch of that leader", null=False),
        Column("term", "int", "number of the stretch of leading, over the whole simulation", null=False),
        Column("replica_id", "int", "the follower", null=False),
        Column("from_ts", "timestamp", "out of sync from here, on the leader's clock", null=False),
        Column("to_ts", "timestamp", "in sync again from here; null when the term ended first"),
    ),
)
ARROW = TABLE.arrow()
spark = TABLE.spark
