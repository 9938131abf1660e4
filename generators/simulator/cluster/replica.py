"""One broker's copy of a partition, and what a leader keeps of each follower."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from generators.simulator.cluster import rules
from generators.simulator.cluster.log import ReplicaLog

if TYPE_CHECKING:
    from generators.simulator.cluster.leading import Leading


@dataclass
class Follower:
    """A leader's record of one follower (ReplicaState); times are milliseconds of the leader's clock."""

    id: int
    leo: int = rules.UNKNOWN
    leader_leo: int = rules.UNKNOWN
    """The leader's LEO at its previous fetch."""
    fetched: int = 0
    caught_up: int = 0
    broker_epoch: int | None = None

    def fetches(self, offset: int, leader_leo: int, now: int, broker_epoch: int | None) -> bool:
        """A fetch at `offset`; whether the follower's LEO changed by it."""
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
    """The recovery point: what a power failure leaves."""
    leading: Leading | None = None
    leader: int | None = None
    """Whom it follows, or itself."""
    leader_epoch: int = -1
    partition_epoch: int = -1
    directory: int = 0
    """Which of its broker's log directories it is in."""

    @property
    def key(self) -> tuple[str, int]:
        return self.topic, self.partition

    def load(self) -> None:
        """A process starts on this log: the HW is the checkpoint's, within the log (Partition.createLog)."""
        self.hw = max(self.log.start, min(self.checkpointed, self.log.leo))
        self.leading, self.leader, self.leader_epoch, self.partition_epoch = None, None, -1, -1

    def truncate(self, offset: int) -> bool:
        """Cut the log at `offset`, and the HW with it; whether there was anything to cut."""
        if offset >= self.log.leo:
            return False
        self.log.truncate(offset)
        self.hw = min(self.hw, self.log.leo)
        self.flushed = min(self.flushed, self.log.leo)
        return True

    def restart(self, offset: int) -> None:
        """Drop everything and go on at `offset`, which becomes the HW too."""
        self.log.restart(offset)
        self.hw = self.flushed = offset
