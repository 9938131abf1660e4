"""A live cluster to bronze: every broker asked for every partition it hosts, at each tick."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from time import monotonic, time_ns

import numpy as np
import pyarrow as pa
from kafka.future import Future

from generators.cluster.asking.decoded import Described, TopicFilter
from generators.cluster.asking.link import BrokerLink
from generators.cluster.asking.plan import Plan, plan
from generators.cluster.asking.problems import CLOSED, TIMED_OUT, NotAnswering, kind, why
from generators.cluster.asking.round import Outcome, Pace, ask_round
from generators.cluster.asking.security import Security
from generators.cluster.cluster_links import ClusterLinks
from generators.cluster.controllers import Controllers
from generators.cluster.listings import Listings
from generators.cluster.metadata.partitions import BrokerAddress, Partitions
from generators.cluster.metadata_source import MetadataSource
from generators.cluster.notes import Notes
from generators.cluster.observing.answers import Instant
from generators.cluster.observing.observer import Observer
from generators.cluster.observing.settings import SettingsSeen
from schemas.event_types import ANSWERS, NO_ANSWER, NOT_LISTED, UNREGISTERED

SETTINGS_EVERY_S = 300.0
METADATA_WAITED_S = 2.0
"""How long a round waits for the metadata before it asks by the metadata of the round before."""
REASSIGNED_S = 1.0
"""The wait of a round with new replicas for the list of reassignments: without it they would count as missing."""
TOGETHER_S = 0.3
"""What others are given to answer with those that have."""
STILL_ROUNDS = 3
"""Intervals without a round, each of which would begin one, after which the watcher itself stood still."""
STILL_S = 5.0
"""A busy host delays rounds of short intervals for less."""
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
    controllers: Controllers | None = None
    """None: they are not asked for."""
    settings: SettingsSeen = field(default_factory=SettingsSeen)
    plans: dict[int, Plan] = field(default_factory=dict)
    _asked: dict[int, _Asked] = field(default_factory=dict)
    _settings_at: dict[int, float] = field(default_factory=dict)
    said: bool = False
    """Whether it was said what is watched."""
    rows: dict[int, list[pa.Table]] = field(default_factory=dict)
    """Rows of the round that nobody has taken, by broker."""
    _listings: Listings = field(default_factory=Listings)
    _began_us: int = 0
    """When the last round began, on the wall clock; 0: none did."""
    _again: set[int] = field(default_factory=set)
    """Brokers to be asked as soon as may be: they missed an answer for the first time, or tell the metadata first."""

    def __post_init__(self) -> None:
        self.metadata = MetadataSource(self.options.bootstrap, self.links, self.observer, self.notes)

    def round(self, until: float, stop: threading.Event, part: Callable[[], None] = lambda: None) -> bool:
        """Ask every broker that is idle, and take what has come by `until` (monotonic seconds) as rows.

        `part` is called where some have answered and others take longer: what has come waits for nobody. Whether every
        broker answered in full.
        """
        self.rows, complete = {}, True
        self._tell_pause(time_ns() // 1000)
        out = self._describe(min(until, monotonic() + METADATA_WAITED_S))
        if self.observer.partitions is not None:
            self._begin(broker for broker in np.unique(self.observer.replicas.broker).tolist() if broker != out)
        while self._asked or (self._again and self.links.describing):
            works = [asked.work for asked in self._asked.values()] or self.links.describing
            self.links.wait(works, min(until, monotonic() + TOGETHER_S), stop)
            if stop.is_set():
                self.links.wait(works, monotonic() + ENDS_WITHIN_S)
            self._forget_if_paused(until)
            complete &= self._collect()
            if stop.is_set() or monotonic() >= until:
                break
            self._begin(sorted(self._again))
            if self._asked and self.rows:
                part()
                self.rows = {}
        links = self.links.by_broker
        self._ask_controllers({b: links[b].address for b in self._listings.by_broker if b in links})
        self._tell_unregistered()
        return complete and out is None and not self._asked

    def _tell_pause(self, now_us: int) -> None:
        """After a pause of the watcher between two rounds each source has a hole: nobody was asked for so long."""
        before_us, self._began_us = self._began_us, now_us
        if before_us and now_us - before_us > max(STILL_ROUNDS * self.options.interval_s, STILL_S) * 1e6:
            self._listings.by_broker.clear()
            self._hear()
            self.observer.note_pause_of_all(before_us)

    def _forget_if_paused(self, until: float) -> None:
        """After a pause of the watcher itself silence shows nothing, nor whom brokers listed before it."""
        if monotonic() <= until + 2 * self.options.interval_s:
            return
        self._listings.by_broker.clear()
        self._hear()
        for broker, asked in list(self._asked.items()):
            outcome = _outcome(asked, gone=False)
            if outcome is not None and outcome.listed is None:
                del self._asked[broker]
                self.observer.note_pause(broker, asked.since_us)

    def _describe(self, until: float) -> int | None:
        """Learn from the metadata; the broker that was to tell it and does not answer."""
        out, found = None, self.metadata.ask(until)
        for broker, error in self.links.take_errors():
            self._missed(broker, self.metadata.asked_us, error)
            out = broker
        if found is not None:
            self._learn(*found)
            self.metadata.take_turns()
        return out

    def _hear(self) -> None:
        self.links.fit, self.metadata.disputed = self._listings.fit(), self._listings.differ()

    def _ask_controllers(self, brokers: Mapping[int, BrokerAddress]) -> None:
        if self.controllers is None:
            return
        if (found := self.controllers.step(brokers, self.links.wake.set, self._listings.by_broker)) is not None:
            broker, detail = found
            self.rows.setdefault(broker, []).extend(self.observer.quorum(broker, detail, _now()))

    def _tell_unregistered(self) -> None:
        """End the sources of brokers without replicas, once the controllers report these brokers as unregistered."""
        if self.controllers is None:
            return
        for broker in self.observer.brokers - self.links.by_broker.keys():
            hosted = self.observer.replicas.of_broker(broker)
            if hosted.start == hosted.stop and self.controllers.registration(broker) == UNREGISTERED:
                self.rows.setdefault(broker, []).extend(self.observer.state(broker, UNREGISTERED, _now()))

    def _learn(self, broker: int, described: Described, at: Instant) -> None:
        self.notes.topics(described.refused)
        partitions = self._without_adding(described.partitions)
        for one, tables in self.observer.learn(partitions, at, broker).items():
            self.rows.setdefault(one, []).extend(tables)
        self.links.connect(described.partitions.brokers, np.unique(self.observer.replicas.broker).tolist())
        for address in described.partitions.brokers:
            hosted = self.observer.replicas.of_broker(address.broker_id)
            if hosted.start < hosted.stop:
                rows = self.settings.fact(self.observer.source(address.broker_id), "rack", address.rack, at.ts_us)
                self.rows.setdefault(address.broker_id, []).extend(rows)

    def _without_adding(self, seen: Partitions) -> Partitions:
        """The metadata with the replicas that are being added, which do not count until they are in the ISR."""
        if self.controllers is None:
            return seen
        if self.observer.partitions is None or not seen.same_places(self.observer.partitions):
            brokers = {one.broker_id: one for one in seen.brokers}
            self.controllers.hasten()
            self._ask_controllers(brokers)
            self.links.wait(self.controllers.asking, monotonic() + REASSIGNED_S)
            self._ask_controllers(brokers)
        return self.controllers.settle(seen)

    def _begin(self, brokers: Iterable[int]) -> None:
        seen, now_us = self.observer.partitions, time_ns() // 1000
        assert seen is not None
        for broker in brokers:
            self._again.discard(broker)
            link = self.links.by_broker.get(broker)
            if link is None:
                self._missed(broker, now_us, NotAnswering("it is not among the brokers that are up"))
            elif link.busy:
                if broker not in self._asked:
                    self._again.add(broker)
            elif broker not in self._asked:
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
        return self.observer.partitions.topics.names if broker == self.metadata.broker else ()

    def _collect(self) -> bool:
        """Take what has come; whether all of that was whole."""
        complete = True
        for broker, asked in list(self._asked.items()):
            outcome = _outcome(asked, gone=self.links.by_broker.get(broker) is not asked.link)
            if outcome is None:
                continue
            del self._asked[broker]
            complete &= self._take(broker, asked, outcome)
        return complete

    def _take(self, broker: int, asked: _Asked, outcome: Outcome) -> bool:
        """The rows for a broker's answer; whether it was whole."""
        rows, source = self.rows.setdefault(broker, []), self.observer.source(broker)
        rows.extend(self.settings.fact(source, "kafka", outcome.kafka, asked.since_us))
        if outcome.settings is not None:
            self.notes.settings(outcome.settings)
            ts_us = outcome.settings.at.ts_us
            rows.extend(self.settings.broker(source, outcome.settings.broker, ts_us))
            rows.extend(self.settings.topics(source, outcome.settings.topics, ts_us))
        if outcome.listed is not None:
            self._listings.by_broker[broker] = outcome.listed
            self._hear()
        listed = self._listings.hold_lately(broker)
        if outcome.answer is not None:
            self.notes.offsets(outcome.answer)
            rows.extend(self.observer.take(outcome.answer, listed=listed))
        if outcome.listed is not None:
            detail = self._with_registration(ANSWERS, broker, listed=listed)
            rows.extend(self.observer.state(broker, detail, outcome.answer.at if outcome.answer else _now()))
        if outcome.error is not None:
            self._settings_at.pop(broker, None)
            self._missed(broker, asked.since_us, outcome.error, answers=outcome.listed is not None)
            return False
        self.notes.answers(broker)
        return True

    def _missed(self, broker: int, since_us: int, error: BaseException, *, answers: bool = False) -> None:
        """A round that a broker did not answer in full; `answers`: though it is there."""
        reason = why(error, self.options.security)
        if not answers:
            if self._listings.forget(broker):
                if self.controllers is not None:  # without a majority of them metadata goes on to list who is down
                    self.controllers.hasten()
                if kind(error) in (TIMED_OUT, CLOSED):
                    self._again.add(broker)
            self._hear()
            seen = self.observer.partitions
            listed = self._listings.hold(broker) or (seen is not None and broker in seen.behind_other_listeners)
            detail = self._with_registration(f"{NO_ANSWER}: {kind(error)}", broker, listed=listed)
            self.rows.setdefault(broker, []).extend(self.observer.state(broker, detail, _now()))
        self.observer.missed(broker, since_us, reason)
        self.notes.silent(broker, reason)

    def _with_registration(self, detail: str, broker: int, *, listed: bool) -> str:
        """The detail of a broker's row, and behind it why it is not listed, as far as the controllers say so."""
        if listed:
            return detail
        known = "" if self.controllers is None else self.controllers.registration(broker)
        return f"{detail}, {NOT_LISTED}" + (f", {known}" if known else "")


def _now() -> Instant:
    return Instant(time_ns() // 1000, 0.0)


def _outcome(asked: _Asked, *, gone: bool) -> Outcome | None:
    """What came of a broker's round; None where it goes on."""
    if asked.work.is_done:
        error = asked.work.exception
        return Outcome(error=error) if error is not None else asked.work.value
    return Outcome(error=NotAnswering("it is not among the brokers that are up")) if gone else None
