"""The rows that each lane reads in a micro-batch, those that wait, and the time up to which histories may go."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pipelines.replication.batch.read import Batch
from pipelines.replication.batch.sequencing import Accepted
from pipelines.replication.compiled.decorators import compiled
from pipelines.replication.compiled.records import Records, records
from pipelines.replication.compiled.types import I32, I64, NEVER
from pipelines.replication.events.packed_rows import PACKED
from pipelines.replication.state.state import State
from pipelines.replication.term.constants import DROPPED
from pipelines.replication.term.layout import GAPS


@dataclass(frozen=True)
class Watermarks:
    """Times in microseconds. By source number: `of_sources`, its low watermark, and `clock_ceiling`, the largest time
    that is not taken for a wrong clock, and whether it writes `beside_others`. By lane: the last time of which all
    `of_cluster` has come, and all `of_active` sources."""

    of_sources: I64
    clock_ceiling: I64
    beside_others: npt.NDArray[np.bool_]
    of_cluster: I64
    of_active: I64


@dataclass(frozen=True)
class LaneJobs:
    """Rows of JOBS, and the rows of GAPS and the packed rows that they refer to."""

    jobs: Records
    gap_times: Records
    rows: Records
    row_count: int
    """How many of `rows` the jobs read."""


class _Stretches(NamedTuple):
    """Lanes, and where their packed rows begin and end."""

    lanes: I32
    start: I64
    end: I64


def watermarks(state: State, closed: Set[str]) -> Watermarks:
    """The watermarks by which lanes decide; all that clusters have told that are `closed` is complete."""
    known = [state.sources.known.get(name) for name in state.source_names.all]
    ceiling = [NEVER if source is None else state.sources.clock_ceiling(source) for source in known]
    of_sources, clock_ceiling = state.low_watermarks(), np.array(ceiling, dtype=np.int64)
    active = (  # of the very moment of a low watermark more may follow
        NEVER if name in closed else state.sources.active_low_watermark(name) - 1 for (name,) in state.clusters.all
    )
    of_cluster, of_active = (
        np.array([*times] or [-1], dtype=np.int64)[state.lanes["cluster"]]
        for times in (state.cluster_low_watermarks(closed).values(), active)
    )
    return Watermarks(of_sources, clock_ceiling, state.beside_others(), of_cluster, of_active)


def lane_jobs(state: State, batch: Batch, watermarks: Watermarks, closed: Set[str]) -> LaneJobs:
    """The jobs of all lanes that have rows to read, or something to decide."""
    accepted = batch.accepted
    with_rows, used = _with_rows(state, accepted)
    stretches = _with_idle_lanes(state, watermarks, with_rows)
    lanes, start, end = stretches
    home = _home_sources(state, batch, stretches)
    gaps_from, gap_times = _gap_times(state, lanes)
    of_source = np.where(home < 0, -1, watermarks.of_sources[home])
    low_watermark = np.minimum(of_source, _before_gaps(state, accepted)[lanes])
    jobs = np.stack([
        lanes, start, end, low_watermark, watermarks.of_cluster[lanes], watermarks.of_active[lanes],
        np.where(home < 0, NEVER, watermarks.clock_ceiling[home]), gaps_from[:-1], gaps_from[1:],
        np.array([name in closed for (name,) in state.clusters.all] or [False])[state.lanes["cluster"][lanes]],
        (home >= 0) & watermarks.beside_others[home],
    ], axis=1).astype(np.int64)  # fmt: skip
    return LaneJobs(jobs, gap_times, accepted.rows[:used], int((end - start).sum()))


def _with_rows(state: State, accepted: Accepted) -> tuple[_Stretches, int]:
    """(lanes that have rows, packed rows in use).

    A lane that one source reports reads that source's rows as they stand. Those of several sources are merged in
    canonical order into the room behind all others.
    """
    lane, begins = state.series["lane"][accepted.series], accepted.lane_start(state.series.data)
    led = np.flatnonzero(lane >= 0)
    by_lane = led[np.argsort(lane[led], kind="stable")]
    lanes, first, size = np.unique(lane[by_lane], return_index=True, return_counts=True)
    start, end = begins[by_lane[first]], accepted.end[by_lane[first]]
    at = int(accepted.bounds[-1])
    for k in np.flatnonzero(size > 1):
        merged = _merged(state, accepted, begins, by_lane[first[k] : first[k] + size[k]])
        start[k], end[k] = at, at + len(merged)
        accepted.rows[start[k] : end[k]] = merged
        at += len(merged)
    return _Stretches(lanes.astype(np.int32), start, end), at


def _merged(state: State, accepted: Accepted, begins: I64, series: I64) -> Records:
    """The rows of several series that their lane reads, by (running maximum of time within the source, source, number).

    Only those before the first row that waits behind a gap in one of the series: its own rows come first.
    """
    names = [state.source_names.all[state.series["source"][accepted.series[k]]] for k in series]
    parts = [accepted.rows[begins[k] : accepted.end[k]] for k in series]
    clock = np.concatenate([np.maximum.accumulate(part[:, PACKED.ts]) for part in parts])
    rank = np.repeat([sorted(names).index(name) for name in names], [len(part) for part in parts])
    together = np.concatenate(parts)
    order = np.lexsort((together[:, PACKED.seq], rank, clock))
    waiting = series[accepted.end[series] < accepted.bounds[series + 1]]
    if len(waiting):
        order = order[clock[order] < accepted.rows[accepted.end[waiting], PACKED.ts].min()]
    merged: Records = together[order]
    return merged


def _with_idle_lanes(state: State, watermarks: Watermarks, stretches: _Stretches) -> _Stretches:
    """Add the lanes without rows that have something to decide: pending rows, a deadline passed, a gap of
    telemetry."""
    lanes, start, end = stretches
    home, of_sources = state.lanes["home"], watermarks.of_sources
    low_watermark = np.where(home < 0, -1, of_sources[home]) if len(of_sources) else np.full(len(home), -1)
    wanted = (state.lanes["pending"] > 0) | (state.lanes["deadline"] < low_watermark)
    if state.gap_times:
        wanted |= state.lanes["state"] != 0
    wanted &= ~state.sampled_lanes()
    wanted[lanes] = False
    idle = np.flatnonzero(wanted).astype(np.int32)
    none = np.zeros(len(idle), dtype=np.int64)
    return _Stretches(np.concatenate([lanes, idle]), np.concatenate([start, none]), np.concatenate([end, none]))


def _home_sources(state: State, batch: Batch, stretches: _Stretches) -> I32:
    """The source of each lane: that of its last row that counts."""
    accepted, home = batch.accepted, state.lanes["home"]
    lanes, start, end = stretches
    last = _last_counting(accepted.rows, start, end - 1) if accepted.copied.any() else end - 1
    found = last >= start
    home[lanes[found]] = state.series["source"][batch.series[accepted.rows[last[found], PACKED.row]]]
    homes: I32 = home[lanes]
    return homes


@compiled
def _last_counting(packed: Records, start: I64, last: I64) -> I64:
    """The last row of each lane that is no repeat and no copy, start - 1 where there is none."""
    found = last.copy()
    for k in range(len(found)):
        while found[k] >= start[k] and packed[found[k], PACKED.what] & DROPPED:
            found[k] -= 1
    return found


def _gap_times(state: State, lanes: I32) -> tuple[I64, Records]:
    """(bounds, rows of GAPS): when telemetry of the broker of each of these lanes went missing."""
    if not state.gap_times and not state.last_gaps:
        return np.zeros(len(lanes) + 1, dtype=np.int64), records(GAPS, 0)
    brokers = list(zip(state.lanes["cluster"][lanes].tolist(), state.lanes["broker"][lanes].tolist(), strict=True))
    misreads = {broker: state.misreads(*broker) for broker in set(brokers)}
    gaps = {
        broker: [(ts, int(ts in unread)) for ts in sorted({*unread, *state.gaps(*broker)})]
        for broker, unread in misreads.items()
    }
    by_lane = [gaps[broker] for broker in brokers]
    bounds = np.cumsum([0, *(len(times) for times in by_lane)], dtype=np.int64)
    rows: Any = [time for times in by_lane for time in times]
    return bounds, np.array(rows, dtype=np.int64).reshape(-1, len(GAPS.defaults))


def behind_gaps(accepted: Accepted) -> tuple[I32, I64]:
    """(series with rows behind a gap in their numbers, the time of the first such row)."""
    waits = accepted.end < accepted.bounds[1:]
    return accepted.series[waits], accepted.rows[accepted.end[waits], PACKED.ts]


def _before_gaps(state: State, accepted: Accepted) -> I64:
    """Per lane the time of its first row behind a gap: up to there its source is complete, whatever others report."""
    first = np.full(state.lanes.count, NEVER, dtype=np.int64)
    series, ts = behind_gaps(accepted)
    lane = state.series["lane"][series]
    np.minimum.at(first, lane[lane >= 0], ts[lane >= 0])
    return first


def history_limits(state: State, low_watermarks: dict[int, int], batch: Batch, left: I64) -> I64:
    """Per partition the time up to which its history may advance.

    That is the low watermark of its cluster (by number), but ahead of rows behind a gap, and of those among `left`, the
    rows not read, that lanes have postponed because other clocks are involved.
    """
    by_topic = np.array([low_watermarks[state.clusters.number(t[0])] for t in state.topics.all] or [NEVER], np.int64)
    upto: I64 = by_topic[state.partition_keys.keys >> 32]
    series, times = behind_gaps(batch.accepted)
    np.minimum.at(upto, state.series["partition"][series], times - 1)
    if state.clock_offsets.count:
        series, clocks = postponed(batch, left)
        np.minimum.at(upto, state.series["partition"][series], clocks - 1)
    return upto


def sample_limits(state: State, low_watermarks: dict[int, int], accepted: Accepted) -> dict[int, int]:
    """By cluster the time up to which its samples may be read: that is its low watermark, but ahead of a watcher's rows
    behind a gap, because the answers of several brokers make one fact."""
    limits, watched = dict(low_watermarks), state.watched_series()
    if watched is None:
        return limits
    series, times = behind_gaps(accepted)
    of_watcher = watched[series]
    for source, ts in zip(state.series["source"][series[of_watcher]].tolist(), times[of_watcher].tolist(), strict=True):
        cluster = state.clusters.number(str(state.source_names.all[source][0]))
        limits[cluster] = min(limits[cluster], ts - 1)
    return limits


def postponed(batch: Batch, left: I64) -> tuple[I32, I64]:
    """(series, clock) of the rows among `left`, those not read, that no gap holds back.

    Their lanes have postponed them because the controller's clock is ahead of their leader's.
    """
    accepted = batch.accepted
    series, seq = batch.series[left], batch.int64("seq", left)
    k = np.searchsorted(accepted.series, series)
    gap_at = accepted.rows[np.minimum(accepted.end[k], len(accepted.rows) - 1), PACKED.seq]
    before_gap = (accepted.end[k] == accepted.bounds[k + 1]) | (seq < gap_at)
    return series[before_gap], batch.clocks(left[before_gap])
