"""`gold/cluster_minute`: one minute of event time of one cluster."""

from schemas.declaration import Column, Table
from schemas.minute_stats import MINUTE_COLUMNS, SPAN_COLUMNS

TABLE = Table(
    "gold/cluster_minute",
    "one minute of event time of one cluster",
    (
        Column("cluster", "string", "cluster name", null=False),
        Column("minute", "timestamp", "start of the minute, event time", null=False),
        *MINUTE_COLUMNS,
        Column("offline", "bigint", "partitions without a leader at the end of the minute"),
        *SPAN_COLUMNS,
        Column("held_back", "bigint", "partitions whose HW was held back at the end of the minute"),
    ),
    key=("cluster", "minute"),
)
ARROW = TABLE.arrow()
spark = TABLE.spark
