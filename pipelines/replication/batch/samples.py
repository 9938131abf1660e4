"""Applies what watchers sampled in one micro-batch; its facts and the present go where the kernel's go."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.replication.batch.read import Batch
from pipelines.replication.batch.run_terms import TermResults
from pipelines.replication.batch.sampled_facts import SampledFacts
from pipelines.replication.batch.sampled_rows import SampledRows, lag_at, microseconds, sampled_rows
from pipelines.replication.batch.samples_and_logs import hold_logged_hws, release_changes
from pipelines.replication.compiled.records import Records, as_records, records
from pipelines.replication.compiled.types import I64, MS
from pipelines.replication.events.columns import int64_column
from pipelines.replication.metadata.brokers_and_configs import CLUSTER_WIDE
from pipelines.replication.rules import Rules
from pipelines.replication.samples.bundles import LEAST_ROOM, Instants, Rounds
from pipelines.replication.samples.kernel import read_rows, settle_all
from pipelines.replication.samples.layout import CHILDREN, JOBS, LIMITS, NOT_KNOWN, SAMPLED
from pipelines.replication.state.state import State
from pipelines.replication.term.layout import SYNC_ROWS
from schemas.event_types import FIRST_ROUND
from schemas.replication_events import WATCHER

KEPT_GAP_GRACES = 60
"""For how many graces it is kept that a broker missed rounds."""

Predicted = dict[int, bool]
"""By row of the micro-batch that shrinks an ISR whether the lag rule had said so of all that it removes."""


def record_rounds(state: State, broker_wide: pa.Table) -> None:
    """Record which rounds brokers have answered a watcher in full, and which they have not."""
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
    rows = sampled_rows(state, rules, batch, results.unled)
    if rows is None and not state.watched and not state.sampled:
        return results, {}
    facts = SampledFacts(state)
    rounds = Rounds(_instants(state, state.watched.rounds), _instants(state, state.watched.gaps))
    changed = np.zeros(0, dtype=np.int64) if rows is None else _read(state, rules, rows, rounds, facts, results)
    _settle(state, _limits(state, rules, low_watermarks), changed, rounds, facts)
    _forget(state, rules, low_watermarks)
    results.hw.add(hold_logged_hws(state, rules, facts))
    sync = release_changes(state, facts, low_watermarks)
    of_samples = dict(zip(SYNC_ROWS.names, sync.T, strict=True))
    sync_columns = {name: np.concatenate([values, of_samples[name]]) for name, values in results.sync.items()}
    (rows_back, hws), (rows_cut, hws_cut) = results.moved_back, facts.cut.T
    moved_back = np.concatenate([rows_back, rows_cut]), np.concatenate([hws, hws_cut])
    return replace(results, sync=sync_columns, moved_back=moved_back), facts.predicted


def _read(
    state: State, rules: Rules, rows: SampledRows, rounds: Rounds, facts: SampledFacts, results: TermResults
) -> I64:
    """Read all rows; returns the records of their partitions."""
    sampled, numbers = state.sampled, rows.numbers
    new = numbers[sampled.find(numbers) < 0]
    if len(new):
        blank = {f"sampled_{name}": records(layout, 0) for name, layout in CHILDREN.items()}
        sampled.add(blank | {"sampled": _blank(state, new)})
    record, first, at = sampled.find(numbers), rows.bounds[:-1], 0
    jobs = np.stack([record, first, rows.bounds[1:], np.zeros_like(record)], axis=1)
    facts.make_room(len(rows.rows.rows), LEAST_ROOM)
    while True:
        lanes = state.lanes.records[: state.lanes.count]
        at = read_rows(as_records(JOBS, jobs), at, sampled.store(), rows.rows, rounds, lanes, facts.room)
        facts.take()
        if at == len(jobs):
            facts.name_all(record)
            return record
        if jobs[at, JOBS.at.begin] > first[at]:  # its replicas are to lose their entries
            facts.name_all(record)
            results.hw.add(hold_logged_hws(state, rules, facts))
        left = int(jobs[at, JOBS.at.end] - jobs[at, JOBS.at.begin])
        sampled.make_room(left)
        facts.make_room(left, int(sampled.records["members"][record[at]]))


def _blank(state: State, numbers: I64) -> Records:
    """Records of partitions of which nothing was sampled yet."""
    blank = records(SAMPLED, len(numbers))
    clusters = np.array([state.clusters.number(cluster) for cluster, _ in state.topics.all])
    blank[:, SAMPLED.at.number] = numbers
    blank[:, SAMPLED.at.cluster] = clusters[state.partition_keys.keys[numbers] >> 32]
    return blank


def _settle(state: State, limits: Records, changed: I64, rounds: Rounds, facts: SampledFacts) -> None:
    """Settle every sampled partition, and write the lanes of what changed."""
    sampled = state.sampled
    marks = np.zeros(sampled.records.count, dtype=np.int8)
    marks[changed] = 1
    facts.make_room(0, int(sampled.records["members"].sum()))
    settle_all(
        sampled.store(), as_records(LIMITS, limits), marks, rounds, facts.room, *facts.lanes(),
    )  # fmt: skip
    facts.take()


def _limits(state: State, rules: Rules, low_watermarks: dict[int, int]) -> Records:
    """By cluster until when its samples are settled, and the lag that holds then."""
    limits = records(LIMITS, len(state.clusters.all))
    for number, (name,) in enumerate(state.clusters.all):
        entries = state.timeline.configs.get((number, CLUSTER_WIDE), [])
        upto = low_watermarks[number]
        limits[number] = min(upto, _newest(state, str(name))), lag_at(entries, upto, rules.of(str(name))[0])
    return limits


def _instants(state: State, brokers: Mapping[str, Mapping[int, Sequence[Any]]]) -> Instants:
    """Times of brokers, or rounds with how far their times may be off, as the kernel reads them."""
    known = {
        (state.clusters.number(cluster) << 32) | broker: np.array(times, dtype=np.int64).reshape(len(times), -1)
        for cluster, of_cluster in brokers.items()
        for broker, times in of_cluster.items()
        if times
    }
    keys = sorted(known)
    begin = np.cumsum([0, *(len(known[key]) for key in keys)], dtype=np.int64)
    ts = np.concatenate([np.empty(0, np.int64), *(known[key][:, 0] for key in keys)])
    errors = np.concatenate([np.empty(0, np.int64), *(known[key][:, 1:].sum(axis=1) for key in keys)])
    return Instants(np.array(keys, dtype=np.int64), begin, ts, ts - errors)


def _newest(state: State, cluster: str) -> int:
    """The last time that a watcher reported of a cluster."""
    return max((known[-1][0] for known in state.watched.rounds.get(cluster, {}).values() if known), default=NOT_KNOWN)


def _forget(state: State, rules: Rules, low_watermarks: dict[int, int]) -> None:
    grace = rules.reorder_grace_ms * MS
    for number, (name,) in enumerate(state.clusters.all):
        upto = min(low_watermarks[number], _newest(state, str(name)))
        state.watched.forget(str(name), upto, upto - KEPT_GAP_GRACES * grace)
