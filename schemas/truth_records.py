"""`truth_records`: what producers were promised of one partition and what is left of it."""

from schemas.declaration import Column, Table
from schemas.keys import TRUE_PLACE

TABLE = Table(
    "truth_records",
    "what was acknowledged to producers as written to one partition, and what of it the last leader does not hold",
    (
        *TRUE_PLACE,
        Column("leader_id", "int", "whose log it is held against, -1 when nobody ever led", null=False),
        Column("hw", "bigint", "that broker's high watermark", null=False),
        Column("leo", "bigint", "and its log end offset", null=False),
        Column("acknowledged", "bigint", "records acknowledged to producers", null=False),
        Column("lost", "bigint", "of these, gone", null=False),
        Column("lost_from", "array<bigint>", "first offsets of the ranges that are gone", null=False),
        Column("lost_to", "array<bigint>", "and their ends (half-open)", null=False),
    ),
)
ARROW = TABLE.arrow()
spark = TABLE.spark
