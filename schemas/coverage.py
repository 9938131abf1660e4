"""`silver/coverage`: for which stretches of time which kinds of evidence could be seen on a broker."""

from schemas.declaration import Column, Table
from schemas.keys import LEVEL

TERMS, HW, ISR = "terms", "hw", "isr"
KINDS = (
    TERMS, HW, "hw_falls", "truncations", ISR, "elections", "unclean_elections", "brokers", "assignments", "configs",
    "topics",
)  # fmt: skip
"""Kinds of evidence; `brokers` are starts, clean and unclean stops, and failed log directories."""

TABLE = Table(
    "silver/coverage",
    "stretches of time in which a kind of evidence could be seen on a broker; of one stretch the greatest to_ts counts",
    (
        Column("cluster", "string", "cluster name", null=False),
        Column("broker_id", "int", "the broker that would have told; -1 for the printed metadata log", null=False),
        Column("kind", "string", f"{', '.join(KINDS[:-1])} or {KINDS[-1]}", null=False),
        Column("from_ts", "timestamp", "from when on", null=False),
        Column(
            "to_ts", "timestamp", "until when as of this row; a stretch that goes on gets a row each minute", null=False
        ),
        Column("source_id", "string", "the telemetry writer", null=False),
        Column("source_epoch", "int", "its incarnation", null=False),
        LEVEL,
    ),
)
ARROW = TABLE.arrow()
spark = TABLE.spark


def by_level(level: int) -> tuple[str, ...]:
    """The kinds that a source shows whose `progress` rows do not say it: other writers, and lakes of before."""
    return (TERMS, HW, ISR) if level > 0 else ()
