"""The present state of one partition, as last told."""

from __future__ import annotations

from pipelines.replication.partition.codec import Kept
from pipelines.replication.partition.events import Note


class Present(Kept):
    """The partition as last told; `leaderless_since` in microseconds while nobody leads."""

    leader_id: int | None = None
    leader_epoch: int | None = None
    partition_epoch: int | None = None
    isr: tuple[int, ...] | None = None
    replicas: tuple[int, ...] | None = None
    topic_id: str | None = None
    leaderless_since: int | None = None
    min_isr: int | None = None

    def take(self, note: Note) -> None:
        """What a row tells of the partition's state, unless it is older than what is known."""
        epoch, mine = note.partition_epoch, self.partition_epoch
        if epoch is not None and mine is not None and epoch < mine:
            return
        if note.leader_epoch is not None and note.leader_epoch < (self.leader_epoch or 0):
            return
        leader = note.broker_id if note.event_type == "leader" else note.leader_id
        if leader is not None:
            self.leaderless_since = None if leader >= 0 else (self.leaderless_since or note.ts)
            self.leader_id = leader
        self.leader_epoch = note.leader_epoch if note.leader_epoch is not None else self.leader_epoch
        self.partition_epoch = epoch if epoch is not None else mine
        self.isr = note.isr if note.isr is not None else self.isr
        self.replicas = note.replicas or self.replicas
        self.min_isr = note.min_isr if note.event_type == "leader" else self.min_isr
