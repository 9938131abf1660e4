"""The making of a lake's silver tables, from the job's own records and without Spark, for readers of the tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from pipelines.lake.lake import Lake
from pipelines.lake.records import record, write_record
from pipelines.replication.rules import Rules
from pipelines.streaming.checkpoint.offsets import FOLDER, RECORD, QueryRecord, committed_offset
from pipelines.streaming.source.bronze_log import last_version_read
from pipelines.streaming.unfinished import RECORD as REMOVAL
from pipelines.streaming.unfinished import Removal
from schemas import replication_events

MARK = f"{FOLDER}/rebuild.json"
"""The record of the version of bronze that a rebuild must reach until silver is complete again."""
LAST_BATCH = f"{FOLDER}/last_batch.json"
"""The record of the job's last micro-batch."""
EVALUATED = "_alerts/step.json"
"""The record of the last evaluation of alerts, with which the next one goes on."""


_DAMAGED = QueryRecord("")
_UNKNOWN = Removal("", again=True)


@dataclass(frozen=True)
class _Evaluated:
    query: str | None = None


@dataclass(frozen=True)
class _Mark:
    query_id: str
    to: int | None


@dataclass(frozen=True)
class LastBatch:
    """The last micro-batch of the job: its number, events of bronze, duration and size of state."""

    batch_id: int
    events: int
    seconds: float
    state_bytes: int


@dataclass(frozen=True)
class Reconstruction:
    """The state of the silver tables.

    `made`: whether a job has made them, by its record or as seen by an evaluation of alerts; `grace_ms`: how late facts
    may still come; `rebuilding`: the command that is rebuilding silver or removing a cluster, only `rebuilt` if that is
    set; `query`: Spark's query that makes them; `older`: the time up to which a cluster's rows are of an earlier
    edition of the rules.
    """

    made: bool = False
    grace_ms: int = 0
    rebuilding: str = ""
    rebuilt: str = ""
    query: str | None = None
    older: Mapping[str, datetime] = field(default_factory=dict)


def reconstruction(lake: Lake) -> Reconstruction:
    """The state by the job's record; if that is gone or damaged, by the record of the last evaluation of alerts."""
    made = record(lake, RECORD, QueryRecord, _DAMAGED)
    removal = record(lake, REMOVAL, Removal, _UNKNOWN) or Removal("")
    rebuilt = removal.cluster
    by = removal.words if rebuilt else "hwmark run" if removal.again else ""
    if made is None or made.rules is None:
        query = (record(lake, EVALUATED, _Evaluated) or _Evaluated()).query
        return Reconstruction(query is not None or made is _DAMAGED, 0, by, rebuilt, query)
    # An unreadable mark does not mean that the rebuild is over.
    mark, offset = record(lake, MARK, _Mark, _Mark(made.query_id, None)), committed_offset(lake)
    rebuilding = mark is not None and mark.query_id == made.query_id
    if rebuilding and mark and mark.to is not None and offset is not None:
        rebuilding = last_version_read(offset) < mark.to
    by, rebuilt = ("hwmark run", "") if rebuilding else (by, rebuilt)
    grace_ms = made.rules.get("reorder_grace_ms", Rules().reorder_grace_ms)
    return Reconstruction(True, grace_ms, by, rebuilt, made.query_id, made.older)


def mark_rebuild(lake: Lake, query_id: str) -> None:
    """Record that a query rebuilds silver from the present bronze."""
    write_record(lake, MARK, _Mark(query_id, lake.open(replication_events.TABLE).version()))
