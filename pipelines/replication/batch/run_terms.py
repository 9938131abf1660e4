"""Runs the kernel over the lanes of a micro-batch, with room for what it writes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from pipelines.replication.batch.read import Batch
from pipelines.replication.batch.sequencing import Accepted, read_on
from pipelines.replication.compiled.decorators import compiled
from pipelines.replication.compiled.records import Arrays, Record, Records, as_records, records
from pipelines.replication.compiled.types import I8, I32, I64, NEVER
from pipelines.replication.events.columns import CODE
from pipelines.replication.events.packed_rows import LINE, PACKED, flag
from pipelines.replication.facts.partition_hw import BLOCK, HwRows
from pipelines.replication.metadata.layout import BROKERS, CONFIGS, VERSIONS_TOLD, Timeline
from pipelines.replication.rules import Rules
from pipelines.replication.state.state import State
from pipelines.replication.term.bundles import Assigned, Run, Stats
from pipelines.replication.term.constants import (
    CONSUMED,
    DROPPED,
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
from pipelines.replication.term.machine import run_terms
from schemas.minute_stats import BOUNDS_MS, BOUNDS_RECORDS


@dataclass(frozen=True)
class Bounds:
    """Per source number: how far it has told, and the largest time believed; per lane: how far everybody has, and
    how far all have that were heard of."""

    told: I64
    ceiling: I64
    everybody: I64
    heard: I64


@dataclass(frozen=True)
class Outcome:
    """What one run of the lanes gave."""

    marks: tuple[I64, Marks]
    """Rows that bear a mark beyond that of being read, and their marks."""
    consumed: I8
    """By row of the micro-batch."""
    left: I64
    """Rows on partitions that were not read."""
    follower_hws: tuple[I64, I64, I64]
    """Rows with HWs of brokers as followers, these HWs, and their leader epochs."""
    backs: tuple[I64, I64]
    """Rows of second successive low reports, and the report that each lies below."""
    stats: Stats
    hw: HwRows
    sync: dict[str, Any]
    ended: dict[str, Any]

    def marked(self, mark: int) -> I64:
        """Rows that bear a mark."""
        rows, marks = self.marks
        bearing: I64 = rows[(marks & mark) != 0]
        return bearing


def rules_of(state: State, rules: Rules) -> Records:
    """The rules of each cluster as the kernel reads them."""
    rows = records(CLUSTER_RULES, len(state.clusters.all))
    for k, (cluster,) in enumerate(state.clusters.all):
        own, fixed = rules.of(str(cluster))
        row = {
            "race_window": own.race_window_ms * 1000,
            "lag_max": own.lag_max_ms * 1000,
            "min_isr": own.min_isr,
            "lag_max_messages": -1 if own.lag_max_messages is None else own.lag_max_messages,
            "hw_resolution": own.hw_resolution_ms * 1000,
            "replica_hw": int(own.replica_hw),
            "reorder_grace": own.reorder_grace_ms * 1000,
            "bits": own.bits,
            "fixed": fixed,
        }
        rows[k] = [row[name] for name in CLUSTER_RULES.names]
    return rows


def stats_of(batch: Batch) -> Stats:
    """Empty statistics for every (cluster, broker, minute) of the batch."""
    count = len(batch.stat_keys)
    return Stats(
        events=np.zeros(count, dtype=np.int64),
        append_to_hw=np.zeros((count, len(BOUNDS_MS) + 1), dtype=np.int64),
        lag=np.zeros((count, len(BOUNDS_RECORDS) + 1), dtype=np.int64),
        bounds_us=(np.array(BOUNDS_MS) * 1000).astype(np.int64),
        bounds_records=np.array(BOUNDS_RECORDS, dtype=np.int64),
    )


def lane_rows(state: State, accepted: Accepted) -> tuple[I32, I64, I64, int]:
    """Lanes that have rows, and where their lines stand: (lanes, starts, ends, lines in use).

    A lane with rows of one source reads them as they stand; those of several are merged in canonical order
    into the room behind all others.
    """
    lane = state.series["lane"][accepted.series]
    led = np.flatnonzero(lane >= 0)
    by_lane = led[np.argsort(lane[led], kind="stable")]
    lanes, first, size = np.unique(lane[by_lane], return_index=True, return_counts=True)
    start, end = accepted.start[by_lane[first]], accepted.end[by_lane[first]]
    at = int(accepted.bounds[-1])
    for k in np.flatnonzero(size > 1):
        merged = _merged(state, accepted, by_lane[first[k] : first[k] + size[k]])
        start[k], end[k] = at, at + len(merged)
        accepted.lines[start[k] : end[k]] = merged
        at += len(merged)
    return lanes.astype(np.int32), start, end, at


def _merged(state: State, accepted: Accepted, series: I64) -> Records:
    """The lines of several series, by the running maximum of time within each source, then source and number; ahead of
    what waits behind a hole in one of them: its own lines come first."""
    names = [state.source_names.all[state.series["source"][accepted.series[k]]] for k in series]
    parts = [accepted.lines[accepted.start[k] : accepted.end[k]] for k in series]
    clock = np.concatenate([np.maximum.accumulate(part[:, PACKED.ts]) for part in parts])
    rank = np.repeat([sorted(names).index(name) for name in names], [len(part) for part in parts])
    together = np.concatenate(parts)
    order = np.lexsort((together[:, PACKED.seq], rank, clock))
    waiting = series[accepted.end[series] < accepted.bounds[series + 1]]
    if len(waiting):
        order = order[clock[order] < accepted.lines[accepted.end[waiting], PACKED.ts].min()]
    merged: Records = together[order]
    return merged


def gaps_of(state: State, lanes: I32) -> tuple[I64, Records]:
    """(bounds, GAPS): when telemetry went missing of the broker of each of these lanes."""
    if not state.holds:
        return np.zeros(len(lanes) + 1, dtype=np.int64), records(GAPS, 0)
    brokers = list(zip(state.lanes["cluster"][lanes].tolist(), state.lanes["broker"][lanes].tolist(), strict=True))
    lists = [[(ts, int(ts in state.unread.get(key, ()))) for ts in state.holds.get(key, ())] for key in brokers]
    bounds = np.cumsum([0, *(len(h) for h in lists)], dtype=np.int64)
    return bounds, np.array([hold for h in lists for hold in h], dtype=np.int64).reshape(-1, len(GAPS.defaults))


def run(
    state: State, rules: Rules, batch: Batch, bounds: Bounds, final: bool
) -> Outcome:  # fmt: skip
    """Reads what may be read; `final` makes everything reported so far final."""
    a = batch.accepted
    if not a.whole or a.copied.any():
        flag(a.lines[: a.bounds[-1]], a.dropped | a.copied, a.gap_before)
    lanes, start, end, used = lane_rows(state, a)
    lines = a.lines[:used]
    lanes, start, end = _idle_too(state, bounds, lanes, start, end)
    home = _homes(state, batch, lanes, start, end)
    gaps_from, gap_times = gaps_of(state, lanes)
    told = np.minimum(np.where(home < 0, -1, bounds.told[home]), _first_unread(state, batch)[lanes])
    jobs = np.stack([
        lanes, start, end, told, bounds.everybody[lanes], bounds.heard[lanes],
        np.where(home < 0, 1 << 62, bounds.ceiling[home]), gaps_from[:-1], gaps_from[1:],
        np.full(len(lanes), int(final)),
    ], axis=1).astype(np.int64)  # fmt: skip
    stats, marks = stats_of(batch), np.zeros(used, dtype=np.uint8)
    hw, sync, ended = _run_all(state, rules, batch, jobs, gap_times, lines, stats, marks)
    consumed = (batch.series >= 0).view(np.int8)
    whole = a.all_read and np.count_nonzero(marks) == (end - start).sum()
    if not whole:
        consumed = np.zeros(len(batch.series), dtype=np.int8)
        _consume(lines, marks, consumed)
    unled = _read_unled(state, batch, consumed, stats)
    read_on(a, consumed, state.series.data)
    marked = np.flatnonzero(marks > CONSUMED)
    follower = np.concatenate([marked[marks[marked] & OF_FOLLOWER != 0], unled[_kinds(lines[unled]) == CODE["hw"]]])
    back = marked[marks[marked] & MOVED_BACK != 0]
    return Outcome(
        marks=(lines[marked, PACKED.row], marks[marked]),
        consumed=consumed,
        left=unled[:0] if whole else np.flatnonzero((consumed == 0) & (batch.series >= 0)),
        follower_hws=(
            lines[follower, PACKED.row], lines[follower, PACKED.more], lines[follower, PACKED.who] >> 32,
        ),
        backs=(lines[back, PACKED.row], lines[back, PACKED.leader_leo]),
        stats=stats, hw=hw, sync=sync, ended=ended,
    )  # fmt: skip


@compiled
def _consume(packed: Records, marks: Marks, consumed: I8) -> None:
    for j in range(len(marks)):
        if marks[j] & CONSUMED:
            consumed[packed[j, PACKED.row]] = 1


def _kinds(lines: Records) -> I64:
    kinds: I64 = lines[:, PACKED.what] & 0xFF
    return kinds


def _first_unread(state: State, batch: Batch) -> I64:
    """Per lane the time of its first row behind a hole: what comes then is not known, whatever others reported."""
    first = np.full(state.lanes.count, NEVER, dtype=np.int64)
    series, ts = behind_holes(batch)
    lane = state.series["lane"][series]
    np.minimum.at(first, lane[lane >= 0], ts[lane >= 0])
    return first


def behind_holes(batch: Batch) -> tuple[I32, I64]:
    """(series, time of the first row) of what waits behind a hole in its numbers."""
    a = batch.accepted
    waits = a.end < a.bounds[1:]
    return a.series[waits], a.lines[a.end[waits], PACKED.ts]


def not_read(batch: Batch, outcome: Outcome) -> tuple[I32, I64]:
    """(series, clock) of rows that their lanes have put off: the controller's clock is ahead of their leader's."""
    a, rows = batch.accepted, outcome.left
    series, seq = batch.series[rows], batch.told("seq", rows)
    k = np.searchsorted(a.series, series)
    hole = a.lines[np.minimum(a.end[k], len(a.lines) - 1), PACKED.seq]
    within = (a.end[k] == a.bounds[k + 1]) | (seq < hole)
    return series[within], batch.clocks(rows[within])


def _read_unled(state: State, batch: Batch, consumed: I8, stats: Stats) -> I64:
    """Reads the lines that no lane reads, but for repeats: they count as events, and their rare ones go to the
    histories."""
    a = batch.accepted
    series = np.flatnonzero(state.series["lane"][a.series] < 0)
    at = [np.arange(a.start[k], a.end[k]) for k in series]
    read = np.concatenate(at) if at else np.empty(0, dtype=np.int64)
    rows = a.lines[read, PACKED.row]
    consumed[rows] = 1
    counted: I64 = read[a.counts(rows)]
    np.add.at(stats.events, (a.lines[counted, PACKED.what] >> 16) & STAT, 1)
    return counted


def _idle_too(state: State, bounds: Bounds, lanes: I32, start: I64, end: I64) -> tuple[I32, I64, I64]:
    """Adds the lanes without rows that have rows to write: carried ones, a deadline passed, a gap."""
    home = state.lanes["home"]
    told = np.where(home < 0, -1, bounds.told[home]) if len(bounds.told) else np.full(len(home), -1)
    wanted = (state.lanes["carried"] > 0) | (state.lanes["deadline"] < told)
    if state.holds:
        wanted |= state.lanes["state"] != 0
    wanted[lanes] = False
    idle = np.flatnonzero(wanted).astype(np.int32)
    none = np.zeros(len(idle), dtype=np.int64)
    return np.concatenate([lanes, idle]), np.concatenate([start, none]), np.concatenate([end, none])


def _homes(state: State, batch: Batch, lanes: I32, start: I64, end: I64) -> I32:
    """The source that speaks for each lane: that of its last row that counts."""
    a, home, last = batch.accepted, state.lanes["home"], end - 1
    if a.copied.any():
        last = _last_counting(a.lines, start, last)
    some = last >= start
    home[lanes[some]] = state.series["source"][batch.series[a.lines[last[some], PACKED.row]]]
    homes: I32 = home[lanes]
    return homes


@compiled
def _last_counting(packed: Records, start: I64, last: I64) -> I64:
    """The last line of each lane that is no repeat and no copy, start - 1 where there is none."""
    found = last.copy()
    for k in range(len(found)):
        while found[k] >= start[k] and packed[found[k], PACKED.what] & DROPPED:
            found[k] -= 1
    return found


def _run_all(
    state: State, rules: Rules, batch: Batch, jobs: Records, gaps: Records, packed: Records, stats: Stats, marks: Marks
) -> tuple[HwRows, dict[str, Any], dict[str, Any]]:
    """Calls the kernel until every lane is done, making room where it ran out."""
    longest = int(np.max(jobs[:, JOBS.at.end] - jobs[:, JOBS.at.start], initial=0))
    carried = int(state.lanes["carried"].sum())
    hw, keep, scratch = (Arrays(HW_ROWS, blank=False) for _ in range(3))
    sync, ended = Arrays(SYNC_ROWS, blank=False), Arrays(TERMS, blank=False)
    of_one = 3 * longest + int(np.max(state.lanes["carried"], initial=0)) + 8
    scratch.grow(of_one)
    hw.grow(max(BLOCK, of_one))
    made = HwRows(state)
    keep.grow(carried + 3 * longest + 1024)
    sync.grow(4 * (longest + 4) * (state.replicas.width + 1) + len(jobs))
    ended.grow(longest + 64)
    assigned, timeline, pending_starts = _assigned(state, batch), _timeline(state), state.carry_from()
    cluster_rules = as_records(CLUSTER_RULES, rules_of(state, rules))
    settings, cursor = as_records(SETTINGS, records(SETTINGS, 1)), as_records(CURSOR, records(CURSOR, 1))
    while True:
        run_terms(
            Run(
                jobs=as_records(JOBS, jobs), gaps=as_records(GAPS, gaps), rows=as_records(LINE, packed),
                columns=batch.columns, assigned=assigned, lanes=state.lanes.records,
                replicas=state.replicas.records.reshape(-1, state.replicas.width), timeline=timeline,
                cluster_rules=cluster_rules,
                settings=settings, stats=stats, marks=marks,
                pending=state.carry.records, pending_starts=pending_starts, hw_rows=scratch.records,
                final_rows=hw.records, kept_rows=keep.records, sync_rows=sync.records, ended_rows=ended.records,
                cursor=cursor,
            )
        )  # fmt: skip
        at = cursor[0]
        if at["job"] == len(jobs) or at["full"] == HW_FULL:
            made.take(hw.data[: at["final"]])
            at["final"] = 0
        if at["job"] == len(jobs):
            break
        _make_room(state, keep, sync, ended, at, longest)
    keep.count = int(at["kept"])
    state.carry = _by_lane(state, keep)
    return made, _first(sync, int(at["sync"])), _first(ended, int(at["ended"]))


def _timeline(state: State) -> Timeline:
    """What is known of brokers and configs, as records."""
    known = state.timeline.arrays()
    return Timeline(
        brokers=as_records(BROKERS, known.brokers),
        configs=as_records(CONFIGS, known.configs),
        versions=as_records(VERSIONS_TOLD, known.versions),
        recorded=state.recorded.records[: state.recorded.count],
        apart=state.apart.records[: state.apart.count],
    )


def _make_room(state: State, keep: Arrays, sync: Arrays, ended: Arrays, at: Record, longest: int) -> None:
    """Doubles what was full: an output, or the slots of every lane."""
    if at["full"] == SLOTS_FULL:
        if state.replicas.width >= 32:
            raise ValueError("a partition names more than 32 replicas; hwmark follows up to 32 per partition")
        state.replicas.widen(state.replicas.width * 2)
        return
    if at["full"] == HW_FULL:
        return
    outputs = {KEEP_FULL: (keep, "kept"), SYNC_FULL: (sync, "sync"), ENDED_FULL: (ended, "ended")}
    full, used = outputs[int(at["full"])]
    full.count = int(at[used])
    full.grow(2 * len(full.data) + 8 * longest)


def _first(arrays: Arrays, count: int) -> dict[str, Any]:
    columns = np.empty((len(arrays.layout.names), count), dtype=np.int64)
    _transpose(arrays.data, columns)
    return dict(zip(arrays.layout.names, columns, strict=True))


@compiled
def _transpose(rows: Records, columns: Records) -> None:
    for row in range(columns.shape[1]):
        for k in range(columns.shape[0]):
            columns[k, row] = rows[row, k]


def _by_lane(state: State, keep: Arrays) -> Arrays:
    """Rows that stay, in the order of their lanes."""
    order = np.argsort(keep["lane"], kind="stable")
    carry = Arrays(HW_ROWS)
    carry.grow(keep.count)
    carry.data[: keep.count] = keep.data[order]
    return carry


def _assigned(state: State, batch: Batch) -> Assigned:
    """Who was assigned as of each `leader` row, where that is known."""
    c, leads = batch.columns, np.flatnonzero(batch.columns.kind == CODE["leader"])
    partition = state.series["partition"][batch.series[batch.rare[leads]]]
    bounds, replicas = state.assigned.as_of(partition, c.ts[leads])
    return Assigned(leads, bounds, replicas)
