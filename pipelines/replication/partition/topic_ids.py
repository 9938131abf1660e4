"""The topic that a row is about: one of the same name may have been deleted and created again."""

from __future__ import annotations

from msgspec import field

from pipelines.replication.partition.codec import Persisted
from pipelines.replication.partition.events import PartitionEvent
from pipelines.replication.partition.registration import PartitionRegistration

FORGOTTEN_IDS = 4
CANDIDATES = 16
CONFIRMATION_US = 10_000_000
"""What only a controller reports may be a replay, or the start of a broker that is about to serve. Within this time
another broker refutes it; a restart that takes longer is an event of its own."""


class TopicIdentity(Persisted):
    """Ids of deleted topics, and rows of an id that only controllers have reported so far.

    A restarted controller replays deleted topics too, and then the one that exists: what it reports of that one refutes
    what it reported before. So does a broker that applies metadata, unless it is behind; what a broker reports of its
    own log or proposes shows nothing about what exists. An id that nothing refutes in time is a new topic.
    """

    forgotten: list[str] = field(default_factory=list)
    candidates: list[PartitionEvent] = field(default_factory=list)
    refuted: bool = False

    def belongs(self, event: PartitionEvent, registration: PartitionRegistration) -> bool | None:
        """True: to the topic that exists; False: to none, or not known yet; None: it begins a new topic."""
        current, named = registration.topic_id, event.topic_id
        if named is None and self.candidates and (event.leader_epoch or 0) < (registration.leader_epoch or 0):
            self.candidates.append(event)
            return False
        if named is None or current is None or named == current:
            registration.topic_id = current or named
            if named and self.candidates:
                self._refute(event)
            return True
        if named in self.forgotten:
            return False
        if _applies_metadata(event):
            return None
        if event.broker_id < 0:  # the metadata log itself
            return None
        self.candidates, self.refuted = [*self.candidates[1 - CANDIDATES :], event], False
        return False

    def _refute(self, event: PartitionEvent) -> None:
        if any((event.source_id, event.broker_id) == (c.source_id, c.broker_id) for c in self.candidates):
            self.candidates = []
        self.refuted = self.refuted or _applies_metadata(event)

    def due(self) -> int | None:
        """When the newest candidate counts as a new topic."""
        return self.candidates[-1].ts + CONFIRMATION_US if self.candidates and not self.refuted else None

    def adopted(self, at: int) -> PartitionEvent | None:
        """The first row of the topic that counts as new by `at`."""
        due = self.due()
        if due is None or due > at:
            return None
        newest = next(c.topic_id for c in reversed(self.candidates) if c.topic_id)
        return next(c for c in self.candidates if c.topic_id == newest)

    def adopt(self, event: PartitionEvent, old: str | None) -> list[PartitionEvent]:
        """The rows that waited for the topic of this event; the id `old` is forgotten."""
        unnamed = () if self.refuted else (None,)
        waiting = [c for c in self.candidates if c.topic_id in (event.topic_id, *unnamed)]
        self.forgotten = [*self.forgotten, *([old] if old else [])][-FORGOTTEN_IDS:]
        self.candidates, self.refuted = [], False
        return waiting


def _applies_metadata(event: PartitionEvent) -> bool:
    """Whether the row is of a broker that applies metadata."""
    return event.event_type in ("leader", "follower") or event.detail in ("alter_partition", "metadata")
