"""`gold/broker_minute`: one minute of event time of one broker."""

from schemas.declaration import Column, Table
from schemas.minute_stats import MINUTE_COLUMNS, SPAN_COLUMNS

TABLE = Table(
    "gold/broker_minute",
    "one minute of event time of one broker",
    (
        Column("cluster", "string", "cluster name", null=False),
        Column("broker_id", "int", "broker id", null=False),
        Column("minute", "timestamp", "start of the minute, event time", null=False),
        *MINUTE_COLUMNS,
        Column("offline", "bigint", "partitions without a leader at the end of the minute, all under broker -1"),
        *SPAN_COLUMNS,
        Column("held_back", "bigint", "partitions whose HW was held back at the end of the minute"),
    ),
    key=("cluster", "broker_id", "minute"),
)
ARROW = TABLE.arrow()
spark = TABLE.spark
