"""What the controller has on record of partitions and brokers."""

from __future__ import annotations

from dataclasses import dataclass

NOBODY = -1


@dataclass(frozen=True)
class Registration:
    """A partition on record (PartitionRegistration).

    Its own epoch rises with every change, the leader epoch whenever a leader is named.
    """

    topic: str
    partition: int
    topic_id: str
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int
    leader_epoch: int = 0
    partition_epoch: int = 0
    recovering: bool = False
    """Elected outside the ISR, and not yet told by the leader that it has recovered."""
    eligible: tuple[int, ...] = ()
    """Eligible leader replicas (KIP-966)."""
    last_known: int | None = None
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
    min_isr: int = 1
    unclean: bool = False
    """unclean.leader.election.enable"""

    @property
    def key(self) -> tuple[str, int]:
        return self.topic, self.partition


@dataclass
class BrokerRegistration:
    """A broker on record: `epoch` names this incarnation of it, `process` the process that registered."""

    epoch: int
    process: int
    fenced: bool = True
    stopping: bool = False
    heard: int = 0
    """When its last heartbeat came, in true time."""

    @property
    def active(self) -> bool:
        return not self.fenced and not self.stopping
