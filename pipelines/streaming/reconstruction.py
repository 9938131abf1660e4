"""How the silver tables of a lake come about, from the job's own records: for who reads them, without Spark."""

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
"""Up to which version of bronze a rebuild has to come until silver is whole again."""
LAST_BATCH = f"{FOLDER}/last_batch.json"
"""The record of the job's last micro-batch."""
EVALUATED = "_alerts/step.json"
"""The record of the last evaluation of the alerts, from which the next one goes on."""


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
    """The last micro-batch of the job: its number and events of bronze, how long it took, what its state holds."""

    batch_id: int
    events: int
    seconds: float
    state_bytes: int


@dataclass(frozen=True)
class Reconstruction:
    """`made`: a job has made the tables, by its record or as an evaluation of the alerts saw them; `grace_ms`: for so
    long before its present facts may still come; `rebuilding`: the command that makes silver anew and has not come to
    where it was, or takes a cluster out; for cluster `rebuilt` alone where one is named; `query`: the query of Spark
    that makes it; `older`: up to when a cluster's rows are of an earlier edition of the rules."""

    made: bool = False
    grace_ms: int = 0
    rebuilding: str = ""
    rebuilt: str = ""
    query: str | None = None
    older: Mapping[str, datetime] = field(default_factory=dict)


def reconstruction(lake: Lake) -> Reconstruction:
    """What the record of the job says; where it is gone or damaged, that of the last evaluation of the alerts."""
    made = record(lake, RECORD, QueryRecord, _DAMAGED)
    removal = record(lake, REMOVAL, Removal, _UNKNOWN) or Removal("")
    rebuilt = removal.cluster
    by = removal.words if rebuilt else "hwmark run" if removal.again else ""
    if made is None or made.rules is None:
        query = (record(lake, EVALUATED, _Evaluated) or _Evaluated()).query
        return Reconstruction(query is not None or made is _DAMAGED, 0, by, rebuilt, query)
    # A mark that cannot be read does not say that the rebuild is over.
    mark, offset = record(lake, MARK, _Mark, _Mark(made.query_id, None)), committed_offset(lake)
    rebuilding = mark is not None and mark.query_id == made.query_id
    if rebuilding and mark and mark.to is not None and offset is not None:
        rebuilding = last_version_read(offset) < mark.to
    by, rebuilt = ("hwmark run", "") if rebuilding else (by, rebuilt)
    grace_ms = made.rules.get("reorder_grace_ms", Rules().reorder_grace_ms)
    return Reconstruction(True, grace_ms, by, rebuilt, made.query_id, made.older)


def mark_rebuild(lake: Lake, query_id: str) -> None:
    """Records that a query makes silver anew from what bronze has now."""
    write_record(lake, MARK, _Mark(query_id, lake.open(replication_events.TABLE).version()))
