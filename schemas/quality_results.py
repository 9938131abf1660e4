"""`ops/quality_results`: one expectation in one run."""

from schemas.declaration import Column, Table

TABLE = Table(
    "ops/quality_results",
    "one expectation in one run",
    (
        Column("run_id", "string", "the run", null=False),
        Column("run_ts", "timestamp", "when it ran, wall clock", null=False),
        Column("suite", "string", "the suite", null=False),
        Column("expectation", "string", "the expectation", null=False),
        Column("table", "string", "the table it judged", null=False),
        Column("version_from", "bigint", "first Delta version judged; null when there was nothing new"),
        Column("version_to", "bigint", "last Delta version judged"),
        Column("success", "boolean", "whether it held", null=False),
        Column("observed", "string", "what was seen"),
        Column("unexpected", "bigint", "rows that failed"),
        Column("sample", "string", "JSON: rows that failed, a few"),
        Column("judged", "string", "what was judged on what: digests of expectation and commit, and the table's id"),
    ),
    key=("run_id", "suite", "expectation", "table"),
)
ARROW = TABLE.arrow()
spark = TABLE.spark
