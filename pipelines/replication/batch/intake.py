"""Sorts the rows of a micro-batch into partition events, broker-wide events and rejected rows."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.replication.batch import broker_wide
from pipelines.replication.batch.conflicts import Conflicts
from pipelines.replication.batch.read import Batch
from pipelines.replication.batch.run_terms import TermResults
from pipelines.replication.events import validation
from pipelines.replication.events.columns import take_rows, with_dictionaries
from pipelines.replication.events.sources_of_rows import SourcedRows
from pipelines.replication.facts.tables import EMPTY
from pipelines.replication.state.state import State
from schemas import quarantine, replication_events

REJECTED = "rejected"
"""Stands for the event type of a row that went to quarantine."""
NO_EVENTS = replication_events.ARROW.empty_table()
_NEVER_NULL = (
    "cluster", "source_id", "source_epoch", "source_seq", "seq", "ts", "broker_id", "partition", "level",
)  # fmt: skip


class Intake(NamedTuple):
    """`rows`: all rows with those that waited before them. A rejected one among them has the type REJECTED, so that it
    takes up its sequence number. `broker_wide`: events of whole brokers. `rejected`: rows that break a row rule."""

    rows: SourcedRows
    broker_wide: pa.Table
    rejected: pa.Table


def sort_out(waiting: pa.Table, rows: SourcedRows, bucket: int, buckets: int) -> Intake:
    """Validates rows and puts those before them that waited; broker-wide rows are those relevant to this bucket."""
    good, rejected = validation.split(rows.events, rows.slices)
    if good is not None:
        rows = SourcedRows(_blank_rejected(rows.events, good))
    found = broker_wide.relevant_broker_wide(broker_wide.broker_wide_rows(rows), bucket, buckets)
    if waiting.num_rows:
        waiting = with_dictionaries(waiting)
        new = rows.events.select(waiting.column_names).cast(waiting.schema)
        rows = SourcedRows(pa.concat_tables([waiting, new]))
    accepted = found.filter(pc.not_equal(found["event_type"], REJECTED))
    return Intake(rows, accepted, broker_wide.own_rejected(rejected, bucket, buckets))


def _blank_rejected(events: pa.Table, good: pa.Array) -> pa.Table:
    """The same rows with the type of rejected ones replaced; those without a usable number are left out."""
    at = events.schema.get_field_index("event_type")
    kind = pc.if_else(good, events["event_type"], REJECTED)
    return events.set_column(at, "event_type", kind).filter(pa.array(~_without_number(events)))


def _without_number(events: pa.Table) -> npt.NDArray[np.bool_]:
    """Rows that cannot even take up a sequence number: what identifies them is missing or out of range."""
    mask: Any = np.zeros(events.num_rows, dtype=np.bool_)
    for name in _NEVER_NULL:
        mask |= events[name].is_null().to_numpy()
    mask |= pc.and_(events["topic"].is_null(), pc.fill_null(pc.greater_equal(events["partition"], 0), False)).to_numpy()
    for name in ("source_epoch", "seq", "source_seq"):
        mask |= pc.fill_null(pc.less(events[name], 0), False).to_numpy()
    mask |= pc.fill_null(pc.less(events["partition"], -1), False).to_numpy()
    found: npt.NDArray[np.bool_] = mask
    return found


def keep_waiting(state: State, batch: Batch, results: TermResults) -> None:
    """Keeps the rows that were not read for the next micro-batch."""
    left, schema = results.left, replication_events.ARROW
    state.waiting = take_rows(batch.events, left).select(schema.names).cast(schema) if len(left) else NO_EVENTS


def quarantine_rows(rejected: pa.Table, batch: Batch, results: TermResults, conflicts: Conflicts) -> pa.Table:
    """Rejected rows, and those that lost a conflict, whole and with reasons; quarantined_at is the event's own time."""
    parts, lost = [], conflicts.rows
    read = results.consumed[lost] == 1 if len(lost) else lost
    if len(lost) and read.any():
        rows = batch.events.take(pa.array(lost[read]))
        reasons = [[reason] for reason, is_read in zip(conflicts.reasons, read, strict=True) if is_read]
        parts.append(rows.append_column("reasons", pa.array(reasons)))
    if rejected.num_rows:
        parts.append(rejected)
    if not parts:
        return EMPTY["quarantine"]
    event_schema = pa.schema([pa.field(f.name, f.type) for f in quarantine.ARROW if f.name != "quarantined_at"])
    rows = pa.concat_tables([part.select(event_schema.names).cast(event_schema) for part in parts])
    quarantined_at = pc.fill_null(rows["ts"], pa.scalar(0, quarantine.ARROW.field("ts").type))
    return rows.append_column("quarantined_at", quarantined_at).select(quarantine.ARROW.names).cast(quarantine.ARROW)
