"""From the rows of a micro-batch to numbered, packed rows, and which of them may be read now.

Rows that break a row rule leave them first, and broker-wide rows are set apart.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.replication.batch.numbering import Minutes, Numbering, encode
from pipelines.replication.batch.sequencing import Accepted, GapLimits, PackedSeries, RowFlags, accept, clocks_of
from pipelines.replication.compiled.records import Records, lines, read_only
from pipelines.replication.compiled.types import I32, I64, NEVER
from pipelines.replication.events.columns import Columns, int64_column, kernel_columns, take_rows, with_dictionaries
from pipelines.replication.events.packed_rows import PackingPlan, SliceColumns, pack, sort_series
from pipelines.replication.events.row_rules import split
from pipelines.replication.events.row_slices import RowSlice
from pipelines.replication.events.sharding import owner
from pipelines.replication.state.state import State
from pipelines.replication.telemetry.coverage import SourcedRows
from schemas import replication_events
from schemas.replication_events import DRAIN, WATCHER

_BROKER_WIDE_COLUMNS = (
    "cluster", "source_id", "source_epoch", "source_seq", "ts", "broker_id", "event_type", "topic", "topic_id",
    "partition", "leader_id", "leader_epoch", "replica_id", "broker_epoch", "min_isr", "lag_max_ms", "level", "detail",
    "ts_error_ms", "covers", "committed", "controller_epoch",
)  # fmt: skip
"""The columns of a broker-wide event that are read."""
REJECTED = "rejected"
"""Stands for the event type of a row that went to quarantine."""
NO_EVENTS = replication_events.ARROW.empty_table()
_NEVER_NULL = (
    "cluster", "source_id", "source_epoch", "source_seq", "seq", "ts", "broker_id", "partition", "level",
)  # fmt: skip


class Intake(NamedTuple):
    """The rows of a micro-batch, sorted out."""

    rows: SourcedRows
    """All rows, those that waited before the others. A rejected one among them has the type REJECTED, so that it takes
    up its sequence number."""
    waited: int
    """So many of `rows` had arrived earlier."""
    broker_wide: pa.Table
    """Events of whole brokers, with their places among `rows` as `row`."""
    of_all: pa.Table
    """Those, and the `progress` of sources of other buckets."""
    rejected: pa.Table
    """Rows that break a row rule."""


def sort_out(waiting: pa.Table, rows: SourcedRows, bucket: int, buckets: int) -> Intake:
    """Validates rows and puts those before them that waited; broker-wide rows are those relevant to this bucket."""
    good, rejected = split(rows.events, rows.slices)
    if good is not None:
        rows = SourcedRows(_blank_rejected(rows.events, good))
    of_all = _broker_wide_rows(rows, waiting.num_rows)
    of_all = of_all if good is None else of_all.filter(pc.not_equal(of_all["event_type"], REJECTED))
    if waiting.num_rows:
        waiting = with_dictionaries(waiting)
        new = rows.events.select(waiting.column_names).cast(waiting.schema)
        rows = SourcedRows(pa.concat_tables([waiting, new]))
    relevant = _relevant(of_all, bucket, buckets)
    return Intake(rows, waiting.num_rows, relevant, of_all, own_rows(rejected, bucket, buckets))


def _broker_wide_rows(rows: SourcedRows, first: int) -> pa.Table:
    """The broker-wide rows, _BROKER_WIDE_COLUMNS and, as `row`, their places from `first` on."""
    found = [part.first + np.flatnonzero(part.int32("partition") < 0) for part in rows.slices]
    at = np.concatenate([np.empty(0, dtype=np.int64), *found])
    return take_rows(rows.events.select(_BROKER_WIDE_COLUMNS), at).append_column("row", pa.array(at + first))


def _relevant(rows: pa.Table, bucket: int, buckets: int) -> pa.Table:
    """Broker-wide events without the `progress` of sources of other buckets: coverage has what those report. That of a
    watcher says more: every replica without a row of its own has answered as before."""
    if buckets == 1 or not rows.num_rows:
        return rows
    owned = _owned(rows["source_id"], bucket, buckets)
    of_watcher = pc.starts_with(rows["source_id"].cast(pa.string()), WATCHER)
    return rows.filter(pc.or_(pc.or_(owned, of_watcher), pc.not_equal(rows["event_type"], "progress")))


def own_rows(aside: pa.Table, bucket: int, buckets: int) -> pa.Table:
    """The rows set aside that this bucket emits: broker-wide ones, which all buckets have, only as their owner."""
    if buckets == 1 or not aside.num_rows:
        return aside
    on_partitions = pc.greater_equal(pc.fill_null(aside["partition"], -1), 0)
    return aside.filter(pc.or_(on_partitions, _owned(aside["source_id"], bucket, buckets)))


def _owned(source: pa.ChunkedArray, bucket: int, buckets: int) -> pa.ChunkedArray:
    """Whether this bucket owns each of these sources."""
    names = pc.fill_null(source.cast(pa.string()), "")
    own = [name for name in pc.unique(names).to_pylist() if owner(name, buckets) == bucket]
    return pc.is_in(names, value_set=pa.array(own, pa.string()))


def _blank_rejected(events: pa.Table, good: pa.Array) -> pa.Table:
    """The same rows, rejected ones with a type of their own and no values but where they stand; those without a usable
    number are left out."""
    for at, name in enumerate(events.column_names):
        is_told = name == "event_type" or events[name].null_count < len(events)
        if name not in (*_NEVER_NULL, "topic") and is_told:
            instead = REJECTED if name == "event_type" else pa.scalar(None, events[name].type)
            events = events.set_column(at, name, pc.if_else(good, events[name], instead))
    return events.filter(pa.array(~without_number(events)))


def without_number(events: pa.Table) -> npt.NDArray[np.bool_]:
    """Rows that cannot even take up a sequence number: what identifies them is missing or out of range, or their source
    only closes others."""
    mask: Any = pc.and_(pc.equal(events["event_type"], REJECTED), pc.equal(events["source_id"], DRAIN))
    mask = pc.fill_null(mask, False).to_numpy()
    for name in _NEVER_NULL:
        mask |= events[name].is_null().to_numpy()
    mask |= pc.and_(events["topic"].is_null(), pc.fill_null(pc.greater_equal(events["partition"], 0), False)).to_numpy()
    for name in ("source_epoch", "seq", "source_seq"):
        outside = pc.or_(pc.less(events[name], 0), pc.greater_equal(events[name], NEVER))
        mask |= pc.fill_null(outside, False).to_numpy()
    mask |= pc.fill_null(pc.less(events["partition"], -1), False).to_numpy()
    found: npt.NDArray[np.bool_] = mask
    return found


@dataclass(frozen=True)
class Batch:
    """One micro-batch, the rows that waited before it included; broker-wide rows have series -1."""

    events: pa.Table
    series: I32
    minutes: Minutes
    """The statistics rows."""
    accepted: Accepted
    rare: I64
    """Rows that go to histories, ascending."""
    rare_events: pa.Table
    """The rare rows."""
    columns: Columns
    """Of the rare rows."""
    waited: int
    """So many of its first rows had arrived earlier."""

    def int64(self, name: str, rows: I64) -> I64:
        """The values of a 64-bit or time column in these rows."""
        return int64_column(take_rows(self.events.select([name]), rows)[name])

    def bronze_rows(self, rows: I64) -> pa.Table:
        """These rows, in bronze schema."""
        schema = replication_events.ARROW
        return take_rows(self.events, rows).select(schema.names).cast(schema) if len(rows) else NO_EVENTS

    def clocks(self, rows: I64) -> I64:
        """For each of these rows, which have been read, the running maximum of time in its series."""
        series, seq = self.series[rows], self.int64("seq", rows)
        return clocks_of(self.accepted, series, read_only(seq), np.lexsort((seq, series)))


def number_rows(state: State, intake: Intake, limits: Callable[[], GapLimits]) -> Batch:
    """Numbers the rows and decides which of those on partitions may be read now.

    `limits` is called when the sources have their numbers.
    """
    rows = intake.rows
    events, numbering = rows.events, Numbering(state, rows)
    for part, source in zip(rows.slices, rows.source_of, strict=True):
        numbering.add(part, source)
    numbering.inherit_lanes()
    rare = np.concatenate([np.empty(0, dtype=np.int64), *numbering.rare])
    accepted = _accept(state, rows.slices, numbering, limits())
    rare_events = take_rows(events, rare)
    topic_id = encode(rare_events["topic_id"], lambda v: state.topic_ids.number(v))
    columns = kernel_columns(rare_events, topic_id)
    minutes = Minutes.from_keys(numbering.statistics.keys, numbering.statistics.seconds)
    return Batch(events, read_only(numbering.series), minutes, accepted, rare, rare_events, columns, intake.waited)


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
    """Pack the rows of all slices."""
    for rows in slices:
        columns = SliceColumns.from_slice(rows, numbering.series, numbering.kind, numbering.stat)
        plan.rare, spoiled = pack(columns, rows.first, plan.place, plan.by_number, plan.filled, plan.rare, packed)
        plan.spoiled |= spoiled
