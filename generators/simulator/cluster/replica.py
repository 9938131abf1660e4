"""One broker's copy of a partition, and a leader's state of each follower."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from generators.simulator.cluster import rules
from generators.simulator.cluster.log import ReplicaLog

if TYPE_CHECKING:
    from generators.simulator.cluster.leader_partition import LeaderPartition


@dataclass
class Follower:
    """A leader's state of one follower (ReplicaState); times are milliseconds of the leader's clock."""

    id: int
    leo: int = rules.UNKNOWN
    leader_leo: int = rules.UNKNOWN
    """The leader's LEO at its previous fetch."""
    fetched: int = 0
    caught_up: int = 0
    broker_epoch: int | None = None

    def fetches(self, offset: int, leader_leo: int, now: int, broker_epoch: int | None) -> bool:
        """Update by a fetch at `offset`; returns whether the follower's LEO changed."""
        self.caught_up = rules.last_caught_up(self.caught_up, offset, leader_leo, self.leader_leo, self.fetched, now)
        changed = offset != self.leo
        self.leo = offset
        self.leader_leo = max(self.leader_leo, leader_leo)
        self.fetched = now
        self.broker_epoch = broker_epoch
        return changed


@dataclass
class Replica:
    """A partition's log on one broker. `checkpointed` and `flushed` are on its disk, the rest in memory."""

    topic: str
    partition: int
    topic_id: str
    log: ReplicaLog = field(default_factory=ReplicaLog)
    hw: int = 0
    checkpointed: int = 0
    """The HW last written to replication-offset-checkpoint."""
    flushed: int = 0
    """The recovery point: what remains after a power failure."""
    leader_partition: LeaderPartition | None = None
    leader: int | None = None
    """The broker that it follows, or its own."""
    leader_epoch: int = -1
    partition_epoch: int = -1
    directory: int = 0
    """Position of its log directory on its broker."""

    @property
    def key(self) -> tuple[str, int]:
        return self.topic, self.partition

    def load(self) -> None:
        """A process starts with this log: the HW is that of the checkpoint, within the log (Partition.createLog)."""
        self.hw = max(self.log.start, min(self.checkpointed, self.log.leo))
        self.leader_partition, self.leader, self.leader_epoch, self.partition_epoch = None, None, -1, -1

    def truncate(self, offset: int) -> bool:
        """Truncate the log and the HW to `offset`; returns whether there was anything to truncate."""
        before = self.log.leo
        self.log.truncate(offset)
        if self.log.leo == before:
            return False
        self.hw = min(self.hw, self.log.leo)
        self.flushed = min(self.flushed, self.log.leo)
        return True

    def restart(self, offset: int) -> None:
        """Drop everything and continue at `offset`, which becomes the HW, too."""
        self.log.restart(offset)
        self.hw = self.flushed = offset
