"""The lag of followers: the worst as rows of `gold/replica_lag`, and those of each broker."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pipelines.replication.compiled.types import I64, NEVER, NULL, NULL32
from pipelines.replication.facts.answers import answered_leos, sampled_until
from pipelines.replication.facts.broker_counts import Broker, Row
from pipelines.replication.facts.columns import NameColumns, bigints, ints, times, word_column
from pipelines.replication.facts.partition_health import led_lanes
from pipelines.replication.state.state import State
from pipelines.replication.term.layout import REPLICAS, STATES
from schemas import replica_lag
from schemas.levels import POLLED

TELLS_FETCHES = (1, 3)
"""Levels at which a follower without a LEO has not fetched in this term; at others nothing shows that."""


class Followers(NamedTuple):
    """The followers that leaders know, an array per value; times in microseconds, NULL where not known."""

    lane: I64
    cluster: I64
    replica: I64
    in_isr: npt.NDArray[np.bool_]
    sync: I64
    leo: I64
    leader_leo: I64
    lag: I64
    """In records."""
    lag_us: I64
    as_of: I64

    def where(self, keep: Any) -> Followers:
        return Followers(*(values[keep] for values in self))


def followers(state: State, low_watermarks: I64) -> Followers:
    """The followers in every partition with a leader; `low_watermarks` are those of the sources by number."""
    width, lanes, slots = state.replicas.width, state.lanes, state.replicas
    led = led_lanes(state, low_watermarks)
    lane = np.repeat(led[led >= 0], width)
    slot = np.tile(np.arange(width), np.count_nonzero(led >= 0))
    at = lane * width + slot
    assigned = (lanes["assigned"][lane] >> slot) & 1 == 1
    counts = np.where(lanes["assigned"][lane] == 0, slots["leo"][at] >= 0, assigned)
    keep = counts & (slots["id"][at] != NULL32) & (slots["id"][at] != lanes["broker"][lane])
    lane, slot, at = lane[keep], slot[keep], at[keep]
    leo, leader_leo, caught_up = (
        answered_leos(state)[at, REPLICAS.at.leo],
        lanes["leader_leo"][lane],
        slots["caught_up"][at],
    )
    home = lanes["home"][lane]
    now = np.where(home < 0, NULL, low_watermarks[home]) if len(low_watermarks) else np.full(len(home), NULL)
    now = np.minimum(now, sampled_until(state, lane))
    known = (leo >= 0) & (leader_leo != NULL)
    caught_up = np.where(known | (lanes["level"][lane] != POLLED), caught_up, NULL)
    lag = np.where(known, np.maximum(leader_leo - leo, 0), NULL)
    behind_for = np.where((caught_up == NULL) | (now == NULL), NULL, np.maximum(now - caught_up, 0))
    return Followers(
        lane,
        lanes["cluster"][lane],
        slots["id"][at].astype(np.int64),
        ((lanes["isr"][lane] >> slot) & 1 == 1) & (lanes["isr_known"][lane] == 1),
        slots["sync"][at],
        np.where(leo >= 0, leo, NULL),
        leader_leo,
        lag,
        np.where(lag == 0, 0, behind_for),
        now,
    )


def worst(state: State, found: Followers, present: I64) -> pa.Table:
    """The worst followers of each cluster, in the schema of `gold/replica_lag`.

    `present`: by cluster number the event time (microseconds) of their rows, below 0 where there is none.
    """
    absent = found.leo == NULL
    behind = np.where(absent, np.isin(state.lanes["level"][found.lane], TELLS_FETCHES), found.lag > 0)
    found = found.where(behind & (present[found.cluster] >= 0))
    order = np.lexsort((found.replica, found.lane, -found.lag_us, -found.lag, found.leo != NULL, found.cluster))
    found = found.where(order)
    first = np.searchsorted(found.cluster, found.cluster)
    return _table(state, found.where(np.arange(len(first)) - first < replica_lag.WORST), present)


def _table(state: State, found: Followers, present: I64) -> pa.Table:
    lanes, lane = state.lanes, found.lane
    keys = state.partition_keys.keys[lanes["partition"][lane]]
    sampled = lanes["level"][lane] == POLLED
    made = {
        **NameColumns(state).columns(lanes["topic"][lane], lanes["topic_id"][lane]),
        "partition": pa.array((keys & 0xFFFFFFFF).astype(np.int32)),
        "replica_id": pa.array(found.replica),
        "ts": times(present[found.cluster], nullable=False),
        "as_of": times(found.as_of),
        "leader_id": ints(lanes["broker"][lane]),
        "leader_epoch": ints(lanes["leader_epoch"][lane]),
        "state": word_column(np.where(sampled & (found.leo == NULL), -1, found.sync), STATES),
        "in_isr": pa.array(found.in_isr, mask=lanes["isr_known"][lane] != 1),
        "leo": bigints(found.leo),
        "leader_leo": bigints(found.leader_leo),
        "lag_records": bigints(found.lag),
        "lag_ms": bigints(np.where(found.lag_us == NULL, NULL, found.lag_us // 1000)),
        "level": ints(lanes["level"][lane]),
    }
    return pa.table([made[f.name].cast(f.type) for f in replica_lag.ARROW], schema=replica_lag.ARROW)


def lags_of_brokers(state: State, behind: Followers) -> dict[Broker, Row]:
    """The columns of `gold/broker_lag` of every broker that follows anybody."""
    names = [str(name[0]) for name in state.clusters.all]
    key = (behind.cluster << 32) | behind.replica
    each, of = np.unique(key, return_inverse=True)
    known, lag_known = behind.leo != NULL, behind.lag != NULL
    followed, knows, lags = (np.bincount(of, mask, len(each)).astype(int) for mask in (of >= 0, known, lag_known))
    is_behind = np.bincount(of, lag_known & (behind.lag > 0), len(each)).astype(int)
    total, most, most_us = np.zeros(len(each), np.int64), np.full(len(each), NULL), np.full(len(each), NULL)
    lowest = np.full(len(each), NEVER)
    np.minimum.at(lowest, of, state.lanes["level"][behind.lane])
    np.add.at(total, of[lag_known], behind.lag[lag_known])
    np.maximum.at(most, of, behind.lag)
    np.maximum.at(most_us, of, behind.lag_us)
    return {
        (names[number >> 32], number & 0xFFFFFFFF): {
            "followed": int(followed[k]), "known": int(knows[k]), "behind": int(is_behind[k]),
            "lag_records": int(most[k]) if lags[k] else None,
            "lag_records_sum": int(total[k]) if lags[k] else None,
            "lag_ms": int(most_us[k]) // 1000 if most_us[k] != NULL else None,
            "level": int(lowest[k]),
        }
        for k, number in enumerate(each.tolist())
    }  # fmt: skip
