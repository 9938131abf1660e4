"""`bronze/replication_events`: one thing that one broker, or the controller, saw happen; append-only."""

from datetime import UTC, datetime

from schemas.declaration import Column, Table
from schemas.event_types import EVENT_TYPES

DRAIN = "hwmark/drain"
"""The source_id of the rows that `run --drain` closes a cluster's telemetry with."""
NAIVE = "a timestamp without time zone: write it in UTC, with the zone (Delta's type `timestamp`)"
"""Why a column of times is refused."""
CLOSED = "closed"
"""The detail of such a row."""
WATCHER = "watch/"
"""How the source_id of a watcher begins, which asks brokers and reports samples (level 1) on its own clock."""
DISK = "disk/"
"""How the source_id begins of what checkpoint files and the metadata log on disks say."""
PRINTED = "printed/"
"""How the source_id begins of what Kafka's tools printed at one time."""
OLDER = "+"
"""`<source_id>+1`, `+2`, ...: lines of that writer's files that came after those that follow them."""

INT = (1 << 31) - 1
"""The largest number of an int; a `lag_max_ms` above it, which is a LONG in Kafka, is stored as it."""


def writer(source_id: str) -> str:
    """The source that follows the live files, of one that tells older lines."""
    base, _, number = source_id.rpartition(OLDER)
    return base if base and number.isdecimal() else source_id


def as_int(text: str) -> int | None:
    """The whole number that a setting's value is, at most INT; None where it is none."""
    return min(int(text), INT) if text.isdecimal() and len(text) <= len(str(1 << 63)) else None


FIRST, LAST = datetime(2010, 1, 1, tzinfo=UTC), datetime(2100, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)
"""The times that events may have."""

LATER = (
    Column(
        "repeats",
        "int",
        "fetches between the fetch of replica_id before and this one that said what this one says, in the same minute, and have no row; null: none",
    ),
    Column("hw_before", "bigint", "of `hw`: the value before, as the broker printed it"),
    Column("controller_epoch", "int", "of rows of a controller: the epoch of the active controller, where known"),
    Column(
        "committed",
        "boolean",
        "of rows of a controller: whether the quorum had committed it when it was printed; null: not known",
    ),
    Column("ts_error_ms", "double", "how far ts may be off either way; of samples half the round trip"),
    Column(
        "closes",
        "array<struct<source_id:string,source_epoch:int,source_seq:bigint>>",
        "of closing rows: the last row of each source of its cluster that it closes; null: all that was read before it",
    ),
    Column(
        "covers",
        "array<string>",
        "of `progress`: the kinds of evidence that this source would have told since its `progress` before, as "
        "silver/coverage has them; null: of levels 1 to 3 terms, hw and isr, of 0 nothing",
    ),
)
"""Columns that events written by earlier versions lack; a new one goes to the end of these, and may be null."""

TABLE = Table(
    "bronze/replication_events",
    "one thing that one broker, or the controller, saw happen; append-only",
    (
        Column("cluster", "string", "cluster name", null=False),
        Column("source_id", "string", "the telemetry writer, e.g. `broker-2/replication.log`", null=False),
        Column(
            "source_epoch",
            "int",
            "incarnation of that writer; greater after it lost its position",
            null=False,
        ),
        Column("source_seq", "bigint", "contiguous from 0 per (cluster, source_id, source_epoch)", null=False),
        Column(
            "seq",
            "bigint",
            "contiguous from 0 per (cluster, source_id, source_epoch, topic, partition)",
            null=False,
        ),
        Column("ts", "timestamp", "when it happened, on the clock of broker_id", null=False),
        Column("broker_id", "int", "the broker that saw it; -1 for the printed metadata log", null=False),
        Column(
            "event_type",
            "string",
            f"{', '.join(EVENT_TYPES[:-1])} or {EVENT_TYPES[-1]}",
            null=False,
        ),
        Column("topic", "string", "topic name; null for broker-wide events"),
        Column("topic_id", "string", "Kafka's 22-character id; another one where the topic was created again"),
        Column("partition", "int", "partition number, -1 for broker-wide events", null=False),
        Column("leader_id", "int", "the leading broker as the source knew it; -1 when nobody leads"),
        Column("leader_epoch", "int", "leader epoch as the source knew it"),
        Column("partition_epoch", "int", "partition epoch as the source knew it"),
        Column("replica_id", "int", "the replica, or broker, that the row is about"),
        Column("broker_epoch", "bigint", "incarnation of replica_id as a broker"),
        Column("leo", "bigint", "log end offset of replica_id"),
        Column("leader_leo", "bigint", "log end offset of the leader at that moment"),
        Column("hw", "bigint", "high watermark at that moment, on broker_id"),
        Column("log_start", "bigint", "log start offset"),
        Column("isr", "array<int>", "committed or proposed in-sync replicas"),
        Column("replicas", "array<int>", "assigned replicas in assignment order"),
        Column("min_isr", "int", "min.insync.replicas"),
        Column("lag_max_ms", "int", "replica.lag.time.max.ms, at most 2^31 - 1"),
        Column("unclean", "boolean", "leaderRecoveryState was RECOVERING"),
        Column(
            "level",
            "int",
            "what this source can report at this row: 0 INFO, 1 polled, 2 lean TRACE, 3 full TRACE or simulator",
            null=False,
        ),
        Column("detail", "string", "meaning depends on event_type"),
        *LATER,
    ),
    key=("cluster", "source_id", "source_epoch", "source_seq"),
)
ARROW = TABLE.arrow()
spark = TABLE.spark
