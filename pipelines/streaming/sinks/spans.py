"""The maximum of a gauge within a minute, and its seconds above 0, from its differences to the millisecond."""

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
"""For each count of SPANS the milliseconds of its differences within a minute, in order, and the differences."""
NO_MOVES = np.zeros(0, np.int64), np.zeros(0, np.int64)


def most_and_seconds(start: int, at_ms: I64, differences: I64) -> tuple[int, float]:
    """The maximum of a gauge that begins a minute at `start`, and its seconds above 0; moments in order of time.

    A value counts if it lasts for a millisecond: a leader that hands over a partition at once leaves no gap.
    """
    values = start + np.concatenate([[0], np.cumsum(differences)])
    lasted = np.diff(np.concatenate([[0], at_ms, [MINUTE_MS]]))
    return int(values[lasted > 0].max()), int(lasted[values > 0].sum()) / 1000


def span_columns(ends: Mapping[str, int], changes: Mapping[str, int], moves: Moves) -> dict[str, Any]:
    """The columns of a minute from the gauges at its end, their differences in it, and those to the millisecond.

    They are null if the milliseconds are missing: an earlier version counted by the minute only.
    """
    columns: dict[str, Any] = {}
    for name, change in SPANS.items():
        at_ms, differences = moves.get(change, NO_MOVES)
        total, complete = changes.get(change, 0), int(differences.sum()) == changes.get(change, 0)
        found = most_and_seconds(ends[name] - total, at_ms, differences) if complete else (None, None)
        columns |= {f"{name}_max": found[0], f"{name}_s": found[1]}
    return columns


def shift_spans(rows: pa.Table, differences: Mapping[str, I64]) -> pa.Table:
    """Rows of minutes with SPANS raised by these amounts from beginning to end.

    The seconds assume a gauge that did not move, whose maximum is its value at the end.
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
