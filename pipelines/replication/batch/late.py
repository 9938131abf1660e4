"""Late rows: those that arrive after what they bear on was decided."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pipelines.replication.batch.gaps import GapRows, gap_row
from pipelines.replication.batch.read import Batch
from pipelines.replication.compiled.types import I64
from pipelines.replication.events.columns import int64_column, take_rows
from pipelines.replication.events.packed_rows import PACKED
from pipelines.replication.state.state import State


@dataclass(frozen=True)
class DecidedBefore:
    """What was decided before a micro-batch. `waiting`: so many of its first rows had arrived earlier.

    `settled`: by cluster the time up to which everything had been decided; `low_watermarks`: those of the sources then.
    """

    waiting: int
    settled: dict[str, int]
    low_watermarks: dict[tuple[str, str, int], int]

    @classmethod
    def from_state(cls, state: State) -> DecidedBefore:
        low_watermarks = {key: source.low_watermark for key, source in state.sources.known.items()}
        return cls(state.waiting.num_rows, dict(state.sources.settled), low_watermarks)


def late_rows(state: State, found: GapRows, batch: Batch, before: DecidedBefore) -> None:
    """Adds the late rows: those that fill numbers declared lost, and those of sources no longer waited for."""
    rows = np.concatenate([_filling_lost_numbers(state, batch), _behind_decisions(state, batch, before)])
    if not len(rows):
        return
    late = take_rows(batch.events, rows)
    for ts, event in zip(int64_column(late["ts"]).tolist(), late.to_pylist(), strict=True):
        found.of_partitions.append(gap_row(event, ts, "partition", event["seq"], event["seq"], "late"))


def _filling_lost_numbers(state: State, batch: Batch) -> I64:
    """Dropped rows whose numbers had been declared lost; the numbers are known from now on."""
    if not state.lost_numbers:
        return np.empty(0, dtype=np.int64)
    found = []
    dropped = np.flatnonzero(batch.accepted.dropped)
    for row, seq in zip(dropped, batch.int64("seq", dropped).tolist(), strict=True):
        lost = state.lost_numbers.get(int(batch.series[row]), [])
        for k, (first, last) in enumerate(lost):
            if first <= seq <= last:
                lost[k : k + 1] = [part for part in ((first, seq - 1), (seq + 1, last)) if part[0] <= part[1]]
                found.append(row)
                break
    return np.array(found, dtype=np.int64)


def _behind_decisions(state: State, batch: Batch, before: DecidedBefore) -> I64:
    """New rows, not after what was decided, of sources whose low watermark was behind that."""
    names = state.source_names.all
    limit = np.full(max(len(names), 1), -(1 << 62), dtype=np.int64)
    for number, name in enumerate(names):
        decided = before.settled.get(str(name[0]), -1)
        if before.low_watermarks.get(name, -1) < decided:
            limit[number] = decided
    if not len(names) or limit.max() < 0:
        return np.empty(0, dtype=np.int64)
    accepted = batch.accepted
    packed = accepted.rows[: accepted.bounds[-1]]
    row, series = packed[:, PACKED.row], np.repeat(accepted.series, np.diff(accepted.bounds))
    behind = packed[:, PACKED.ts] <= limit[state.series["source"][series]]
    rows = np.sort(row[behind & (accepted.dropped[row] == 0) & (row >= before.waiting)])
    return rows[_first_arrivals(batch, before.waiting, rows)] if len(rows) else rows


def _first_arrivals(batch: Batch, waiting: int, rows: I64) -> npt.NDArray[np.bool_]:
    """Which of these rows repeat neither one another nor a row that waits."""
    earlier = np.arange(waiting)
    arrived = set(zip(batch.series[earlier].tolist(), batch.int64("seq", earlier).tolist(), strict=True))
    first = np.zeros(len(rows), dtype=np.bool_)
    for k, key in enumerate(zip(batch.series[rows].tolist(), batch.int64("seq", rows).tolist(), strict=True)):
        first[k] = key not in arrived
        arrived.add(key)
    return first
