"""A consumer: reads from the leader below the HW, and commits its position."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple, Protocol

from generators.simulator.cluster.log import Run
from generators.simulator.cluster.replica import Replica


class Record(NamedTuple):
    """A record as a consumer reads it; its value is None where the log has none."""

    offset: int
    value: str | None


class Cluster(Protocol):
    """The methods of a cluster that a consumer needs."""

    def leader(self, topic: str, partition: int) -> int | None: ...

    def replica(self, topic: str, partition: int, broker: int) -> Replica: ...


class Consumer:
    """One consumer of one partition. `processed` has what all its processes have processed, in order.

    `nearest`: the follower that it fetches from instead of the leader (KIP-392), whose own HW bounds what it sees.
    `commits_first`: it commits before it processes (at most once), else after (at least once). When its position is
    not in the log it continues at the start (auto.offset.reset=earliest).
    """

    def __init__(
        self, cluster: Cluster, topic: str, partition: int, commits_first: bool = False, nearest: int | None = None
    ) -> None:
        self.processed: list[Record] = []
        self.position = self.committed = 0
        self._cluster = cluster
        self._place = topic, partition
        self._commits_first = commits_first
        self.nearest = nearest

    def poll(self, most: int = 500) -> list[Record]:
        """The next records, none at or above the HW (which is the last stable offset: there are no transactions)."""
        leader = self._cluster.leader(*self._place)
        if leader is None:
            return []
        replica = self._cluster.replica(*self._place, leader if self.nearest is None else self.nearest)
        if not replica.log.start <= self.position <= replica.log.leo:
            self.position = replica.log.start
        found = [r for r in records(replica.log.read(self.position, most)) if r.offset < replica.hw][:most]
        self.position += len(found)
        return found

    def step(self, most: int = 500, dies: bool = False) -> None:
        """Polls, processes and commits, or commits and processes; `dies`: its process ends between the two."""
        found = self.poll(most)
        if self._commits_first:
            self.committed = self.position
        else:
            self.processed += found
        if dies:
            self.restart()
        elif self._commits_first:
            self.processed += found
        else:
            self.committed = self.position

    def restart(self) -> None:
        """A new process, which begins at the last commit."""
        self.position = self.committed


def records(runs: Iterable[Run]) -> Iterator[Record]:
    """The records of runs; one that begins within its batch has the last of the batch's values."""
    for run in runs:
        values = run.batch.values if run.batch is not None else ()
        first = run.end - len(values)
        for offset in range(run.start, run.end):
            yield Record(offset, values[offset - first] if values else None)
