"""The rows of watchers about partitions in one micro-batch, in canonical order, with the settings that hold then."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.replication.batch.numbering import encode
from pipelines.replication.batch.rare_events import FIRST
from pipelines.replication.batch.read import Batch
from pipelines.replication.compiled.records import Records, as_records
from pipelines.replication.compiled.types import I64, MS, NEVER, NULL, NULL32
from pipelines.replication.events.columns import CODE, event_kinds, int32_column, int64_column, list_column, take_rows
from pipelines.replication.metadata.brokers_and_configs import CLUSTER_WIDE, Config
from pipelines.replication.rules import Rules
from pipelines.replication.samples.bundles import Rows
from pipelines.replication.samples.layout import NOT_KNOWN, ROWS
from pipelines.replication.state.state import State
from schemas.event_types import EVENT_TYPES, LOG_EPOCH, TOPIC_GONE

_COLUMNS = (
    "ts", "event_type", "broker_id", "leader_id", "leader_epoch", "leo", "hw", "isr", "replicas", "topic_id", "detail",
    "seq", "ts_error_ms",
)  # fmt: skip
_FIRST = np.array([kind in FIRST for kind in EVENT_TYPES])
_DIGITS = 10
"""Of the largest leader epoch: no epoch comes near it."""
_LONGEST_MS = 100.0 * 365 * 24 * 3600 * 1000
"""A century: rows of other times are in quarantine."""
_AT = ROWS.at


class SampledRows(NamedTuple):
    """Rows by partition: those of numbers[k] stand from bounds[k] to bounds[k + 1]."""

    numbers: I64
    bounds: I64
    rows: Rows


def microseconds(milliseconds: pa.ChunkedArray) -> I64:
    """A column of milliseconds, null as 0; what is no duration counts as the longest, of which nothing follows."""
    known = milliseconds.fill_null(0.0).to_numpy()
    is_duration = (known >= 0) & (known <= _LONGEST_MS)
    found: I64 = np.rint(np.where(is_duration, known, _LONGEST_MS) * MS).astype(np.int64)
    return found


def sampled_rows(state: State, rules: Rules, batch: Batch, unled: I64) -> SampledRows | None:
    """The rows of watchers among those that no lane of the kernel reads; None where there are none."""
    watched = state.watched_series()
    positions = unled[watched[batch.series[unled]]] if watched is not None else unled[:0]
    if not len(positions):
        return None
    events, clock = take_rows(batch.events.select(_COLUMNS), positions), batch.clocks(positions)
    source, number = (state.series[name][batch.series[positions]] for name in ("source", "partition"))
    isr, assigned, kind = list_column(events["isr"]), list_column(events["replicas"]), event_kinds(events)
    known = {
        "clock": clock,
        "ts": int64_column(events["ts"]),
        "error": microseconds(events["ts_error_ms"]),
        "kind": np.where(kind < 0, CODE["lost"], kind),  # of one in quarantine no more is known
        "broker": int32_column(events["broker_id"]),
        "leader": _number(int32_column(events["leader_id"]), NULL32),
        "epoch": _number(int32_column(events["leader_epoch"]), NULL32),
        "leo": _number(int64_column(events["leo"]), NULL),
        "hw": _number(int64_column(events["hw"]), NULL),
        "log_epoch": encode(events["detail"], _log_epoch),
        "source": source,
        "topic_id": encode(events["topic_id"], state.topic_ids.number),
        "gone": encode(events["detail"], lambda detail: int(detail.startswith(TOPIC_GONE))) == 1,
        "position": positions,
        "isr_at": isr[0][:-1],
        "isr_count": _counts(events["isr"], isr[0]),
        "assigned_at": assigned[0][:-1],
        "assigned_count": _counts(events["replicas"], assigned[0]),
    }
    rows = np.stack([known.get(name, np.zeros_like(clock)) for name in ROWS.names], axis=1).astype(np.int64)
    first = ~_FIRST[rows[:, _AT.kind]]
    order = np.lexsort((int64_column(events["seq"]), _ranks(state)[source], first, known["broker"], clock, number))
    numbers, begins = np.unique(number[order], return_index=True)
    rows = np.ascontiguousarray(rows[order])
    _write_settings(state, rules, number[order], rows)
    return SampledRows(numbers, np.append(begins, len(rows)), Rows(as_records(ROWS, rows), isr[1], assigned[1]))


def _write_settings(state: State, rules: Rules, numbers: I64, rows: Records) -> None:
    """Write the lag and the min ISR that hold at each row; settings are looked up once for a topic without changes."""
    topics, of, counts = np.unique(state.partition_keys.keys[numbers] >> 32, return_inverse=True, return_counts=True)
    ts = rows[:, _AT.ts]
    of_topics = np.split(np.lexsort((ts, of)), np.cumsum(counts)[:-1])
    for topic, mine in zip(topics.tolist(), of_topics, strict=True):
        name = str(state.topics.all[topic][0])
        cluster, own = state.clusters.number(name), rules.of(name)[0]
        of_cluster = state.timeline.configs.get((cluster, CLUSTER_WIDE), [])
        changes = np.array(state.timeline.setting_times(cluster, topic, -NEVER, NEVER - 1), dtype=np.int64)
        for same in np.split(mine, np.searchsorted(ts[mine], changes)):
            if len(same):
                at = int(ts[same[0]])
                told = own.min_isr is not None or state.timeline.tells_min_isr(cluster, topic, at)
                rows[same, _AT.min_isr_told] = told
                rows[same, _AT.lag_max] = lag_at(of_cluster, at, own)
                rows[same, _AT.min_isr] = state.timeline.min_isr(cluster, topic, at, None, own.min_isr or 1)


def lag_at(entries: list[Config], ts: int, own: Rules) -> int:
    """`replica.lag.time.max.ms` of a cluster at a time, in microseconds."""
    return MS * next((e[2] for e in reversed(entries) if e[0] <= ts and e[2] is not None), own.lag_max_ms)


def _ranks(state: State) -> I64:
    """By number the place of a source in the order of ids and epochs."""
    names = [(str(source), int(epoch)) for _, source, epoch in state.source_names.all]
    place = {name: k for k, name in enumerate(sorted(set(names)))}
    return np.array([place[name] for name in names], dtype=np.int64)


def _number(values: Any, null: int) -> Any:
    return np.where(values == null, NOT_KNOWN, values)


def _counts(column: pa.ChunkedArray, offsets: Any) -> Any:
    """The number of values in each list, -1 for null."""
    return np.where(pc.is_valid(column).to_numpy(), np.diff(offsets), -1)


def _log_epoch(detail: str) -> int:
    epoch = detail.removeprefix(LOG_EPOCH)
    known = epoch != detail and epoch.isdecimal() and len(epoch) < _DIGITS
    return int(epoch) if known else NOT_KNOWN
