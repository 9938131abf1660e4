"""Sampled partitions as lanes: what reads the present and the facts of logs reads those of samples, too."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from pipelines.replication.compiled.records import RecordLayout, Records
from pipelines.replication.compiled.types import NULL, NULL32
from pipelines.replication.samples.observe import Found, HwFact, SyncFact
from pipelines.replication.samples.partition import SampledPartition
from pipelines.replication.state.state import SAMPLED, State
from pipelines.replication.term.layout import HW_ROWS, IDLE, IN_SYNC, LANES, LEADING, OUT_OF_SYNC, SYNC_ROWS
from schemas.levels import POLLED

MOST_REPLICAS = 32
_COLUMN = {name: k for k, name in enumerate(LANES.names)}


class SampledLanes:
    """Writes the lanes of sampled partitions, and the facts as rows of the kernel, by lane."""

    def __init__(self, state: State) -> None:
        self._state = state
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
        self._hw += [self._hw_row(number, fact) for fact in found.hw]
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

    def _slot(self, lane: int, broker: int) -> int:
        """The slot of a replica, given on first use. Raises ValueError where there are more than a mask has bits."""
        lanes, width = self._state.lanes, self._state.replicas.width
        count = int(lanes["slots"][lane])
        ids = self._state.replicas["id"][lane * width : lane * width + count].tolist()
        if broker in ids:
            return int(ids.index(broker))
        if count == MOST_REPLICAS:
            raise ValueError("a partition names more than 32 replicas; hwmark follows up to 32 per partition")
        if count == width:
            self._state.replicas.widen(2 * width)
        self._state.replicas["id"][lane * self._state.replicas.width + count] = broker
        lanes["slots"][lane] = count + 1
        return count

    def _mask(self, lane: int, brokers: tuple[int, ...] | None) -> int:
        return sum(1 << self._slot(lane, broker) for broker in set(brokers or ()))

    def _write(self, lane: int, one: SampledPartition) -> None:
        leader = one.sampled.get(one.leader)
        answers = leader is not None and leader.answers
        self._put(lane, {
            "state": LEADING, "home": one.source, "frozen": int(one.frozen), "leader_epoch": one.epoch,
            "topic_id": -1 if one.topic_id is None else self._state.topic_ids.number(one.topic_id),
            "term_start": one.began, "hw": one.hw, "leader_leo": one.leo if answers else None,
            "isr": self._mask(lane, one.isr), "isr_known": int(one.isr is not None),
            "assigned": self._mask(lane, one.replicas), "assigned_count": len(one.replicas or ()),
            "min_isr": NULL32 if one.min_isr is None else one.min_isr, "last_ts": one.seen,
            "stalled_since": one.stalled_since,
        })  # fmt: skip
        kept = {b: self._slot(lane, b) for b in {*(one.isr or ()), *(one.replicas or ()), *one.sampled}}
        replicas, width = self._state.replicas, self._state.replicas.width
        for broker, slot in kept.items():
            at, replica = lane * width + slot, one.sampled.get(broker)
            leo = replica.leo if replica is not None and replica.answers else -1
            behind = one.caught_up(leo) if leo >= 0 and broker != one.leader else None
            replicas["leo"][at] = leo
            replicas["caught_up"][at] = NULL if behind is None else behind[1]
            replicas["sync"][at] = OUT_OF_SYNC if replica is not None and replica.out_of_sync else IN_SYNC

    def _hw_row(self, number: int, fact: HwFact) -> tuple[int, ...]:
        lane = self._lane(number, fact.leader)
        values = {
            "lane": lane, "ts": fact.ts, "kind": fact.kind, "hw": fact.hw, "reported": fact.reported,
            "leader_leo": fact.leo, "isr": self._mask(lane, fact.isr), "holding": self._mask(lane, fact.holding),
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


def _record(layout: RecordLayout, values: Mapping[str, int | None]) -> tuple[int, ...]:
    """A row with its defaults, None as NULL."""
    row = dict(zip(layout.names, layout.defaults, strict=True))
    row |= {name: NULL if value is None else value for name, value in values.items()}
    return tuple(row.values())
