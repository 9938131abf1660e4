"""Partitions that leave the rounds for single steps, with all their state, and return when steady."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from generators.simulator.clients.load import Load
from generators.simulator.cluster import rules
from generators.simulator.cluster.leader_partition import LeaderPartition
from generators.simulator.cluster.log import ReplicaLog, Run
from generators.simulator.cluster.registration import Registration
from generators.simulator.cluster.replica import Follower, Replica
from generators.simulator.cluster.settings import SECOND
from generators.simulator.fleet.arrangement import NEVER, Keys
from generators.simulator.fleet.compiled import I64
from generators.simulator.fleet.counter_rng import between, exponential, share
from generators.simulator.fleet.event_rows import RunParameters
from generators.simulator.fleet.fetch_rounds import TENTH
from generators.simulator.fleet.partition_catalog import PartitionCatalog
from generators.simulator.fleet.partitions import NOBODY, Partitions

if TYPE_CHECKING:
    from generators.simulator.cluster.simulation import Simulation
    from generators.simulator.fleet.truth import FleetTruth


MOMENT_MS = 1_000
"""A follower that was caught up so lately is steady: under constant load none is ever seen at the end."""


@dataclass
class SteppedPartition:
    """A partition in single steps; `row` is its state on arrival, `drawn` and `due` advance as it is written to."""

    row: Partitions
    drawn: int
    due: int


@dataclass(frozen=True)
class Disks:
    """What brokers wrote last to their disks, by partition number: HW checkpoints, recovery points, log starts."""

    checkpointed: I64
    flushed: I64
    start: I64


class EngineSwitch:
    """Partitions in single steps, where they are written to as they would be in rounds: same times, same counts."""

    def __init__(
        self,
        simulation: Simulation,
        catalog: PartitionCatalog,
        parameters: RunParameters,
        keys: Keys,
        loads: Sequence[Load],
        truth: FleetTruth | None = None,
    ) -> None:
        self.stepped: dict[int, SteppedPartition] = {}
        self._loads = loads
        self._truth = truth
        self._simulation, self._catalog, self._parameters, self._keys = simulation, catalog, parameters, keys

    def to_steps(self, partitions: Partitions, fetched: I64, disks: Disks) -> None:
        """Move partitions to single steps. `fetched`: each follower's last fetch on the leader's clock (ms),
        [partition, k]."""
        for k in range(len(partitions)):
            row = partitions.only(slice(k, k + 1))
            number = int(row.number[0])
            self.stepped[number] = SteppedPartition(row, int(row.drawn[0]), int(row.next_append[0]))
            registration = self._build(number, row, fetched[k], disks)
            if self._truth is not None:
                self._truth.entered_steps(self._simulation, registration, number)
            self._plan(number)

    def add_created(self, partitions: Partitions, now: int, disks: Disks) -> None:
        """Write to partitions that the controller has just created from now on."""
        for k in range(len(partitions)):
            row = partitions.only(slice(k, k + 1))
            number = int(row.number[0])
            disks.checkpointed[number] = disks.flushed[number] = disks.start[number] = 0
            stepped_partition = self.stepped[number] = SteppedPartition(
                row, self._simulation.controller.topics << 32, now
            )
            self._draw(number, stepped_partition)
            self._plan(number)

    def forget(self, numbers: Iterable[int]) -> None:
        """Remove deleted partitions."""
        for number in numbers:
            if self.stepped.pop(number, None) is not None and self._truth is not None:
                self._truth.deleted(number)
            self._catalog.delete(number)

    def _build(self, number: int, row: Partitions, fetched: I64, disks: Disks) -> Registration:
        simulation = self._simulation
        registration = self.registration(number, row)
        simulation.controller.partitions[registration.key] = registration
        simulation.clients.forget(registration.key)
        term, leader = simulation.next_term(), registration.leader
        replica = self._replica(registration, leader, int(row.leo[0]), int(row.hw[0]), term, disks, number)
        leader_partition = LeaderPartition(simulation.brokers[leader], replica, registration, None)
        leader_partition.term = term
        replica.leader_partition = leader_partition
        for k, follower in enumerate(f for f in row.replicas[0, 1:].tolist() if f != NOBODY):
            taken = int(row.taken[0, k])
            hw = rules.follower_high_watermark(int(row.follower_hw[0, k]), 0, taken)
            self._replica(registration, follower, taken, hw, term, disks, number)
            leader_partition.followers[follower] = Follower(
                follower, int(row.stored[0, k]), int(row.seen[0, k]), int(fetched[k]), int(row.caught_up[0, k]),
                simulation.brokers[follower].epoch,
            )  # fmt: skip
            simulation.brokers[follower].fetcher(leader).add(registration.key)
        return registration

    def registration(self, number: int, row: Partitions) -> Registration:
        """The registration of a steady partition."""
        catalog, replicas = self._catalog, self._catalog.assigned(number)
        return Registration(
            *catalog.topic_partition(number), catalog.topic_ids[catalog.topic[number]], replicas, replicas,
            int(row.replicas[0, 0]), int(row.leader_epoch[0]), int(row.partition_epoch[0]),
            min_isr=int(catalog.min_isr[number]), unclean=bool(catalog.unclean[number]),
        )  # fmt: skip

    def _replica(
        self, registration: Registration, broker: int, leo: int, hw: int, term: int, disks: Disks, number: int
    ) -> Replica:
        """A broker's replica: one run stands for all its records, which agree everywhere below the LEO."""
        start = int(disks.start[number])
        log = ReplicaLog(start)
        if broker == registration.leader:
            log.begin_epoch(registration.leader_epoch)
        if leo > start:
            log.extend([Run(start, leo, registration.leader_epoch, term)])
        replica = Replica(
            registration.topic, registration.partition, registration.topic_id, log, hw,
            min(int(disks.checkpointed[number]), hw), min(int(disks.flushed[number]), leo), None,
            registration.leader, registration.leader_epoch, registration.partition_epoch,
        )  # fmt: skip
        self._simulation.brokers[broker].replicas[registration.key] = replica
        return replica

    # writing

    def _plan(self, number: int) -> None:
        self._simulation.event_queue.at(
            self._parameters.start + self.stepped[number].due, self._write, number, self.stepped[number]
        )

    def _write(self, number: int, stepped_partition: SteppedPartition) -> None:
        """Write a batch, and plan the next: drawn as the rounds draw it (fetch_rounds.next_append)."""
        if self.stepped.get(number) is not stepped_partition:
            return
        parameters = self._parameters
        count = between(
            int(self._keys.partition[number]),
            stepped_partition.drawn,
            parameters.records_low,
            parameters.records_high + 1,
        )
        stepped_partition.drawn += 1
        acks = self._loads[stepped_partition.row.load[0]].acks
        self._simulation.produce(*self._catalog.topic_partition(number), count, acks)
        self._draw(number, stepped_partition)
        self._plan(number)

    def _draw(self, number: int, stepped_partition: SteppedPartition) -> None:
        """Draw the time of its next append."""
        parameters, key = self._parameters, int(self._keys.partition[number])
        rate, shape = float(stepped_partition.row.rate[0]), parameters.shape[stepped_partition.row.load[0]]
        taken = rate == 0
        if taken:
            stepped_partition.due = NEVER
        while not taken:
            stepped_partition.due += 1 + int(exponential(key, stepped_partition.drawn) / rate * SECOND)
            taken = share(key, stepped_partition.drawn + 1) < shape[stepped_partition.due // TENTH % len(shape)]
            stepped_partition.drawn += 2

    # coming back

    def steady(self) -> Iterator[int]:
        """Numbers of partitions whose brokers all work, and whose replicas are all in the ISR and follow closely."""
        well = {id for id, b in self._simulation.brokers.items() if self._is_well(id)}
        for number in self.stepped:
            known = self.known(number)
            if well.issuperset(known.replicas) and self._rests(known):
                yield number

    def _is_well(self, id: int) -> bool:
        broker = self._simulation.brokers[id]
        up = broker.running and not broker.frozen and not broker.stopping
        return up and broker.throttle is None and self._simulation.controller.active(id)

    def _rests(self, known: Registration) -> bool:
        replicas = known.replicas
        if known.leader not in replicas or set(known.isr) != set(replicas) or known.recovering:
            return False
        if known.adding or known.removing:
            return False
        copies = [self._simulation.brokers[id].replicas.get(known.key) for id in replicas]
        if not all(c is not None and c.partition_epoch == known.partition_epoch for c in copies):
            return False
        if len({c.log.start for c in copies if c is not None}) > 1:
            return False
        leader_partition = self._simulation.brokers[known.leader].replicas[known.key].leader_partition
        if leader_partition is None or leader_partition.proposal is not None:
            return False
        return all(self._follows(leader_partition, id) for id in replicas if id != known.leader)

    def _follows(self, leader_partition: LeaderPartition, id: int) -> bool:
        """Whether a follower fetches, has a prefix of its leader's log, and was caught up a moment ago."""
        follower, broker = leader_partition.followers[id], self._simulation.brokers[leader_partition.broker.id]
        log = self._simulation.brokers[id].replicas[leader_partition.replica.key].log
        reached = self._simulation.network.reaches(broker.id, id) and follower.leo >= leader_partition.start
        fresh = follower.leo == leader_partition.log.leo or broker.clock.ms - follower.caught_up < MOMENT_MS
        return reached and fresh and follower.leo <= log.leo <= leader_partition.log.leo

    def known(self, number: int) -> Registration:
        """The registration of a stepped partition."""
        return self._simulation.controller.partitions[self._catalog.topic_partition(number)]

    def to_rounds(self, numbers: Iterable[int], disks: Disks) -> list[Partitions]:
        """Move partitions back to arrays; single steps drop them. Empty where there are none."""
        leaving = list(numbers)
        self._simulation.clients.hurry({self._catalog.topic_partition(number) for number in leaving})
        rows = [self._to_rounds(number, disks) for number in leaving]
        return [Partitions.of(rows)] if rows else []

    def _to_rounds(self, number: int, disks: Disks) -> Partitions:
        stepped_partition, key = self.stepped.pop(number), self._catalog.topic_partition(number)
        if self._truth is not None:
            self._truth.left_steps(self._simulation, self.known(number), number)
        known = self._simulation.controller.partitions.pop(key)
        self._catalog.follow(number, known)
        brokers = self._simulation.brokers
        leader_partition = brokers[known.leader].replicas[key].leader_partition
        assert leader_partition is not None
        followers = [r for r in known.replicas if r != known.leader]
        for id in followers:
            brokers[id].fetcher(known.leader).remove(key)
        state = [leader_partition.followers[f] for f in followers]
        copies = {id: brokers[id].replicas.pop(key) for id in known.replicas}
        disks.checkpointed[number] = min(c.checkpointed for c in copies.values())
        disks.flushed[number] = min(c.flushed for c in copies.values())
        disks.start[number] = leader_partition.log.start
        width = stepped_partition.row.replicas.shape[1] - 1

        def row(values: list[int]) -> I64:
            return np.array([values + [0] * (width - len(values))], dtype=np.int64)

        return Partitions(
            number=stepped_partition.row.number,
            replicas=np.array([[known.leader, *followers] + [NOBODY] * (width - len(followers))], dtype=np.int32),
            leader_epoch=np.array([known.leader_epoch], dtype=np.int32),
            partition_epoch=np.array([known.partition_epoch], dtype=np.int32),
            min_isr=np.array([known.min_isr], dtype=np.int32),
            rate=stepped_partition.row.rate,
            load=stepped_partition.row.load,
            leo=np.array([leader_partition.log.leo]),
            hw=np.array([leader_partition.replica.hw]),
            raised=np.array([0]),
            seq=stepped_partition.row.seq,
            drawn=np.array([stepped_partition.drawn]),
            next_append=np.array([stepped_partition.due]),
            stored=row([f.leo for f in state]),
            taken=row([copies[f].log.leo for f in followers]),
            seen=row([f.leader_leo for f in state]),
            caught_up=row([f.caught_up for f in state]),
            emitted=row([0] * len(followers)),
            follower_hw=row([copies[f].hw for f in followers]),
        )
