"""`gold/broker_lag`: how far the followers of one broker were behind at one gold interval; kept for seven days."""

from schemas.declaration import Column, Table

TABLE = Table(
    "gold/broker_lag",
    "how far the followers of one broker were behind at one gold interval",
    (
        Column("cluster", "string", "cluster name", null=False),
        Column("broker_id", "int", "broker id", null=False),
        Column("ts", "timestamp", "event time of the interval, one for all rows of its cluster", null=False),
        Column("followed", "bigint", "replicas of it that another broker leads", null=False),
        Column("known", "bigint", "of these, those whose LEO is known", null=False),
        Column("behind", "bigint", "of these, those below their leader's LEO", null=False),
        Column("lag_records", "bigint", "largest lag; null: none is known"),
        Column("lag_records_sum", "bigint", "sum of the lags; null: none is known"),
        Column("lag_ms", "bigint", "largest time since one was caught up; null: none is known"),
        Column("level", "int", "lowest telemetry level of their leaders"),
        Column(
            "led_held_back",
            "bigint",
            "deprecated, see `held_back` of gold/broker_minute: partitions it leads and whose HW is held back",
        ),
    ),
    key=("cluster", "broker_id", "ts"),
)
ARROW = TABLE.arrow()
spark = TABLE.spark
