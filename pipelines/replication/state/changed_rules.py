"""A restored state that goes on under other rules: settings that came from the old rules are set by the new ones."""

from __future__ import annotations

import numpy as np

from pipelines.replication.compiled.types import NULL32
from pipelines.replication.metadata.brokers_and_configs import CLUSTER_WIDE
from pipelines.replication.rules import Rules
from pipelines.replication.state.state import State

_MIN_ISR, _LAG = 1, 2
"""Where a timeline's Config has these settings."""


def change_rules(state: State, old: Rules, new: Rules) -> None:
    """Change the settings of running terms that no event has set; final facts stay."""
    state.sources.grace_us = new.reorder_grace_ms * 1000
    lanes = state.lanes
    for number, (cluster,) in enumerate(state.clusters.all):
        before, after = old.of(str(cluster))[0], new.of(str(cluster))[0]
        in_cluster = lanes["cluster"] == number
        if before.lag_max_ms != after.lag_max_ms:
            configured = np.isin(lanes["topic"], _configured_topics(state, number, _LAG, in_cluster))
            by_rule = in_cluster & ~configured & (lanes["lag_max"] == before.lag_max_ms * 1000)
            lanes["lag_max"][by_rule] = after.lag_max_ms * 1000
        if before.min_isr != after.min_isr:
            configured = np.isin(lanes["topic"], _configured_topics(state, number, _MIN_ISR, in_cluster))
            by_leader = lanes["reported_min_isr"] != NULL32
            by_rule = in_cluster & ~configured & ~by_leader & (lanes["min_isr"] == (before.min_isr or 1))
            lanes["min_isr"][by_rule] = after.min_isr or 1
            lanes["min_isr_told"][by_rule] = int(after.min_isr is not None)


def _configured_topics(state: State, cluster: int, setting: int, in_cluster: np.ndarray) -> list[int]:
    """Topics of the cluster with a `config` event of this setting; all of them where there is one of the cluster."""
    topics = [
        topic
        for (where, topic), entries in state.timeline.configs.items()
        if where == cluster and any(entry[setting] is not None for entry in entries)
    ]
    return state.lanes["topic"][in_cluster].tolist() if CLUSTER_WIDE in topics else topics
