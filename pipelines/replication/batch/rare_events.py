"""Picks the rare events out of a micro-batch: assignments, events for histories, first starts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from itertools import repeat
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.replication.batch.clock_offsets import WrongClock
from pipelines.replication.batch.minute_stats import MinuteStats
from pipelines.replication.batch.numbering import encode
from pipelines.replication.batch.read import Batch
from pipelines.replication.batch.run_terms import TermResults
from pipelines.replication.batch.sequencing import follower_hw_falls
from pipelines.replication.batch.term_lookup import StateTermLookup
from pipelines.replication.compiled.types import I32, I64, NEVER, NULL, NULL32
from pipelines.replication.events.columns import CODE, event_kinds, int32_column, int64_column, take_rows
from pipelines.replication.facts.tables import table
from pipelines.replication.partition.events import EVENT_COLUMNS, PartitionEvent, partition_events, values
from pipelines.replication.state.state import PENDING_STARTS, OrderKey, State
from pipelines.replication.term.constants import BEGAN_MIDFLIGHT, NOT_CUT_OFF, NOT_PREDICTED, PREDICTED, RETRACTED
from pipelines.replication.term.layout import HELD_BACK, MOVES_ON, OUT_OF_SYNC, REPLICA_HW
from schemas.replication_events import DISK, PRINTED, WATCHER

_LAG_RULE_MARKS = (PREDICTED, NOT_PREDICTED)
FIRST = {"leader", "follower", "isr", "config"}
"""Event types that go first in the canonical order of one instant."""
_WORDS = {OUT_OF_SYNC: "out_of_sync", HELD_BACK: "held_back", MOVES_ON: "moves_on"}
_STARTS = [CODE["leader"], CODE["follower"]]
_OF_THE_KEY = ("event_type", "broker_id", "source_id", "source_epoch", "source_seq", "seq")
_QUEUED_COLUMNS = (*EVENT_COLUMNS, "source_epoch", "source_seq", "seq")

NOTHING: Mapping[str, Any] = MappingProxyType({})
Findings = list[tuple[int, dict[str, Any]]]
"""Rows, and what the kernel adds to the event of each or has instead of it."""


def record_assignments(state: State, batch: Batch) -> None:
    """Record the replica assignments that rows of the batch name."""
    c, at = batch.columns, np.flatnonzero(batch.accepted.counts(batch.rare))
    if not len(at):
        return
    first, size = c.replicas_from[at].astype(np.int64), _list_sizes(c.replicas_from, at)
    state.assignments.record(_partitions(state, batch, batch.rare[at]), c.ts[at], first, size, c.replicas_ids)


def _list_sizes(offsets: I32, at: I64) -> I64:
    sizes: I64 = (offsets[at + 1] - offsets[at]).astype(np.int64)
    return sizes


def _partitions(state: State, batch: Batch, rows: I64) -> I64:
    partitions: I64 = state.series["partition"][batch.series[rows]]
    return partitions


def queue_partition_events(
    state: State, batch: Batch, results: TermResults, by_samples: dict[int, bool] | None = None
) -> None:
    """Queues the rare rows that were read, and the findings of the kernel, for the histories of their partitions.

    A start that is the only event of its partition so far stays a row: see `start_first_terms`. `by_samples`: of rows
    that shrink an ISR whether the lag rule had said so.
    """
    read = (results.consumed[batch.rare] == 1) & batch.accepted.counts(batch.rare)
    rare = np.flatnonzero(read)
    before, after = _findings_before(batch, results), _findings_after(state, batch, results)
    found = np.array([row for row, _ in (*before, *after)], dtype=np.int64)
    only = _only_events(state, batch, rare, found)
    _keep_starts(state, batch, rare[only])
    others = rare[~only]
    if not len(others) and not before and not after:
        return
    predicted = {int(r): {"predicted": mark == PREDICTED} for mark in _LAG_RULE_MARKS for r in results.marked(mark)}
    predicted |= {row: {"predicted": said} for row, said in (by_samples or {}).items()}
    known = _last_reported_hws(state, batch, results, others) | predicted
    in_order = [known.get(row, NOTHING) for row in batch.rare[others].tolist()]
    rare_rows = batch.rare_events.select(_QUEUED_COLUMNS).take(pa.array(others))
    _queue_findings(state, batch, before)
    _queue_rows(state, batch, batch.rare[others], rare_rows, in_order)
    _queue_findings(state, batch, after)


def _queue_findings(state: State, batch: Batch, findings: Findings) -> None:
    if findings:
        rows = np.array([row for row, _ in findings], dtype=np.int64)
        events = take_rows(batch.events.select(_QUEUED_COLUMNS), rows)
        _queue_rows(state, batch, rows, events, [extra for _, extra in findings])


def _queue_rows(state: State, batch: Batch, rows: I64, events: pa.Table, extras: Sequence[Mapping[str, Any]]) -> None:
    """Queues rows of the batch, whose columns are `events`, with what the kernel adds to each or has instead of it."""
    partitions = _partitions(state, batch, rows)
    state.partitions["has_events"][partitions] = 1
    queued = _queued(events, batch.clocks(rows).tolist(), extras)
    for partition, one in zip(partitions.tolist(), queued, strict=True):
        state.queued_events.setdefault(partition, []).append(one)


def _findings_before(batch: Batch, results: TermResults) -> Findings:
    """Findings that go before the rare event of the same row."""
    midflight: Findings = [(int(r), {"event_type": "midflight"}) for r in results.marked(BEGAN_MIDFLIGHT)]
    gaps = [(int(r), {"event_type": "gap"}) for r, *_ in batch.accepted.gaps if results.consumed[r]]
    return [*midflight, *gaps]


def _findings_after(state: State, batch: Batch, results: TermResults) -> Findings:
    """Findings about the HWs that rows report."""
    falls = zip(*follower_hw_falls(*results.follower_hws, batch.series, state.series.data), strict=True)
    moved_back = zip(*results.moved_back, strict=True)
    return [
        *((int(r), {"before": int(hw)}) for r, hw in falls),
        *((int(r), {"event_type": "hw", "detail": "reports_back", "before": int(hw)}) for r, hw in moved_back),
        *((int(r), {"event_type": "hw", "detail": "taken_back"}) for r in results.marked(RETRACTED)),
        *((int(r), {"event_type": "hw", "detail": "not_cut_off"}) for r in results.marked(NOT_CUT_OFF)),
        *((int(r), {}) for r in _samples_of_disks(state, batch, results)),
    ]


def _samples_of_disks(state: State, batch: Batch, results: TermResults) -> I64:
    """Rows about what checkpoint files on disks, or tools, say of a replica."""
    if not len(results.unled):
        return results.unled
    of_disk = np.array([str(name[1]).startswith((DISK, PRINTED)) for name in state.source_names.all], dtype=np.bool_)
    if not of_disk.any():
        return results.unled[:0]
    rows: I64 = results.unled[of_disk[state.series["source"][batch.series[results.unled]]]]
    samples: I64 = rows[event_kinds(take_rows(batch.events.select(["event_type"]), rows)) == CODE["sample"]]
    return samples


def queue_follower_hws(state: State, closed: Set[str]) -> None:
    """Queues, as the history of these clusters is closed, the last HW that each broker reported as a follower in a
    leader epoch whose leader is not known to have had it: its own telemetry may end before."""
    series, lanes = state.series, state.lanes
    at = np.flatnonzero((series["follower_hw"] > 0) & (series["follower_epoch"] != NULL32) & (series["partition"] >= 0))
    if not len(at):
        return
    led = dict[tuple[int, int], int]()
    for partition, epoch, hw in zip(*(lanes[n].tolist() for n in ("partition", "leader_epoch", "hw")), strict=True):
        led[partition, epoch] = max(hw, led.get((partition, epoch), hw))
    for k in at.tolist():
        partition, epoch, hw = (int(series[name][k]) for name in ("partition", "follower_epoch", "follower_hw"))
        if led.get((partition, epoch), -1) >= hw or state.place(partition)[0] not in closed:
            continue
        ts, broker = int(series["last_ts"][k]), int(series["broker"][k])
        _, source, source_epoch = state.source_names.all[int(series["source"][k])]
        event = PartitionEvent(ts, "hw", broker, str(source), leader_epoch=epoch, hw=hw, detail="of_follower")
        state.partitions["has_events"][partition] = 1
        key = (ts, broker, 1, str(source), int(source_epoch), NEVER)
        state.queued_events.setdefault(partition, []).append((key, event))


def queue_words(state: State, rows: Mapping[str, Any]) -> None:
    """Queue reports of leaders on their HW, and on replicas in or out of sync, for the histories."""
    now, outside = rows["state"], rows["previous"] == OUT_OF_SYNC
    of_hw = now > REPLICA_HW
    at = np.flatnonzero(of_hw | ((now < REPLICA_HW) & ((now == OUT_OF_SYNC) != outside)))
    lanes = rows["lane"][at]
    places = state.lanes["partition"][lanes].tolist(), state.lanes["broker"][lanes].tolist()
    said = (rows[name][at].tolist() for name in ("ts", "replica", "state"))
    for partition, broker, ts, replica, word in zip(*places, *said, strict=True):
        about = None if word > REPLICA_HW else replica
        event = PartitionEvent(ts, "word", broker, replica_id=about, detail=_WORDS.get(word, "in_sync"))
        state.partitions["has_events"][partition] = 1
        state.queued_events.setdefault(partition, []).append(((ts, broker, 1, "", 0, 0), event))


def queue_clocks(state: State, clocks: list[WrongClock]) -> None:
    """Queue clocks that became wrong, or right again, for the histories of their partitions."""
    for clock in clocks:
        _, source_id, source_epoch = clock.source
        event = PartitionEvent(clock.ts, "clock", clock.broker, source_id, before=clock.ahead)
        state.partitions["has_events"][clock.partition] = 1
        key = (clock.ts, clock.broker, 1, source_id, source_epoch, 0)
        state.queued_events.setdefault(clock.partition, []).append((key, event))


def _keep_starts(state: State, batch: Batch, rare: I64) -> None:
    """Keep starts as rows."""
    if not len(rare):
        return
    rows = batch.rare[rare]
    partition = _partitions(state, batch, rows)
    names = PENDING_STARTS.names[2:]
    columns = [
        pa.array(partition),
        pa.array(batch.clocks(rows)),
        *batch.rare_events.select(names).take(pa.array(rare)).columns,
    ]
    starts = table(PENDING_STARTS, dict(zip(PENDING_STARTS.names, columns, strict=True)))
    state.pending_starts = pa.concat_tables([state.pending_starts, starts])
    state.partitions["has_events"][partition] = 1


def _only_events(state: State, batch: Batch, rare: I64, found: I64) -> npt.NDArray[np.bool_]:
    """A mask of rare rows that are a leader's start, and the first and only event or finding of their partition."""
    c, partition = batch.columns, _partitions(state, batch, batch.rare[rare])
    count = np.bincount(np.concatenate([partition, _partitions(state, batch, found)]))[partition]
    starts = (c.kind[rare] == CODE["leader"]) & (c.leader_epoch[rare] >= 0) & (c.broker[rare] >= 0)
    unclean = batch.rare_events["unclean"]  # such a start is judged though it is the first
    if unclean.null_count < len(unclean):
        starts &= ~pc.fill_null(unclean, False).to_numpy()[rare]
    starts &= pc.equal(batch.rare_events["source_epoch"], 0).to_numpy()[rare]  # a row kept has none
    if (watched := state.watched_series()) is not None:
        starts &= ~watched[batch.series[batch.rare[rare]]]
    only: npt.NDArray[np.bool_] = starts & (count == 1) & (state.partitions["has_events"][partition] == 0)
    return only


def start_first_terms(state: State, lookup: StateTermLookup, upto: I64, minutes: MinuteStats) -> None:
    """Turn pending starts at or before `upto` (by partition) into first terms, all at once.

    That is what `advance_histories` does with other events one by one. Where another event of the partition has been
    queued since, the start is queued before it.
    """
    if not state.pending_starts.num_rows:
        return
    number, clock = (state.pending_starts[n].to_numpy() for n in ("number", "clock"))
    joined = np.isin(number, list(state.queued_events))
    ready = ~joined & (clock <= upto[number])
    if joined.any():
        starts = state.pending_starts.filter(pa.array(joined))
        queued = _queued(starts, clock[joined].tolist(), repeat(NOTHING, int(joined.sum())))
        for partition, one in zip(number[joined].tolist(), queued, strict=True):
            state.queued_events[partition].append(one)
    if ready.any():
        _start(state, lookup, number[ready], state.pending_starts.filter(pa.array(ready)), minutes)
    state.pending_starts = state.pending_starts.filter(pa.array(~joined & ~ready))


def _start(state: State, lookup: StateTermLookup, partition: I64, starts: pa.Table, minutes: MinuteStats) -> None:
    ts, broker = int64_column(starts["ts"]), int32_column(starts["broker_id"])
    state.first_terms.add(partition, starts, ts + lookup.race_window_us)
    epochs = {name: int32_column(starts[name]) for name in ("leader_epoch", "partition_epoch")}
    topic_id = encode(starts["topic_id"], lambda v: state.topic_ids.number(v))
    for name, numbers in {"leader_id": broker, **epochs, "topic_id": topic_id}.items():
        state.partitions[name][partition] = numbers
    isr, assigned = (pc.fill_null(pc.list_value_length(starts[n]), 0).to_numpy() for n in ("isr", "replicas"))
    replicas = np.where(assigned > 0, assigned, isr)
    under_min, by_leader = isr < replicas, int32_column(starts["min_isr"])
    for k in np.flatnonzero(under_min):
        lookup.look_at(int(partition[k]))
        min_isr = lookup.min_isr(int(ts[k]), None if by_leader[k] == NULL32 else int(by_leader[k]))
        under_min[k] = isr[k] < min(min_isr, int(replicas[k]))
    topic = state.partition_keys.keys[partition] >> 32
    cluster = np.array([state.clusters.number(t[0]) for t in state.topics.all], dtype=np.int32)[topic]
    for name, counted in (
        ("partitions_change", np.ones(len(ts), dtype=np.bool_)),
        ("under_replicated_change", isr < replicas),
        ("under_min_isr_change", under_min),
    ):
        minutes.add_at(state, cluster[counted], broker[counted], ts[counted], name)


def _last_reported_hws(state: State, batch: Batch, results: TermResults, rare: I64) -> dict[int, dict[str, Any]]:
    """By row of a truncation: the HW that its replica reported last since it began to follow, in the same epoch."""
    rare = rare[batch.columns.kind[rare] == CODE["truncate"]]
    rows = batch.rare[rare]
    if not len(rows):
        return {}
    hw_rows, hws, epochs = results.follower_hws
    hw_series, hw_seq = batch.series[hw_rows], batch.int64("seq", hw_rows)
    starts = batch.rare[np.isin(batch.columns.kind, _STARTS)]
    start_series, start_seq = batch.series[starts], batch.int64("seq", starts)
    truncations = rows.tolist(), batch.series[rows], batch.int64("seq", rows), batch.columns.leader_epoch[rare]
    found = {}
    for row, series, seq, epoch in zip(*truncations, strict=True):
        since = start_seq[(start_series == series) & (start_seq < seq)].max(initial=-1)
        earlier = np.flatnonzero((hw_series == series) & (hw_seq < seq) & (hw_seq > since))
        if len(earlier):
            last = earlier[np.argmax(hw_seq[earlier])]
            hw, hw_epoch = hws[last], epochs[last]
        elif since >= 0:
            hw, hw_epoch = NULL, epoch
        else:
            hw, hw_epoch = (state.series[name][series] for name in ("follower_hw", "follower_epoch"))
        found[row] = {"hw": int(hw)} if hw != NULL and hw_epoch == epoch else {}
    return found


def _queued(
    rows: pa.Table, clocks: list[int], extras: Iterable[Mapping[str, Any]]
) -> Iterator[tuple[OrderKey, PartitionEvent]]:
    """Rows as events, each with its place in the canonical order."""
    events = partition_events(rows)
    types, brokers, sources, epochs, numbers, seqs = (values(rows[name]) for name in _OF_THE_KEY)
    for k in [k for k, broker in enumerate(brokers) if broker is None]:  # a refused row, before which a gap is known
        events[k].broker_id = brokers[k] = -1
    if any(source.startswith(WATCHER) for source in set(sources)):
        for event in filter(lambda event: event.watched, events):
            event.hw = None  # -1: which HW a term began with no broker says
    for k in [k for k, committed in enumerate(values(rows["committed"])) if committed is not None]:
        events[k].reported_by = sources[k], epochs[k], numbers[k]
    for k in [k for k, epoch in enumerate(epochs) if epoch]:
        events[k].source_epoch = epochs[k]
    for event, extra in zip(events, extras, strict=True):
        for name, value in extra.items() if extra else ():
            setattr(event, name, value)
    later = [int(event_type not in FIRST) for event_type in types]
    return zip(zip(clocks, brokers, later, sources, epochs, seqs, strict=True), events, strict=True)
