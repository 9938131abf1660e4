"""The sampled LEOs that still hold: those of brokers that have answered lately."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.replication.compiled.records import Records
from pipelines.replication.compiled.types import I64, NEVER, NULL
from pipelines.replication.events.columns import int64_column
from pipelines.replication.metadata.broker_states import SILENT_STATES, BrokerNow
from pipelines.replication.state.state import State
from pipelines.replication.term.layout import REPLICAS
from schemas.levels import LEAN
from schemas.replication_events import WATCHER


def states_of_brokers(state: State) -> dict[int, dict[int, BrokerNow]]:
    """The state of each known broker, by cluster number, as of the cluster's present."""
    quiet, found = state.watched.silent(state.sources.grace_us), {}
    for number, (name,) in enumerate(state.clusters.all):
        rounds = {b: known[-1][0] for b, known in state.watched.rounds.get(str(name), {}).items() if known}
        silent = {broker for cluster, broker in quiet if cluster == name}
        found[number] = state.timeline.states_now(number, rounds, silent)
    return found


def answered_leos(state: State) -> Records:
    """Rows of REPLICAS, without the sampled LEOs of brokers that no longer answer."""
    silent = _silent(state)
    if not silent.any():
        return state.replicas.data
    replicas = state.replicas.data.copy()
    replicas[: len(silent), REPLICAS.at.leo][silent] = -1
    return replicas


def last_rounds(state: State, lanes: I64) -> I64:
    """The time up to which each lane's brokers have answered rounds in full, of those in its cluster that still answer.

    It is NEVER for lanes that samples do not fill; lane -1 is none.
    """
    known = np.full(len(lanes), NEVER)
    if not state.lanes.count or not (sampled := state.sampled_lanes()).any():
        return known
    silent = set(state.watched.silent(state.sources.grace_us))
    by_cluster = {
        state.clusters.find(cluster): min(
            (r[-1][0] for b, r in brokers.items() if (cluster, b) not in silent), default=0
        )
        for cluster, brokers in state.watched.rounds.items()
    }
    place = np.maximum(lanes, 0)
    at = np.flatnonzero((lanes >= 0) & sampled[place])
    known[at] = [by_cluster.get(cluster, 0) for cluster in state.lanes["cluster"][place[at]].tolist()]
    return known


def sampled_until(state: State, lanes: I64) -> I64:
    """The time up to which each lane (-1: none) is known: the last round of its leader that was read completely.

    It is NEVER for lanes that samples do not fill. Samples that still wait for others may change what comes after it.
    """
    until = np.full(len(lanes), NEVER)
    if not state.has_watcher or not state.lanes.count:
        return until
    lane, waiting = np.maximum(lanes, 0), _first_waiting(state)
    at = np.flatnonzero((lanes >= 0) & state.sampled_lanes()[lane])
    cluster, leader = (state.lanes[name][lane[at]] for name in ("cluster", "broker"))
    keys, of = np.unique((cluster << 32) | leader, return_inverse=True)
    names = [str(name) for (name,) in state.clusters.all]
    rounds = (
        state.watched.last_round(names[key >> 32], key & 0xFFFFFFFF, waiting.get(names[key >> 32], NEVER) - 1)
        for key in keys.tolist()
    )
    until[at] = np.fromiter(rounds, np.int64, len(keys))[of]
    return until


def _first_waiting(state: State) -> dict[str, int]:
    """The time of a watcher's first unread row, by cluster."""
    rows = state.waiting.select(["cluster", "source_id", "ts"])
    rows = rows.filter(pc.starts_with(rows["source_id"].cast(pa.string()), WATCHER))
    first = rows.group_by("cluster").aggregate([("ts", "min")])
    return dict(zip(first["cluster"].to_pylist(), int64_column(first["ts_min"]).tolist(), strict=True))


def unanswered(state: State, lanes: I64) -> npt.NDArray[np.bool_]:
    """A mask of sampled lanes (-1: none) without the LEO of the leader or of a replica in the ISR."""
    if not state.lanes.count or not (sampled := state.sampled_lanes()).any():
        return np.zeros(len(lanes), np.bool_)
    return _without_leos(state, lanes, sampled)


def untold(state: State, lanes: I64) -> npt.NDArray[np.bool_]:
    """The same mask of lanes from logs of level 2 or 3: they lack LEOs at first inside a term, and after a gap."""
    if not state.lanes.count:
        return np.zeros(len(lanes), np.bool_)
    of_logs = ~state.sampled_lanes() & (state.lanes["level"] >= LEAN)
    unknown, lane = _without_leos(state, lanes, of_logs), np.maximum(lanes, 0)
    doubted = state.lanes["isr"][lane] & state.lanes["unknown_leos"][lane] != 0
    doubted |= state.lanes["isr_known"][lane] == 0
    unknown |= doubted & (lanes >= 0) & of_logs[lane]
    return unknown


def _without_leos(state: State, lanes: I64, which: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """A mask of the lanes in `which` with an unknown LEO."""
    unknown = np.zeros(len(lanes), np.bool_)
    at = np.flatnonzero((lanes >= 0) & which[np.maximum(lanes, 0)])
    lane, width = lanes[at], state.replicas.width
    leo = answered_leos(state)[: state.replicas.count * width, REPLICAS.at.leo].reshape(-1, width)[lane]
    in_isr = (state.lanes["isr"][lane][:, None] >> np.arange(width)) & 1 == 1
    unknown[at] = (in_isr & (leo < 0)).any(axis=1) | (state.lanes["leader_leo"][lane] == NULL)
    return unknown


def _silent(state: State) -> Any:
    """Whether samples fill a slot and its broker no longer answers, by slot of all lanes."""
    count, width = state.lanes.count, state.replicas.width
    keys = [
        (cluster << 32) | broker
        for cluster, brokers in states_of_brokers(state).items()
        for broker, now in brokers.items()
        if now.state in SILENT_STATES and now.witness is not None
    ]
    if not keys or not count:
        return np.zeros(0, np.bool_)
    sampled = np.repeat(state.sampled_lanes(), width)
    of = (np.repeat(state.lanes["cluster"], width) << 32) | state.replicas["id"]
    return sampled & np.isin(of, keys)
