"""`gold/partition_health`: the present state of one partition."""

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from schemas.declaration import Column, Table
from schemas.keys import LEVEL
from schemas.levels import POLLED

STALLED_MS = 9_500
"""A HW that stands below the leader's log end for longer is held back: 10 s, and rounds of 5 s may be so much early."""

BEHIND_MS = 3_000
"""A follower that has not got by now where its leader was so long ago is behind, in the ISR or not."""

ONE_OF = f"(level = {POLLED} AND cardinality(holding_replicas) > 1)"
"""SQL of whether one of `holding_replicas` holds the HW back, and nobody knows which: samples leave several."""

TABLE = Table(
    "gold/partition_health",
    "the present state of one partition",
    (
        Column("cluster", "string", "cluster name", null=False),
        Column("topic", "string", "topic name", null=False),
        Column("topic_id", "string", "Kafka's topic id"),
        Column("partition", "int", "partition number", null=False),
        Column("leader_id", "int", "present leader, -1 when nobody leads"),
        Column("leader_epoch", "int", "its epoch"),
        Column("partition_epoch", "int", "last partition epoch seen"),
        Column("hw", "bigint", "reconstructed high watermark"),
        Column("leader_leo", "bigint", "log end offset of the leader"),
        Column("ar", "array<int>", "assigned replicas"),
        Column("isr", "array<int>", "in-sync replicas"),
        Column("osr", "array<int>", "assigned but not in sync"),
        Column("out_of_sync", "array<int>", "replicas out of sync by Kafka's rule, in the ISR or not"),
        Column("holding_replicas", "array<int>", "who holds the HW back; several at level 1: one of them"),
        Column(
            "under_replicated",
            "boolean",
            "fewer in sync than assigned; null: who is assigned, or in sync, is not known",
        ),
        Column("under_min_isr", "boolean", "fewer in sync than min.insync.replicas"),
        Column("offline", "boolean", "nobody leads"),
        Column("lag_records", "bigint", "largest lag of a replica; null: the LEO of one is not known"),
        Column("stalled_ms", "bigint", "milliseconds for which the HW has stood below the leader's LEO"),
        Column("last_event_ts", "timestamp", "last telemetry about it"),
        LEVEL,
        Column("min_isr", "int", "min.insync.replicas in force; null: nobody leads, or it is not known"),
        Column(
            "one_failure_away",
            "string",
            "what the failure of one more in-sync replica does: loss (the others are behind), offline (there is no "
            "other), under_min_isr, or none; null: not known",
        ),
        Column(
            "behind",
            "array<int>",
            "members of the ISR that are not where the leader was 3 s ago (levels 2 and 3); null: it is not known of all",
        ),
        Column(
            "assignments",
            "array<struct<since:timestamp,replicas:array<int>>>",
            "where it was reassigned: the replicas assigned last, and since when; null: it never was",
        ),
        Column(
            "ar_told",
            "boolean",
            "whether all assigned replicas were named; where not, ar has those seen in the ISR, and more may be assigned",
        ),
    ),
    key=("cluster", "topic", "partition"),
)
ARROW = TABLE.arrow()
spark = TABLE.spark


def are_one_of(rows: pa.Table) -> Any:
    """Return of each row whether one of `holding_replicas` holds the HW back, and nobody knows which."""
    import pyarrow.compute as pc

    several = pc.greater(pc.list_value_length(rows["holding_replicas"]), 1)
    return pc.fill_null(pc.and_(pc.equal(rows["level"], POLLED), several), False)


def is_one_of(row: Mapping[str, Any]) -> bool:
    """The same of one row."""
    return row["level"] == POLLED and len(row["holding_replicas"] or ()) > 1
