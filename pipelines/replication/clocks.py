"""How the clocks of brokers stand to the controller's, by the partition epochs of which both told.

What a broker tells of a partition epoch follows from what the controller recorded, by a way of some milliseconds. A
difference within the race window is that way; a larger one, up to the grace, is one of clocks.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from pipelines.replication.arrays import Arrays, Records, Shape
from pipelines.replication.columns import BY_CONTROLLER, CODE, I64
from pipelines.replication.intake import Batch
from pipelines.replication.lanes import APART, HEARD, RECORDED
from pipelines.replication.rules import Rules
from pipelines.replication.state import State

KEPT_GRACES = 6
"""What one tells comes no later than two graces after what the other tells of it."""
_BY_BROKER = [CODE[name] for name in ("leader", "follower", "isr")]


def compare_clocks(state: State, batch: Batch, rules: Rules) -> None:
    """Takes in what controllers and brokers tell of partition epochs."""
    c = batch.columns
    rows = np.flatnonzero(batch.accepted.counts(batch.rare) & (c.partition_epoch >= 0))
    if not len(rows):
        return
    grace, race = rules.reorder_grace_ms * 1000, rules.race_window_ms * 1000
    horizon = min(state.sources.settled.values(), default=-1) - KEPT_GRACES * grace
    key = (state.series["partition"][batch.series[batch.rare[rows]]] << 32) | c.partition_epoch[rows]
    told = np.stack([key, c.ts[rows], c.topic_id[rows], c.broker[rows]], axis=1).astype(np.int64)
    by_controller = (c.kind[rows] == CODE["election"]) | (c.isr_from_whom[rows] == BY_CONTROLLER)
    by_broker = np.isin(c.kind[rows], _BY_BROKER) & ~by_controller
    recorded = np.concatenate([_rows(state.recorded), told[by_controller][:, :3]])
    heard = np.concatenate([_rows(state.heard), told[by_broker]])
    recorded, heard = (_first(rows[rows[:, 1] > horizon], 1) for rows in (recorded, heard))
    matched, ahead, since = _match(heard, recorded)
    near = (ahead >= 0) & (ahead <= race)
    told = np.stack([_place(heard[matched]), since, np.where(near, 0, ahead)], axis=1)
    _note_apart(state, told[np.abs(ahead) <= grace], horizon)
    state.recorded = _arrays(RECORDED, recorded[np.lexsort((recorded[:, 1], recorded[:, 0]))])
    state.heard = _arrays(HEARD, heard[~matched])


def _match(heard: Records, recorded: Records) -> tuple[npt.NDArray[np.bool_], I64, I64]:
    """(which of `heard` the controller told too; of those by how much they are ahead, and since when that is known)."""
    matched = np.zeros(len(heard), dtype=np.bool_)
    if not len(recorded) or not len(heard):
        return matched, np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
    key, topic_id = (np.concatenate([recorded[:, k], heard[:, k]]) for k in (0, 2))
    number = _numbers(_numbers(key) * (topic_id.max() + 2) + topic_id + 1)
    ts = np.full(number.max() + 1, -1, dtype=np.int64)
    ts[number[: len(recorded)]] = recorded[:, 1]
    then = ts[number[len(recorded) :]]
    matched = then >= 0
    return matched, (heard[:, 1] - then)[matched], np.maximum(heard[:, 1], then)[matched]


def _numbers(values: I64) -> I64:
    """Small numbers for values, equal ones for equal ones."""
    numbers: I64 = np.unique(values, return_inverse=True)[1].astype(np.int64)
    return numbers


def _place(heard: Records) -> I64:
    """The key of `apart`: partition and broker."""
    key: I64 = (heard[:, 0] >> 32 << 32) | (heard[:, 3] & 0xFFFFFFFF)
    return key


def _note_apart(state: State, told: Records, horizon: int) -> None:
    """Keeps differences of clocks, and of brokers that had one also that there is none any more."""
    known = _rows(state.apart)
    apart = np.concatenate([known[:, 0], told[told[:, 2] != 0, 0]])
    told = told[np.isin(told[:, 0], apart)]
    if len(told):
        rows = np.unique(np.concatenate([known, told]), axis=0)
        old = rows[:, 1] <= horizon
        replaced = np.append((rows[1:, 0] == rows[:-1, 0]) & old[1:], False)
        state.apart = _arrays(APART, rows[~replaced])


def _rows(arrays: Arrays) -> Records:
    rows: Records = arrays.data[: arrays.count]
    return rows


def _arrays(of: Shape, rows: Records) -> Arrays:
    made = Arrays(of)
    made.grow(len(rows))
    made.data[: len(rows)] = rows
    return made


def _first(rows: Records, ts: int) -> Records:
    """Of rows that differ in nothing but their time the earliest."""
    rest = [k for k in range(rows.shape[1]) if k != ts]
    rows = rows[np.lexsort((rows[:, ts], *(rows[:, k] for k in reversed(rest))))]
    fresh = np.ones(len(rows), dtype=np.bool_)
    fresh[1:] = (np.diff(rows[:, rest], axis=0) != 0).any(axis=1)
    earliest: Records = rows[fresh]
    return earliest
