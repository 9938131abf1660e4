"""Which topic a row is about: a topic of the same name may have been deleted and created again."""

from __future__ import annotations

from msgspec import field

from pipelines.replication.partition.codec import Kept
from pipelines.replication.partition.events import Note
from pipelines.replication.partition.registration import Present

FORGOTTEN_IDS = 4
CANDIDATES = 16
# What only a controller told may be a replay, or the start of a broker that is about to serve; a restart that
# takes longer than this is news of its own.
UNTOLD_US = 10_000_000


class TopicIdentity(Kept):
    """Topic ids that are gone, and rows about one that nobody but a controller has told of yet.

    A restarted controller replays deleted topics too, and its burst goes on to the topic that exists: what it tells of
    that one refutes what it told before. So does a broker that tells of its metadata, unless it is behind; what it says
    of its own log or wishes is no news of what exists. An id that nobody refutes in time is a new topic.
    """

    forgotten: list[str] = field(default_factory=list)
    candidates: list[Note] = field(default_factory=list)
    refuted: bool = False

    def belongs(self, note: Note, present: Present) -> bool | None:
        """True: to the topic that exists; False: to none, or not known yet; None: it begins a new one."""
        known, told = present.topic_id, note.topic_id
        if told is None and self.candidates and (note.leader_epoch or 0) < (present.leader_epoch or 0):
            self.candidates.append(note)
            return False
        if told is None or known is None or told == known:
            present.topic_id = known or told
            if told and self.candidates:
                self._refute(note)
            return True
        if told in self.forgotten:
            return False
        if _of_metadata(note):
            return None
        if note.broker_id < 0:  # the metadata log itself
            return None
        self.candidates, self.refuted = [*self.candidates[1 - CANDIDATES :], note], False
        return False

    def _refute(self, note: Note) -> None:
        if any((note.source_id, note.broker_id) == (c.source_id, c.broker_id) for c in self.candidates):
            self.candidates = []
        self.refuted = self.refuted or _of_metadata(note)

    def due(self) -> int | None:
        return self.candidates[-1].ts + UNTOLD_US if self.candidates and not self.refuted else None

    def adopted(self, at: int) -> Note | None:
        """The first row of the topic that has turned out to be new by now."""
        due = self.due()
        if due is None or due > at:
            return None
        newest = next(c.topic_id for c in reversed(self.candidates) if c.topic_id)
        return next(c for c in self.candidates if c.topic_id == newest)

    def adopt(self, note: Note, old: str | None) -> list[Note]:
        """The rows that waited for this note's topic; the old one is forgotten."""
        unnamed = () if self.refuted else (None,)
        waiting = [c for c in self.candidates if c.topic_id in (note.topic_id, *unnamed)]
        self.forgotten = [*self.forgotten, *([old] if old else [])][-FORGOTTEN_IDS:]
        self.candidates, self.refuted = [], False
        return waiting


def _of_metadata(note: Note) -> bool:
    """Whether a broker tells of metadata that it applies."""
    return note.event_type in ("leader", "follower") or note.detail in ("alter_partition", "metadata")
