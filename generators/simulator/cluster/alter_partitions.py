"""The ISR changes that one broker asks its controller for (AlterPartitionManager)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from generators.simulator.cluster.leader_partition import LeaderPartition
from generators.simulator.cluster.leader_requests import Proposal
from generators.simulator.cluster.registration import Registration
from generators.simulator.cluster.settings import MS

if TYPE_CHECKING:
    from generators.simulator.cluster.broker import Broker


class AlterPartitions:
    """Proposals of one process of a broker: one request at a time, one change per partition."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._asked: list[tuple[LeaderPartition, Proposal]] = []
        self._asking = False
        self._outstanding: dict[tuple[str, int], Proposal] = {}
        """By topic id and partition: proposals that are to be sent, or not answered yet."""

    def propose(self, leader_partition: LeaderPartition, proposal: Proposal, retry: bool = False) -> bool:
        """Queues a proposal for the controller.

        False if another change of that partition is outstanding: metadata has settled it for the leader, but the
        controller has not answered yet.
        """
        place = proposal.topic_id, leader_partition.replica.partition
        if self._broker.version.refuses_second_change and place in self._outstanding:
            return False
        self._outstanding[place] = proposal
        self._asked.append((leader_partition, proposal))
        if not self._asking:
            self._asking = True
            self._broker.later(50 * MS if retry else 0, self._ask)
        return True

    def answered(self, answers: list[tuple[LeaderPartition, Proposal, str | None, Registration | None]]) -> None:
        """The controller has answered; what was proposed meanwhile goes out now."""
        self._asking = False
        for leader_partition, proposal, error, registration in answers:
            self._outstanding.pop((proposal.topic_id, leader_partition.replica.partition), None)
            leader_partition.answered(proposal, error, registration)
        if self._asked and not self._asking:
            self._asking = True
            self._broker.later(0, self._ask)

    def _ask(self) -> None:
        asked, self._asked = self._asked, []
        if not self._broker.version.refuses_second_change:
            asked = [
                (leader_partition, proposal)
                for leader_partition, proposal in asked
                if leader_partition.proposal is proposal
            ]
        self._asking = bool(asked)
        if asked:
            self._broker.cluster.channel.alter_partitions(self._broker, asked)
