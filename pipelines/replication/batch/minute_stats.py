"""silver/minute_stats: what one micro-batch adds to each broker's minutes, mergeable by addition."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from pipelines.replication.batch.read import MINUTE_US, Batch, stat_place
from pipelines.replication.batch.run_terms import Outcome
from pipelines.replication.compiled.types import I32, I64
from pipelines.replication.facts.partition_hw import HwRows
from pipelines.replication.facts.tables import SCHEMAS
from pipelines.replication.state.state import State
from pipelines.replication.term.layout import OUT_OF_SYNC, REPLICA_HW
from schemas.minute_stats import BOUNDS_MS, BOUNDS_RECORDS

Place = tuple[str, int, int]
"""cluster, broker, minute in microseconds"""


@dataclass
class Minutes:
    """Counts and histograms by place."""

    counts: dict[Place, Counter[str]] = field(default_factory=dict)
    append_to_hw: dict[Place, I64] = field(default_factory=dict)
    lag: dict[Place, I64] = field(default_factory=dict)

    def add(self, cluster: str, broker: int | None, ts: int, name: str, count: int = 1) -> None:
        """Adds to one named count of the minute of `ts` (microseconds)."""
        place = (cluster, -1 if broker is None else broker, ts // MINUTE_US * MINUTE_US)
        self.counts.setdefault(place, Counter())[name] += count

    def add_outcome(self, state: State, batch: Batch, outcome: Outcome) -> None:
        """What the kernel counted by itself."""
        for row, key in enumerate(batch.stat_keys):
            cluster, broker, minute = stat_place(int(key))
            place = (str(state.clusters.all[cluster][0]), broker, minute)
            counter = self.counts.setdefault(place, Counter())
            counter["events"] += int(outcome.stats.events[row])
            self.append_to_hw[place] = self.append_to_hw.get(place, 0) + outcome.stats.append_to_hw[row]
            self.lag[place] = self.lag.get(place, 0) + outcome.stats.lag[row]

    def add_hw(self, state: State, rows: HwRows) -> None:
        """Rows of silver/partition_hw by agreement."""
        for key, word, count in rows.counts():
            cluster, broker, minute = stat_place(key)
            self.add(str(state.clusters.all[cluster][0]), broker, minute, word, count)

    def add_sync(self, state: State, rows: dict[str, Any]) -> None:
        """The change in the number of replicas out of sync."""
        rows = {n: v[rows["state"] != REPLICA_HW] for n, v in rows.items()}
        came = (rows["state"] == OUT_OF_SYNC).astype(np.int8) - (rows["previous"] == OUT_OF_SYNC)
        for step in (1, -1):
            at = came == step
            code = np.zeros(int(at.sum()), dtype=np.int64)
            self._add_coded(state, rows["lane"][at], rows["ts"][at], code, {0: "out_of_sync_change"}, step)

    def add_at(self, state: State, cluster: I32, broker: I32, ts: I64, name: str) -> None:
        """Adds to one named count of the minute of each `ts`."""
        self._add_places(state, cluster, broker, ts, np.zeros(len(ts)), {0: name})

    def _add_coded(self, state: State, lanes: I32, ts: I64, code: Any, words: dict[int, str], step: int = 1) -> None:
        self._add_places(state, state.lanes["cluster"][lanes], state.lanes["broker"][lanes], ts, code, words, step)

    def _add_places(
        self, state: State, cluster: Any, broker: Any, ts: I64, code: Any, words: dict[int, str], step: int = 1
    ) -> None:
        place = np.stack([v.astype(np.int64) for v in (cluster, broker, ts // MINUTE_US, code)])
        if not place.shape[1]:
            return
        low = place.min(axis=1)
        span = place.max(axis=1) - low + 1
        flat = np.ravel_multi_index(tuple(place - low[:, None]), tuple(int(s) for s in span))
        for value, count in zip(*np.unique(flat, return_counts=True), strict=True):
            c, b, minute, word = (int(v) for v in np.array(np.unravel_index(value, span)) + low)
            self.add(str(state.clusters.all[c][0]), b, minute * MINUTE_US, words[word], step * int(count))

    def table(self, batch_id: int) -> pa.Table:
        """Rows of silver/minute_stats, places without anything left out."""
        rows = []
        for place in sorted(set(self.counts) | set(self.append_to_hw)):
            counts = {k: v for k, v in self.counts.get(place, Counter()).items() if v}
            told, lag = self.append_to_hw.get(place), self.lag.get(place)
            if counts or (told is not None and told.any()):
                rows.append({
                    "cluster": place[0], "broker_id": place[1], "minute": place[2], "batch_id": batch_id,
                    "counts": sorted(counts.items()),
                    "append_to_hw": (told if told is not None else np.zeros(len(BOUNDS_MS) + 1, int)).tolist(),
                    "lag": (lag if lag is not None else np.zeros(len(BOUNDS_RECORDS) + 1, int)).tolist(),
                })  # fmt: skip
        return pa.Table.from_pylist(rows, schema=SCHEMAS["minute_stats"])
