"""The HWs if every leader knew within a millisecond what the controller registers of brokers.

Telemetry can show no more: no row has the time at which a leader learns that a broker is fenced or unfenced, and until
then its HW may wait for other replicas than the registration requires. What is registered in the millisecond of an
attempt, the resolution of telemetry, the leader does not know yet.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from generators.simulator.cluster.leader_partition import LeaderPartition
from generators.simulator.cluster.replica import Follower
from generators.simulator.cluster.simulation import Simulation
from generators.simulator.cluster.simulation_event import SimulationEvent
from generators.simulator.telemetry.attempts import reports, tries
from schemas import truth_hw

Step = dict[str, Any]
MILLISECOND_US = 1000


@dataclass
class _Term:
    """One term, with the HW that it would have and the LEO of each follower at the last attempt."""

    leader_partition: LeaderPartition
    hw: int
    leos: dict[int, int] = field(default_factory=dict)

    def attempts(self, h: SimulationEvent) -> bool:
        """Whether the leader tries to raise its HW: after a fetch only if it changed the follower's LEO.

        An HW without an event before it came from a fetch without a row.
        """
        before, self.leos = self.leos, {f.id: f.leo for f in self.leader_partition.followers.values()}
        return h.kind != "fetch" or before.get(h.replica or 0) != self.leos.get(h.replica or 0)


class InformedLeaders:
    """Observes a simulation; `table` is of the schema of `truth_hw`."""

    def __init__(self) -> None:
        self._rows: list[Step] = []
        self._true: list[Step] = []
        self._terms: dict[tuple[int, str | None, int], _Term] = {}
        self._recorded: dict[int, tuple[bool, int]] = {}
        """(serving, epoch) of each broker as the controller has it."""
        self._before: dict[int, tuple[int, tuple[bool, int] | None]] = {}
        """The millisecond of a broker's last change, and what was recorded of it before that."""
        self._now = 0

    def follow(self, simulation: Simulation) -> None:
        self._simulation = simulation

    def observe(self, h: SimulationEvent) -> None:
        self._look(h.at // MILLISECOND_US)
        leader_partition = self._leader_partition(h)
        if leader_partition is None:
            return
        key = h.broker, h.topic, h.partition
        if reports(h):
            self._true.append(self._step(h, leader_partition, "advance", h.hw or 0))
        elif h.kind == "leader":
            self._terms[key] = _Term(leader_partition, h.hw or 0)
            for rows in (self._rows, self._true):
                rows.append(self._step(h, leader_partition, "term_start", h.hw or 0))
        if (term := self._terms[key]).attempts(h) or not tries(h):
            anyone = leader_partition.broker.version.admits_ineligible
            hw = leader_partition.raised(term.hw, lambda follower: anyone or self._serves(follower))
            if hw > term.hw:
                term.hw = hw
                self._rows.append(self._step(h, leader_partition, "advance", hw))

    def table(self) -> pa.Table:
        return pa.Table.from_pylist(self._rows, schema=truth_hw.ARROW)

    def apart(self) -> set[tuple[Any, ...]]:
        """(topic, partition, leader, its epoch, HW) of the true HWs that would have been different."""
        there = {(row["term"], row["ts"], row["hw"]) for row in self._rows}
        return {
            (row["topic"], row["partition"], row["leader_id"], row["leader_epoch"], row["hw"])
            for row in self._true
            if (row["term"], row["ts"], row["hw"]) not in there
        }

    def _leader_partition(self, h: SimulationEvent) -> LeaderPartition | None:
        if not (tries(h) or reports(h)) or h.topic is None:
            return None
        replica = self._simulation.brokers[h.broker].replicas.get((h.topic, h.partition))
        return None if replica is None else replica.leader_partition

    def _serves(self, follower: Follower) -> bool:
        """Whether the controller had it for serving before this millisecond, and as the incarnation that fetches."""
        changed, before = self._before.get(follower.id, (-1, None))
        known = before if changed == self._now else self._recorded.get(follower.id)
        return known is not None and known == (True, follower.broker_epoch)

    def _look(self, now: int) -> None:
        """Keeps what the controller has recorded by this millisecond."""
        self._now = now
        for id, broker in self._simulation.controller.brokers.items():
            recorded, known = (broker.active, broker.epoch), self._recorded.get(id)
            if recorded != known:
                if self._before.get(id, (-1, None))[0] != now:
                    self._before[id] = now, known
                self._recorded[id] = recorded

    def _step(self, h: SimulationEvent, leader_partition: LeaderPartition, kind: str, hw: int) -> Step:
        settings = self._simulation.settings
        return {
            "cluster": settings.cluster,
            "topic": h.topic,
            "topic_id": h.topic_id,
            "partition": h.partition,
            "at": h.at,
            "ts": h.ts,
            "leader_id": h.broker,
            "leader_epoch": h.leader_epoch,
            "term": leader_partition.term,
            "kind": kind,
            "hw": hw,
            "leader_leo": leader_partition.log.leo,
            "isr": leader_partition.isr,
        }
