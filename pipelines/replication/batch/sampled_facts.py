"""Facts of samples as rows of the kernel, by lane: what reads the facts and the present of logs reads these, too."""

from __future__ import annotations

import numpy as np

from pipelines.replication.compiled.records import RecordArray, Records, as_records, records
from pipelines.replication.compiled.types import I64
from pipelines.replication.samples.bundles import Counts, Found
from pipelines.replication.samples.kernel import name_replicas
from pipelines.replication.samples.layout import CUT, LED, PREDICTED
from pipelines.replication.state.state import SAMPLED as SAMPLED_LANE
from pipelines.replication.state.state import State
from pipelines.replication.term.layout import HW_ROWS, SYNC_ROWS
from schemas.levels import POLLED

_LEAST_ROOM = 1024


class SampledFacts:
    """Takes what the kernel finds, and gives each leader a lane."""

    def __init__(self, state: State) -> None:
        self._state = state
        self.predicted: dict[int, bool] = {}
        self.cut = records(CUT, 0)
        self._hw, self._errors, self._sync = [records(HW_ROWS, 0)], [np.zeros(0, np.int64)], [records(SYNC_ROWS, 0)]
        self.make_room(0, 0)

    def make_room(self, rows: int, members: int) -> None:
        """Make room for what so many rows of one partition may add, or of partitions with so many members in all."""
        self._rows = {
            HW_ROWS: np.empty((max(2 * rows, _LEAST_ROOM), len(HW_ROWS.defaults)), np.int64),
            SYNC_ROWS: np.empty((max(2 * (rows + 1) * (members + 1), _LEAST_ROOM), len(SYNC_ROWS.defaults)), np.int64),
            LED: np.empty((max(rows, _LEAST_ROOM), len(LED.defaults)), np.int64),
            PREDICTED: np.empty((max(rows, _LEAST_ROOM), len(PREDICTED.defaults)), np.int64),
            CUT: np.empty((max(rows, _LEAST_ROOM), len(CUT.defaults)), np.int64),
        }
        hw, sync, led, predicted, cut = (as_records(layout, rows) for layout, rows in self._rows.items())
        counts = Counts(*(np.zeros(1, dtype=np.int64) for _ in Counts._fields))
        self.room = Found(hw, np.zeros(len(hw), dtype=np.int64), sync, led, predicted, cut, counts)

    def lanes(self) -> tuple[RecordArray, RecordArray]:
        """The lanes and their replicas, with a slot for every member of a sampled partition."""
        state = self._state
        while state.replicas.width < state.sampled.records["members"].max(initial=0):
            state.replicas.widen(2 * state.replicas.width)
        count = state.lanes.count
        return state.lanes.records[:count], state.replicas.records[: count * state.replicas.width]

    def take(self) -> None:
        """Take what was found, with lanes for its leaders."""
        state, counts = self._state, [int(count[0]) for count in self.room.counts]
        hw, sync, led, predicted, cut = (rows[:n] for rows, n in zip(self._rows.values(), counts, strict=True))
        lanes = self._lanes(led[:, LED.at.number], led[:, LED.at.leader])
        for found in (hw[:, HW_ROWS.at.lane], sync[:, SYNC_ROWS.at.lane], state.sampled.records["lane"]):
            begun = np.flatnonzero(found < -1)
            found[begun] = lanes[-2 - found[begun]]
        self.name(state.sampled.find(led[:, LED.at.number]), lanes)
        self._hw.append(hw.copy())
        self._errors.append(self.room.errors[: len(hw)].copy())
        self._sync.append(sync.copy())
        self.predicted |= {position: outside == 1 for position, outside in predicted.tolist()}
        self.cut = np.concatenate([self.cut, cut])
        for count in self.room.counts:
            count[0] = 0

    def take_hws(self) -> tuple[Records, I64]:
        """(rows of HW_ROWS by lane, how far their times may be off) that were found since the last time."""
        hw, errors = np.concatenate(self._hw), np.concatenate(self._errors)
        del self._hw[1:], self._errors[1:]
        order = np.argsort(hw[:, HW_ROWS.at.lane], kind="stable")
        return np.ascontiguousarray(hw[order]), errors[order]

    def changes(self) -> Records:
        """All rows of SYNC_ROWS by partition."""
        sync = np.concatenate(self._sync)
        return sync[np.argsort(self._state.lanes["partition"][sync[:, SYNC_ROWS.at.lane]], kind="stable")]

    def name_all(self, partitions: I64) -> None:
        """Write which replicas have the slots of the lanes of these partitions, by record."""
        lanes = self._state.sampled.records["lane"][partitions]
        self.name(partitions[lanes >= 0], lanes[lanes >= 0])

    def name(self, partitions: I64, lanes: I64) -> None:
        """Write which replicas have the slots of lanes."""
        name_replicas(partitions, lanes, self._state.sampled.store(), *self.lanes())

    def _lanes(self, numbers: I64, leaders: I64) -> I64:
        """The lanes of leaders, made on first use."""
        state, known = self._state, self._state.lane_keys.count
        keys, which = np.unique((numbers << 32) | SAMPLED_LANE | leaders, return_inverse=True)
        lanes = state.lane_keys.number(keys).astype(np.int64)[which]
        state.lanes.grow(state.lane_keys.count)
        state.replicas.grow(state.lane_keys.count)
        new = state.lane_keys.keys[known:]
        partition = new >> 32
        topic = state.partition_keys.keys[partition] >> 32
        cluster = [state.clusters.number(state.topics.all[of][0]) for of in topic.tolist()]
        made = {"partition": partition, "broker": new & (SAMPLED_LANE - 1), "topic": topic, "cluster": cluster}
        for name, values in (made | {"level": POLLED}).items():
            state.lanes[name][known:] = values
        return lanes
