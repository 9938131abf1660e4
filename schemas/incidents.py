"""`ops/incidents`: one state of one incident."""

from schemas.declaration import Column, Table

TABLE = Table(
    "ops/incidents",
    "one state of one incident",
    (
        Column("incident_id", "string", "stable id", null=False),
        Column("cluster", "string", "cluster name; empty: hwmark itself", null=False),
        Column("severity", "string", "info, warning or critical: the gravest so far", null=False),
        Column("state", "string", "open, planned (a downtime explains all of it) or ended", null=False),
        Column("cause", "string", "the rule that its first alert is of", null=False),
        Column("first_ts", "timestamp", "since when, event time", null=False),
        Column("last_ts", "timestamp", "until when it was seen, event time", null=False),
        Column("subject", "string", "what its first alert is about", null=False),
        Column("summary", "string", "one line of at most 80 characters", null=False),
        Column("alert_ids", "array<string>", "its alerts, in the order in which they joined", null=False),
        Column("firing", "array<string>", "those of them that fire", null=False),
        Column("brokers", "array<int>", "brokers that it is about", null=False),
        Column("topics", "array<string>", "topics that it is about", null=False),
        Column("partitions", "array<string>", "partitions that it is about, as far as alerts name them", null=False),
        Column("offline", "int", "how many partitions are offline", null=False),
        Column("lost_offsets", "bigint", "how many offsets are lost; null: it is no loss"),
        Column("groups", "array<string>", "consumer groups that read what is lost, or may have; null: nobody asked"),
        Column("groups_asked", "timestamp", "when the cluster was asked for them, wall clock; null: nobody asked"),
        Column("returns", "int", "how often it was well and came back", null=False),
        Column("linked", "string", "the incident that shares partitions with it, of another broker"),
        Column("well_since", "timestamp", "since when nothing of it fires, wall clock"),
        Column("planned_until", "timestamp", "until when its brokers may be away, wall clock"),
        Column(
            "written_at", "timestamp", "when it became so, wall clock: the order of an incident's states", null=False
        ),
        Column("readers", "map<string,string>", "by partition those of `groups` that read it; null: nobody asked"),
    ),
    key=("incident_id", "written_at"),
)
ARROW = TABLE.arrow()
spark = TABLE.spark
