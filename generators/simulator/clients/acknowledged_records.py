"""Acknowledged records compared with the log of the last leader."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from generators.simulator.cluster.log import ReplicaLog, Run
from generators.simulator.cluster.registration import NOBODY, Registration

if TYPE_CHECKING:
    from generators.simulator.cluster.replica import Replica
    from generators.simulator.cluster.simulation import Simulation


def acknowledged_records(simulation: Simulation, topic: str, topic_id: str, partition: int) -> dict[str, Any] | None:
    """Columns of truth_records for one partition; None once it is deleted."""
    registration = simulation.controller.partitions.get((topic, partition))
    if registration is None or registration.topic_id != topic_id:
        return None
    last = last_leader(simulation, registration)
    acknowledged = simulation.acknowledged.get((topic, partition), [])
    gone = lost(acknowledged, last.log) if last else [(r.start, r.end) for r in acknowledged]
    return {
        "leader_id": registration.leader,
        "hw": last.hw if last else 0,
        "leo": last.log.leo if last else 0,
        "acknowledged": sum(r.end - r.start for r in acknowledged),
        "lost": sum(end - start for start, end in gone),
        "lost_from": [start for start, _ in gone],
        "lost_to": [end for _, end in gone],
    }


def lost(acknowledged: list[Run], log: ReplicaLog) -> list[tuple[int, int]]:
    """Ranges (half-open, joined, by offset) of acknowledged records that a log does not have and did not delete."""
    gone: list[tuple[int, int]] = []
    for run in sorted(acknowledged, key=lambda run: (run.start, run.term)):
        for start, end in _missing(run, log):
            if gone and gone[-1][1] == start:
                gone[-1] = (gone[-1][0], end)
            else:
                gone.append((start, end))
    return gone


def _missing(run: Run, log: ReplicaLog) -> list[tuple[int, int]]:
    """The parts of a run whose records, identified by offset and term, are missing."""
    parts, at = [], max(run.start, log.start)
    for other in [r for r in log.runs if r.term == run.term and r.end > at and r.start < run.end]:
        if other.start > at:
            parts.append((at, other.start))
        at = max(at, other.end)
    return [*parts, (at, run.end)] if at < run.end else parts


def last_leader(simulation: Simulation, known: Registration) -> Replica | None:
    """The replica on the registered leader; where nobody leads, the one with the latest leader epoch."""
    found = [
        (broker.id == known.leader and known.leader != NOBODY, replica.log.last_epoch or 0, replica.log.leo, -broker.id)
        for broker in simulation.brokers.values()
        if (replica := broker.replicas.get(known.key)) is not None and replica.topic_id == known.topic_id
    ]
    return simulation.brokers[-max(found)[-1]].replicas[known.key] if found else None
