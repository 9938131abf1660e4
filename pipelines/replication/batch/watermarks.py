"""How far the telemetry of each source, and of whole clusters, is complete, as numbered arrays."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pipelines.replication.batch.sequencing import GapLimits
from pipelines.replication.compiled.types import I64
from pipelines.replication.rules import Rules
from pipelines.replication.state.state import State

FOREVER = 1 << 62


@dataclass(frozen=True)
class Watermarks:
    """Times in microseconds. By source number: `of_sources`, its low watermark, and `clock_ceiling`, the largest time
    that is not taken for a wrong clock. By lane: the low watermarks `of_cluster` and `of_active` sources."""

    of_sources: I64
    clock_ceiling: I64
    of_cluster: I64
    of_active: I64


def low_watermarks(state: State) -> I64:
    """The low watermark of each source by number, -1 where it has none."""
    known, names = state.sources.known, state.source_names.all
    return np.array([known[name].low_watermark if name in known else -1 for name in names], dtype=np.int64)


def cluster_low_watermarks(state: State, final: bool) -> dict[int, int]:
    """The low watermark of each cluster by number."""
    return {
        number: FOREVER if final else state.sources.cluster_low_watermark(str(name[0]))
        for number, name in enumerate(state.clusters.all)
    }


def watermarks(state: State, final: bool) -> Watermarks:
    """The watermarks by which lanes decide; `final`: all that was reported so far is complete."""
    known = [state.sources.known.get(name) for name in state.source_names.all]
    ceiling = [FOREVER if source is None or source.clock_since is None else source.latest for source in known]
    of_sources, clock_ceiling = low_watermarks(state), np.array(ceiling, dtype=np.int64)
    if final:
        unbounded = np.full(state.lanes.count, FOREVER, dtype=np.int64)
        return Watermarks(of_sources, clock_ceiling, unbounded, unbounded)
    of_cluster, of_active = (
        np.array([low_watermark(str(name[0])) for name in state.clusters.all] or [-1], dtype=np.int64)
        for low_watermark in (state.sources.cluster_low_watermark, state.sources.active_low_watermark)
    )
    cluster = state.lanes["cluster"]
    return Watermarks(of_sources, clock_ceiling, of_cluster[cluster], of_active[cluster])


def gap_limits(state: State, rules: Rules, final: bool) -> GapLimits:
    """By source number the deadline of its gaps, on its own clock unless it has been silent for the grace; and the time
    after which its rows stand behind a gap in its own numbers."""
    names, grace = state.source_names.all, rules.reorder_grace_ms * 1000
    expired, complete_until = np.full((2, len(names)), FOREVER, dtype=np.int64)
    for number, name in enumerate(() if final else names):
        source, newest = state.sources.known.get(name), state.sources.latest(str(name[0]))
        own = source.latest if source is not None else -1
        expired[number] = (own if newest - own < grace else newest) - grace
        if source is not None and source.pending_runs:
            complete_until[number] = source.low_watermark
    return GapLimits(expired, complete_until)
