"""What is told about whole brokers and configurations, as of any time: states of brokers, min ISR, lag."""

from __future__ import annotations

from bisect import insort
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from pipelines.replication.arrays import Records, Shape
from pipelines.replication.columns import NULL, NULL32
from pipelines.replication.kernel import BROKERS, CONFIGS, MS
from pipelines.replication.kernel import Timeline as Arrays

State = tuple[int, str, int | None]
CLUSTER_WIDE = -1
_SERVING = {"unfenced"}


@dataclass
class Timeline:
    """Entries by cluster number; `arrays` is the same for the kernel."""

    brokers: dict[tuple[int, int], list[State]] = field(default_factory=dict)
    configs: dict[tuple[int, int], list[tuple[int, int | None, int | None]]] = field(default_factory=dict)
    _arrays: Arrays | None = None

    def tell_broker(self, cluster: int, broker: int, ts: int, detail: str, epoch: int | None) -> None:
        """One state of one broker; a repeat (same epoch and detail) counts once, at its earliest time."""
        states = self.brokers.setdefault((cluster, broker), [])
        if epoch is not None:
            same = [s for s in states if s[1] == detail and s[2] == epoch]
            if same:
                if ts >= same[0][0]:
                    return
                states.remove(same[0])
        elif states and states[-1] == (ts, detail, epoch):
            return
        insort(states, (ts, detail, epoch), key=lambda s: (s[0], s[1], -1 if s[2] is None else s[2]))
        self._arrays = None

    def tell_config(self, cluster: int, topic: int, ts: int, min_isr: int | None, lag_max_ms: int | None) -> None:
        """A setting of a topic, or of the whole cluster (CLUSTER_WIDE)."""
        entries = self.configs.setdefault((cluster, topic), [])
        entry = (ts, min_isr, lag_max_ms)
        if entry not in entries:
            insort(entries, entry, key=lambda e: (e[0], e[1] or -1, e[2] or -1))
            self._arrays = None

    def broker_states(self, cluster: int, broker: int, as_of: int) -> list[State]:
        """States told of a broker up to a time."""
        return [s for s in self.brokers.get((cluster, broker), ()) if s[0] <= as_of]

    def config(self, cluster: int, topic: int, as_of: int) -> tuple[int | None, int | None]:
        """(min ISR, lag max ms) in force for a topic, from its own settings, then the cluster's."""
        found: list[int | None] = [None, None]
        for key in ((cluster, topic), (cluster, CLUSTER_WIDE)):
            for k in (0, 1):
                told = [e[k + 1] for e in self.configs.get(key, ()) if e[0] <= as_of and e[k + 1] is not None]
                if found[k] is None and told:
                    found[k] = told[-1]
        return found[0], found[1]

    def forget(self, cluster: int, before: int) -> None:
        """Drops entries that no later time can ask for: all but the last one before `before`."""
        for table in (self.brokers, self.configs):
            for key, entries in table.items():
                old = [e for e in entries if e[0] < before]
                if key[0] == cluster and len(old) > 32:
                    del entries[: len(old) - 32]
                    self._arrays = None

    def arrays(self) -> Arrays:
        """Sorted arrays for as-of look-ups in the kernel."""
        if self._arrays is None:
            self._arrays = self._build()
        return self._arrays

    def _build(self) -> Arrays:
        brokers = sorted(
            ((c << 32) | (b & 0xFFFFFFFF), ts, detail in _SERVING)
            for (c, b), states in self.brokers.items()
            for ts, detail, _ in states
        )
        configs = []
        for (c, t), entries in self.configs.items():
            min_isr, lag = NULL32, NULL
            for ts, told_min, told_lag in entries:
                min_isr = min_isr if told_min is None else told_min
                lag = lag if told_lag is None else told_lag * MS
                configs.append(((c << 32) | (t & 0xFFFFFFFF), ts, min_isr, lag))
        configs.sort(key=lambda e: (e[0], e[1]))
        return Arrays(_records(BROKERS, brokers), _records(CONFIGS, configs))


def _records(of: Shape, rows: Sequence[tuple[int, ...]]) -> Records:
    return np.array(rows, dtype=np.int64).reshape(len(rows), len(of.defaults))
