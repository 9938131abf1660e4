"""What must hold in a replicated cluster at every moment, whatever happens to it, asserted while it runs."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations

from generators.simulator.cluster import rules
from generators.simulator.cluster.leader_partition import LeaderPartition
from generators.simulator.cluster.log import ReplicaLog, Run
from generators.simulator.cluster.registration import NOBODY, Registration
from generators.simulator.cluster.replica import Replica
from generators.simulator.cluster.simulation import Simulation
from generators.simulator.cluster.simulation_event import SimulationEvent

Key = tuple[str, int]
Named = tuple[str, int]
"""A partition by topic id: one that is created anew is another one."""


class Invariants:
    """Checks the partition of every event, and all partitions at events of the whole cluster.

    `keeps_records=False`: machines lost what was written, or followers truncated to their HW (before KIP-101). Then
    logs may diverge below a HW, and the leader that lost its end writes other records at the same offsets of the same
    epoch, so that invariants which rely on equal logs are not asserted. The same goes for a partition from its first
    unclean election on.
    """

    def __init__(self, keeps_records: bool) -> None:
        self._keeps_records = keeps_records
        self._simulation: Simulation | None = None
        self._known: dict[Named, Registration] = {}
        self._unclean: set[Named] = set()
        self._hw: dict[int, int] = {}
        """HW of each term, by its number."""
        self._ends: dict[tuple[Named, int], int] = {}
        """Where the last record of an epoch ended."""
        self._leaders: dict[tuple[Named, int], int] = {}

    def follow(self, simulation: Simulation) -> None:
        self._simulation = simulation

    @property
    def simulation(self) -> Simulation:
        assert self._simulation is not None, "follow the simulation first"
        return self._simulation

    def trusts(self, place: Named) -> bool:
        """Whether no record below a HW can be gone there."""
        return self._keeps_records and place not in self._unclean

    def observe(self, event: SimulationEvent) -> None:
        registered = self.simulation.controller.partitions
        places = registered if event.topic is None else [(event.topic, event.partition)]
        for key in places:
            if key in registered and event.topic_id in (None, registered[key].topic_id):
                self._check(key, registered[key], event)

    def _check(self, key: Key, registration: Registration, event: SimulationEvent) -> None:
        place = registration.topic_id, registration.partition
        replicas = {
            id: replica
            for id, broker in self.simulation.brokers.items()
            if (replica := broker.replicas.get(key)) is not None and replica.topic_id == registration.topic_id
        }
        self._registered(place, registration)
        for id, replica in replicas.items():
            within_its_log(id, replica)
        terms = [(id, r.leader_partition) for id, r in replicas.items() if r.leader_partition is not None]
        for id, leader_partition in terms:
            self._rises_in_its_term(id, leader_partition)
            self._leads_its_epoch_alone(place, id, leader_partition)
        if event.kind == "append":
            self._appended(place, replicas[event.broker])
        if self.trusts(place):
            one_record_by_epoch_and_offset(replicas)
            for id, leader_partition in terms:
                holds_what_its_isr_has(id, leader_partition)
                isr_has_all_below(id, leader_partition, registration, replicas)

    def _registered(self, place: Named, now: Registration) -> None:
        before = self._known.get(place)
        self._known[place] = now
        assert set(now.isr) <= set(now.replicas), f"{now} has an ISR outside its assignment"
        assert now.leader == NOBODY or now.leader in now.isr, f"{now} is led from outside its ISR"
        if before is None or now == before:
            return
        assert now.partition_epoch >= before.partition_epoch, f"{before} became the older {now}"
        assert now.leader_epoch >= before.leader_epoch, f"{before} became the older {now}"
        if now.leader_epoch > before.leader_epoch and now.leader != NOBODY:
            if now.recovering:
                self._unclean.add(place)
            else:
                candidates = {*before.isr, *before.eligible, *_joined_last(before, now)}
                assert now.leader in candidates, f"{before} became {now}: a clean election of one not in sync"

    def _rises_in_its_term(self, id: int, leader_partition: LeaderPartition) -> None:
        before = self._hw.setdefault(leader_partition.term, leader_partition.replica.hw)
        assert leader_partition.replica.hw >= before, (
            f"HW of leader {id} fell from {before} to {leader_partition.replica.hw} in its term"
        )
        self._hw[leader_partition.term] = leader_partition.replica.hw

    def _leads_its_epoch_alone(self, place: Named, id: int, leader_partition: LeaderPartition) -> None:
        first = self._leaders.setdefault((place, leader_partition.epoch), id)
        assert first == id, f"{place}: brokers {first} and {id} both lead epoch {leader_partition.epoch}"

    def _appended(self, place: Named, replica: Replica) -> None:
        run = replica.log.runs[-1]
        before = self._ends.get((place, run.epoch), 0)
        if self.trusts(place):
            assert run.end > before, f"{place}: {run} written where epoch {run.epoch} had reached {before}"
        self._ends[place, run.epoch] = run.end


def _joined_last(before: Registration, now: Registration) -> tuple[int, ...]:
    """A reassignment ends, and may elect, with the very change that lets its last replica into the ISR."""
    ended = (before.adding or before.removing) and not (now.adding or now.removing)
    return now.isr if ended else ()


def within_its_log(id: int, replica: Replica) -> None:
    """log start <= HW <= LEO."""
    start, leo = replica.log.start, replica.log.leo
    assert start <= replica.hw <= leo, f"replica {id}: HW {replica.hw} outside its log of {start} to {leo}"


def holds_what_its_isr_has(id: int, leader_partition: LeaderPartition) -> None:
    """The HW is at or below the LEO of each member of the maximal ISR that has fetched in this term.

    One that has not (UNKNOWN) holds the HW where the term began. A fetch is reported after its LEO, before the attempt.
    """
    for member in leader_partition.maximal_isr:
        follower = leader_partition.followers.get(member)
        if follower is not None and follower.leo != rules.UNKNOWN:
            hw = leader_partition.replica.hw
            assert hw <= follower.leo, (
                f"leader {id}: HW {hw} above LEO {follower.leo} of {member} in {leader_partition.maximal_isr}"
            )


def isr_has_all_below(
    id: int, leader_partition: LeaderPartition, registration: Registration, replicas: dict[int, Replica]
) -> None:
    """Every record below the HW of whoever leads, or thinks so, is on every member of the committed ISR (StrongIsr)."""
    for member in registration.isr:
        log = replicas[member].log if member in replicas else ReplicaLog()
        hw = leader_partition.replica.hw
        first = log.parts_from(leader_partition.log, hw)
        assert first >= hw, f"leader {id}: {member} of ISR {registration.isr} lacks {first}, HW {hw}"


def one_record_by_epoch_and_offset(replicas: dict[int, Replica]) -> None:
    """(epoch, offset) names one record: logs never hold different terms' records at one offset in one epoch."""
    for (a, one), (b, other) in combinations(replicas.items(), 2):
        for mine, theirs in _overlaps(one.log.runs, other.log.runs):
            same = mine.epoch != theirs.epoch or mine.term == theirs.term
            assert same, f"replicas {a} and {b} hold different records in one epoch: {mine} and {theirs}"


def _overlaps(ones: list[Run], others: list[Run]) -> Iterable[tuple[Run, Run]]:
    i = j = 0
    while i < len(ones) and j < len(others):
        if max(ones[i].start, others[j].start) < min(ones[i].end, others[j].end):
            yield ones[i], others[j]
        if ones[i].end <= others[j].end:
            i += 1
        else:
            j += 1


def term_at(log: ReplicaLog, offset: int) -> int | None:
    """The term that wrote the record at `offset`."""
    return next((run.term for run in log.runs if run.start <= offset < run.end), None)


def nothing_acknowledged_is_lost(simulation: Simulation, key: Key) -> None:
    """Every record acknowledged is in the log of whoever leads now, unless it was deleted on purpose."""
    leader = simulation.leader(*key)
    replica = simulation.brokers[leader].replicas.get(key) if leader is not None else None
    if replica is None or replica.leader_partition is None:
        return
    for run in simulation.acknowledged.get(key, []):
        for offset in (max(run.start, replica.log.start), run.end - 1):
            if replica.log.start <= offset < run.end:
                found = term_at(replica.log, offset)
                assert found == run.term, f"{key}: {run} was acknowledged, leader {leader} has term {found} at {offset}"
