"""`progress` rows: the time up to which a source is complete, at least once per second of its time."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from generators.brokerlogs.messages.coverage import Shown, covers
from pipelines.replication.compiled.types import SECOND_US

_HOLES = pa.array(["lost", "unread"])
FAR_OUT = 60 * SECOND_US
LONGEST_FILL = 3600  # a clock that jumps further ahead is not filled second by second


def times(rows: pa.Table) -> np.ndarray:
    """`ts` as int64 microseconds."""
    stamps: np.ndarray = rows["ts"].cast(pa.int64()).to_numpy()
    return stamps


def running_time(rows: pa.Table, max_ts: int) -> np.ndarray:
    """Running maximum of `ts` (us) over rows of a source, from `max_ts` on; a single row far out is ignored."""
    return np.maximum(np.maximum.accumulate(_steady(times(rows), max_ts)), max_ts)


def interleave(
    rows: pa.Table,
    max_ts: int,
    defaults: Mapping[str, object],
    shown: Shown | None = None,
    *,
    after_hole: bool = False,
) -> pa.Table:
    """`rows` of one source with a progress row wherever a second of its time ends, and for each quiet second.

    `max_ts` (us, 0 at the start) is the greatest time before; `defaults` has the columns of a progress row; for
    `shown` see `progress`. No progress row is past the rows before it, and in quiet seconds none is within a second of
    a later row.
    """
    if not rows.num_rows:
        return rows
    steady = _steady(times(rows), max_ts)
    running = np.concatenate([[max_ts or steady[0]], running_time(rows, max_ts)])
    before = np.flatnonzero(np.diff(running // SECOND_US) > 0)
    if not len(before):
        return rows
    to_come = np.minimum.accumulate(steady[::-1])[::-1]
    to_come[-1] = min(to_come[-1], running[-2] + FAR_OUT)
    seconds = running[before] // SECOND_US
    fills = np.clip(to_come[before] // SECOND_US - seconds, 1, LONGEST_FILL)
    at = np.repeat(before, fills)
    nth = np.arange(len(at)) - np.repeat(np.cumsum(fills) - fills, fills)
    stamps = np.where(nth == 0, running[at], (running[at] // SECOND_US + nth) * SECOND_US)
    told = progress(stamps, defaults, rows.schema, shown, int(running[0]))
    inside = np.concatenate([[after_hole], are_holes(rows)])[at]
    return _insert(rows, _without_covers(told, inside) if shown is not None and inside.any() else told, at)


def are_holes(rows: pa.Table) -> np.ndarray:
    """Whether each row says that lines are missing behind it."""
    holes: np.ndarray = pc.is_in(rows["event_type"], value_set=_HOLES).to_numpy()
    return holes


def _without_covers(rows: pa.Table, where: np.ndarray) -> pa.Table:
    """The rows, of which these say that nothing would have been told: their times are those of missing lines."""
    at, none = rows.schema.get_field_index("covers"), pa.scalar([], rows.schema.field("covers").type)
    return rows.set_column(at, rows.schema.field(at), pc.if_else(pa.array(where), none, rows["covers"]))


def quiet_seconds(max_ts: int, until: int) -> np.ndarray:
    """`max_ts` (us) and the start of each second after it, except the last before `until`: seconds without events."""
    first = max_ts // SECOND_US + 1
    seconds = np.arange(first, min(until // SECOND_US, first + LONGEST_FILL)) * SECOND_US
    return np.concatenate([[max_ts], seconds])


def earliest(rows: pa.Table, max_ts: int) -> int:
    """The least `ts` (us) of `rows` that follow `max_ts`, single rows far out excepted."""
    return int(_steady(times(rows), max_ts).min())


def _steady(ts: np.ndarray, max_ts: int) -> np.ndarray:
    """`ts` with each single row that is a minute ahead of, or behind, both its neighbours set to the one before."""
    before = np.concatenate([[max_ts or ts[0]], ts[:-1]])
    after = np.concatenate([ts[1:], ts[-1:]])
    lone = (np.abs(ts - before) > FAR_OUT) & (np.abs(ts - after) > FAR_OUT) & (np.abs(after - before) <= FAR_OUT)
    return np.where(lone, before, ts)


def progress(
    stamps: np.ndarray,
    defaults: Mapping[str, object],
    schema: pa.Schema,
    shown: Shown | None = None,
    since: int = 0,
) -> pa.Table:
    """Progress rows at `stamps` (us), the first of which says what was told from `since` on.

    `shown`: since when (us) each kind of evidence is known to be printed; None where that is not known of any.
    """
    count = len(stamps)
    fixed: dict[str, object] = {**defaults, "event_type": "progress", "partition": -1}
    known = {"ts": pa.array(stamps, pa.int64()).cast(schema.field("ts").type)}
    if shown is not None:
        known["covers"] = covers(shown, np.concatenate([[since], stamps[:-1]]))
    columns = [
        known[field.name] if field.name in known else pa.repeat(pa.scalar(fixed.get(field.name), field.type), count)
        for field in schema
    ]
    return pa.table(columns, schema=schema)


def _insert(rows: pa.Table, extra: pa.Table, before: np.ndarray) -> pa.Table:
    """`rows` with `extra[i]` inserted before `rows[before[i]]`."""
    where = np.concatenate([np.arange(rows.num_rows) * 2 + 1, before * 2])
    order = np.argsort(where, kind="stable")
    return pa.concat_tables([rows, extra.cast(rows.schema)]).take(pa.array(order))
