"""From a live cluster to bronze: at each tick every broker is asked for every partition that it hosts."""

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
"""How long a round waits for new metadata before it goes on with that of the round before."""
REASSIGNED_S = 1.0
"""How long a round with new replicas waits for the list of reassignments: without it they would count as missing."""
TOGETHER_S = 0.3
"""How long slower answers are awaited, to be written with those that have come."""
STILL_ROUNDS = 3
"""The number of intervals without a round after which the watcher itself is taken to have stood still."""
STILL_S = 5.0
"""The same in seconds: on a busy host rounds of short intervals are late by less."""
ENDS_WITHIN_S = 3.0
"""How long a running round may take when the watcher is to stop."""


@dataclass(frozen=True)
class WatchOptions:
    """Whom to ask, for what, and how often."""

    bootstrap: tuple[tuple[str, int], ...]
    cluster: str = ""
    """The cluster's name; if empty, its own id."""
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
    """A broker's running round."""

    since_us: int
    link: BrokerLink
    work: Future


@dataclass
class Watcher:
    """The watcher of one cluster: its links, what they have shown, and the rows that nobody has taken yet."""

    options: WatchOptions
    links: ClusterLinks
    observer: Observer
    notes: Notes
    controllers: Controllers | None = None
    """None if the controllers are not asked about."""
    settings: SettingsSeen = field(default_factory=SettingsSeen)
    plans: dict[int, Plan] = field(default_factory=dict)
    _asked: dict[int, _Asked] = field(default_factory=dict)
    _settings_at: dict[int, float] = field(default_factory=dict)
    said: bool = False
    """Whether the line about the watched partitions was printed."""
    rows: dict[int, list[pa.Table]] = field(default_factory=dict)
    """The round's rows that were not taken yet, by broker."""
    _listings: Listings = field(default_factory=Listings)
    _began_us: int = 0
    """When the last round began, on the wall clock; 0 before the first."""
    _again: set[int] = field(default_factory=set)
    """The brokers to ask again within this round: they missed their first answer, or were asked for metadata first."""

    def __post_init__(self) -> None:
        self.metadata = MetadataSource(self.options.bootstrap, self.links, self.observer, self.notes)

    def round(self, until: float, stop: threading.Event, part: Callable[[], None] = lambda: None) -> bool:
        """Ask every broker that is idle, and take what has come by `until` (monotonic seconds) as rows.

        `part` is called whenever some brokers have answered and others take longer, so that no rows wait for a slow
        broker. Returns whether every broker answered in full.
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
        """Tell a gap of every source if the watcher itself stood still between two rounds."""
        before_us, self._began_us = self._began_us, now_us
        if before_us and now_us - before_us > max(STILL_ROUNDS * self.options.interval_s, STILL_S) * 1e6:
            self._listings.by_broker.clear()
            self._hear()
            self.observer.note_pause_of_all(before_us)

    def _forget_if_paused(self, until: float) -> None:
        """Drop listings and unanswered rounds from before a pause of the watcher: silence during it shows nothing."""
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
        """Learn from the metadata; returns the broker that was asked for it and failed."""
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
        changes = self.observer.learn(partitions, at, broker)
        if changes and self.controllers is not None:
            self.controllers.see_change()
        for one, tables in changes.items():
            self.rows.setdefault(one, []).extend(tables)
        self.links.connect(described.partitions.brokers, np.unique(self.observer.replicas.broker).tolist())
        for address in described.partitions.brokers:
            hosted = self.observer.replicas.of_broker(address.broker_id)
            if hosted.start < hosted.stop:
                rows = self.settings.fact(self.observer.source(address.broker_id), "rack", address.rack, at.ts_us)
                self.rows.setdefault(address.broker_id, []).extend(rows)

    def _without_adding(self, seen: Partitions) -> Partitions:
        """The metadata without replicas that are being added: they do not count until they are in the ISR."""
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
        """The topics whose settings a broker is asked for beside its own; None if it is not time yet."""
        if monotonic() < self._settings_at.get(broker, 0.0):
            return None
        self._settings_at[broker] = monotonic() + SETTINGS_EVERY_S
        assert self.observer.partitions is not None
        return self.observer.partitions.topics.names if broker == self.metadata.broker else ()

    def _collect(self) -> bool:
        """Take the finished rounds; returns whether all of them were complete."""
        complete = True
        for broker, asked in list(self._asked.items()):
            outcome = _outcome(asked, gone=self.links.by_broker.get(broker) is not asked.link)
            if outcome is None:
                continue
            del self._asked[broker]
            complete &= self._take(broker, asked, outcome)
        return complete

    def _take(self, broker: int, asked: _Asked, outcome: Outcome) -> bool:
        """Add the rows for a broker's answer; returns whether it was complete."""
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
        """Note a round that a broker did not answer in full; `answers` if it answers other requests."""
        reason = why(error, self.options.security)
        if not answers:
            if self._listings.forget(broker):
                if self.controllers is not None:  # without their majority, metadata keeps listing brokers that are down
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
        """The detail of a broker's row; if it is not listed, with the reason that the controllers give."""
        if listed:
            return detail
        known = "" if self.controllers is None else self.controllers.registration(broker)
        return f"{detail}, {NOT_LISTED}" + (f", {known}" if known else "")


def _now() -> Instant:
    return Instant(time_ns() // 1000, 0.0)


def _outcome(asked: _Asked, *, gone: bool) -> Outcome | None:
    """The outcome of a broker's round; None while it runs."""
    if asked.work.is_done:
        error = asked.work.exception
        return Outcome(error=error) if error is not None else asked.work.value
    return Outcome(error=NotAnswering("it is not among the brokers that are up")) if gone else None
