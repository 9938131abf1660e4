"""The latest known state of one partition (Kafka: org.apache.kafka.metadata.PartitionRegistration)."""

from __future__ import annotations

from pipelines.replication.partition.codec import Persisted
from pipelines.replication.partition.events import PartitionEvent


class PartitionRegistration(Persisted):
    """The partition as last reported; `leaderless_since` in microseconds while it has no leader."""

    leader_id: int | None = None
    leader_epoch: int | None = None
    partition_epoch: int | None = None
    isr: tuple[int, ...] | None = None
    replicas: tuple[int, ...] | None = None
    topic_id: str | None = None
    leaderless_since: int | None = None
    min_isr: int | None = None

    def apply(self, event: PartitionEvent) -> None:
        """Take over what an event reports, unless it is of an older partition epoch or leader epoch."""
        epoch, own = event.partition_epoch, self.partition_epoch
        if epoch is not None and own is not None and epoch < own:
            return
        if event.leader_epoch is not None and event.leader_epoch < (self.leader_epoch or 0):
            return
        leader = event.broker_id if event.event_type == "leader" else event.leader_id
        if leader is not None:
            self.leaderless_since = None if leader >= 0 else (self.leaderless_since or event.ts)
            self.leader_id = leader
        self.leader_epoch = event.leader_epoch if event.leader_epoch is not None else self.leader_epoch
        self.partition_epoch = epoch if epoch is not None else own
        self.isr = event.isr if event.isr is not None else self.isr
        self.replicas = event.replicas or self.replicas
        self.min_isr = event.min_isr if event.event_type == "leader" else self.min_isr
