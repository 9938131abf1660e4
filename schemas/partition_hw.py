"""`silver/partition_hw`: one change of a partition's reconstructed high watermark, or a report that matches none."""

from schemas.declaration import Column, Table
from schemas.keys import LEVEL, PLACE

TABLE = Table(
    "silver/partition_hw",
    "one change of a partition's reconstructed high watermark, or a report that matches none",
    (
        *PLACE,
        Column("kind", "string", "advance, term_start, report, freeze or thaw", null=False),
        Column("hw", "bigint", "the reconstructed high watermark"),
        Column("reported_hw", "bigint", "what the broker reported"),
        Column("leader_leo", "bigint", "log end offset of the leader"),
        Column("isr", "array<int>", "committed in-sync replicas"),
        Column(
            "holding_replicas",
            "array<int>",
            "replicas that counted and whose LEO equals the HW: who holds it back",
        ),
        Column("frozen", "boolean", "under min ISR: the HW may not move"),
        Column("agreement", "string", "exact, race, disagree, unreported or only_witness"),
        LEVEL,
    ),
    key=("cluster", "topic", "topic_id", "partition", "leader_epoch", "ts", "kind", "hw"),
)
ARROW = TABLE.arrow()
spark = TABLE.spark
