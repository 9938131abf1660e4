"""`ops/audits`: findings of `hwmark audit`, and a row for each audit itself."""

from schemas.declaration import Column, Table

TABLE = Table(
    "ops/audits",
    "one finding of `hwmark audit` on one partition and replica; or the audit itself, and what it covered",
    (
        Column("audit_id", "string", "the run of the command that found it", null=False),
        Column("audited_at", "timestamp", "when, wall clock", null=False),
        Column("cluster", "string", "cluster name", null=False),
        Column("topic", "string", "null: the log directory itself; of an audit: all topics"),
        Column("topic_id", "string", "as partition.metadata has it"),
        Column("partition", "int", "-1: the log directory itself; of an audit: all partitions", null=False),
        Column("broker_id", "int", "whose log directory; null: not known"),
        Column("kind", "string", "what was found: docs/disks.md has the kinds; audited: the audit itself", null=False),
        Column("severity", "string", "critical, unknown (it could not be read or compared) or info", null=False),
        Column("from_offset", "bigint", "first offset that it is about"),
        Column("to_offset", "bigint", "the offset after the last one"),
        Column("other_broker_id", "int", "the broker that it was compared with"),
        Column("detail", "string", "the finding in words", null=False),
        Column("directory_id", "string", "directory.id of the log directory, which it has since Kafka 3.7"),
        Column("deep", "boolean", "whether records inside batches were read, too (`--deep`)"),
    ),
)
ARROW = TABLE.arrow()
spark = TABLE.spark
