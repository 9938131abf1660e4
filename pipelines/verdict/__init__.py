"""The verdict on a cluster in words: judged or not, its present, its losses. Pure: no files, no clock."""

from pipelines.verdict.records import (
    Backlog,
    ClusterRecord,
    Condition,
    FallGroup,
    Limits,
    NotUnderstood,
    PartitionGroup,
    Source,
    State,
    Unheard,
)
from pipelines.verdict.verdict import Line, Verdict, lines, verdict

__all__ = [
    "Backlog",
    "ClusterRecord",
    "Condition",
    "FallGroup",
    "Limits",
    "Line",
    "NotUnderstood",
    "PartitionGroup",
    "Source",
    "State",
    "Unheard",
    "Verdict",
    "lines",
    "verdict",
]
