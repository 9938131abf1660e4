"""Advances the histories of partitions: their queued events in canonical order, up to the low watermark."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from pipelines.replication.batch.minute_stats import GaugeMove, GaugeState
from pipelines.replication.batch.term_lookup import StateTermLookup
from pipelines.replication.compiled.progress import NoProgress
from pipelines.replication.compiled.types import I64, NULL32
from pipelines.replication.partition.events import PartitionEvent
from pipelines.replication.partition.history import NO_WORD, PartitionHistory
from pipelines.replication.partition.one_term import Term
from pipelines.replication.partition.registration import PartitionRegistration
from pipelines.replication.state.state import OrderKey, State

Queue = list[tuple[OrderKey, PartitionEvent]]
NO_LEADER = GaugeState(None, 0, 0, 0, 0, 0, 0)


@dataclass
class HistoryChanges:
    """The rows that histories publish in one micro-batch, and their partitions' moves in the gauges of brokers."""

    isr_changes: list[dict[str, Any]] = field(default_factory=list)
    regressions: list[dict[str, Any]] = field(default_factory=list)
    contradictions: list[dict[str, Any]] = field(default_factory=list)
    gauge_moves: list[GaugeMove] = field(default_factory=list)


def advance_histories(state: State, lookup: StateTermLookup, upto: I64) -> HistoryChanges:
    """Apply the queued events at or before `upto` (by partition), and take the decisions due by then."""
    _decide_first_terms(state, upto)
    touched = set(state.queued_events) | _led_by_deposed(state, lookup)
    touched |= {p for p, due in state.due.items() if due <= upto[p]}
    state.histories |= state.first_terms.take(touched, state.place)
    changes = HistoryChanges()
    for partition in sorted(touched):
        lookup.look_at(partition)
        _advance(state, lookup, partition, int(upto[partition]), changes)
    return changes


def _advance(state: State, lookup: StateTermLookup, partition: int, upto: int, changes: HistoryChanges) -> None:
    """Advances the history of one partition."""
    history = state.history(partition)
    gauges = _Gauges(lookup, history, changes.gauge_moves)
    ready, rest = _ready(state.queued_events.pop(partition, []), upto)
    for key, event in ready:
        _settle(history, key[0], lookup, gauges)
        if event.event_type == "word":
            history.take_word(event)
        else:
            history.apply(event, lookup)
        gauges.move(event.ts)
    due = _settle(history, upto, lookup, gauges)
    mark_deposed(lookup, history, upto)
    if rest:
        state.queued_events[partition] = rest
    _keep_registration(state, partition, history.registration, due)
    changes.isr_changes += history.take_isr_changes()
    changes.regressions += history.take_regressions()
    changes.contradictions += history.take_contradictions()


def _decide_first_terms(state: State, upto: I64) -> None:
    rows, partition, due = state.first_terms.undecided()
    if len(rows):
        state.first_terms.decide(rows[due < upto[partition]])


class _Gauges:
    """The present leader of a partition, and the gauges of that broker in which it counts."""

    def __init__(self, lookup: StateTermLookup, history: PartitionHistory, moves: list[GaugeMove]) -> None:
        self._lookup, self._history, self._moves = lookup, history, moves
        self._before = NO_LEADER
        self._before = self._now()

    def move(self, ts: int) -> None:
        """Note a move at `ts`, if what came then makes one."""
        if (now := self._now()) is not self._before:
            if now.leader_id != self._before.leader_id:
                self._history.end_waits()
            self._moves.append((self._lookup.partition, ts, self._before, now))
            self._before = now

    def _now(self) -> GaugeState:
        registration = self._history.registration
        leader, isr, speaker = registration.leader_id, registration.isr or (), self._history.speaker()
        led = leader is not None and leader >= 0
        missing = len(registration.replicas or isr) - len(isr) if led else 0
        few = missing > 0 and len(isr) < self._lookup.min_isr(self._history.now, registration.min_isr)
        word = NO_WORD if speaker is None else self._history.words.get(speaker, NO_WORD)
        says = len(word.out_of_sync), int(word.held_back)
        now = speaker, int(led), int(missing > 0), int(few), int(leader == -1), *says
        return self._before if now == self._before else GaugeState(*now)


def _led_by_deposed(state: State, lookup: StateTermLookup) -> set[int]:
    """Partitions of which a deposed leader still reports HWs."""
    if not (deposed := state.lanes["deposed"] == 1).any():
        return set()
    lanes = [lookup.results.hw.lanes(), state.recent_hws["lane"], state.pending_rows["lane"]]
    with_hws = np.unique(np.concatenate(lanes))
    return {int(p) for p in state.lanes["partition"][with_hws[deposed[with_hws]]]}


def _settle(history: PartitionHistory, upto: int, lookup: StateTermLookup, gauges: _Gauges) -> int | None:
    """Take the decisions due before `upto`, in order with the HWs of deposed leaders until then; returns when the next
    one is due. Whether such a HW was reported is known a race window later."""
    due, last_rise, race_window_us = history.due(), None, lookup.race_window_us
    while True:
        rise = _next_rise(history, upto - race_window_us, lookup)
        if rise is not None and (due is None or rise.ts + race_window_us <= due):
            if rise == last_rise:
                place = (history.cluster, history.topic, history.partition)
                raise NoProgress.at(place, f"epoch {rise.term.epoch}", f"HW {rise.hw} at {rise.ts} us")
            history.zombie_rise(rise.term, rise.hw, rise.ts, lookup)
            gauges.move(rise.ts)
            due, last_rise = history.due(), rise
        elif due is not None and due < upto:
            at, due = due, history.settle(due + 1, lookup)
            gauges.move(at)
        else:
            return due


class Rise(NamedTuple):
    """A deposed leader's HW above that of its term's final summary."""

    ts: int
    broker_id: int
    hw: int
    term: Term


def _next_rise(history: PartitionHistory, upto: int, lookup: StateTermLookup) -> Rise | None:
    """The first HW by which a deposed leader has committed more than its term was judged by."""
    found = []
    for term in history.outlived():
        if lookup.may_rise(term) and (rise := lookup.rise(term, upto)):
            hw, ts = rise
            found.append(Rise(ts, term.broker_id, hw, term))
    if not found:
        return None
    return min(found, key=lambda rise: (rise.ts, rise.broker_id, rise.term.start_ts or 0, rise.hw))


def mark_deposed(lookup: StateTermLookup, history: PartitionHistory, upto: int) -> None:
    """Mark lanes that are still in a term which was judged to be over as deposed, and such a term as over if it has
    ended, or rows of its leader are missing since."""
    until = upto - lookup.race_window_us
    for term in history.outlived():
        lane = lookup.running_lane(term)
        if lookup.has_hole(term, until):  # later it would not show: gaps are forgotten
            term.over = True
        elif lane >= 0:
            lookup.state.lanes["deposed"][lane] = 1
        else:
            term.over = lookup.ended_by(term, until)


def _ready(queue: Queue, upto: int) -> tuple[Queue, Queue]:
    """(events at or before `upto`, in canonical order; the others)."""
    ready = [queued for queued in queue if queued[0][0] <= upto]
    return _in_order(ready), [queued for queued in queue if queued[0][0] > upto] if len(ready) < len(queue) else []


def _in_order(queue: Queue) -> Queue:
    """Events in canonical order.

    Within a source the sequence number decides: of two sources of one broker in one millisecond, a row that would go
    first goes no earlier than the rows before it in its own source.
    """
    queue.sort(key=_in_source)
    keys, before, after = [], None, 0
    for (clock, broker, later, source, epoch, seq), _ in queue:
        place = (clock, source, epoch)
        after = max(after, later) if place == before else later
        before = place
        keys.append((clock, broker, after, source, epoch, seq))
    order = sorted(range(len(queue)), key=keys.__getitem__)
    return [queue[k] for k in order]


def _in_source(queued: tuple[OrderKey, PartitionEvent]) -> tuple[int, str, int, int]:
    clock, _, _, source, epoch, seq = queued[0]
    return clock, source, epoch, seq


def _keep_registration(state: State, partition: int, registration: PartitionRegistration, due: int | None) -> None:
    """Keep the partition's registration where gold reads it, and when something of it falls due."""
    if due is None:
        state.due.pop(partition, None)
    else:
        state.due[partition] = due
    row = {
        "leader_id": registration.leader_id, "leader_epoch": registration.leader_epoch,
        "partition_epoch": registration.partition_epoch,
    }  # fmt: skip
    for name, value in row.items():
        state.partitions[name][partition] = NULL32 if value is None else value
    if registration.topic_id is not None:
        state.partitions["topic_id"][partition] = state.topic_ids.number(registration.topic_id)
