"""The most of a gauge within a minute, and its seconds above 0, from its differences to the millisecond."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from schemas.minute_stats import SPANS

I64 = npt.NDArray[np.int64]
MINUTE_MS = 60_000
Moves = dict[str, tuple[I64, I64]]
"""By count of SPANS its milliseconds within a minute, in order, and the differences there."""
NO_MOVES = np.zeros(0, np.int64), np.zeros(0, np.int64)


def most_and_seconds(start: int, at_ms: I64, differences: I64) -> tuple[int, float]:
    """Return the most and the seconds above 0 of a gauge that begins a minute at `start`; moments in order of time.

    A value counts if it lasts for a millisecond: a leader that hands a partition over at once leaves no gap.
    """
    values = start + np.concatenate([[0], np.cumsum(differences)])
    lasted = np.diff(np.concatenate([[0], at_ms, [MINUTE_MS]]))
    return int(values[lasted > 0].max()), int(lasted[values > 0].sum()) / 1000


def span_columns(ends: Mapping[str, int], changes: Mapping[str, int], moves: Moves) -> dict[str, Any]:
    """Return the columns of a minute: gauges at its end, all their differences in it, and those to the millisecond.

    Null where moments are missing: an earlier version counted by the minute alone.
    """
    columns: dict[str, Any] = {}
    for name, change in SPANS.items():
        at_ms, differences = moves.get(change, NO_MOVES)
        total, complete = changes.get(change, 0), int(differences.sum()) == changes.get(change, 0)
        found = most_and_seconds(ends[name] - total, at_ms, differences) if complete else (None, None)
        columns |= {f"{name}_max": found[0], f"{name}_s": found[1]}
    return columns


def shift_spans(rows: pa.Table, differences: Mapping[str, I64]) -> pa.Table:
    """Return rows of minutes in which SPANS stood higher by these from the beginning to the end.

    Seconds that follow are those of a gauge that did not move: its most is its value at the end.
    """
    for name in SPANS:
        moved, most, end = pa.array(differences[name]), rows[f"{name}_max"], rows[name]
        stood = pc.equal(most, end)
        whole = pc.if_else(pc.greater(pc.add(end, moved), 0), MINUTE_MS / 1000, 0.0)
        seconds = pc.if_else(pc.equal(moved, 0), rows[f"{name}_s"], pc.if_else(stood, whole, None))
        for column, values in ((f"{name}_max", pc.add(most, moved)), (f"{name}_s", seconds)):
            at = rows.column_names.index(column)
            rows = rows.set_column(at, rows.schema.field(at), values.cast(rows.schema.field(at).type))
    return rows
