"""A live cluster to bronze: every broker asked for every partition it hosts, at each tick."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from time import monotonic, time_ns

import numpy as np
import pyarrow as pa
from kafka.future import Future

from generators.cluster.asking.decoded import Described, TopicFilter
from generators.cluster.asking.link import BrokerLink
from generators.cluster.asking.plan import Plan, plan
from generators.cluster.asking.problems import NotAnswering, why
from generators.cluster.asking.round import Outcome, Pace, ask_round
from generators.cluster.asking.security import Security
from generators.cluster.cluster_links import ClusterLinks
from generators.cluster.notes import Notes
from generators.cluster.observing.answers import Instant
from generators.cluster.observing.observer import Observer
from generators.cluster.observing.settings import SettingsSeen

SETTINGS_EVERY_S = 300.0
METADATA_WAITED_S = 2.0
"""How long a round waits for the metadata before it asks by the metadata of the round before."""
ENDS_WITHIN_S = 3.0
"""What a round in flight is given when the watcher is to stop."""


@dataclass(frozen=True)
class WatchOptions:
    """Whom to ask, for what, and how often."""

    bootstrap: tuple[tuple[str, int], ...]
    cluster: str = ""
    """Empty: the cluster's own id."""
    watcher: str = "main"
    interval_s: float = 5.0
    timeout_s: float = 10.0
    topics: TopicFilter = field(default_factory=TopicFilter)
    security: Security = field(default_factory=Security)
    pace: Pace = field(default_factory=Pace)
    buffer_bytes: int = 256 << 20
    debug: bool = False


@dataclass
class _Asked:
    """A broker's round that goes on."""

    since_us: int
    link: BrokerLink
    work: Future


@dataclass
class Watcher:
    """One cluster being watched: who is asked, what was seen, and what is to be said."""

    options: WatchOptions
    links: ClusterLinks
    observer: Observer
    notes: Notes
    settings: SettingsSeen = field(default_factory=SettingsSeen)
    plans: dict[int, Plan] = field(default_factory=dict)
    _asked: dict[int, _Asked] = field(default_factory=dict)
    _settings_at: dict[int, float] = field(default_factory=dict)
    _rejected: int = 0
    _describer: int = -1
    answered: bool = False
    """Whether some broker has ever answered a round."""
    said: bool = False
    """Whether it was said what is watched."""
    rows: dict[int, list[pa.Table]] = field(default_factory=dict)
    """Rows of the round, by broker."""

    def round(self, until: float, stop: threading.Event) -> bool:
        """Ask every broker that is idle, and take what has come by `until` (monotonic seconds) as rows.

        Whether every broker answered in full.
        """
        self.rows = {}
        self._describe(min(until, monotonic() + METADATA_WAITED_S))
        if self.observer.partitions is not None:
            self._begin()
        self.links.wait([asked.work for asked in self._asked.values()], until, stop)
        if stop.is_set():
            self.links.wait([asked.work for asked in self._asked.values()], monotonic() + ENDS_WITHIN_S)
        return self._collect()

    def _describe(self, until: float) -> None:
        if not self.links.by_broker:
            self._bootstrap_again()
        found = self.links.describe(until)
        for broker, error in self.links.take_errors():
            self.notes.silent(broker, why(error, self.options.security))
        if found is None:
            return
        broker, described, at = found
        known = self.observer.partitions
        if known is not None and described.partitions.older_than(known) and self._rejected < len(self.links.by_broker):
            self._rejected += 1
            self.notes.say(f"metadata of broker {broker} is older than what is known: another broker is asked")
            self.links.pass_on()
            return
        self._rejected, self._describer = 0, broker
        self._learn(broker, described, at)

    def _bootstrap_again(self) -> None:
        """No broker is known to be up: ask those named at the start."""
        try:
            self.links.connect(self.links.bootstrap(self.options.bootstrap).partitions.brokers)
        except NotAnswering as error:
            self.notes.once(str(error))

    def _learn(self, broker: int, described: Described, at: Instant) -> None:
        self.notes.topics(described.refused)
        for one, tables in self.observer.learn(described.partitions, at, broker).items():
            self.rows.setdefault(one, []).extend(tables)
        self.links.connect(described.partitions.brokers)
        for address in described.partitions.brokers:
            if len(self._hosted(address.broker_id)):
                rows = self.settings.rack(self.observer.source(address.broker_id), address, at.ts_us)
                self.rows.setdefault(address.broker_id, []).extend(rows)

    def _hosted(self, broker: int) -> range:
        at = self.observer.replicas.of_broker(broker)
        return range(at.start, at.stop)

    def _begin(self) -> None:
        seen, now_us = self.observer.partitions, time_ns() // 1000
        assert seen is not None
        for broker in np.unique(self.observer.replicas.broker).tolist():
            link = self.links.by_broker.get(broker)
            if link is None:
                self._missed(broker, now_us, "it is not among the brokers that are up")
            elif broker not in self._asked and not link.busy:
                self.plans[broker] = plan(broker, seen, self.observer.replicas, self.plans.get(broker))
                work = link.begin(
                    ask_round,
                    self.plans[broker],
                    self.observer.terms_of(broker),
                    self.options.pace,
                    self._settings_due(broker),
                    done=self.links.wake.set,
                )
                self._asked[broker] = _Asked(now_us, link, work)

    def _settings_due(self, broker: int) -> Sequence[str] | None:
        """Topics whose settings a broker is asked for with its own; None: not now."""
        if monotonic() < self._settings_at.get(broker, 0.0):
            return None
        self._settings_at[broker] = monotonic() + SETTINGS_EVERY_S
        assert self.observer.partitions is not None
        return self.observer.partitions.topics.names if broker == self._describer else ()

    def _collect(self) -> bool:
        complete = True
        for broker, asked in list(self._asked.items()):
            outcome = _outcome(asked, gone=self.links.by_broker.get(broker) is not asked.link)
            if outcome is None:
                complete = False
                continue
            del self._asked[broker]
            complete &= self._take(broker, asked, outcome)
        return complete

    def _take(self, broker: int, asked: _Asked, outcome: Outcome) -> bool:
        """The rows for a broker's answer; whether it was whole."""
        rows = self.rows.setdefault(broker, [])
        if outcome.settings is not None:
            self.notes.settings(outcome.settings)
            source, ts_us = self.observer.source(broker), outcome.settings.at.ts_us
            rows.extend(self.settings.broker(source, outcome.settings.broker, ts_us))
            rows.extend(self.settings.topics(source, outcome.settings.topics, ts_us))
        if outcome.answer is not None:
            self.notes.offsets(outcome.answer)
            rows.extend(self.observer.take(outcome.answer))
        if outcome.error is not None:
            self._settings_at.pop(broker, None)
            self._missed(broker, asked.since_us, why(outcome.error, self.options.security))
            return False
        self.notes.answers(broker)
        self.answered = True
        return True

    def _missed(self, broker: int, since_us: int, reason: str) -> None:
        self.observer.missed(broker, since_us, reason)
        self.notes.silent(broker, reason)


def _outcome(asked: _Asked, *, gone: bool) -> Outcome | None:
    """What came of a broker's round; None where it goes on."""
    if asked.work.is_done:
        error = asked.work.exception
        return Outcome(error=error) if error is not None else asked.work.value
    return Outcome(error=NotAnswering("it is not among the brokers that are up")) if gone else None


def require_answers(watcher: Watcher) -> None:
    """Raises NotAnswering where none of the brokers that the cluster names has ever answered."""
    links, notes = watcher.links.by_broker, watcher.notes
    if watcher.answered or not links or not notes.all_silent(links):
        return
    reasons = "; ".join(
        f"broker {b} at {links[b].address.host}:{links[b].address.port}: {r}" for b, r in notes.reasons()
    )
    raise NotAnswering(f"the cluster names brokers that do not answer from here (advertised.listeners?): {reasons}")
