"""Applies what watchers sampled in one micro-batch; its facts and the present go where the kernel's go."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.replication.batch.read import Batch
from pipelines.replication.batch.run_terms import TermResults
from pipelines.replication.batch.sampled_lanes import SampledLanes
from pipelines.replication.batch.sampled_rows import microseconds, sampled_rows
from pipelines.replication.batch.samples_and_logs import LoggedTerms, yield_to_logs
from pipelines.replication.batch.steady_samples import SteadySamples, lag_at
from pipelines.replication.compiled.types import MS
from pipelines.replication.events.columns import int64_column
from pipelines.replication.metadata.brokers_and_configs import CLUSTER_WIDE
from pipelines.replication.rules import Rules
from pipelines.replication.samples.observe import Found, Settings, apply, settle
from pipelines.replication.samples.partition import NOT_KNOWN, Row, SampledPartition
from pipelines.replication.state.state import State
from pipelines.replication.term.layout import HW_ROWS, SYNC_ROWS
from schemas.event_types import FIRST_ROUND
from schemas.replication_events import WATCHER

KEPT_GAP_GRACES = 60
"""For how many graces it is kept that a broker missed rounds."""

Predicted = dict[int, bool]
"""By row of the micro-batch that shrinks an ISR whether the lag rule had said so of all that it removes."""


def record_rounds(state: State, broker_wide: pa.Table) -> None:
    """Records which rounds brokers have answered a watcher in full, and which they have not."""
    of_watcher = pc.starts_with(broker_wide["source_id"].cast(pa.string()), WATCHER)
    wanted = pc.is_in(broker_wide["event_type"].cast(pa.string()), value_set=pa.array(["progress", "lost"]))
    rows = broker_wide.filter(pc.and_(of_watcher, wanted))
    columns = ("cluster", "broker_id", "event_type", "detail")
    errors = microseconds(rows["ts_error_ms"]).tolist()
    for row, ts, error in zip(rows.select(columns).to_pylist(), int64_column(rows["ts"]).tolist(), errors, strict=True):
        place, detail = (row["cluster"], row["broker_id"]), row["detail"] or ""
        begins_again = detail.startswith(FIRST_ROUND) and state.watched.last_round(*place, ts) >= 0
        if row["event_type"] == "lost" or begins_again:
            state.watched.record_gap(*place, ts)
        if row["event_type"] == "progress":
            state.watched.record_round(*place, ts, error)


def apply_samples(
    state: State, rules: Rules, batch: Batch, results: TermResults, low_watermarks: dict[int, int]
) -> tuple[TermResults, Predicted]:
    """(the results with the facts of samples, what they say of ISR changes): applies the rows that were read.

    `low_watermarks`: those of the clusters by number, up to which every row has been read.
    """
    rows = sampled_rows(state, batch, results.unled)
    if rows is None and not state.watched and not state.steady:
        return results, {}
    steady, found = SteadySamples(state, rules), dict[int, Found]()
    if rows is not None:
        for number, of_partition in rows.of(steady.read(rows)).items():
            found[number] = Found()
            _apply_all(state, rules, number, of_partition, found[number])
    for number, one in state.watched.partitions.items():
        if one.has_lag:
            cluster = state.place(number)[0]
            upto = low_watermarks[state.clusters.number(cluster)]
            more = found.setdefault(number, Found())
            settle(one, min(upto, _newest(state, cluster)), _settings(state, rules, number, upto), more)
    predicted: Predicted = {}
    lanes, logged = SampledLanes(state, results.hw), LoggedTerms(state)
    for number, facts in sorted(found.items()):
        yield_to_logs(state, logged, number, facts)
        lanes.add(number, state.watched.partitions[number], facts)
        predicted |= facts.predicted
    steady.settle(_limits(state, rules, low_watermarks))
    _forget(state, rules, low_watermarks)
    return _with_facts(state, results, lanes, steady), predicted


def _limits(state: State, rules: Rules, low_watermarks: dict[int, int]) -> dict[int, tuple[int, int]]:
    """By cluster until when its samples are settled, and the lag that holds then."""
    limits = {}
    for number, (name,) in enumerate(state.clusters.all):
        entries = state.timeline.configs.get((number, CLUSTER_WIDE), ())
        upto = low_watermarks[number]
        limits[number] = min(upto, _newest(state, str(name))), lag_at(entries, upto, rules.of(str(name))[0])
    return limits


def _with_facts(state: State, results: TermResults, lanes: SampledLanes, steady: SteadySamples) -> TermResults:
    """The results with the facts of samples: HWs of a lane side by side, changes of replicas by partition."""
    hw = np.concatenate([lanes.hw_rows(), steady.hw_rows()])
    results.hw.add(np.ascontiguousarray(hw[np.argsort(hw[:, HW_ROWS.at.lane], kind="stable")]))
    sync = np.concatenate([lanes.sync_rows(), steady.sync_rows()])
    sync = sync[np.argsort(state.lanes["partition"][sync[:, SYNC_ROWS.at.lane]], kind="stable")]
    of_samples = dict(zip(SYNC_ROWS.names, sync.T, strict=True))
    return replace(
        results, sync={name: np.concatenate([values, of_samples[name]]) for name, values in results.sync.items()}
    )


def _apply_all(state: State, rules: Rules, number: int, rows: list[Row], found: Found) -> None:
    """Applies the rows of one partition in their order."""
    partitions = state.watched.partitions
    one = partitions.setdefault(number, SampledPartition(rows[0].topic_id))
    for term in one.terms:
        term.hws = term.hws[-1:]
    for row in rows:
        if row.topic_id is not None and row.topic_id != one.topic_id:
            if row.event_type == "lost":
                continue
            one = partitions[number] = SampledPartition(row.topic_id)
        apply(one, row, _settings(state, rules, number, row.ts), found)


def _settings(state: State, rules: Rules, number: int, ts: int) -> Settings:
    """The settings that hold for a partition at a time."""
    name = state.place(number)[0]
    cluster, own = state.clusters.number(name), rules.of(name)[0]
    topic = int(state.partition_keys.keys[number]) >> 32
    lag = lag_at(state.timeline.configs.get((cluster, CLUSTER_WIDE), ()), ts, own)
    min_isr = state.timeline.min_isr(cluster, topic, ts, None, own.min_isr or 1)
    watched = state.watched
    return Settings(lag, min_isr, partial(watched.last_round, name), partial(watched.answered_always, name))


def _newest(state: State, cluster: str) -> int:
    """The last time that a watcher reported of a cluster."""
    return max((known[-1][0] for known in state.watched.rounds.get(cluster, {}).values() if known), default=NOT_KNOWN)


def _forget(state: State, rules: Rules, low_watermarks: dict[int, int]) -> None:
    grace = rules.reorder_grace_ms * MS
    for number, (name,) in enumerate(state.clusters.all):
        upto = min(low_watermarks[number], _newest(state, str(name)))
        state.watched.forget(str(name), upto, upto - KEPT_GAP_GRACES * grace)
