"""`ops/alerts`: one state of one alert."""

from schemas.declaration import Column, Table

TABLE = Table(
    "ops/alerts",
    "one state of one alert",
    (
        Column("alert_id", "string", "stable id", null=False),
        Column("rule", "string", "the rule that fired", null=False),
        Column("severity", "string", "info, warning or critical", null=False),
        Column("state", "string", "firing or resolved", null=False),
        Column("subject", "string", "what it is about", null=False),
        Column("first_ts", "timestamp", "since when, event time", null=False),
        Column("last_ts", "timestamp", "until when it was seen, event time", null=False),
        Column("summary", "string", "one sentence", null=False),
        Column("labels", "map<string,string>", "cluster, cause, topic, partition, range, loss (the id to begin with)"),
        Column("written_at", "timestamp", "when the row was written, wall clock: the order of an alert's states"),
    ),
    key=("alert_id", "first_ts", "written_at", "state"),
)
ARROW = TABLE.arrow()
spark = TABLE.spark
