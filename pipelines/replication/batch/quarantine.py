"""Quarantine: rows that break a row rule, and one of two different rows with one sequence number."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.replication.batch.read import REJECTED, Batch, own_rows
from pipelines.replication.batch.run_terms import TermResults
from pipelines.replication.batch.sequencing import Accepted
from pipelines.replication.compiled.types import I64
from pipelines.replication.events.packed_rows import PACKED
from pipelines.replication.events.row_rules import representable
from pipelines.replication.facts.tables import EMPTY
from schemas import quarantine


@dataclass(frozen=True)
class Conflicts:
    """The rows that do not count, and the reason for each."""

    rows: I64
    reasons: list[str]


NO_ROWS = np.array([], dtype=np.int64)
NO_CONFLICTS = Conflicts(NO_ROWS, [])


def resolve_conflicts(batch: Batch) -> Conflicts:
    """Choose between different rows with one number: the smaller in (ts, canonical bytes) counts.

    Equal rows are repeats. A rejected row does not count; it is in quarantine for its own reason.
    """
    pairs = batch.accepted.conflicts[_different(batch.events, batch.accepted.conflicts)]
    if not len(pairs):
        return NO_CONFLICTS
    rows, at = np.unique(pairs, return_inverse=True)
    ts, kinds = batch.int64("ts", rows).tolist(), batch.events["event_type"].take(pa.array(rows)).to_pylist()
    ranks = {
        row: (kind == REJECTED, at, canonical(batch.events, row))
        for row, at, kind in zip(rows.tolist(), ts, kinds, strict=True)
    }
    accepted, lost = batch.accepted, dict[tuple[int, bytes], int]()
    winner: dict[int, int] = {}
    pair_rows: Any = rows[at].reshape(pairs.shape).tolist()
    for first, other in pair_rows:
        kept = winner.get(first, first)
        if ranks[other] == ranks[kept]:
            continue
        if ranks[other] < ranks[kept]:
            accepted.dropped[kept], accepted.dropped[other] = 1, 0
            accepted.gap_before[other] = accepted.gap_before[kept]
            winner[first] = other
            _swap(accepted, kept, other)
            kept, other = other, kept
        if not ranks[other][0]:
            lost.setdefault((first, ranks[other][2]), other)
    losers = np.array(list(lost.values()), dtype=np.int64)
    numbers = batch.int64("seq", losers).tolist()
    return Conflicts(losers, [conflict(number) for number in numbers])


def _swap(accepted: Accepted, first: int, then: int) -> None:
    """Put the second of two rows of a series where the first stands: who lost is read with the one that counts."""
    packed = accepted.rows[: accepted.bounds[-1]]
    places = [int(np.flatnonzero(packed[:, PACKED.row] == row)[0]) for row in (first, then)]
    packed[places] = packed[places[::-1]]


def conflict(number: int) -> str:
    """Why one of two rows with a number is set aside."""
    return f"conflict: number {number} of its series names another row too"


def _different(events: pa.Table, pairs: I64) -> npt.NDArray[np.bool_]:
    """A mask of the pairs with different rows."""
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


def canonical(events: pa.Table, row: int) -> bytes:
    """The bytes that decide between two rows with one number and time."""
    values = events.drop_columns(["ts"]).slice(row, 1).to_pylist()[0]
    return repr(sorted(values.items(), key=lambda item: item[0])).encode()


def contradicting_rows(events: pa.Table, rows: I64, bucket: int, buckets: int) -> list[pa.Table]:
    """Broker-wide rows whose number another one has, with reasons; those of sources that this bucket owns."""
    found = events.take(pa.array(rows))
    reasons = pa.array([[conflict(number)] for number in found["source_seq"].to_pylist()], pa.list_(pa.string()))
    return [own_rows(found.append_column("reasons", reasons), bucket, buckets)] if len(rows) else []


def quarantine_rows(aside: Sequence[pa.Table], batch: Batch, results: TermResults, conflicts: Conflicts) -> pa.Table:
    """The rows set aside, and those that lost a conflict, whole and with reasons; quarantined_at is the event's own
    time."""
    parts, lost = [], conflicts.rows
    read = results.consumed[lost] == 1 if len(lost) else lost
    if len(lost) and read.any():
        rows = batch.events.take(pa.array(lost[read]))
        reasons = [[reason] for reason, is_read in zip(conflicts.reasons, read, strict=True) if is_read]
        parts.append(rows.append_column("reasons", pa.array(reasons)))
    parts += [rows for rows in aside if len(rows)]
    if not parts:
        return EMPTY["quarantine"]
    event_schema = pa.schema([pa.field(f.name, f.type) for f in quarantine.ARROW if f.name != "quarantined_at"])
    rows = pa.concat_tables([part.select(event_schema.names).cast(event_schema) for part in parts])
    rows = rows.set_column(rows.column_names.index("ts"), event_schema.field("ts"), representable(rows["ts"]))
    quarantined_at = pc.fill_null(rows["ts"], pa.scalar(0, quarantine.ARROW.field("ts").type))
    return rows.append_column("quarantined_at", quarantined_at).select(quarantine.ARROW.names).cast(quarantine.ARROW)
