"""Runs the kernel over the lanes of a micro-batch, with room for what it writes."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pipelines.replication.batch.ended_terms import record_ended_terms
from pipelines.replication.batch.lane_jobs import LaneJobs, Watermarks, lane_jobs, sample_limits
from pipelines.replication.batch.read import Batch
from pipelines.replication.batch.sequencing import Accepted, advance_series
from pipelines.replication.compiled.decorators import compiled
from pipelines.replication.compiled.records import Arrays, Record, Records, as_records, records
from pipelines.replication.compiled.types import I8, I64, MOST_REPLICAS, NULL32
from pipelines.replication.events.columns import CODE
from pipelines.replication.events.packed_rows import PACKED, PACKED_ROW, flag
from pipelines.replication.facts.partition_hw import BLOCK, HwRows
from pipelines.replication.metadata.layout import BROKER_VERSIONS, BROKERS, CONFIGS, Timeline
from pipelines.replication.rules import Rules
from pipelines.replication.state.state import State
from pipelines.replication.term.bundles import Assigned, Run, Stats
from pipelines.replication.term.constants import (
    CONSUMED,
    ENDED_FULL,
    HW_FULL,
    KEEP_FULL,
    MOVED_BACK,
    OF_FOLLOWER,
    SLOTS_FULL,
    STAT,
    SYNC_FULL,
    Marks,
)
from pipelines.replication.term.layout import CLUSTER_RULES, CURSOR, GAPS, HW_ROWS, JOBS, SETTINGS, SYNC_ROWS, TERMS
from pipelines.replication.term.machine import run_terms as run_kernel
from schemas.minute_stats import BOUNDS_MS, BOUNDS_RECORDS


@dataclass(frozen=True)
class TermResults:
    """The results of one run of the lanes."""

    marks: tuple[I64, Marks]
    """Rows with a mark other than CONSUMED, and their marks."""
    consumed: I8
    """By row of the micro-batch whether it was read."""
    unled: I64
    """Rows read that no lane reads."""
    left: I64
    """Rows on partitions that were not read."""
    follower_hws: tuple[I64, I64, I64]
    """Rows in which brokers report their HWs as followers, these HWs, and the leader epochs."""
    moved_back: tuple[I64, I64]
    """Rows of second successive low reports, and of leaders whose logs end below a HW that they answered; and the HW
    that each lies below."""
    stats: Stats
    hw: HwRows
    sync: dict[str, Any]

    def marked(self, mark: int) -> I64:
        """Rows with a mark."""
        rows, marks = self.marks
        found: I64 = rows[(marks & mark) != 0]
        return found


def run_terms(state: State, rules: Rules, batch: Batch, watermarks: Watermarks, closed: Set[str]) -> TermResults:
    """Read the rows that may be read, and make all final that clusters have told that are `closed`. Terms that ended
    are recorded in `state`."""
    accepted = batch.accepted
    if not accepted.all_count or accepted.copied.any():
        flag(accepted.rows[: accepted.bounds[-1]], accepted.dropped | accepted.copied, accepted.gap_before)
    jobs = lane_jobs(state, batch, watermarks, closed)
    packed, stats, marks = jobs.rows, _empty_stats(batch), np.zeros(len(jobs.rows), dtype=np.uint8)
    hw, sync = _run_all(state, rules, batch, jobs, stats, marks)
    consumed = (batch.series >= 0).view(np.int8)
    unled, waits = _without_lane(state, accepted, closed, watermarks.beside_others)
    all_read = accepted.all_readable and np.count_nonzero(marks) == jobs.row_count and not waits
    if not all_read:
        consumed = np.zeros(len(batch.series), dtype=np.int8)
        _mark_consumed(packed, marks, consumed)
    unled = _read_without_lane(batch, unled, consumed, stats)
    advance_series(accepted, consumed, state.series.data)
    marked = np.flatnonzero(marks > CONSUMED)
    by_followers = marked[marks[marked] & OF_FOLLOWER != 0]
    follower = np.concatenate([unled[_kinds(packed[unled]) == CODE["hw"]], by_followers])  # as numbered in each series
    back = marked[marks[marked] & MOVED_BACK != 0]
    return TermResults(
        marks=(packed[marked, PACKED.row], marks[marked]),
        consumed=consumed,
        unled=packed[unled, PACKED.row],
        left=unled[:0] if all_read else np.flatnonzero((consumed == 0) & (batch.series >= 0)),
        follower_hws=(
            packed[follower, PACKED.row], packed[follower, PACKED.more], packed[follower, PACKED.who] >> 32,
        ),
        moved_back=(packed[back, PACKED.row], packed[back, PACKED.leader_leo]),
        stats=stats, hw=hw, sync=sync,
    )  # fmt: skip


def _kernel_rules(state: State, rules: Rules) -> Records:
    """The rules of each cluster as the kernel reads them."""
    found = records(CLUSTER_RULES, len(state.clusters.all))
    for k, (cluster,) in enumerate(state.clusters.all):
        own, fixed = rules.of(str(cluster))
        row = {
            "race_window": own.race_window_ms * 1000,
            "lag_max": own.lag_max_ms * 1000,
            "min_isr": NULL32 if own.min_isr is None else own.min_isr,
            "lag_max_messages": -1 if own.lag_max_messages is None else own.lag_max_messages,
            "hw_resolution": own.hw_resolution_ms * 1000,
            "replica_hw": int(own.replica_hw),
            "reorder_grace": own.reorder_grace_ms * 1000,
            "bits": own.bits,
            "fixed": fixed,
        }
        found[k] = [row[name] for name in CLUSTER_RULES.names]
    return found


def _empty_stats(batch: Batch) -> Stats:
    """Statistics for every (cluster, broker, minute) of the batch, all 0."""
    count = len(batch.minutes.minute)
    return Stats(
        events=np.zeros(count, dtype=np.int64),
        append_to_hw=np.zeros((count, len(BOUNDS_MS) + 1), dtype=np.int64),
        lag=np.zeros((count, len(BOUNDS_RECORDS) + 1), dtype=np.int64),
        bounds_us=(np.array(BOUNDS_MS) * 1000).astype(np.int64),
        bounds_records=np.array(BOUNDS_RECORDS, dtype=np.int64),
    )


@compiled
def _mark_consumed(packed: Records, marks: Marks, consumed: I8) -> None:
    for j in range(len(marks)):
        if marks[j] & CONSUMED:
            consumed[packed[j, PACKED.row]] = 1


def _kinds(packed: Records) -> I64:
    kinds: I64 = packed[:, PACKED.what] & 0xFF
    return kinds


def _without_lane(
    state: State, accepted: Accepted, closed: Set[str], beside_others: npt.NDArray[np.bool_]
) -> tuple[I64, bool]:
    """(where the packed rows stand that no lane reads and that may be read now, whether others of them wait).

    A watcher's rows wait until every source of the cluster has reported up to them: the answers of several brokers
    make one fact. So do those of a source `beside_others` of its log: another one may yet tell that the broker leads.
    """
    unled = accepted.lane_start(state.series.data) - accepted.start
    series = np.flatnonzero((unled > 0) | (state.series["lane"][accepted.series] < 0))
    start, size = accepted.start[series], unled[series]
    of = np.repeat(np.arange(len(series)), size)
    rows: I64 = start[of] + np.arange(len(of)) - (np.cumsum(size) - size)[of]
    watched = state.watched_series()
    if not len(rows) or (watched is None and not beside_others.any()):
        return rows, False
    waits = beside_others[state.series["source"]]
    waits = waits if watched is None else waits | watched
    by_cluster = sample_limits(state, state.cluster_low_watermarks(closed), accepted)
    limits = np.array([by_cluster[state.clusters.number(str(name[0]))] for name in state.source_names.all])
    number = accepted.series[series[of]]
    later = waits[number] & (accepted.rows[rows, PACKED.ts] > limits[state.series["source"][number]])
    later &= accepted.dropped[accepted.rows[rows, PACKED.row]] == 0  # which is read with the row that it repeats
    behind = np.maximum.accumulate(np.where(later, of + 1, 0)) == of + 1
    return rows[~behind], bool(behind.any())


def _read_without_lane(batch: Batch, read: I64, consumed: I8, stats: Stats) -> I64:
    """Read these packed rows, repeats aside: they count as events, and the rare ones go to the histories. Returns
    where the others stand."""
    accepted = batch.accepted
    rows = accepted.rows[read, PACKED.row]
    consumed[rows] = 1
    counted: I64 = read[accepted.counts(rows)]
    np.add.at(stats.events, (accepted.rows[counted, PACKED.what] >> 16) & STAT, 1)
    return counted


def _run_all(
    state: State, rules: Rules, batch: Batch, jobs: LaneJobs, stats: Stats, marks: Marks
) -> tuple[HwRows, dict[str, Any]]:
    """Call the kernel until every lane is done, making room where it ran out."""
    longest = int(np.max(jobs.jobs[:, JOBS.at.end] - jobs.jobs[:, JOBS.at.start], initial=0))
    pending = int(state.lanes["pending"].sum())
    hw, keep, scratch = (Arrays(HW_ROWS, blank=False) for _ in range(3))
    sync, ended = Arrays(SYNC_ROWS, blank=False), Arrays(TERMS, blank=False)
    of_one_lane = 3 * longest + int(np.max(state.lanes["pending"], initial=0)) + 8
    scratch.grow(of_one_lane)
    hw.grow(max(BLOCK, of_one_lane))
    final = HwRows(state)
    keep.grow(pending + 3 * longest + 1024)
    sync.grow(4 * (longest + 4) * (state.replicas.width + 1) + len(jobs.jobs))
    ended.grow(2 * longest + 64)
    assigned, timeline, pending_starts = _assignments_at_starts(state, batch), _timeline(state), state.pending_from()
    cluster_rules = as_records(CLUSTER_RULES, _kernel_rules(state, rules))
    settings, cursor = as_records(SETTINGS, records(SETTINGS, 1)), as_records(CURSOR, records(CURSOR, 1))
    while True:
        run_kernel(
            Run(
                jobs=as_records(JOBS, jobs.jobs), gaps=as_records(GAPS, jobs.gap_times),
                rows=as_records(PACKED_ROW, jobs.rows), series=batch.series,
                columns=batch.columns, assigned=assigned, lanes=state.lanes.records,
                replicas=state.replicas.records.reshape(-1, state.replicas.width), timeline=timeline,
                cluster_rules=cluster_rules,
                settings=settings, stats=stats, marks=marks,
                pending=state.pending_rows.records, pending_starts=pending_starts, hw_rows=scratch.records,
                final_rows=hw.records, kept_rows=keep.records, sync_rows=sync.records, ended_rows=ended.records,
                cursor=cursor,
            )
        )  # fmt: skip
        at = cursor[0]
        # What refers to replicas by their slots goes before a slot may be another replica's.
        done = at["job"] == len(jobs.jobs)
        if at["final"] and (done or at["full"] in (HW_FULL, SLOTS_FULL)):
            final.add(hw.data[: at["final"]])
            at["final"] = 0
        if at["ended"] and (done or at["full"] == SLOTS_FULL):
            record_ended_terms(state, _columns(ended, int(at["ended"])))
            at["ended"] = 0
        if done:
            break
        _make_room(state, keep, sync, ended, at, longest)
    keep.count = int(at["kept"])
    state.pending_rows = _by_lane(keep)
    return final, _columns(sync, int(at["sync"]))


def _timeline(state: State) -> Timeline:
    """The history of brokers and configs, as records."""
    if state.timeline.arrays_are_old:
        state.timeline.build_arrays()
    known = state.timeline.arrays
    return Timeline(
        brokers=as_records(BROKERS, known.brokers),
        configs=as_records(CONFIGS, known.configs),
        versions=as_records(BROKER_VERSIONS, known.versions),
        recorded_epochs=state.recorded_epochs.records[: state.recorded_epochs.count],
        clock_offsets=state.clock_offsets.records[: state.clock_offsets.count],
    )


def _make_room(state: State, keep: Arrays, sync: Arrays, ended: Arrays, at: Record, longest: int) -> None:
    """Doubles what was full: an output, or the replica slots of every lane, which has MOST_REPLICAS at most."""
    if at["full"] == SLOTS_FULL:
        if state.replicas.width < MOST_REPLICAS:
            state.replicas.widen(state.replicas.width * 2)
        return
    if at["full"] == HW_FULL:
        return
    outputs = {KEEP_FULL: (keep, "kept"), SYNC_FULL: (sync, "sync"), ENDED_FULL: (ended, "ended")}
    full, used = outputs[int(at["full"])]
    full.count = int(at[used])
    full.grow(2 * len(full.data) + 8 * longest)


def _columns(arrays: Arrays, count: int) -> dict[str, Any]:
    """The first `count` rows by column."""
    columns = np.empty((len(arrays.layout.names), count), dtype=np.int64)
    _transpose(arrays.data, columns)
    return dict(zip(arrays.layout.names, columns, strict=True))


@compiled
def _transpose(rows: Records, columns: Records) -> None:
    for row in range(columns.shape[1]):
        for k in range(columns.shape[0]):
            columns[k, row] = rows[row, k]


def _by_lane(keep: Arrays) -> Arrays:
    """Rows that stay pending, in the order of their lanes."""
    order = np.argsort(keep["lane"], kind="stable")
    pending = Arrays(HW_ROWS)
    pending.grow(keep.count)
    pending.data[: keep.count] = keep.data[order]
    return pending


def _assignments_at_starts(state: State, batch: Batch) -> Assigned:
    """The assignment as of each `leader` row, where known."""
    c, leads = batch.columns, np.flatnonzero(batch.columns.kind == CODE["leader"])
    if not len(leads) or not state.assignments.any_known:
        return Assigned(leads, np.zeros(len(leads) + 1, dtype=np.int64), np.empty(0, dtype=np.int32))
    partition = state.series["partition"][batch.series[batch.rare[leads]]]
    bounds, replicas = state.assignments.as_of(partition, c.ts[leads])
    return Assigned(leads, bounds, replicas)
