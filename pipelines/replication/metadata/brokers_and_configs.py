"""What is told about whole brokers and configurations, as of any time: states of brokers, min ISR, lag."""

from __future__ import annotations

from bisect import insort
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from pipelines.replication.compiled.records import RecordLayout, Records
from pipelines.replication.compiled.types import MS, NULL, NULL32
from pipelines.replication.kafka_versions import OF_SOFTWARE
from pipelines.replication.metadata.layout import APART, BROKERS, CONFIGS, RECORDED, VERSIONS_TOLD
from pipelines.replication.metadata.layout import Timeline as Arrays

State = tuple[int, str, int | None, str, int, int]
"""(ts, detail, broker epoch) of a broker, and the row that told it: source id, source epoch, source seq."""
Config = tuple[int, int | None, int | None, int]
"""(ts, min ISR, lag max in ms, number of the topic id or -1)"""
Version = tuple[int, int, int]
"""(ts, what a broker told of the rules it follows, see versions.Told, and that)"""
CLUSTER_WIDE = -1
LOG_DIR_OFFLINE = "log_dir_offline"
REPLAY_US = 10_000_000
"""A controller that starts again tells old states anew, in one go from the registration of their broker on."""


@dataclass
class Timeline:
    """Entries by cluster number; `arrays` is the same for the kernel."""

    brokers: dict[tuple[int, int], list[State]] = field(default_factory=dict)
    configs: dict[tuple[int, int], list[Config]] = field(default_factory=dict)
    versions: dict[tuple[int, int], list[Version]] = field(default_factory=dict)
    _states: dict[tuple[int, int], list[State]] = field(default_factory=dict, repr=False)
    _arrays: Arrays | None = field(default=None, repr=False)

    def tell_broker(
        self, cluster: int, broker: int, ts: int, detail: str, epoch: int | None, told_by: tuple[str, int, int]
    ) -> None:
        """One state of one broker, as row `told_by` (source id, source epoch, source seq) has it."""
        told = self.brokers.setdefault((cluster, broker), [])
        row = (ts, detail, epoch, *told_by)
        if row not in told:
            told.append(row)
            self._states.pop((cluster, broker), None)
            self._arrays = None

    def tell_config(
        self, cluster: int, topic: int, ts: int, min_isr: int | None, lag_max_ms: int | None, topic_id: int = -1
    ) -> None:
        """A setting of a topic, or of the whole cluster (CLUSTER_WIDE)."""
        entries = self.configs.setdefault((cluster, topic), [])
        entry = (ts, min_isr, lag_max_ms, topic_id)
        if entry not in entries:
            insort(entries, entry, key=lambda e: (e[0], e[1] or -1, e[2] or -1, e[3]))
            self._arrays = None

    def tell_version(self, cluster: int, broker: int, ts: int, told: int, value: int) -> None:
        """What a broker tells of the version that it runs from a time on."""
        entries = self.versions.setdefault((cluster, broker), [])
        if (ts, told, value) not in entries:
            insort(entries, (ts, told, value))
            self._arrays = None

    def broker_states(self, cluster: int, broker: int, as_of: int) -> list[State]:
        """States told of a broker up to a time."""
        return [s for s in self._all_states((cluster, broker)) if s[0] <= as_of]

    def _all_states(self, key: tuple[int, int]) -> list[State]:
        if key not in self._states:
            self._states[key] = _each_once(self.brokers.get(key, []))
        return self._states[key]

    def started_between(self, cluster: int, broker: int, after: int, until: int) -> bool:
        """Whether a broker told the version of its software in (after, until], as it does when it starts."""
        return any(
            after < ts <= until and told == OF_SOFTWARE for ts, told, _ in self.versions.get((cluster, broker), [])
        )

    def min_isr(self, cluster: int, topic: int, as_of: int, told: int | None, rule: int) -> int:
        """In force for a topic: its own setting, else what its leader told, else the cluster's, else the rule."""
        own = self._min_isr((cluster, topic), as_of)
        if own is None:
            own = self._min_isr((cluster, CLUSTER_WIDE), as_of) if told is None else told
        return rule if own is None else own

    def _min_isr(self, key: tuple[int, int], as_of: int) -> int | None:
        entries = self.configs.get(key)
        if not entries:
            return None
        return next((e[1] for e in reversed(entries) if e[0] <= as_of and e[1] is not None), None)

    def arrays(self) -> Arrays:
        """Sorted arrays for as-of look-ups in the kernel."""
        if self._arrays is None:
            self._arrays = self._build()
        return self._arrays

    def _build(self) -> Arrays:
        brokers = []
        for c, b in self.brokers:
            states = self._all_states((c, b))
            started = {epoch: ts for ts, detail, epoch, *_ in states if detail == "started" and epoch is not None}
            key, last = (c << 32) | (b & 0xFFFFFFFF), None
            for ts, detail, epoch, *_ in states:
                if detail == LOG_DIR_OFFLINE:  # the broker goes on serving what lies in its other directories
                    if last is not None:
                        _, told, serving, known, since, _ = last
                        brokers.append((key, ts, serving, known, told if since == NULL else since, 1))
                    continue
                since = started.get(-1 if epoch is None else epoch, NULL)
                last = key, ts, int(detail == "unfenced"), NULL if epoch is None else epoch, since, 0
                brokers.append(last)
        brokers.sort(key=lambda e: (e[0], e[1]))
        configs = []
        for (c, t), entries in self.configs.items():
            before: dict[int, tuple[int, int]] = {}
            for ts, told_min, told_lag, topic_id in entries:
                min_isr, lag = before.get(topic_id, (NULL32, NULL))
                min_isr = min_isr if told_min is None else told_min
                lag = lag if told_lag is None else told_lag * MS
                before[topic_id] = min_isr, lag
                configs.append(((c << 32) | (t & 0xFFFFFFFF), ts, min_isr, lag, topic_id))
        configs.sort(key=lambda e: (e[0], e[1]))
        versions = [
            ((c << 32) | (b & 0xFFFFFFFF), *entry) for (c, b), entries in self.versions.items() for entry in entries
        ]
        return Arrays(
            _records(BROKERS, brokers), _records(CONFIGS, configs), _records(VERSIONS_TOLD, sorted(versions)),
            _records(RECORDED, []), _records(APART, []),
        )  # fmt: skip


def _each_once(rows: list[State]) -> list[State]:
    """The states of a broker in time order, each happening once, at the earliest time told; in one instant in the order
    of the numbers of the source that told them.

    A broker may be fenced and let in again several times in one incarnation: a source tells a state again when it
    told another one in between, unless it replays from the registration on.
    """
    found: dict[tuple[int | None, str, int], tuple[int, tuple[str, int, int]]] = {}
    told: dict[tuple[str, int], _Telling] = {}
    for ts, detail, epoch, source, *number in sorted(rows, key=lambda row: (row[3:], row[:2])):
        place = ts if epoch is None else told.setdefault((source, epoch), _Telling()).place(ts, detail)
        key = (epoch, detail, place)
        row = ts, (source, number[0], number[1])
        found[key] = min(row, found.get(key, row))
    states = [(ts, detail, epoch, *row) for (epoch, detail, _), (ts, row) in found.items()]
    return sorted(states, key=lambda s: (s[0], -1 if s[2] is None else s[2], s[3:]))


@dataclass
class _Telling:
    """How far a source is with what it tells of one incarnation of a broker."""

    counts: Counter[str] = field(default_factory=Counter)
    most: Counter[str] = field(default_factory=Counter)
    last: str = ""
    replays_until: int | None = None

    def place(self, ts: int, detail: str) -> int:
        """Which one of its states of this name it tells."""
        if detail == "started":
            again = bool(self.last)
            self.counts, self.last, self.replays_until = Counter(), detail, ts + REPLAY_US if again else None
            return 0
        if self.replays_until is not None and ts > self.replays_until:
            self.counts, self.replays_until = Counter(self.most), None
        if detail != self.last:
            self.counts[detail] += 1
        self.last, self.most = detail, self.most | self.counts
        return self.counts[detail]


def _records(of: RecordLayout, rows: Sequence[tuple[int, ...]]) -> Records:
    return np.array(rows, dtype=np.int64).reshape(len(rows), len(of.defaults))
