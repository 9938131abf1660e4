"""What happened to one partition across its leaders, through the deletion and creation anew of its topic."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec import field

from pipelines.replication.compiled.progress import NoProgress
from pipelines.replication.partition import codec
from pipelines.replication.partition.codec import Kept
from pipelines.replication.partition.events import Context, Note, TermSeen
from pipelines.replication.partition.isr_changes import IsrHistory
from pipelines.replication.partition.registration import Present
from pipelines.replication.partition.terms import Term, Terms
from pipelines.replication.partition.topic_history import EVER, TopicHistory
from pipelines.replication.partition.topic_ids import UNTOLD_US, TopicIdentity

__all__ = ["Context", "Note", "PartitionHistory", "Present", "TermSeen"]

VERSION = 4
DECIDED_AGAIN = 16
"""So often a decision may leave another one that is not due later: a topic that is adopted brings its rows along."""


class PartitionHistory(Kept):
    """Consumes notes in canonical order, hands each to the topic it is about, and tells what they come to.

    `settle(upto)` takes the decisions due before `upto`; every note up to a decision's time must have been applied
    ahead of it. So the rows do not depend on how the notes are cut, only on their order.
    """

    cluster: str
    topic: str
    partition: int
    topics: list[TopicHistory] = field(default_factory=list)
    """The last one exists; the others are deleted, and until they close brokers with clocks behind tell of them."""
    identity: TopicIdentity = field(default_factory=TopicIdentity)
    now: int = 0
    changes: list[dict[str, Any]] = field(default_factory=list)
    regressions: list[dict[str, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.topics = self.topics or [self._fresh()]

    @property
    def present(self) -> Present:
        return self.topics[-1].present

    @property
    def isr(self) -> IsrHistory:
        return self.topics[-1].isr

    @property
    def terms(self) -> Terms:
        return self.topics[-1].terms

    def apply(self, note: Note, context: Context) -> None:
        """Takes in one note; `settle(its time)` comes first."""
        self.now = max(self.now, note.ts)
        about = self._deleted(note.topic_id)
        if about is None:
            belongs = self.identity.belongs(note, self.present)
            if belongs is None:
                self._recreate(note, context)
            about = None if belongs is False else self.topics[-1]
        if about is not None:
            about.apply(note, context)
            self._gather(about)

    def settle(self, upto: int, context: Context) -> int | None:
        """Decides everything due before `upto`; the earliest time at which something waits then."""
        decided, again = -1, 0
        while (due := self.due()) is not None and due < upto:
            again = again + 1 if due <= decided else 0
            if again > DECIDED_AGAIN:
                newest = self.terms.terms[-1].epoch if self.terms.terms else None
                place = (self.cluster, self.topic, self.partition)
                raise NoProgress.at(place, f"epoch {newest}", f"what falls due at {due} us")
            self._decide(due, context)
            decided = max(due, decided)
        return due

    def due(self) -> int | None:
        """The earliest time at which something waits to be decided."""
        if len(self.topics) == 1 and not self.identity.candidates:  # a topic closes when another has come
            return self.topics[0].due()
        waiting = [self.identity.due(), *(t.due() for t in self.topics), *(t.closes for t in self.topics)]
        return min((w for w in waiting if w is not None), default=None)

    def outlived(self) -> Iterator[Term]:
        """Terms judged to be over whose leaders may not have heard of it."""
        for topic in self.topics:
            folded = topic.terms.folded_term
            for term in [folded, *topic.terms.terms] if folded else topic.terms.terms:
                if term.seen is not None and term.start is not None and not term.over:
                    yield term

    def zombie_rise(self, term: Term, hw: int, ts: int) -> None:
        """A deposed leader's HW rose after this term of its was over."""
        self.now = max(self.now, ts)
        for topic in self.topics:
            if term is topic.terms.folded_term or any(term is t for t in topic.terms.terms):
                topic.rise(term, hw, ts)

    def take_isr_changes(self) -> list[dict[str, Any]]:
        """New rows of `silver/isr_changes`."""
        rows, self.changes = self.changes, []
        return rows

    def take_regressions(self) -> list[dict[str, Any]]:
        """New rows of `silver/hw_regressions`."""
        rows, self.regressions = self.regressions, []
        return rows

    def to_bytes(self) -> bytes:
        return codec.encode(self, VERSION)

    @classmethod
    def from_bytes(cls, blob: bytes) -> PartitionHistory:
        """The history that `to_bytes` wrote. Raises ValueError naming an unknown version."""
        return codec.decode(cls, blob, VERSION)

    def _fresh(self) -> TopicHistory:
        return TopicHistory(self.cluster, self.topic, self.partition)

    def _deleted(self, topic_id: str | None) -> TopicHistory | None:
        """The deleted topic of this id, while it is not closed."""
        if topic_id is None or len(self.topics) == 1:
            return None
        return next((t for t in self.topics[:-1] if t.present.topic_id == topic_id), None)

    def _recreate(self, note: Note, context: Context) -> None:
        """Begins the history of a topic in the place of another."""
        old, new = self.topics[-1], self._fresh()
        waiting = self.identity.adopt(note, old.present.topic_id)
        new.recreated(old, note, context)
        old.isr.deleted, old.closes = True, note.ts + UNTOLD_US
        self.topics.append(new)
        for candidate in waiting:
            new.apply(candidate, context)
        self._gather(new)

    def _decide(self, at: int, context: Context) -> None:
        """Takes every decision due at `at`."""
        adopted = self.identity.adopted(at)
        if adopted is not None:
            return self._recreate(adopted, context)
        for topic in list(self.topics):
            if topic.closes is not None and topic.closes <= at:
                topic.decide(EVER, at, context)
                self.topics.remove(topic)
            elif (topic.due() or EVER) <= at:
                topic.decide(at, at, context)
            self._gather(topic)
        return None

    def _gather(self, topic: TopicHistory) -> None:
        """Rows in the order in which they were decided."""
        self.changes += topic.changes
        self.regressions += topic.regressions
        topic.changes, topic.regressions = [], []
