"""`progress` rows: how far a source has been told, at least once per second of its time."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

SECOND = 1_000_000
FAR_OUT = 60 * SECOND
LONGEST_FILL = 3600  # a clock that jumps further ahead is not followed second by second


def times(rows: pa.Table) -> np.ndarray:
    """`ts` as int64 microseconds."""
    stamps: np.ndarray = rows["ts"].cast(pa.int64()).to_numpy()
    return stamps


def running_time(rows: pa.Table, high: int) -> np.ndarray:
    """Running maximum of `ts` (us) over rows of a source told up to `high`; a lone row far out counts for nothing."""
    return np.maximum(np.maximum.accumulate(_steady(times(rows), high)), high)


def interleave(rows: pa.Table, high: int, like: Mapping[str, object]) -> pa.Table:
    """`rows` of one source with a progress row wherever a second of its time ends, and for each quiet second.

    `high` (us, 0 at the start) is the time told before; `like` gives the columns of a progress row.
    None says more than the rows before it, and for quiet seconds none comes within a second of a row still to come.
    """
    if not rows.num_rows:
        return rows
    steady = _steady(times(rows), high)
    told = np.concatenate([[high or steady[0]], running_time(rows, high)])
    before = np.flatnonzero(np.diff(told // SECOND) > 0)
    if not len(before):
        return rows
    to_come = np.minimum.accumulate(steady[::-1])[::-1]
    to_come[-1] = min(to_come[-1], told[-2] + FAR_OUT)
    seconds = told[before] // SECOND
    fills = np.clip(to_come[before] // SECOND - seconds, 1, LONGEST_FILL)
    at = np.repeat(before, fills)
    nth = np.arange(len(at)) - np.repeat(np.cumsum(fills) - fills, fills)
    stamps = np.where(nth == 0, told[at], (told[at] // SECOND + nth) * SECOND)
    return _insert(rows, progress(stamps, like, rows.schema), at)


def quiet_seconds(high: int, until: int) -> np.ndarray:
    """`high` (us) and the start of each second after it, but for the last before `until`: nothing happened in them."""
    first = high // SECOND + 1
    seconds = np.arange(first, min(until // SECOND, first + LONGEST_FILL)) * SECOND
    return np.concatenate([[high], seconds])


def earliest(rows: pa.Table, high: int) -> int:
    """The least `ts` (us) of `rows` that follow `high`, but for lone ones far out."""
    return int(_steady(times(rows), high).min())


def _steady(ts: np.ndarray, high: int) -> np.ndarray:
    """`ts` with each lone row that lies a minute ahead of, or behind, both its neighbours moved to the one before."""
    before = np.concatenate([[high or ts[0]], ts[:-1]])
    after = np.concatenate([ts[1:], ts[-1:]])
    lone = (np.abs(ts - before) > FAR_OUT) & (np.abs(ts - after) > FAR_OUT) & (np.abs(after - before) <= FAR_OUT)
    return np.where(lone, before, ts)


def progress(stamps: np.ndarray, like: Mapping[str, object], schema: pa.Schema) -> pa.Table:
    """Progress rows at `stamps` (us)."""
    count = len(stamps)
    fixed: dict[str, object] = {**like, "event_type": "progress", "partition": -1}
    columns = [
        pa.array(stamps, pa.int64()).cast(field.type)
        if field.name == "ts"
        else pa.repeat(pa.scalar(fixed.get(field.name), field.type), count)
        for field in schema
    ]
    return pa.table(columns, schema=schema)


def _insert(rows: pa.Table, extra: pa.Table, before: np.ndarray) -> pa.Table:
    """`extra[i]` put before `rows[before[i]]`."""
    where = np.concatenate([np.arange(rows.num_rows) * 2 + 1, before * 2])
    order = np.argsort(where, kind="stable")
    return pa.concat_tables([rows, extra.cast(rows.schema)]).take(pa.array(order))
