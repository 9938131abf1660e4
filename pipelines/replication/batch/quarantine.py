"""What goes to quarantine: rows that break a row rule, and of two different rows with one sequence number one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.replication.batch.read import Batch
from pipelines.replication.batch.run_terms import TermResults
from pipelines.replication.compiled.types import I64
from pipelines.replication.events.row_rules import representable
from pipelines.replication.facts.tables import EMPTY
from schemas import quarantine


@dataclass(frozen=True)
class Conflicts:
    """The rows that do not count, and the reason for each."""

    rows: I64
    reasons: list[str]


NO_CONFLICTS = Conflicts(np.array([], dtype=np.int64), [])


def resolve_conflicts(batch: Batch) -> Conflicts:
    """Of two different rows with one number the smaller in (ts, canonical bytes) counts; equal rows are repeats."""
    pairs = batch.accepted.conflicts[_different(batch.events, batch.accepted.conflicts)]
    if not len(pairs):
        return NO_CONFLICTS
    rows, at = np.unique(pairs, return_inverse=True)
    ts = dict(zip(rows.tolist(), batch.int64("ts", rows).tolist(), strict=True))
    accepted, lost = batch.accepted, []
    winner: dict[int, int] = {}
    pair_rows: Any = rows[at].reshape(pairs.shape).tolist()
    for first, other in pair_rows:
        kept = winner.get(first, first)
        smaller = ts[other] < ts[kept] or (
            ts[other] == ts[kept] and _canonical(batch.events, other) < _canonical(batch.events, kept)
        )
        if smaller:
            accepted.dropped[kept], accepted.dropped[other] = 1, 0
            accepted.gap_before[other] = accepted.gap_before[kept]
            winner[first] = other
            kept, other = other, kept
        lost.append(other)
    losers = np.array(lost, dtype=np.int64)
    numbers = batch.int64("seq", losers).tolist()
    return Conflicts(losers, [f"conflict: number {number} of its series names another row too" for number in numbers])


def _different(events: pa.Table, pairs: I64) -> npt.NDArray[np.bool_]:
    """Which pairs of rows are not the same."""
    differ = np.zeros(len(pairs), dtype=np.bool_)
    if not len(pairs):
        return differ
    kept, other = events.take(pa.array(pairs[:, 0])), events.take(pa.array(pairs[:, 1]))
    for left, right in zip(kept.columns, other.columns, strict=True):
        if pa.types.is_list(left.type):
            differ |= np.array([a != b for a, b in zip(left.to_pylist(), right.to_pylist(), strict=True)])
        else:
            same = pc.fill_null(pc.equal(left, right), False)
            null = pc.and_(left.is_null(), right.is_null())
            differ |= ~pc.or_(same, null).to_numpy()
    return differ


def _canonical(events: pa.Table, row: int) -> bytes:
    values = events.drop_columns(["ts"]).slice(row, 1).to_pylist()[0]
    return repr(sorted(values.items(), key=lambda item: item[0])).encode()


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
    rows = rows.set_column(rows.column_names.index("ts"), event_schema.field("ts"), representable(rows["ts"]))
    quarantined_at = pc.fill_null(rows["ts"], pa.scalar(0, quarantine.ARROW.field("ts").type))
    return rows.append_column("quarantined_at", quarantined_at).select(quarantine.ARROW.names).cast(quarantine.ARROW)
