"""`silver/minute_stats`: mergeable partial statistics of one broker and minute from one micro-batch; readers add them up."""

from schemas.declaration import Column, Table

TABLE = Table(
    "silver/minute_stats",
    "mergeable partial statistics of one broker and minute from one micro-batch; readers add them up",
    (
        Column("cluster", "string", "cluster name", null=False),
        Column("broker_id", "int", "the leading broker, or the one that reported; -1 for the controller", null=False),
        Column("minute", "timestamp", "start of the minute, event time", null=False),
        Column("batch_id", "bigint", "micro-batch that wrote it", null=False),
        Column(
            "counts",
            "map<string,bigint>",
            "named counts; names ending in _change are differences of a gauge, to be summed over time, and with @N those at the "
            "Nth millisecond of the minute",
            null=False,
        ),
        Column("append_to_hw", "array<bigint>", "histogram of append to HW milliseconds over BOUNDS_MS"),
        Column("lag", "array<bigint>", "histogram of lag in records at each fetch over BOUNDS_RECORDS"),
    ),
)
ARROW = TABLE.arrow()
spark = TABLE.spark
BOUNDS_MS = tuple(round(2 ** (k / 2), 3) for k in range(40))
"""Upper bounds of the append_to_hw buckets in milliseconds; one more bucket takes the rest."""
BOUNDS_RECORDS = (0, *(2**k for k in range(40)))
"""Upper bounds of the lag buckets in records; one more bucket takes the rest."""
SPANS = {name: f"{name}_change" for name in ("under_replicated", "under_min_isr", "offline", "held_back")}
"""Gauges whose differences are counted to the millisecond, too."""
SPAN_COLUMNS = tuple(
    column
    for name in SPANS
    for column in (
        Column(f"{name}_max", "bigint", f"the most {name} at once within the minute; null: not known"),
        Column(f"{name}_s", "double", f"its seconds with any {name}, to its end where they still are; null: not known"),
    )
)
"""Columns of minutes, the most and the seconds of each of SPANS."""
MINUTE_COLUMNS = (
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
)
"""Columns that minutes of brokers and of clusters share."""
