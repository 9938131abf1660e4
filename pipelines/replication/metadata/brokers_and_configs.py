"""Broker states, configurations and Kafka versions as of any time, from broker-wide events."""

from __future__ import annotations

from bisect import insort
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from pipelines.replication.compiled.records import RecordLayout, Records
from pipelines.replication.compiled.types import MS, NEVER, NULL, NULL32
from pipelines.replication.kafka_versions import OF_SOFTWARE
from pipelines.replication.metadata.broker_states import (
    CONTROLLERS,
    Answer,
    BrokerNow,
    Quorum,
    add_answer,
    broker_states,
)
from pipelines.replication.metadata.deposed import (
    DOUBTED,
    Doubt,
    Role,
    Row,
    add_role,
    doubted_since,
    doubts,
    is_cut_off,
)
from pipelines.replication.metadata.deposed import BrokerState as BrokerState
from pipelines.replication.metadata.layout import BROKER_VERSIONS, BROKERS, CLOCK_OFFSETS, CONFIGS, RECORDED_EPOCHS
from pipelines.replication.metadata.layout import Timeline as KernelTimeline
from schemas.event_types import CLEAN_START, QUORUM, SESSION_EXPIRED, UNCLEAN_START, by_watcher

Config = tuple[int, int | None, int | None, int]
"""(ts, min.insync.replicas, replica.lag.time.max.ms, number of the topic id or -1)"""
Setting = tuple[Config, int]
"""An entry, and since when it counts no longer as a controller that was replaced told it, else NEVER."""
Version = tuple[int, int, int]
"""(ts, what the broker reported of the rules it follows, see kafka_versions, and its value)"""
CLUSTER_WIDE = -1
LOG_DIR_OFFLINE = "log_dir_offline"
STARTS = (CLEAN_START, UNCLEAN_START)
"""What a broker's own log says as it loads its partitions; like LOG_DIR_OFFLINE no state that lasts."""
OF_LIFE = (*STARTS, SESSION_EXPIRED)
"""Details by which a broker's own log tells the life that a registration belongs to."""
STARTED = "started"
LIVES = frozenset({STARTED, "fenced", "unfenced", "unregistered"})
"""States that controllers alone report, of every broker."""
LASTING = (STARTED, "controlled_shutdown", "fenced", "unfenced", "unregistered")
REPLAY_US = 10_000_000
"""A restarted controller reports old states again, within this time of the registration that it replays first."""


@dataclass
class Timeline:
    """Entries by (cluster number, broker or topic number), in time order; `arrays` has the same for the kernel."""

    brokers: dict[tuple[int, int], list[BrokerState]] = field(default_factory=dict)
    configs: dict[tuple[int, int], list[Config]] = field(default_factory=dict)
    versions: dict[tuple[int, int], list[Version]] = field(default_factory=dict)
    racks: dict[tuple[int, int], tuple[int, str]] = field(default_factory=dict)
    """The rack that a broker reported last, and when."""
    answers: dict[tuple[int, int], list[Answer]] = field(default_factory=dict)
    """Findings of a watcher on whether brokers answer, and on the controllers (CONTROLLERS in place of a broker)."""
    deletions: dict[tuple[int, int], dict[int, int]] = field(default_factory=dict)
    """When a topic was deleted, by the number of its id or -1."""
    roles: dict[int, dict[tuple[str, int], list[Role]]] = field(default_factory=dict)
    """By cluster number and source the roles of controllers, see `deposed`."""
    set_by: dict[tuple[int, int], dict[Config, Row]] = field(default_factory=dict)
    """Rows of active controllers by the entry of `configs` that nobody else tells at that time."""
    _doubts: dict[tuple[int, int], list[Doubt]] = field(default_factory=dict, repr=False)
    _states: dict[tuple[int, int], dict[tuple[BrokerState, ...], list[BrokerState]]] = field(
        default_factory=dict, repr=False
    )
    """By broker, and by which of its states are in doubt."""
    _settings: dict[tuple[int, int], list[Setting]] = field(default_factory=dict, repr=False)
    arrays: KernelTimeline = field(init=False, repr=False, compare=False)
    """The entries sorted by (key, ts), for as-of look-ups in the kernel."""
    arrays_are_old: bool = field(default=False, init=False, repr=False, compare=False)
    """Whether an entry was added since `build_arrays`."""

    def __post_init__(self) -> None:
        self.build_arrays()

    def record_broker_state(
        self, cluster: int, broker: int, ts: int, detail: str, epoch: int | None, reported_by: tuple[str, int, int]
    ) -> None:
        """Add a state of a broker; `reported_by` is the row: source id, source epoch, source seq."""
        if by_watcher(detail):
            about = CONTROLLERS if detail.startswith(QUORUM) else broker
            add_answer(self.answers.setdefault((cluster, about), []), (ts, detail))
            return
        states = self.brokers.setdefault((cluster, broker), [])
        row = (ts, detail, epoch, *reported_by)
        if row not in states:
            states.append(row)
            self._forget((cluster, broker))

    def record_role(self, cluster: int, source: tuple[str, int], role: Role) -> None:
        """Add the role of a controller at one of its rows."""
        if add_role(self.roles.setdefault(cluster, {}).setdefault(source, []), role):
            self._forget(*(place for place in self.brokers if place[0] == cluster))
            self._settings.clear()

    def _forget(self, *places: tuple[int, int]) -> None:
        """Forget what was derived from the states of brokers."""
        for place in places:
            self._states.pop(place, None)
            self._doubts.pop(place, None)
        self.arrays_are_old = True

    def record_config(self, cluster: int, topic: int, entry: Config, by_active: Row | None = None) -> None:
        """Add a setting of a topic, or of the whole cluster (CLUSTER_WIDE); `by_active`: its row, if that is one of an
        active controller."""
        place = cluster, topic
        entries, rows = self.configs.setdefault(place, []), self.set_by.setdefault(place, {})
        if entry in entries:
            by_active = None if by_active is None or entry not in rows else min(by_active, rows[entry])
        else:
            insort(entries, entry, key=lambda e: (e[0], e[1] or -1, e[2] or -1, e[3]))
        rows.pop(entry, None)
        rows |= {entry: by_active} if by_active is not None else {}
        self._settings.pop(place, None)
        self.arrays_are_old = True

    def record_version(self, cluster: int, broker: int, ts: int, reported: int, value: int) -> None:
        """Add what a broker reports of its version from `ts` on; see kafka_versions for `reported` and `value`."""
        entries = self.versions.setdefault((cluster, broker), [])
        if (ts, reported, value) not in entries:
            insort(entries, (ts, reported, value))
            self.arrays_are_old = True

    def record_rack(self, cluster: int, broker: int, ts: int, rack: str) -> None:
        """Add the rack of a broker; the latest counts, of several at one time the greatest name."""
        self.racks[cluster, broker] = max((ts, rack), self.racks.get((cluster, broker), (ts, rack)))

    def record_deletion(self, cluster: int, topic: int, ts: int, topic_id: int) -> None:
        """Add that a topic was deleted; controllers that restart tell it again later. Without ids the last counts."""
        known = self.deletions.setdefault((cluster, topic), {})
        earliest_or_last = min if topic_id >= 0 else max
        known[topic_id] = earliest_or_last(ts, known.get(topic_id, ts))

    def broker_states(self, cluster: int, broker: int, as_of: int) -> list[BrokerState]:
        """The states of a broker up to a time, those starts included that are in doubt: they took place."""
        doubtful = (one for one in self._doubtful((cluster, broker)) if one.since <= as_of < one.until)
        told = self._states_without((cluster, broker), tuple(one.state for one in doubtful if one.state[1] != STARTED))
        return [state for state in told if state[0] <= as_of]

    def states_now(self, cluster: int, rounds: Mapping[int, int], silent: Collection[int]) -> dict[int, BrokerNow]:
        """The states of the brokers of a cluster, as `broker_states` has them."""
        lasting = {
            broker: [(ts, detail) for ts, detail, *_ in self._all_states((c, broker)) if detail in LASTING]
            for c, broker in self.brokers
            if c == cluster
        }
        logged = {broker: states[-1] for broker, states in lasting.items() if states}
        for broker in lasting:
            doubtful = (one for one in self._doubtful((cluster, broker)) if one.state[1] in LASTING)
            last = max((one.state[0] for one in doubtful if one.lasts(self.roles[cluster])), default=-1)
            logged |= {broker: (last, DOUBTED)} if last > logged.get(broker, (-1, ""))[0] else {}
        answers = {b: known for (c, b), known in self.answers.items() if c == cluster and b != CONTROLLERS}
        return broker_states(answers, logged, rounds, silent, self.quorum_now(cluster))

    def quorum_now(self, cluster: int) -> Quorum:
        """Return what a watcher was told last of the controllers, and since when it has been told the same."""
        told = self.answers.get((cluster, CONTROLLERS), [])
        first = next((k for k in range(len(told) - 1, 0, -1) if told[k - 1][1] != told[-1][1]), 0)
        return (told[-1][1], told[first][0]) if told else (None, None)

    def _all_states(self, place: tuple[int, int], as_of: int = NEVER - 1) -> list[BrokerState]:
        """The states of a broker without those that are in doubt as of a time."""
        return self._states_without(
            place, tuple(one.state for one in self._doubtful(place) if one.since <= as_of < one.until)
        )

    def _states_without(self, place: tuple[int, int], doubted: tuple[BrokerState, ...]) -> list[BrokerState]:
        known = self._states.setdefault(place, {})
        if doubted not in known:
            known[doubted] = _without_replays([row for row in self.brokers.get(place, []) if row not in doubted])
        return known[doubted]

    def _doubtful(self, place: tuple[int, int]) -> list[Doubt]:
        if place not in self._doubts:
            self._doubts[place] = doubts(self.brokers.get(place, []), self.roles.get(place[0], {}))
        return self._doubts[place]

    def is_deposed(self, cluster: int, row: tuple[str, int, int] | None, ts: int, as_of: int) -> bool:
        """Whether a controller told a row when another one may have replaced it, as known at a time."""
        return row is not None and doubted_since(row, ts, self.roles.get(cluster, {})) <= as_of

    def is_cut_off(self, cluster: int, source: tuple[str, int], until: int) -> bool:
        """Whether a controller of which others tell by then is unknown to a source."""
        return is_cut_off(source, until, self.roles.get(cluster, {}))

    def tellers(self, cluster: int) -> set[tuple[str, int]]:
        """(source id, source epoch) of the controllers that report broker states."""
        known = (states for (c, _), states in self.brokers.items() if c == cluster)
        return {(state[3], state[4]) for states in known for state in states if state[1] in LIVES}

    def started_between(self, cluster: int, broker: int, after: int, until: int) -> bool:
        """Whether a broker reported the version of its software, as it does on every start, in (after, until]."""
        return any(
            after < ts <= until and reported == OF_SOFTWARE
            for ts, reported, _ in self.versions.get((cluster, broker), [])
        )

    def min_isr(self, cluster: int, topic: int, as_of: int, by_leader: int | None, rule: int) -> int:
        """min.insync.replicas of a topic: its own setting, else what its leader reported, else the cluster's, else the
        rule's."""
        own = self._min_isr((cluster, topic), as_of)
        if own is None:
            own = self._min_isr((cluster, CLUSTER_WIDE), as_of) if by_leader is None else by_leader
        return rule if own is None else own

    def setting_times(self, cluster: int, topic: int, since: int, until: int) -> list[int]:
        """When settings of a topic, or of the whole cluster, were told or doubted, in (since, until]."""
        settings = (one for t in (topic, CLUSTER_WIDE) for one in self._settings_of((cluster, t)))
        return sorted({ts for entry, ended in settings for ts in (entry[0], ended) if since < ts <= until})

    def tells_min_isr(self, cluster: int, topic: int, as_of: int) -> bool:
        """Whether min.insync.replicas of this topic itself was reported by then."""
        return self._min_isr((cluster, topic), as_of) is not None

    def _min_isr(self, key: tuple[int, int], as_of: int) -> int | None:
        told = (e for e, until in reversed(self._settings_of(key)) if e[0] <= as_of < until)
        return next((e[1] for e in told if e[1] is not None), None)

    def _settings_of(self, place: tuple[int, int]) -> list[Setting]:
        if place not in self._settings:
            rows, roles = self.set_by.get(place, {}), self.roles.get(place[0], {})
            entries = self.configs.get(place, [])
            found = [(e, doubted_since(rows[e], e[0], roles) if e in rows else NEVER) for e in entries]
            self._settings[place] = found
        return self._settings[place]

    def build_arrays(self) -> None:
        """Bring `arrays` up to date."""
        versions = [(_key(place), *entry) for place, entries in self.versions.items() for entry in entries]
        self.arrays = KernelTimeline(
            _records(BROKERS, self._broker_rows()), _records(CONFIGS, self._config_rows()),
            _records(BROKER_VERSIONS, sorted(versions)), _records(RECORDED_EPOCHS, []), _records(CLOCK_OFFSETS, []),
        )  # fmt: skip
        self.arrays_are_old = False

    def _broker_rows(self) -> list[tuple[int, ...]]:
        """Rows of BROKERS: a state holds until the next, or until it is in doubt."""
        rows = []
        for place in self.brokers:
            doubtful = self._doubtful(place)
            never = tuple(one.state for one in doubtful if one.since == one.state[0])
            rows += _broker_rows(place, self._states_without(place, never))
            for at in sorted({at for one in doubtful for at in (one.since, one.until) if one.state[0] < at < NEVER}):
                told = [state for state in self._all_states(place, at) if state[0] <= at]
                then = _broker_rows(place, told) or [(_key(place), at, 1, NULL, NULL, 0)]
                rows.append((_key(place), at, *then[-1][2:]))
        return sorted(rows, key=lambda e: (e[0], e[1]))

    def _config_rows(self) -> list[tuple[int, ...]]:
        """Rows of CONFIGS: each has both settings, carried on from the entry before, and again as one is in doubt."""
        rows = []
        for place in self.configs:
            settings = [(e, until) for e, until in self._settings_of(place) if until > e[0]]
            ends = {(until, e[3]) for e, until in settings if until < NEVER}
            if not ends:
                rows += _config_rows(place, [e for e, _ in settings])
                continue
            for at, topic_id in sorted({(e[0], e[3]) for e, _ in settings} | ends):
                then = [e for e, until in settings if e[0] <= at < until and e[3] == topic_id]
                last = _config_rows(place, then or [(at, None, None, topic_id)])[-1]
                rows.append((last[0], at, *last[2:]))
        return sorted(rows, key=lambda e: (e[0], e[1]))


def _broker_rows(place: tuple[int, int], states: Sequence[BrokerState]) -> list[tuple[int, ...]]:
    """Rows of BROKERS: a state holds until the next, a failed log directory included."""
    rows: list[tuple[int, ...]] = []
    started = {epoch: ts for ts, detail, epoch, *_ in states if detail == STARTED and epoch is not None}
    last = None
    for ts, detail, epoch, *_ in states:
        if detail == LOG_DIR_OFFLINE:  # the broker goes on serving from its other directories
            if last is not None:
                _, state_ts, serving, incarnation, since, _ = last
                rows.append((_key(place), ts, serving, incarnation, state_ts if since == NULL else since, 1))
            continue
        if detail in OF_LIFE:
            continue
        since = started.get(-1 if epoch is None else epoch, NULL)
        last = _key(place), ts, int(detail == "unfenced"), NULL if epoch is None else epoch, since, 0
        rows.append(last)
    return rows


def _config_rows(place: tuple[int, int], entries: Sequence[Config]) -> list[tuple[int, ...]]:
    rows = list[tuple[int, ...]]()
    before: dict[int, tuple[int, int]] = {}
    for ts, new_min_isr, new_lag, topic_id in entries:
        min_isr, lag = before.get(topic_id, (NULL32, NULL))
        min_isr = min_isr if new_min_isr is None else new_min_isr
        lag = lag if new_lag is None else new_lag * MS
        before[topic_id] = min_isr, lag
        rows.append((_key(place), ts, min_isr, lag, topic_id))
    return rows


def _key(place: tuple[int, int]) -> int:
    """The key of kernel rows: cluster << 32 | broker or topic."""
    cluster, number = place
    return (cluster << 32) | (number & 0xFFFFFFFF)


def _without_replays(rows: list[BrokerState]) -> list[BrokerState]:
    """The states of a broker in time order, each once, at the earliest time reported for it.

    States of one instant are in the order of their source's sequence numbers. A broker may be fenced and unfenced
    several times in one incarnation: a source that reports a state again after another one reports a new change, unless
    it replays the incarnation from its registration on.
    """
    found: dict[tuple[int | None, str, int], tuple[int, tuple[str, int, int]]] = {}
    replays: dict[tuple[str, int], _Replay] = {}
    for ts, detail, epoch, source, *number in sorted(rows, key=lambda row: (row[3:], row[:2])):
        occurrence = ts if epoch is None else replays.setdefault((source, epoch), _Replay()).occurrence(ts, detail)
        key = (epoch, detail, occurrence)
        row = ts, (source, number[0], number[1])
        found[key] = min(row, found.get(key, row))
    states = [(ts, detail, epoch, *row) for (epoch, detail, _), (ts, row) in found.items()]
    return sorted(states, key=lambda s: (s[0], -1 if s[2] is None else s[2], s[3:]))


@dataclass
class _Replay:
    """Counts the states of one broker incarnation as one source reports them, through replays from the start."""

    counts: Counter[str] = field(default_factory=Counter)
    most: Counter[str] = field(default_factory=Counter)
    last: str = ""
    replays_until: int | None = None

    def occurrence(self, ts: int, detail: str) -> int:
        """The number of the reported state among those of its name in the incarnation: 1 for the first."""
        if detail == STARTED:
            again = bool(self.last)
            self.counts, self.last, self.replays_until = Counter(), detail, ts + REPLAY_US if again else None
            return 0
        if self.replays_until is not None and ts > self.replays_until:
            self.counts, self.replays_until = Counter(self.most), None
        if detail != self.last:
            self.counts[detail] += 1
        self.last, self.most = detail, self.most | self.counts
        return self.counts[detail]


def _records(layout: RecordLayout, rows: Sequence[tuple[int, ...]]) -> Records:
    return np.array(rows, dtype=np.int64).reshape(len(rows), len(layout.defaults))
