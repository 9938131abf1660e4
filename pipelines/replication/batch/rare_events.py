"""Picks out of a micro-batch what is rare: notes for the histories, assignments, starts that stand alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.replication.batch.advance_histories import Surroundings
from pipelines.replication.batch.clock_offsets import WrongClock
from pipelines.replication.batch.minute_stats import Minutes
from pipelines.replication.batch.read import Batch, encode
from pipelines.replication.batch.run_terms import Outcome
from pipelines.replication.batch.sequencing import falls
from pipelines.replication.compiled.types import I32, I64, NULL, NULL32
from pipelines.replication.events.columns import CODE, narrow, rows_of, wide
from pipelines.replication.facts.tables import table
from pipelines.replication.partition.events import EVENT_COLUMNS, Note, note_of, told
from pipelines.replication.state.state import STARTING, OrderKey, State
from pipelines.replication.term.constants import BEGAN_MIDFLIGHT, NOT_CUT_OFF, NOT_PREDICTED, PREDICTED, RETRACTED

_FORETOLD = (PREDICTED, NOT_PREDICTED)
_FIRST = {"leader", "follower", "isr", "config"}
_STARTS = [CODE["leader"], CODE["follower"]]
_QUEUED = (*EVENT_COLUMNS, "source_epoch", "source_seq", "seq")


def learn_assignments(state: State, batch: Batch) -> None:
    """Notes which replicas are assigned, where a row names them."""
    c, of = batch.columns, np.flatnonzero(batch.accepted.counts(batch.rare))
    if not len(of):
        return
    at, size = c.replicas_from[of].astype(np.int64), _lengths(c.replicas_from, of)
    state.assigned.learn(_partitions(state, batch, batch.rare[of]), c.ts[of], at, size, c.replicas_ids)


def _lengths(offsets: I32, of: I64) -> I64:
    """How many replicas these lists hold."""
    lengths: I64 = (offsets[of + 1] - offsets[of]).astype(np.int64)
    return lengths


def _partitions(state: State, batch: Batch, rows: I64) -> I64:
    of: I64 = state.series["partition"][batch.series[rows]]
    return of


def take_notes(state: State, batch: Batch, outcome: Outcome) -> None:
    """Queues the rare rows that were read, and what the kernel found, per partition; a start that is all there is to
    tell of its partition stays a row: see `begin`."""
    read = (outcome.consumed[batch.rare] == 1) & batch.accepted.counts(batch.rare)
    of_rare = np.flatnonzero(read)
    ahead: list[tuple[int, dict[str, Any]]] = []
    ahead += [(int(r), {"event_type": "midflight"}) for r in outcome.marked(BEGAN_MIDFLIGHT)]
    ahead += [(int(r), {"event_type": "gap"}) for r, *_ in batch.accepted.holes if outcome.consumed[r]]
    after: list[tuple[int, dict[str, Any]]] = []
    after += [(int(r), {"before": int(b)}) for r, b in zip(*_falls(state, batch, outcome), strict=True)]
    after += [(int(r), {"detail": "reports_back", "before": int(b)}) for r, b in zip(*outcome.backs, strict=True)]
    after += [(int(r), {"event_type": "hw", "detail": "taken_back"}) for r in outcome.marked(RETRACTED)]
    after += [(int(r), {"event_type": "hw", "detail": "not_cut_off"}) for r in outcome.marked(NOT_CUT_OFF)]
    found = np.array([r for r, _ in (*ahead, *after)], dtype=np.int64)
    alone = _alone(state, batch, of_rare, found)
    _keep_starts(state, batch, of_rare[alone])
    others = of_rare[~alone]
    foretold = {int(r): {"foretold": mark == PREDICTED} for mark in _FORETOLD for r in outcome.marked(mark)}
    cuts = _cuts(state, batch, outcome, of_rare[~alone])
    queued = [(int(r), foretold.get(int(r)) or cuts.get(int(r), {})) for r in batch.rare[others]]
    said = [*ahead, *queued, *after]
    rows = np.array([r for r, _ in said], dtype=np.int64)
    in_sequence = told(batch.rare_events.select(_QUEUED).take(pa.array(others)))
    events = [*_found(batch, ahead), *in_sequence, *_found(batch, after)]
    clocks = batch.clocks(rows).tolist()
    partitions = _partitions(state, batch, rows)
    state.partitions["noted"][partitions] = 1
    for (_, extra), event, clock, partition in zip(said, events, clocks, partitions.tolist(), strict=True):
        state.notes.setdefault(partition, []).append(_queued(event, clock, extra))


def note_clocks(state: State, clocks: list[WrongClock]) -> None:
    """Queues which clocks are wrong from when on, for the histories of their partitions."""
    for clock in clocks:
        _, source_id, source_epoch = clock.source
        note = Note(clock.ts, "clock", clock.broker, source_id, before=clock.ahead)
        state.partitions["noted"][clock.partition] = 1
        key = (clock.ts, clock.broker, 1, source_id, source_epoch, 0)
        state.notes.setdefault(clock.partition, []).append((key, note))


def _found(batch: Batch, said: list[tuple[int, dict[str, Any]]]) -> list[dict[str, Any]]:
    """The rows in which the kernel found something."""
    rows = np.array([row for row, _ in said], dtype=np.int64)
    return told(rows_of(batch.events.select(_QUEUED), rows)) if said else []


def _keep_starts(state: State, batch: Batch, of: I64) -> None:
    """Starts of rare rows that stay rows."""
    if not len(of):
        return
    rows = batch.rare[of]
    partition = _partitions(state, batch, rows)
    names = STARTING.names[2:]
    made = [
        pa.array(partition),
        pa.array(batch.clocks(rows)),
        *batch.rare_events.select(names).take(pa.array(of)).columns,
    ]
    starts = table(STARTING, dict(zip(STARTING.names, made, strict=True)))
    state.starting = pa.concat_tables([state.starting, starts])
    state.partitions["noted"][partition] = 1


def _alone(state: State, batch: Batch, of: I64, found: I64) -> npt.NDArray[np.bool_]:
    """Which of these rare rows are a leader's start, and the first and only thing noted of their partition."""
    c, partition = batch.columns, _partitions(state, batch, batch.rare[of])
    noted = np.bincount(np.concatenate([partition, _partitions(state, batch, found)]))[partition]
    plain = (c.kind[of] == CODE["leader"]) & (c.leader_epoch[of] >= 0) & (c.broker[of] >= 0)
    first = (noted == 1) & (state.partitions["noted"][partition] == 0)
    alone: npt.NDArray[np.bool_] = plain & first
    return alone


def begin(state: State, context: Surroundings, upto: I64, minutes: Minutes) -> None:
    """Takes in starts at or before `upto` (by partition) that are all there is to tell of their partition: what
    `narrate` does with others one by one. Where something else was noted since, the start is queued before it."""
    if not state.starting.num_rows:
        return
    number, clock = (state.starting[n].to_numpy() for n in ("number", "clock"))
    joined = np.isin(number, list(state.notes))
    ready = ~joined & (clock <= upto[number])
    if joined.any():
        for start in told(state.starting.filter(pa.array(joined))):
            state.notes[start["number"]].append(_queued(start, start["clock"], {}))
    if ready.any():
        _begin(state, context, number[ready], state.starting.filter(pa.array(ready)), minutes)
    state.starting = state.starting.filter(pa.array(~joined & ~ready))


def _begin(state: State, context: Surroundings, partition: I64, starts: pa.Table, minutes: Minutes) -> None:
    ts, broker = wide(starts["ts"]), narrow(starts["broker_id"])
    state.first_terms.add(partition, starts, ts + context.race_window_us)
    present = {"leader_id": broker, **{n: narrow(starts[n]) for n in ("leader_epoch", "partition_epoch")}}
    present["topic_id"] = encode(starts["topic_id"], lambda v: state.topic_ids.number(v))
    for name, values in present.items():
        state.partitions[name][partition] = values
    isr, assigned = (pc.fill_null(pc.list_value_length(starts[n]), 0).to_numpy() for n in ("isr", "replicas"))
    replicas = np.where(assigned > 0, assigned, isr)
    under_min, least = isr < replicas, narrow(starts["min_isr"])
    for k in np.flatnonzero(under_min):
        context.partition = int(partition[k])
        told = None if least[k] == NULL32 else int(least[k])
        under_min[k] = isr[k] < min(context.min_isr(int(ts[k]), told), int(replicas[k]))
    topic = state.partition_keys.keys[partition] >> 32
    cluster = np.array([state.clusters.number(t[0]) for t in state.topics.all], dtype=np.int32)[topic]
    for name, counted in (
        ("partitions_change", np.ones(len(ts), dtype=np.bool_)),
        ("under_replicated_change", isr < replicas),
        ("under_min_isr_change", under_min),
    ):
        minutes.add_at(state, cluster[counted], broker[counted], ts[counted], name)


def _cuts(state: State, batch: Batch, outcome: Outcome, of: I64) -> dict[int, dict[str, Any]]:
    """By row of a cut: the HW that its replica had told last since it began to follow, in the same leader epoch."""
    of = of[batch.columns.kind[of] == CODE["truncate"]]
    rows = batch.rare[of]
    if not len(rows):
        return {}
    told, hws, epochs = outcome.follower_hws
    of_told, seq_told = batch.series[told], batch.told("seq", told)
    starts = batch.rare[np.isin(batch.columns.kind, _STARTS)]
    of_start, seq_start = batch.series[starts], batch.told("seq", starts)
    cuts = rows.tolist(), batch.series[rows], batch.told("seq", rows), batch.columns.leader_epoch[of]
    found = {}
    for row, series, seq, epoch in zip(*cuts, strict=True):
        since = seq_start[(of_start == series) & (seq_start < seq)].max(initial=-1)
        earlier = np.flatnonzero((of_told == series) & (seq_told < seq) & (seq_told > since))
        if len(earlier):
            last = earlier[np.argmax(seq_told[earlier])]
            hw, told_in = hws[last], epochs[last]
        elif since >= 0:
            hw, told_in = NULL, epoch
        else:
            hw, told_in = (state.series[name][series] for name in ("follower_hw", "follower_epoch"))
        found[row] = {"hw": int(hw)} if hw != NULL and told_in == epoch else {}
    return found


def _falls(state: State, batch: Batch, outcome: Outcome) -> tuple[I64, I64]:
    return falls(*outcome.follower_hws, batch.series, state.series.data)


def _queued(e: dict[str, Any], clock: int, extra: dict[str, Any]) -> tuple[OrderKey, Note]:
    key = (clock, e["broker_id"], int(e["event_type"] not in _FIRST), e["source_id"], e["source_epoch"], e["seq"])
    if e["committed"] is not None:
        extra = extra | {"place": (e["source_id"], e["source_epoch"], e["source_seq"])}
    return key, note_of(e, **extra)
