"""Broker-wide events: broker states, configurations, versions and lost telemetry. Every bucket reads them all."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.replication.batch.gaps import GapRows, gap_row, source_gap
from pipelines.replication.batch.quarantine import canonical
from pipelines.replication.batch.read import REJECTED, without_number
from pipelines.replication.compiled.types import I64
from pipelines.replication.events.columns import int64_column
from pipelines.replication.kafka_versions import reported_rules
from pipelines.replication.metadata.brokers_and_configs import CLUSTER_WIDE, OF_LIFE
from pipelines.replication.state.state import State
from pipelines.replication.telemetry.coverage import SourcedRows
from pipelines.replication.telemetry.source import Gap
from schemas.event_types import RACK, TOPIC_DELETED
from schemas.replication_events import DRAIN, WATCHER
from schemas.telemetry_gaps import NOT_UNDERSTOOD, UNREAD

_PLACE = ("cluster", "source_id", "source_epoch", "topic", "partition", "seq")
_APPLIED = pa.array(["broker_state", "config", "lost", "unread"])


def first_seen(state: State, rows: pa.Table) -> tuple[pa.Table, I64]:
    """(broker-wide events without repeats: each number of a source counts once; where, among all rows, others stand
    that contradict one). Called before the sources advance."""
    sourced, seq = SourcedRows(rows), int64_column(rows["source_seq"])
    source = np.concatenate(sourced.source_of)
    numbers = zip(source.tolist(), seq.tolist(), strict=True)
    received = np.array([state.sources.received(sourced.names[of], number) for of, number in numbers])
    order = np.lexsort((seq, source))
    same = (np.diff(source[order]) == 0) & (np.diff(seq[order]) == 0)
    repeated, aside = received.copy(), list[int]()
    for group in np.split(order, np.flatnonzero(~same) + 1) if same.any() else ():
        if len(group) > 1 and not received[group[0]]:
            ranks = {
                (int(rows["ts"][k].value), canonical(rows.drop_columns(["row"]), k)): k for k in group[::-1].tolist()
            }
            counts, *others = (ranks[rank] for rank in sorted(ranks))
            repeated[group], repeated[counts] = True, False
            aside += others
    found = np.array(aside, dtype=np.int64)
    return rows.filter(pa.array(~repeated)), rows["row"].to_numpy()[found]


def first_rejected(state: State, rejected: pa.Table) -> pa.Table:
    """Rejected rows without repeats, as far as they have a number. Called before the sources advance."""
    seen, keep, waiting = set[bytes](), [], _waiting_rejected(state)
    keys = rejected.select(["cluster", "source_id", "source_epoch", "source_seq"]).to_pylist()
    places = rejected.select(_PLACE).to_pylist()
    dated, numberless = rejected["ts"].is_valid().to_pylist(), without_number(rejected).tolist()
    for k, key in enumerate(keys):
        cluster, source_id, epoch, number = key.values()
        if not dated[k] or None in key.values() or min(epoch, number) < 0 or source_id == DRAIN:
            keep.append(k)
            continue
        received = state.sources.received((cluster, source_id, epoch), number)
        is_repeat = received and (numberless[k] or _was_read(state, places[k], waiting))
        if not is_repeat and (row := canonical(rejected, k)) not in seen:
            seen.add(row)
            keep.append(k)
    return rejected if len(keep) == len(keys) else rejected.take(pa.array(keep, pa.int64()))


def _waiting_rejected(state: State) -> set[tuple[Any, ...]]:
    """Return _PLACE of the rejected rows that wait."""
    rows = state.waiting.filter(pc.equal(state.waiting["event_type"], REJECTED)).select(_PLACE)
    return {tuple(row.values()) for row in rows.to_pylist()}


def _was_read(state: State, place: dict[str, Any], waiting: set[tuple[Any, ...]]) -> bool:
    """Whether a row with this number of its partition was read or waits: one key on two partitions is two rows.

    Of a row that takes no number there the number of its source alone is known.
    """
    cluster, source_id, epoch, topic, partition, number = place.values()
    if partition < 0 or tuple(place.values()) in waiting:
        return True
    key = state.partition_keys.find(state.topics.find(cluster, topic) << 32 | partition)
    of_source = state.series["source"] == state.source_names.find(cluster, source_id, epoch)
    return bool((number < state.series["next_seq"][of_source & (state.series["partition"] == key)]).any())


def apply_broker_wide(state: State, found: GapRows, rows: pa.Table, gaps: list[Gap], settled: dict[str, int]) -> None:
    """Apply broker-wide events, and the gaps of sources; add the rows of silver/telemetry_gaps about them.

    `settled`: by cluster the time up to which everything has been decided; events before it are late.
    """
    applied = rows.filter(pc.is_in(rows["event_type"], value_set=_APPLIED))
    times = int64_column(applied["ts"]) if applied.num_rows else np.empty(0, dtype=np.int64)
    for row, ts in zip(applied.to_pylist(), times.tolist(), strict=True):
        _apply(state, found, row, ts)
        if ts < settled.get(row["cluster"], -1):
            found.of_sources.append(gap_row(row, ts, "source", row["source_seq"], row["source_seq"], "late"))
    for gap in gaps:
        source_gap(state, found, gap)


def _apply(state: State, found: GapRows, row: dict[str, Any], ts: int) -> None:
    cluster = state.clusters.number(row["cluster"])
    if row["controller_epoch"] is not None:
        role = int(row["source_seq"]), ts, row["controller_epoch"], row["committed"] is False
        state.timeline.record_role(cluster, (str(row["source_id"]), int(row["source_epoch"])), role)
    if row["event_type"] == "broker_state":
        reported_by = str(row["source_id"]), int(row["source_epoch"]), int(row["source_seq"])
        states = row["detail"], row["broker_epoch"], reported_by
        state.timeline.record_broker_state(cluster, row["replica_id"], ts, *states)
    elif row["event_type"] == "config":
        _apply_config(state, cluster, row, ts)
    else:
        _apply_lost(state, found, cluster, row, ts)


def _apply_config(state: State, cluster: int, row: dict[str, Any], ts: int) -> None:
    if version := reported_rules(row["detail"]):
        state.timeline.record_version(cluster, row["broker_id"], ts, *version)
    if row["detail"] in OF_LIFE:
        reported_by = str(row["source_id"]), int(row["source_epoch"]), int(row["source_seq"])
        state.timeline.record_broker_state(cluster, row["broker_id"], ts, row["detail"], None, reported_by)
    if (rack := (row["detail"] or "").removeprefix(RACK)) != (row["detail"] or "") and row["replica_id"] is not None:
        state.timeline.record_rack(cluster, row["replica_id"], ts, rack)
    deleted = row["detail"] == TOPIC_DELETED and row["topic"] is not None and row["committed"]
    if row["min_isr"] is None and row["lag_max_ms"] is None and not deleted:
        return
    topic = CLUSTER_WIDE if row["topic"] is None else state.topics.number(row["cluster"], row["topic"])
    topic_id = -1 if row["topic_id"] is None else state.topic_ids.number(row["topic_id"])
    if deleted:
        state.timeline.record_deletion(cluster, topic, ts, topic_id)
        return
    is_active = row["controller_epoch"] is not None and row["committed"] is False
    reported_by = str(row["source_id"]), int(row["source_epoch"]), int(row["source_seq"])
    entry = ts, row["min_isr"], row["lag_max_ms"], topic_id
    state.timeline.record_config(cluster, topic, entry, reported_by if is_active else None)


def _apply_lost(state: State, found: GapRows, cluster: int, row: dict[str, Any], ts: int) -> None:
    """A source reports that rows of it were lost, or lines not understood."""
    seq = row["source_seq"]
    key = (state.source_names.number(row["cluster"], row["source_id"], row["source_epoch"]), seq)
    if key in state.reported_losses:
        return
    state.reported_losses.add(key)
    misread = (row["detail"] or "").startswith(NOT_UNDERSTOOD)
    if not row["source_id"].startswith(WATCHER):  # what a watcher misses is not missing in the broker's log
        (state.record_misread if misread else state.record_gap)(cluster, row["broker_id"], ts)
        if (own := state.sources.known.get((row["cluster"], row["source_id"], row["source_epoch"]))) is not None:
            own.declare_lost(ts)
    detail = f"{UNREAD}{row['detail']}" if row["event_type"] == "unread" else row["detail"]
    found.of_sources.append(gap_row(row, ts, "source", seq, seq, "gap", detail))
