"""A state that goes on under other rules: what the old ones had set in terms that have begun is set by the new ones."""

from __future__ import annotations

import numpy as np

from pipelines.replication.compiled.types import NULL32
from pipelines.replication.metadata.brokers_and_configs import CLUSTER_WIDE
from pipelines.replication.rules import Rules
from pipelines.replication.state.state import State

_MIN_ISR, _LAG = 1, 2
"""Places in a timeline's configuration."""


def change_rules(state: State, old: Rules, new: Rules) -> None:
    """Settings of topics that nothing told are those of the new rules; facts that are final stay."""
    state.sources.grace_us = new.reorder_grace_ms * 1000
    lanes = state.lanes
    for number, (cluster,) in enumerate(state.clusters.all):
        before, after = old.of(str(cluster))[0], new.of(str(cluster))[0]
        mine = lanes["cluster"] == number
        if before.lag_max_ms != after.lag_max_ms:
            told = np.isin(lanes["topic"], _configured(state, number, _LAG, mine))
            lanes["lag_max"][mine & ~told & (lanes["lag_max"] == before.lag_max_ms * 1000)] = after.lag_max_ms * 1000
        if before.min_isr != after.min_isr:
            told = np.isin(lanes["topic"], _configured(state, number, _MIN_ISR, mine))
            unknown = mine & ~told & (lanes["told_min_isr"] == NULL32) & (lanes["min_isr"] == before.min_isr)
            lanes["min_isr"][unknown] = after.min_isr


def _configured(state: State, cluster: int, place: int, mine: np.ndarray) -> list[int]:
    """Topics of the cluster for which a configuration was told; all of them where it was told for the cluster."""
    told = [
        topic
        for (where, topic), entries in state.timeline.configs.items()
        if where == cluster and any(entry[place] is not None for entry in entries)
    ]
    return state.lanes["topic"][mine].tolist() if CLUSTER_WIDE in told else told
