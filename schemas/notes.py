"""`ops/notes`: one note of a person or a pipeline."""

from schemas.declaration import Column, Table

TABLE = Table(
    "ops/notes",
    "one note of a person or a pipeline",
    (
        Column("cluster", "string", "cluster name", null=False),
        Column(
            "incident_id", "string", "the incident or alert it is about; null: all of the cluster that was told by then"
        ),
        Column("handled", "boolean", "whether it ends what it is about", null=False),
        Column("text", "string", "what was said", null=False),
        Column("author", "string", "who said it, as the operating system knows them"),
        Column("written_at", "timestamp", "when, wall clock", null=False),
        Column("told_to", "timestamp", "the last row of ops/alerts (`written_at`) that there was; null: not known"),
    ),
    key=("cluster", "written_at"),
)
ARROW = TABLE.arrow()
spark = TABLE.spark
GATE = "hwmark gate: "
"""The beginning of the text of a note that is an answer of the gate."""
