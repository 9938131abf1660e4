"""Requests of producers and followers to the leader of a partition, and its own to the controller, with answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from generators.simulator.cluster.log import Run
from generators.simulator.cluster.replica import Replica

REVERTED = ("OPERATION_NOT_ATTEMPTED", "INELIGIBLE_REPLICA")
PENDING = (
    "UNKNOWN_TOPIC_ID", "FENCED_LEADER_EPOCH", "INVALID_UPDATE_VERSION", "INVALID_REQUEST", "NEW_LEADER_ELECTED",
)  # fmt: skip
"""Errors after which the leader waits for new metadata (Partition.handleAlterPartitionError)."""


class Produced(NamedTuple):
    """The answer to a producer: Kafka's name of an error, or the first and last offset."""

    error: str | None
    first: int = -1
    last: int = -1


class Fetched(NamedTuple):
    """The answer to a fetch of one partition. `diverging`: (epoch, its end) where the logs diverge."""

    error: str | None = None
    runs: tuple[Run, ...] = ()
    hw: int = -1
    log_start: int = 0
    leo: int = -1
    diverging: tuple[int, int] | None = None


class Asked(NamedTuple):
    """A follower's fetch of one partition at `offset`, its LEO."""

    topic_id: str
    offset: int
    leader_epoch: int
    last_epoch: int | None

    def still(self, replica: Replica) -> bool:
        """Whether a replica is of the same topic id and leader epoch."""
        return (replica.topic_id, replica.leader_epoch) == (self.topic_id, self.leader_epoch)


@dataclass(eq=False)
class Proposal:
    """An ISR that a leader requests from the controller (AlterPartition)."""

    topic_id: str
    isr: tuple[int, ...]
    detail: str
    leader_epoch: int
    partition_epoch: int
    members: tuple[tuple[int, int | None], ...]
    """The ISR with the broker epochs that the leader knows."""
