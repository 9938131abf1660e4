"""`gold/broker_minute`: one minute of event time of one broker."""

from schemas.declaration import Column, Table
from schemas.minute_stats import SPAN_COLUMNS

TABLE = Table(
    "gold/broker_minute",
    "one minute of event time of one broker",
    (
        Column("cluster", "string", "cluster name", null=False),
        Column("broker_id", "int", "broker id", null=False),
        Column("minute", "timestamp", "start of the minute, event time", null=False),
        Column("partitions", "bigint", "partitions led at the end of the minute"),
        Column("under_replicated", "bigint", "of them with fewer in sync than assigned"),
        Column("under_min_isr", "bigint", "of them under min ISR"),
        Column("out_of_sync_replicas", "bigint", "replicas out of sync at the end of the minute"),
        Column("shrinks", "map<string,bigint>", "ISR shrinks by cause"),
        Column("expands", "map<string,bigint>", "ISR expands by cause"),
        Column("regressions", "map<string,bigint>", "HW regressions by class"),
        Column("max_lag_records", "bigint", "upper bound of the largest lag"),
        Column("p95_lag_records", "bigint", "upper bound of the 95th percentile of lag"),
        Column("append_to_hw_p50_ms", "double", "median append to HW"),
        Column("append_to_hw_p95_ms", "double", "95th percentile append to HW"),
        Column("append_to_hw_p99_ms", "double", "99th percentile append to HW"),
        Column("events", "bigint", "telemetry events"),
        Column("late", "bigint", "late events"),
        Column("gaps", "bigint", "gaps in telemetry"),
        Column("offline", "bigint", "partitions without a leader at the end of the minute, all under broker -1"),
        *SPAN_COLUMNS,
    ),
)
ARROW = TABLE.arrow()
spark = TABLE.spark
