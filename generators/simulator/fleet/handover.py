"""Partitions that leave the rounds for single steps, with all that is known of them, and come back when steady."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from generators.simulator.clients.load import Load
from generators.simulator.cluster import rules
from generators.simulator.cluster.leading import Leading
from generators.simulator.cluster.log import ReplicaLog, Run
from generators.simulator.cluster.registration import Registration
from generators.simulator.cluster.replica import Follower, Replica
from generators.simulator.fleet.arrangement import NEVER, Keys
from generators.simulator.fleet.compiled import I64
from generators.simulator.fleet.draws import between, exponential, share
from generators.simulator.fleet.partitions import NOBODY, Partitions
from generators.simulator.fleet.roster import Roster
from generators.simulator.fleet.rounds import SECOND, TENTH
from generators.simulator.fleet.telling import Course

if TYPE_CHECKING:
    from generators.simulator.cluster.simulation import Simulation
    from generators.simulator.fleet.truth import FleetTruth


MOMENT_MS = 1_000
"""A follower that was caught up so lately is steady: one that is fetched for all the time is never seen at the end."""


@dataclass
class Guest:
    """A partition among single steps; `row` is it as it came, `drawn` and `due` go on as it is written to."""

    row: Partitions
    drawn: int
    due: int


@dataclass(frozen=True)
class Disks:
    """What brokers had last written of each partition: HW checkpoints, recovery points, log starts, by number."""

    checkpointed: I64
    flushed: I64
    start: I64


class Handover:
    """Partitions among single steps, where they are written to as they would be in rounds: same times, same counts."""

    def __init__(
        self,
        simulation: Simulation,
        roster: Roster,
        course: Course,
        keys: Keys,
        loads: Sequence[Load],
        truth: FleetTruth | None = None,
    ) -> None:
        self.guests: dict[int, Guest] = {}
        self._loads = loads
        self._truth = truth
        self._simulation, self._roster, self._course, self._keys = simulation, roster, course, keys

    def adopt(self, partitions: Partitions, fetched: I64, disks: Disks) -> None:
        """Takes them over. `fetched`: when each follower fetched last, on the leader's clock (ms), [partition, k]."""
        for k in range(len(partitions)):
            row = partitions.only(slice(k, k + 1))
            number = int(row.number[0])
            self.guests[number] = Guest(row, int(row.drawn[0]), int(row.next_append[0]))
            registration = self._build(number, row, fetched[k], disks)
            if self._truth is not None:
                self._truth.came(self._simulation, registration, number)
            self._plan(number)

    def welcome(self, partitions: Partitions, now: int, disks: Disks) -> None:
        """Partitions that the controller has just created are written to from now on."""
        for k in range(len(partitions)):
            row = partitions.only(slice(k, k + 1))
            number = int(row.number[0])
            disks.checkpointed[number] = disks.flushed[number] = disks.start[number] = 0
            guest = self.guests[number] = Guest(row, self._simulation.controller.topics << 32, now)
            self._draw(number, guest)
            self._plan(number)

    def forget(self, numbers: Iterable[int]) -> None:
        """Partitions that are deleted."""
        for number in numbers:
            if self.guests.pop(number, None) is not None and self._truth is not None:
                self._truth.deleted(number)
            self._roster.delete(number)

    def _build(self, number: int, row: Partitions, fetched: I64, disks: Disks) -> Registration:
        simulation = self._simulation
        registration = self.registration(number, row)
        simulation.controller.partitions[registration.key] = registration
        simulation.clients.forget(registration.key)
        term, leader = simulation.next_term(), registration.leader
        replica = self._replica(registration, leader, int(row.leo[0]), int(row.hw[0]), term, disks, number)
        leading = Leading(simulation.brokers[leader], replica, registration, None)
        leading.term = term
        replica.leading = leading
        for k, follower in enumerate(f for f in row.replicas[0, 1:].tolist() if f != NOBODY):
            taken = int(row.taken[0, k])
            hw = rules.follower_high_watermark(int(row.follower_hw[0, k]), 0, taken)
            self._replica(registration, follower, taken, hw, term, disks, number)
            leading.followers[follower] = Follower(
                follower, int(row.stored[0, k]), int(row.seen[0, k]), int(fetched[k]), int(row.caught_up[0, k]),
                simulation.brokers[follower].epoch,
            )  # fmt: skip
            simulation.brokers[follower].fetcher(leader).add(registration.key)
        return registration

    def registration(self, number: int, row: Partitions) -> Registration:
        """A steady partition as the controller has it on record."""
        roster, replicas = self._roster, self._roster.assigned(number)
        return Registration(
            *roster.place(number), roster.topic_ids[roster.topic[number]], replicas, replicas,
            int(row.replicas[0, 0]), int(row.leader_epoch[0]), int(row.partition_epoch[0]),
            min_isr=int(roster.min_isr[number]), unclean=bool(roster.unclean[number]),
        )  # fmt: skip

    def _replica(
        self, registration: Registration, broker: int, leo: int, hw: int, term: int, disks: Disks, number: int
    ) -> Replica:
        """A broker's copy: one run stands for all its records, which agree everywhere below the LEO."""
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
        self._simulation.agenda.at(
            self._course.start + self.guests[number].due, self._write, number, self.guests[number]
        )

    def _write(self, number: int, guest: Guest) -> None:
        """A batch, and when the next one comes: drawn as the rounds draw it (rounds.next_append)."""
        if self.guests.get(number) is not guest:
            return
        course = self._course
        count = between(int(self._keys.partition[number]), guest.drawn, course.records_low, course.records_high + 1)
        guest.drawn += 1
        acks = self._loads[guest.row.load[0]].acks
        self._simulation.produce(*self._roster.place(number), count, acks)
        self._draw(number, guest)
        self._plan(number)

    def _draw(self, number: int, guest: Guest) -> None:
        """When it is written to next."""
        course, key = self._course, int(self._keys.partition[number])
        rate, shape = float(guest.row.rate[0]), course.shape[guest.row.load[0]]
        taken = rate == 0
        if taken:
            guest.due = NEVER
        while not taken:
            guest.due += 1 + int(exponential(key, guest.drawn) / rate * SECOND)
            taken = share(key, guest.drawn + 1) < shape[guest.due // TENTH % len(shape)]
            guest.drawn += 2

    # coming back

    def steady(self) -> Iterator[int]:
        """Partitions whose brokers are all well, whose replicas are all in the ISR and follow closely."""
        well = {id for id, b in self._simulation.brokers.items() if self._is_well(id)}
        for number in self.guests:
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
        leading = self._simulation.brokers[known.leader].replicas[known.key].leading
        if leading is None or leading.proposal is not None:
            return False
        return all(self._follows(leading, id) for id in replicas if id != known.leader)

    def _follows(self, leading: Leading, id: int) -> bool:
        """Whether a follower fetches, has a part of its leader's log, and was caught up a moment ago."""
        follower, broker = leading.followers[id], self._simulation.brokers[leading.broker.id]
        log = self._simulation.brokers[id].replicas[leading.replica.key].log
        reached = self._simulation.network.reaches(broker.id, id) and follower.leo >= leading.start
        fresh = follower.leo == leading.log.leo or broker.clock.ms - follower.caught_up < MOMENT_MS
        return reached and fresh and follower.leo <= log.leo <= leading.log.leo

    def known(self, number: int) -> Registration:
        """A guest as the controller has it on record."""
        return self._simulation.controller.partitions[self._roster.place(number)]

    def release(self, numbers: Iterable[int], disks: Disks) -> list[Partitions]:
        """Those partitions as arrays again, which single steps then know nothing of; nothing where there are none."""
        leaving = list(numbers)
        self._simulation.clients.hurry({self._roster.place(number) for number in leaving})
        rows = [self._dissolve(number, disks) for number in leaving]
        return [Partitions.of(rows)] if rows else []

    def _dissolve(self, number: int, disks: Disks) -> Partitions:
        guest, key = self.guests.pop(number), self._roster.place(number)
        if self._truth is not None:
            self._truth.left(self._simulation, self.known(number), number)
        known = self._simulation.controller.partitions.pop(key)
        self._roster.follow(number, known)
        brokers = self._simulation.brokers
        leading = brokers[known.leader].replicas[key].leading
        assert leading is not None
        followers = [r for r in known.replicas if r != known.leader]
        for id in followers:
            brokers[id].fetcher(known.leader).remove(key)
        state = [leading.followers[f] for f in followers]
        copies = {id: brokers[id].replicas.pop(key) for id in known.replicas}
        disks.checkpointed[number] = min(c.checkpointed for c in copies.values())
        disks.flushed[number] = min(c.flushed for c in copies.values())
        disks.start[number] = leading.log.start
        width = guest.row.replicas.shape[1] - 1

        def row(values: list[int]) -> I64:
            return np.array([values + [0] * (width - len(values))], dtype=np.int64)

        return Partitions(
            number=guest.row.number,
            replicas=np.array([[known.leader, *followers] + [NOBODY] * (width - len(followers))], dtype=np.int32),
            leader_epoch=np.array([known.leader_epoch], dtype=np.int32),
            partition_epoch=np.array([known.partition_epoch], dtype=np.int32),
            min_isr=np.array([known.min_isr], dtype=np.int32),
            rate=guest.row.rate,
            load=guest.row.load,
            leo=np.array([leading.log.leo]),
            hw=np.array([leading.replica.hw]),
            raised=np.array([0]),
            seq=guest.row.seq,
            drawn=np.array([guest.drawn]),
            next_append=np.array([guest.due]),
            stored=row([f.leo for f in state]),
            taken=row([copies[f].log.leo for f in followers]),
            seen=row([f.leader_leo for f in state]),
            caught_up=row([f.caught_up for f in state]),
            told=row([0] * len(followers)),
            follower_hw=row([copies[f].hw for f in followers]),
        )
