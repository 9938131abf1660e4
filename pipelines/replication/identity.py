"""Which topic a row is about: a topic of the same name may have been deleted and created again."""

from __future__ import annotations

from dataclasses import dataclass, field

from pipelines.replication.notes import Note
from pipelines.replication.present import Present

FORGOTTEN_IDS = 4
CANDIDATES = 16
# What only a controller told may be a replay, or the start of a broker that is about to serve; a restart that
# takes longer than this is news of its own.
UNTOLD_US = 10_000_000


@dataclass(slots=True)
class TopicIdentity:
    """Topic ids that are gone, and rows about one that nobody but a controller has told of yet.

    Brokers act on the present metadata only; a restarted controller replays deleted topics too. Its burst goes
    on to the topic that exists, so an id after which that does not come is a new topic.
    """

    forgotten: list[str] = field(default_factory=list)
    candidates: list[Note] = field(default_factory=list)

    def belongs(self, note: Note, present: Present) -> bool | None:
        """True: to the topic that exists; False: to none, or not known yet; None: it begins a new one."""
        known, told = present.topic_id, note.topic_id
        if told is None and self.candidates and (note.leader_epoch or 0) < (present.leader_epoch or 0):
            self.candidates.append(note)
            return False
        if told is None or known is None or told == known:
            present.topic_id = known or told
            self.candidates = [] if told else self.candidates
            return True
        if told in self.forgotten:
            return False
        if note.event_type in ("leader", "follower") or note.detail in ("alter_partition", "metadata"):
            return None
        if note.broker_id < 0:  # the metadata log itself
            return None
        self.candidates = [*self.candidates[1 - CANDIDATES :], note]
        return False

    def due(self) -> int | None:
        return self.candidates[-1].ts + UNTOLD_US if self.candidates else None

    def adopted(self, at: int) -> Note | None:
        """The first row of the topic that has turned out to be new by now."""
        due = self.due()
        if due is None or due > at:
            return None
        newest = next(c.topic_id for c in reversed(self.candidates) if c.topic_id)
        return next(c for c in self.candidates if c.topic_id == newest)

    def adopt(self, topic_id: str, old: str | None) -> list[Note]:
        """The rows that waited for this topic; the old one is forgotten."""
        waiting = [c for c in self.candidates if c.topic_id in (None, topic_id)]
        self.forgotten = [*self.forgotten, *([old] if old else [])][-FORGOTTEN_IDS:]
        self.candidates = []
        return waiting
