"""Partitions and brokers as they are registered with the controller."""

from __future__ import annotations

from dataclasses import dataclass

NOBODY = -1


@dataclass(frozen=True)
class Registration:
    """A registered partition (PartitionRegistration).

    The partition epoch increases with every change, the leader epoch whenever a leader is named.
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
    """Elected outside the ISR, and the leader has not reported its recovery yet."""
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
    """A registered broker: `epoch` names this incarnation of it, `process` the process that registered."""

    epoch: int
    process: int
    fenced: bool = True
    stopping: bool = False
    last_heartbeat: int = 0
    """Time of its last heartbeat, in true time."""

    @property
    def active(self) -> bool:
        return not self.fenced and not self.stopping
