"""Sampled partitions as lanes: what reads the present and the facts of logs reads those of samples, too."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from pipelines.replication.compiled.records import RecordLayout, Records
from pipelines.replication.compiled.types import I64, MOST_REPLICAS, NEVER, NULL, NULL32
from pipelines.replication.facts.partition_hw import HwRows
from pipelines.replication.samples.observe import Found, HwFact, SyncFact
from pipelines.replication.samples.partition import SampledPartition
from pipelines.replication.state.state import SAMPLED, State
from pipelines.replication.term.layout import HW_ROWS, IDLE, IN_SYNC, LANES, LEADING, OUT_OF_SYNC, REPLICAS, SYNC_ROWS
from schemas.levels import POLLED

_COLUMN = {name: k for k, name in enumerate(LANES.names)}


class SampledLanes:
    """Writes the lanes of sampled partitions, and the facts as rows of the kernel, by lane."""

    def __init__(self, state: State, hw: HwRows) -> None:
        """`hw` takes the rows of HW_ROWS that have to go before a lane's slots may be other replicas'."""
        self._state, self._written = state, hw
        self._hw: list[tuple[int, ...]] = []
        self._sync: list[tuple[int, ...]] = []

    def add(self, number: int, one: SampledPartition, found: Found) -> None:
        """Writes the present of a partition, and adds its facts."""
        for leader in sorted(found.led | {one.leader} - {-1}):
            lane = self._lane(number, leader)
            if leader != one.leader:
                self._state.lanes["state"][lane] = IDLE
        for term in one.terms:
            lane = self._state.sampled_lane(number, term.broker)
            if lane >= 0 and term.broker != one.leader:
                self._state.lanes["state"][lane] = IDLE
        if one.leader >= 0 and one.gone:
            self._state.lanes["state"][self._lane(number, one.leader)] = IDLE
        elif one.leader >= 0:
            self._write(self._lane(number, one.leader), one)
        self.add_facts(number, found)

    def add_facts(self, number: int, found: Found) -> None:
        """Adds facts of a partition."""
        for fact in found.hw:
            row = self._hw_row(number, fact)  # which may hand on those of before
            self._hw.append(row)
        self._sync += [self._sync_row(number, fact) for fact in found.sync]

    def hw_rows(self) -> Records:
        """Rows of HW_ROWS, those of a lane side by side."""
        rows = np.array(self._hw, dtype=np.int64).reshape(len(self._hw), len(HW_ROWS.defaults))
        return np.ascontiguousarray(rows[np.argsort(rows[:, HW_ROWS.at.lane], kind="stable")])

    def sync_rows(self) -> Records:
        """Rows of SYNC_ROWS."""
        return np.array(self._sync, dtype=np.int64).reshape(len(self._sync), len(SYNC_ROWS.defaults))

    def _lane(self, number: int, broker: int) -> int:
        """The lane of a leader, made on first use."""
        state, known = self._state, self._state.lane_keys.count
        lane = int(state.lane_keys.number(np.array([(number << 32) | SAMPLED | broker], dtype=np.int64))[0])
        if lane == known:
            state.lanes.grow(known + 1)
            state.replicas.grow(known + 1)
            topic = int(state.partition_keys.keys[number]) >> 32
            cluster = state.clusters.number(state.topics.all[topic][0])
            made = {"partition": number, "broker": broker, "topic": topic, "cluster": cluster, "level": POLLED}
            self._put(lane, made)
        return lane

    def _put(self, lane: int, values: Mapping[str, int | None]) -> None:
        row = self._state.lanes.data[lane]
        for name, value in values.items():
            row[_COLUMN[name]] = NULL if value is None else value

    def _slots(self, lane: int, brokers: set[int]) -> dict[int, int]:
        """The slots of replicas, given on first use; none for those beyond MOST_REPLICAS.

        Replicas that are neither among these nor in the lane's ISR or assignment give theirs where there is no other.
        """
        ids = self._ids(lane)
        new = sorted(brokers.difference(ids.tolist()))
        if len(new) > np.count_nonzero(ids == NULL32) + MOST_REPLICAS - len(ids):
            self._free_slots(lane, ids, brokers)
        vacant = [*np.flatnonzero(ids == NULL32).tolist(), *range(len(ids), MOST_REPLICAS)]
        given = dict(zip(new, vacant, strict=False))
        lanes, replicas = self._state.lanes, self._state.replicas
        lanes["slots"][lane] = max([len(ids), *(slot + 1 for slot in given.values())])
        while replicas.width < lanes["slots"][lane]:
            replicas.widen(2 * replicas.width)
        for broker, slot in given.items():
            replicas["id"][lane * replicas.width + slot] = broker
        return {broker: slot for slot, broker in enumerate(self._ids(lane).tolist()) if broker in brokers}

    def _ids(self, lane: int) -> I64:
        """The replicas of a lane by slot, in place."""
        first = lane * self._state.replicas.width
        ids: I64 = self._state.replicas["id"][first : first + int(self._state.lanes["slots"][lane])]
        return ids

    def _free_slots(self, lane: int, ids: I64, brokers: set[int]) -> None:
        """Frees what the lane and these replicas do not need; what is known there of others goes with them."""
        self._written.add(self.hw_rows())
        self._hw = []
        used = self._state.lanes["isr"][lane] | self._state.lanes["assigned"][lane]
        kept = (used >> np.arange(len(ids)) & 1 == 1) | np.isin(ids, list(brokers))
        first = lane * self._state.replicas.width
        self._state.replicas.data[first : first + len(ids)][~kept] = REPLICAS.defaults

    def _write(self, lane: int, one: SampledPartition) -> None:
        leader = one.sampled.get(one.leader)
        answers = leader is not None and leader.answers
        slots = self._slots(lane, {*(one.isr or ()), *(one.replicas or ()), *one.sampled})
        self._put(lane, {
            "state": LEADING, "home": one.source, "frozen": int(one.frozen), "leader_epoch": one.epoch,
            "topic_id": -1 if one.topic_id is None else self._state.topic_ids.number(one.topic_id),
            "term_start": one.began, "hw": one.hw, "leader_leo": one.leo if answers else None,
            "isr": _mask(slots, one.isr), "isr_known": int(one.isr is not None),
            "assigned": _mask(slots, one.replicas), "assigned_count": len(one.replicas or ()),
            "min_isr": NULL32 if one.min_isr is None else one.min_isr, "min_isr_told": int(self._told(lane)),
            "last_ts": one.seen,
            "stalled_since": one.stalled_since,
        })  # fmt: skip
        replicas, width = self._state.replicas, self._state.replicas.width
        whole = slice(lane * width, (lane + 1) * width)
        replicas["leo"][whole], replicas["caught_up"][whole], replicas["sync"][whole] = -1, NULL, IN_SYNC
        for broker, slot in slots.items():
            at, replica = lane * width + slot, one.sampled.get(broker)
            leo = replica.leo if replica is not None and replica.answers else -1
            behind = one.caught_up(leo) if leo >= 0 and broker != one.leader else None
            replicas["leo"][at] = leo
            replicas["caught_up"][at] = NULL if behind is None else behind[1]
            replicas["sync"][at] = OUT_OF_SYNC if replica is not None and replica.out_of_sync else IN_SYNC

    def _told(self, lane: int) -> bool:
        """Whether min.insync.replicas of the topic of a lane itself is known."""
        cluster, topic = (int(self._state.lanes[name][lane]) for name in ("cluster", "topic"))
        return self._state.timeline.tells_min_isr(cluster, topic, NEVER)

    def _hw_row(self, number: int, fact: HwFact) -> tuple[int, ...]:
        lane = self._lane(number, fact.leader)
        slots = self._slots(lane, {*fact.isr, *fact.holding})
        values = {
            "lane": lane, "ts": fact.ts, "kind": fact.kind, "hw": fact.hw, "reported": fact.reported,
            "leader_leo": fact.leo, "isr": _mask(slots, fact.isr), "holding": _mask(slots, fact.holding),
            "frozen": int(fact.frozen), "agreement": fact.agreement, "leader_epoch": fact.epoch,
            "topic_id": -1 if fact.topic_id is None else self._state.topic_ids.number(fact.topic_id), "level": POLLED,
        }  # fmt: skip
        return _record(HW_ROWS, values)

    def _sync_row(self, number: int, fact: SyncFact) -> tuple[int, ...]:
        lane = self._lane(number, fact.leader)
        values = {
            "lane": lane, "ts": fact.ts, "replica": fact.replica,
            "state": OUT_OF_SYNC if fact.out_of_sync else IN_SYNC,
            "previous": IN_SYNC if fact.out_of_sync else OUT_OF_SYNC, "in_isr": fact.in_isr,
            "caught_up": fact.caught_up, "leo": fact.leo, "leader_leo": fact.leader_leo, "reason": fact.reason,
            "leader_epoch": fact.epoch, "level": POLLED,
            "topic_id": -1 if fact.topic_id is None else self._state.topic_ids.number(fact.topic_id),
        }  # fmt: skip
        return _record(SYNC_ROWS, values)


def _mask(slots: dict[int, int], brokers: tuple[int, ...] | None) -> int:
    return sum(1 << slots[broker] for broker in set(brokers or ()) if broker in slots)


def _record(layout: RecordLayout, values: Mapping[str, int | None]) -> tuple[int, ...]:
    """A row with its defaults, None as NULL."""
    row = dict(zip(layout.names, layout.defaults, strict=True))
    row |= {name: NULL if value is None else value for name, value in values.items()}
    return tuple(row.values())
