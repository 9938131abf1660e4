"""From the rows of a micro-batch to numbered, packed rows, and which of them may be read now."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from pipelines.replication.batch.numbering import Numbering, encode
from pipelines.replication.batch.sequencing import Accepted, GapLimits, PackedSeries, RowFlags, accept, clocks_of
from pipelines.replication.compiled.records import Records, lines
from pipelines.replication.compiled.types import I32, I64, read_only
from pipelines.replication.events.columns import Columns, int64_column, kernel_columns, take_rows
from pipelines.replication.events.packed_rows import PackingPlan, SliceColumns, pack, sort_series
from pipelines.replication.events.row_slices import RowSlice
from pipelines.replication.events.sources_of_rows import SourcedRows
from pipelines.replication.state.state import State


@dataclass(frozen=True)
class Batch:
    """One micro-batch, the rows that waited before it included; broker-wide rows have series -1."""

    events: pa.Table
    series: I32
    stat_keys: I64
    """Keys of the statistics rows, see `numbering.stat_place`."""
    accepted: Accepted
    rare: I64
    """Rows that go to histories, ascending."""
    rare_events: pa.Table
    """The rare rows."""
    columns: Columns
    """Of the rare rows."""

    def int64(self, name: str, rows: I64) -> I64:
        """The values of a 64-bit or time column in these rows."""
        return int64_column(take_rows(self.events.select([name]), rows)[name])

    def clocks(self, rows: I64) -> I64:
        """For each of these rows, which have been read, the running maximum of time in its series."""
        series, seq = self.series[rows], self.int64("seq", rows)
        return clocks_of(self.accepted, series, read_only(seq), np.lexsort((seq, series)))


def number_rows(state: State, rows: SourcedRows, limits: Callable[[], GapLimits]) -> Batch:
    """Numbers the rows and decides which of those on partitions may be read now.

    `limits` is called when the sources have their numbers.
    """
    events, numbering = rows.events, Numbering(state, rows)
    for part, source in zip(rows.slices, rows.source_of, strict=True):
        numbering.add(part, source)
    rare = np.concatenate([np.empty(0, dtype=np.int64), *numbering.rare])
    accepted = _accept(state, rows.slices, numbering, limits())
    rare_events = take_rows(events, rare)
    topic_id = encode(rare_events["topic_id"], lambda v: state.topic_ids.number(v))
    columns = kernel_columns(rare_events, topic_id)
    stat_keys = numbering.statistics.keys.copy()
    return Batch(events, read_only(numbering.series), stat_keys, accepted, rare, rare_events, columns)


def _accept(state: State, slices: list[RowSlice], numbering: Numbering, limits: GapLimits) -> Accepted:
    plan = PackingPlan(numbering.tallies)
    packed = lines(int(plan.bounds[-1]) + _rows_to_merge(state, plan))
    _pack(slices, numbering, plan, packed)
    if plan.spoiled:
        plan = PackingPlan(numbering.tallies, in_arrival_order=True)
        _pack(slices, numbering, plan, packed)
    sort_series(packed, plan.bounds, plan.unsorted)
    series, series_state, count = plan.series, state.series.data, len(numbering.series)
    dropped, copied, gap_before = (np.zeros(count, dtype=np.int8) for _ in range(3))
    next_seq, last_ts = state.series["next_seq"][series], state.series["last_ts"][series]
    of_series, flags = PackedSeries(packed, series, plan.bounds), RowFlags(dropped, gap_before)
    end, latest, conflicts, gaps = accept(of_series, numbering.tallies.data, plan.in_order, series_state, limits, flags)
    return Accepted(
        packed, series, plan.bounds, end, next_seq, last_ts, latest, dropped, copied, gap_before, conflicts, gaps
    )


def _rows_to_merge(state: State, plan: PackingPlan) -> int:
    """Rows of lanes that several sources report: they are written once more, merged."""
    lane = state.series["lane"][plan.series]
    size = np.diff(plan.bounds)[lane >= 0]
    lane = lane[lane >= 0]
    several = np.bincount(lane)[lane] > 1 if len(lane) else lane
    return int(size[several].sum())


def _pack(slices: list[RowSlice], numbering: Numbering, plan: PackingPlan, packed: Records) -> None:
    """Packs the rows of all slices."""
    for rows in slices:
        columns = SliceColumns.from_slice(rows, numbering.series, numbering.kind, numbering.stat)
        plan.rare, spoiled = pack(columns, rows.first, plan.place, plan.by_number, plan.filled, plan.rare, packed)
        plan.spoiled |= spoiled
