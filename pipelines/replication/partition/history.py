"""The history of one partition across its leaders, and across deletion and recreation of its topic."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec import field

from pipelines.replication.compiled.progress import NoProgress
from pipelines.replication.compiled.types import NEVER
from pipelines.replication.partition import codec
from pipelines.replication.partition.codec import Persisted
from pipelines.replication.partition.events import PartitionEvent, TermLookup
from pipelines.replication.partition.isr_changes import IsrHistory
from pipelines.replication.partition.one_term import Term
from pipelines.replication.partition.registration import PartitionRegistration
from pipelines.replication.partition.terms import Terms
from pipelines.replication.partition.topic_history import TopicHistory
from pipelines.replication.partition.topic_ids import CONFIRMATION_US, TopicIdentity

VERSION = 5
KEPT_RESTORATIONS = 2
MOST_DECISIONS_AT_ONCE = 16
"""The most decisions in a row of which none is due later than the one before: an adopted topic brings its rows
along."""


class LeadersWord(Persisted):
    """The last report of a broker on a partition that it leads or led."""

    out_of_sync: set[int] = field(default_factory=set)
    held_back: bool = False


NO_WORD = LeadersWord()


class PartitionHistory(Persisted):
    """Takes events in canonical order, hands each to the topic it is about, and gathers the rows published.

    `settle(upto)` takes the decisions due before `upto`; every event up to a decision's time must have been applied
    before. So the rows do not depend on how the events are cut, only on their order.
    """

    cluster: str
    topic: str
    partition: int
    topics: list[TopicHistory] = field(default_factory=list)
    """The last one exists; the others are deleted, and stay until no broker with a clock behind can report of them."""
    identity: TopicIdentity = field(default_factory=TopicIdentity)
    now: int = 0
    changes: list[dict[str, Any]] = field(default_factory=list)
    regressions: list[dict[str, Any]] = field(default_factory=list)
    words: dict[int, LeadersWord] = field(default_factory=dict)
    """By broker; a broker that last reported that all is well has no entry."""

    def __post_init__(self) -> None:
        self.topics = self.topics or [self._new_topic()]

    @property
    def registration(self) -> PartitionRegistration:
        return self.topics[-1].registration

    @property
    def isr(self) -> IsrHistory:
        return self.topics[-1].isr

    @property
    def terms(self) -> Terms:
        return self.topics[-1].terms

    def apply(self, event: PartitionEvent, lookup: TermLookup) -> None:
        """Apply one event; `settle(its time)` comes before."""
        if event.ts > self.now:
            self.now = event.ts
        if event.event_type == "sample":  # entries of checkpoints outlive their topic: they are no sign of a new one
            topic = next((t for t in reversed(self.topics) if t.registration.topic_id == event.topic_id), None)
        else:
            topic = self._own_topic(event, lookup)
        if topic is not None and (topic.restored_at or topic.goes_back(event, lookup)):
            topic = self._own_lineage(topic, event, lookup)
        if topic is not None:
            topic.apply(event, lookup)
            self._gather(topic)

    def _own_topic(self, event: PartitionEvent, lookup: TermLookup) -> TopicHistory | None:
        """The topic that an event is about, None if that is not known yet, or none; a new one begins with its first."""
        topic = self._deleted_topic(event.topic_id) if len(self.topics) > 1 else None
        if topic is None:
            belongs = self.identity.belongs(event, self.registration)
            if belongs is None:
                self._recreate(event, lookup)
            topic = None if belongs is False else self.topics[-1]
        return topic

    def _own_lineage(self, topic: TopicHistory, event: PartitionEvent, lookup: TermLookup) -> TopicHistory:
        """The stretch of a topic's history that an event is of: one ends where leader epochs begin again below."""
        place = next(k for k, one in enumerate(self.topics) if one is topic)
        newest = place
        while topic.restored_at and event.broker_id not in topic.terms.positions:
            before = self.topics[place - 1]
            if not before.is_before_restoration(event, topic.restored_at):
                break
            topic, place = before, place - 1
        if not topic.goes_back(event, lookup):
            topic.now = max(topic.now, self.now)
            return topic
        if place < newest:
            topic.leave(event, lookup)
            after = self.topics[place + 1]
            after.restored_at = min(after.restored_at, event.ts)
            return after
        after = topic.restore(event, lookup)
        self.topics.insert(place + 1, after)
        self._gather(topic)
        restored = [k for k, one in enumerate(self.topics) if one.restored_at]
        if len(restored) > KEPT_RESTORATIONS:
            self.topics[restored[0]].restored_at = 0
            del self.topics[restored[0] - 1]
        return after

    def take_word(self, event: PartitionEvent) -> None:
        """Take a broker's report, also a former leader's: it may lead again before it reports anything else."""
        word = self.words.pop(event.broker_id, None) or LeadersWord()
        if event.replica_id is None:
            word.held_back = event.detail == "held_back" and self.registration.leader_id in (None, event.broker_id)
        elif event.detail == "out_of_sync":
            word.out_of_sync.add(event.replica_id)
        else:
            word.out_of_sync.discard(event.replica_id)
        if word != NO_WORD:
            self.words[event.broker_id] = word

    def speaker(self) -> int | None:
        """The leader; if none was reported, the broker that last reported as leader."""
        leader = self.registration.leader_id
        return next(reversed(self.words), None) if leader is None else leader

    def end_waits(self) -> None:
        """End held-back HWs that former leaders reported: a former leader that leads again reports anew."""
        for broker, word in self.words.items():
            word.held_back = word.held_back and broker == self.speaker()

    def settle(self, upto: int, lookup: TermLookup) -> int | None:
        """Take the decisions due before `upto`; returns when the next one is due."""
        decided, repeated = -1, 0
        while (due := self.due()) is not None and due < upto:
            repeated = repeated + 1 if due <= decided else 0
            if repeated > MOST_DECISIONS_AT_ONCE:
                newest = self.terms.terms[-1].epoch if self.terms.terms else None
                place = (self.cluster, self.topic, self.partition)
                raise NoProgress.at(place, f"epoch {newest}", f"what falls due at {due} us")
            self._decide(due, lookup)
            decided = max(due, decided)
        return due

    def due(self) -> int | None:
        """The earliest time at which something waits to be decided."""
        if len(self.topics) == 1 and not self.identity.candidates:  # a topic closes only when another replaced it
            return self.topics[0].due()
        waiting = [self.identity.due(), *(t.due() for t in self.topics), *(t.closes_at for t in self.topics)]
        return min((w for w in waiting if w is not None), default=None)

    def outlived(self) -> Iterator[Term]:
        """Terms judged to be over whose leaders may not know it yet."""
        for topic in self.topics:
            folded = topic.terms.folded_term
            for term in [folded, *topic.terms.terms] if folded else topic.terms.terms:
                if term.summary is not None and term.start_ts is not None and not term.over:
                    yield term

    def zombie_rise(self, term: Term, hw: int, ts: int, lookup: TermLookup) -> None:
        """A deposed leader's HW rose after this term of its was over."""
        self.now = max(self.now, ts)
        for topic in self.topics:
            if term is topic.terms.folded_term or any(term is t for t in topic.terms.terms):
                topic.zombie_rise(term, hw, ts, lookup)

    def take_isr_changes(self) -> list[dict[str, Any]]:
        """Remove and return the new rows of `silver/isr_changes`."""
        rows, self.changes = self.changes, []
        return rows

    def take_regressions(self) -> list[dict[str, Any]]:
        """Remove and return the new rows of `silver/hw_regressions`."""
        rows, self.regressions = self.regressions, []
        return rows

    def take_contradictions(self) -> list[dict[str, Any]]:
        """Remove and return the new rows of `silver/telemetry_gaps`."""
        place = {"cluster": self.cluster, "topic": self.topic, "partition": self.partition}
        found = [{**place, **row} for topic in self.topics for row in topic.isr.contradictions]
        for topic in self.topics:
            topic.isr.contradictions = []
        return found

    def to_bytes(self) -> bytes:
        return codec.encode(self, VERSION)

    @classmethod
    def from_bytes(cls, blob: bytes) -> PartitionHistory:
        """The history that `to_bytes` wrote. Raises ValueError naming an unknown version."""
        return codec.decode(cls, blob, VERSION)

    def _new_topic(self) -> TopicHistory:
        return TopicHistory(self.cluster, self.topic, self.partition)

    def _deleted_topic(self, topic_id: str | None) -> TopicHistory | None:
        """The deleted topic with this id; None if there is none, or its history is closed."""
        if topic_id in (None, self.registration.topic_id):
            return None
        return next((t for t in reversed(self.topics[:-1]) if t.registration.topic_id == topic_id), None)

    def _recreate(self, event: PartitionEvent, lookup: TermLookup) -> None:
        """Begin the history of a new topic in the place of the present one."""
        old, new = self.topics[-1], self._new_topic()
        waiting = self.identity.adopt(event, old.registration.topic_id)
        new.begin_after(old, event, lookup)
        for one in reversed(self.topics):
            one.isr.deleted, one.closes_at = True, event.ts + CONFIRMATION_US
            if not one.restored_at:
                break
        self.topics.append(new)
        for candidate in waiting:
            new.apply(candidate, lookup)
        self._gather(new)

    def _decide(self, at: int, lookup: TermLookup) -> None:
        """Take every decision due at `at`."""
        adopted = self.identity.adopted(at)
        if adopted is not None:
            return self._recreate(adopted, lookup)
        for topic, after in zip(list(self.topics), [*self.topics[1:], None], strict=True):
            closed = topic.closes_at is not None and topic.closes_at <= at
            decided = closed or (topic.due() or NEVER) <= at
            if decided:
                topic.decide(NEVER if closed else at, at, lookup)
            if decided and after is not None and after.restored_at:
                after.follow_on(topic, at, lookup)
            if closed:
                self.topics = [one for one in self.topics if one is not topic]
            self._gather(topic)
        return None

    def _gather(self, topic: TopicHistory) -> None:
        """Move a topic's rows here, in the order in which they were decided."""
        if topic.changes or topic.regressions:
            self.changes += topic.changes
            self.regressions += topic.regressions
            topic.changes, topic.regressions = [], []
