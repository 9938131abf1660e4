"""Hands rare rows to the histories of their partitions, in canonical order, up to the frontier."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from msgspec.structs import replace

from pipelines.replication.batch.hw_timeline import HwCourse
from pipelines.replication.batch.read import Batch
from pipelines.replication.batch.run_terms import Outcome, behind_holes, not_read
from pipelines.replication.compiled.progress import NoProgress
from pipelines.replication.compiled.types import I64, NEVER, NULL, NULL32
from pipelines.replication.metadata.brokers_and_configs import State as BrokerState
from pipelines.replication.partition.events import Note, TermSeen
from pipelines.replication.partition.history import PartitionHistory
from pipelines.replication.partition.registration import Present
from pipelines.replication.partition.terms import Term
from pipelines.replication.rules import Rules
from pipelines.replication.state.state import OrderKey, State
from pipelines.replication.term.layout import IDLE


class Standing(NamedTuple):
    """The leader of a partition, and 0 or 1 for each gauge it counts in."""

    leader_id: int | None
    partitions_change: int
    under_replicated_change: int
    under_min_isr_change: int


@dataclass
class Surroundings:
    """What one partition's history asks (notes.Context), from the state as of a time."""

    state: State
    rules: Rules
    before: dict[str, Any]
    """Lane columns as they were ahead of this micro-batch."""
    outcome: Outcome
    race_window_us: int = 0
    grace_us: int = 0
    partition: int = -1

    def term(self, broker_id: int, start_ts: int, as_of: int) -> TermSeen:
        lane = self.state.lane_of(self.partition, broker_id)
        seen = TermSeen() if lane < 0 else self._seen(lane, start_ts, as_of).as_of(as_of)
        missing = self.state.holds.get((self._cluster(), broker_id), ())
        if not missing:
            return seen
        misread = self.state.unread.get((self._cluster(), broker_id), ())
        held, unread = (any(start_ts <= ts <= as_of for ts in times) for times in (missing, misread))
        return replace(seen, held=held, unread=unread, level=0 if unread else seen.level)

    def _seen(self, lane: int, start_ts: int, as_of: int) -> TermSeen:
        ended = self.state.ended.get((lane, start_ts))
        if ended is not None:
            end, seen = ended
            return seen if end <= as_of else replace(seen, hmax=self.course.as_of(lane, start_ts, as_of))
        lanes = self.state.lanes
        if lanes["state"][lane] == IDLE or lanes["term_start"][lane] != start_ts:
            return TermSeen()
        seen = self._standing(lane)
        read_further = lanes["last_ts"][lane] > as_of
        return replace(seen, hmax=self.course.as_of(lane, start_ts, as_of)) if read_further else seen

    def rise(self, term: Term, upto: int) -> tuple[int, int] | None:
        """(HW, ts) of the first one, before `upto`, above what a term was judged by; None where there is none."""
        lane, start = self.state.lane_of(self.partition, term.broker_id), term.start or 0
        if lane < 0 or term.seen is None:
            return None
        end, _ = self.state.ended.get((lane, start), (upto, None))
        if end <= term.seen_at:
            return None
        above = -1 if term.seen.hmax is None else term.seen.hmax
        next_begins = (lane, end) in self.state.ended or self.state.lanes["term_start"][lane] == end
        return self.course.rise(lane, start, above, term.seen_at, min(upto, end if next_begins else end + 1))

    def ended_by(self, term: Term, upto: int) -> bool:
        """Whether a term that its leader is not in any more was over by `upto`."""
        lane = self.state.lane_of(self.partition, term.broker_id)
        end, _ = self.state.ended.get((lane, term.start or 0), (upto, None))
        return end <= upto

    def lane_in(self, term: Term) -> int:
        """The lane of a leader that is still in this term, -1 where there is none."""
        lane = self.state.lane_of(self.partition, term.broker_id)
        inside = lane >= 0 and self.state.lanes["state"][lane] != IDLE
        return lane if inside and self.state.lanes["term_start"][lane] == term.start else -1

    @cached_property
    def course(self) -> HwCourse:
        return HwCourse(self.state, self.outcome, self.before)

    def _standing(self, lane: int) -> TermSeen:
        """What is known of the term that a lane is in."""
        lanes, replicas, width = self.state.lanes, self.state.replicas, self.state.replicas.width
        ids, leos = (
            replicas["id"][lane * width : (lane + 1) * width],
            replicas["leo"][lane * width : (lane + 1) * width],
        )
        fetched = (leos >= 0) & (ids != NULL32) & (ids != lanes["broker"][lane])
        return TermSeen(
            hmax=_known(lanes["hw"][lane]),
            leader_leo=_known(lanes["leader_leo"][lane]),
            fetchers=frozenset(int(r) for r in ids[fetched]),
            level=int(lanes["level"][lane]),
            **_cut_off({name: lanes[name][lane] for name in CUT_OFF}),
        )

    def broker_states(self, broker_id: int, as_of: int) -> list[BrokerState]:
        return self.state.timeline.broker_states(self._cluster(), broker_id, as_of)

    def started_between(self, broker_id: int, after: int, until: int) -> bool:
        return self.state.timeline.started_between(self._cluster(), broker_id, after, until)

    def min_isr(self, as_of: int, told: int | None = None) -> int:
        cluster = self._cluster()
        return self.state.timeline.min_isr(cluster, self._topic(), as_of, told, self._rules[cluster].min_isr)

    @cached_property
    def _rules(self) -> list[Rules]:
        """The rules of each cluster."""
        return [self.rules.of(str(name))[0] for (name,) in self.state.clusters.all]

    def _topic(self) -> int:
        return int(self.state.partition_keys.keys[self.partition]) >> 32

    def _cluster(self) -> int:
        return self.state.clusters.number(self.state.topics.all[self._topic()][0])


CUT_OFF = ("cut_off", "cut_off_ts", "cut_off_until")


def _cut_off(told: dict[str, int]) -> dict[str, Any]:
    """The fields of TermSeen of a report that may be cut off, none where there is no such report."""
    return {} if told["cut_off"] == NULL else {name: int(value) for name, value in told.items()}


def _known(value: int) -> int | None:
    return None if value == NULL else int(value)


def keep_ended(state: State, outcome: Outcome) -> None:
    """Remembers the terms that ended, until their partition's history has asked for them."""
    width, ids = state.replicas.width, state.replicas["id"]
    e = outcome.ended
    for k in range(len(e["lane"])):
        lane = int(e["lane"][k])
        fetchers = frozenset(int(ids[lane * width + s]) for s in range(width) if (int(e["fetchers"][k]) >> s) & 1)
        seen = TermSeen(
            _known(e["hw"][k]), _known(e["leader_leo"][k]), fetchers, False, int(state.lanes["level"][lane]),
            **_cut_off({name: e[name][k] for name in CUT_OFF}),
        )  # fmt: skip
        state.ended[lane, int(e["start"][k])] = (int(e["end"][k]), seen)


def narrate(state: State, context: Surroundings, upto: I64) -> tuple[list[Any], list[Any], list[Any]]:
    """Applies what is at or before `upto` (by partition); returns (ISR changes, regressions,
    changes of what is present as (partition, ts, standing before, standing now))."""
    _decide_first_terms(state, upto)
    touched = set(state.notes) | _led_by_deposed(state, context)
    touched |= {p for p, due in state.due.items() if due <= upto[p]}
    state.histories |= state.first_terms.take(touched, state.place)
    changes, regressions, moves = [], [], []
    for partition in sorted(touched):
        context.partition = partition
        history = state.history(partition)
        before = _standing(context, history.present, history.now)
        ready, rest = _ready(state.notes.pop(partition, []), int(upto[partition]))
        for key, note in ready:
            _settle(history, key[0], context)
            history.apply(note, context)
            now = _standing(context, history.present, note.ts)
            if now != before:
                moves.append((partition, note.ts, before, now))
                before = now
        due = _settle(history, int(upto[partition]), context)
        _depose(context, history, int(upto[partition]))
        if rest:
            state.notes[partition] = rest
        _remember(state, partition, history.present, due)
        changes += history.take_isr_changes()
        regressions += history.take_regressions()
    return changes, regressions, moves


def decided_upto(state: State, frontier: dict[int, int], batch: Batch, outcome: Outcome) -> I64:
    """Per partition how far its history may be told: to the frontier, ahead of what waits behind a hole or for others
    with other clocks."""
    of_topic = np.array([frontier[state.clusters.number(t[0])] for t in state.topics.all] or [NEVER], dtype=np.int64)
    upto: I64 = of_topic[state.partition_keys.keys >> 32]
    series, times = behind_holes(batch)
    np.minimum.at(upto, state.series["partition"][series], times - 1)
    if state.apart.count:
        series, clocks = not_read(batch, outcome)
        np.minimum.at(upto, state.series["partition"][series], clocks - 1)
    return upto


def _decide_first_terms(state: State, upto: I64) -> None:
    rows, partition, due = state.first_terms.undecided()
    if len(rows):
        state.first_terms.decide(rows[due < upto[partition]])


def _standing(context: Surroundings, present: Any, ts: int) -> Standing:
    """How a partition stands: who leads it, and what it counts for in that broker's gauges."""
    isr, replicas = present.isr or (), present.replicas or present.isr or ()
    led = present.leader_id is not None and present.leader_id >= 0
    under = led and len(isr) < len(replicas)
    under_min = under and len(isr) < context.min_isr(ts, present.min_isr)
    return Standing(present.leader_id, int(led), int(under), int(under_min))


def _led_by_deposed(state: State, context: Surroundings) -> set[int]:
    """Partitions of which a deposed leader tells HWs all the same."""
    if not (deposed := state.lanes["deposed"] == 1).any():
        return set()
    told = np.unique(np.concatenate([context.outcome.hw.lanes(), state.recent["lane"], state.carry["lane"]]))
    return {int(p) for p in state.lanes["partition"][told[deposed[told]]]}


def _settle(history: PartitionHistory, upto: int, context: Surroundings) -> int | None:
    """Decides everything due before `upto`, each in its place among the HWs that deposed leaders told by then; the
    earliest time at which something waits then."""
    due, seen = history.due(), None
    while True:
        rise = _next_rise(history, upto, context)
        if rise is not None and (due is None or rise.ts <= due):
            if rise == seen:
                place = (history.cluster, history.topic, history.partition)
                raise NoProgress.at(place, f"epoch {rise.term.epoch}", f"HW {rise.hw} at {rise.ts} us")
            history.zombie_rise(rise.term, rise.hw, rise.ts)
            due, seen = history.due(), rise
        elif due is not None and due < upto:
            due = history.settle(due + 1, context)
        else:
            return due


class Rise(NamedTuple):
    """A deposed leader's HW above what its term was judged by."""

    ts: int
    broker_id: int
    hw: int
    term: Term


def _next_rise(history: PartitionHistory, upto: int, context: Surroundings) -> Rise | None:
    """The first HW by which a deposed leader has committed more than its term was judged by."""
    found = []
    for term in history.outlived():
        if rise := context.rise(term, upto):
            hw, ts = rise
            found.append(Rise(ts, term.broker_id, hw, term))
    return min(found, key=lambda rise: (rise.ts, rise.broker_id, rise.term.start or 0, rise.hw), default=None)


def _depose(context: Surroundings, history: PartitionHistory, upto: int) -> None:
    """Looks after the leaders of terms that are over: whether they have heard of it by `upto`."""
    for term in history.outlived():
        lane = context.lane_in(term)
        if lane >= 0:
            context.state.lanes["deposed"][lane] = 1
        else:
            term.over = context.ended_by(term, upto)


def _ready(
    notes: list[tuple[OrderKey, Note]], upto: int
) -> tuple[list[tuple[OrderKey, Note]], list[tuple[OrderKey, Note]]]:
    ready = [n for n in notes if n[0][0] <= upto]
    return _in_order(ready), [n for n in notes if n[0][0] > upto] if len(ready) < len(notes) else []


def _in_order(notes: list[tuple[OrderKey, Note]]) -> list[tuple[OrderKey, Note]]:
    """Notes in canonical order. Within a source its numbers decide: what goes first between sources of one broker, in
    one millisecond, goes no earlier than what its own source told ahead of it."""
    notes.sort(key=_in_source)
    keys, before, after = [], None, 0
    for (clock, broker, later, source, epoch, seq), _ in notes:
        place = (clock, source, epoch)
        after = max(after, later) if place == before else later
        before = place
        keys.append((clock, broker, after, source, epoch, seq))
    order = sorted(range(len(notes)), key=keys.__getitem__)
    return [notes[k] for k in order]


def _in_source(note: tuple[OrderKey, Note]) -> tuple[int, str, int, int]:
    clock, _, _, source, epoch, seq = note[0]
    return clock, source, epoch, seq


def _remember(state: State, partition: int, present: Present, due: int | None) -> None:
    """Keeps the present of the partition where the tables of gold look for it, and when something of it falls due."""
    if due is None:
        state.due.pop(partition, None)
    else:
        state.due[partition] = due
    row = {
        "leader_id": present.leader_id, "leader_epoch": present.leader_epoch,
        "partition_epoch": present.partition_epoch,
    }  # fmt: skip
    for name, value in row.items():
        state.partitions[name][partition] = NULL32 if value is None else value
    if present.topic_id is not None:
        state.partitions["topic_id"][partition] = state.topic_ids.number(present.topic_id)
