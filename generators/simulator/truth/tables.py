"""The truth of a simulated cluster, from its own state at every event and not from its telemetry."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from generators.simulator.clients.acknowledged_records import acknowledged_records
from generators.simulator.cluster.log import ReplicaLog
from generators.simulator.cluster.settings import MS, Settings
from generators.simulator.cluster.simulation_event import REPLICATION, SimulationEvent
from generators.simulator.telemetry.attempts import reports
from generators.simulator.telemetry.heartbeats import Clocks, ends_second, on_heartbeat
from generators.simulator.truth.causes import Causes
from generators.simulator.truth.falls import Fall, Falls
from generators.simulator.truth.staleness import Staleness, Stretch
from schemas import truths

if TYPE_CHECKING:
    from generators.simulator.cluster.leader_partition import LeaderPartition
    from generators.simulator.cluster.replica import Replica
    from generators.simulator.cluster.simulation import Simulation

Row = dict[str, Any]


@dataclass
class _Term:
    """One term of one leader."""

    leader_partition: LeaderPartition
    first: SimulationEvent
    staleness: Staleness


@dataclass
class _Partition:
    """One partition of one topic id."""

    isr: tuple[int, ...] | None = None
    replicas: tuple[int, ...] = ()
    falls: Falls = field(default_factory=Falls)
    terms: dict[int, _Term] = field(default_factory=dict)
    """By broker, until it learns that it leads no more, or leads again."""
    logs: dict[int, ReplicaLog] = field(default_factory=dict)
    """By broker: its log with a list of runs that grows, and that is replaced when the log is truncated."""
    before: _Partition | None = None
    """The same partition of a topic of this name that was deleted."""


class Truth:
    """Observes a simulation, whose state it reads (`follow` first); `close` returns the tables of `schemas.TRUTH`.

    Of controllers it uses what is committed, at that moment; what they print only shows that they are alive.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._partitions: dict[tuple[str, str, int], _Partition] = {}
        self._latest: dict[tuple[str, int], _Partition] = {}
        """By topic and partition, that of the newest topic id."""
        self._causes = Causes()
        self._rows: dict[str, list[Row]] = {name: [] for name in truths()}
        self._last_seen: dict[int, int] = {}
        """By broker its clock (us) at its last event."""
        self._simulation: Simulation | None = None

    def follow(self, simulation: Simulation) -> None:
        self._simulation = simulation
        on_heartbeat(simulation, self._on_heartbeat)

    def _on_heartbeat(self, now: Clocks) -> None:
        for (broker, _), ts in now.items():
            if ends_second(self._last_seen.get(broker, 0), ts):
                self._last_seen[broker] = ts

    def observe(self, event: SimulationEvent) -> None:
        self.seen_alive(event.broker, event.ts)
        if event.source == REPLICATION:
            self._causes.observe(event)
            partition = self._partition(event)
            if partition is not None:
                self._observe_partition(partition, event)

    def recorded(self, event: SimulationEvent) -> None:
        """The quorum has committed this change."""
        self._causes.observe(event)
        partition = self._partition(event)
        if partition is not None:
            self._observe_commit(partition, event)

    def _partition(self, event: SimulationEvent) -> _Partition | None:
        if event.topic is None or event.partition < 0 or event.topic_id is None:
            return None
        key = (event.topic, event.topic_id, event.partition)
        if key not in self._partitions:
            place = event.topic, event.partition
            self._partitions[key] = self._latest[place] = _Partition(before=self._latest.get(place))
        return self._partitions[key]

    def seen_alive(self, broker: int, ts: int) -> None:
        """A broker was alive at `ts` (us) of its clock."""
        self._last_seen[broker] = ts

    def close(self) -> dict[str, pa.Table]:
        """The tables of truth; the simulation is over."""
        simulation = self._known
        for partition in self._partitions.values():
            for broker in list(partition.terms):
                self._end_term(partition, broker)
            for fall in partition.falls.found():
                self._add_fall(fall)
        for topic, topic_id, number in self._partitions:
            records = acknowledged_records(simulation, topic, topic_id, number)
            if records is not None:
                place = self._place(topic, topic_id, number, simulation.event_queue.now)
                self._rows["truth_records"].append(place | records)
        return {name: _table(self._rows[name], table.arrow()) for name, table in truths().items()}

    @property
    def _known(self) -> Simulation:
        if self._simulation is None:
            raise RuntimeError("truth knows no simulation: call follow(simulation) before it starts")
        return self._simulation

    # the controller's record

    def _observe_commit(self, partition: _Partition, event: SimulationEvent) -> None:
        before, after = partition.isr, event.isr
        if after is not None and before is not None and set(after) != set(before):
            cause = self._causes.of(event, before, partition.replicas)
            self._add(
                "truth_isr",
                event,
                leader_id=event.leader,
                leader_epoch=event.leader_epoch,
                partition_epoch=event.partition_epoch,
                isr_before=before,
                isr_after=after,
                cause=cause,
            )
        partition.isr = after if after is not None else before
        partition.replicas = event.replicas or partition.replicas

    # what brokers do

    def _observe_partition(self, partition: _Partition, event: SimulationEvent) -> None:
        replica = self._known.brokers[event.broker].replicas.get((event.topic or "", event.partition))
        if replica is None:
            return
        if event.kind == "leader":
            self._begin_term(partition, event, replica)
        elif event.kind in ("follower", "offline"):
            self._end_terms(partition, event)
        elif event.kind == "truncate":
            in_sync = partition.isr is not None and event.broker in partition.isr
            partition.falls.cut(event, replica.log, partition.logs.get(event.broker, replica.log), in_sync)
        if event.kind in ("leader", "follower", "truncate") or event.broker not in partition.logs:
            partition.logs[event.broker] = _alias(replica.log)
        term = partition.terms.get(event.broker)
        if term is not None:
            self._stretches(event, term, term.staleness.look(term.leader_partition, event.ts // MS))
        if reports(event) and replica.leader_partition is not None:
            self._add_hw(event, replica.leader_partition, "advance", event.hw)
            partition.falls.advance(event, replica.log)

    def _begin_term(self, partition: _Partition, event: SimulationEvent, replica: Replica) -> None:
        self._end_terms(partition, event)
        if replica.leader_partition is not None:
            version = self._known.brokers[event.broker].version
            partition.terms[event.broker] = _Term(replica.leader_partition, event, Staleness(self._settings, version))
            partition.falls.begin(event, replica.log)
            self._add_hw(event, replica.leader_partition, "term_start", event.hw)

    def _end_terms(self, partition: _Partition, event: SimulationEvent) -> None:
        """The broker of this event no longer leads as before, perhaps because a topic of this name was created
        again."""
        ended: _Partition | None = partition
        while ended is not None:
            self._end_term(ended, event.broker, event.ts // MS + 1)
            ended = ended.before

    def _end_term(self, partition: _Partition, broker: int, until: int | None = None) -> None:
        """End a term before `until` (ms) of its leader's clock, by default at that broker's last event."""
        term = partition.terms.pop(broker, None)
        if term is None:
            return
        node = self._known.brokers[broker]
        if until is None:
            until = node.clock.ms if node.running and not node.frozen else self._last_seen[broker] // MS
        if self._exists(term.first):
            term.staleness.pass_time(until)
        begun = term.first.ts // MS
        self._stretches(term.first, term, [s for s in term.staleness.open() if s.start < until or s.start == begun])

    def _exists(self, event: SimulationEvent) -> bool:
        """Whether its topic is neither deleted nor created again."""
        known = self._known.controller.partitions.get((event.topic or "", event.partition))
        return known is not None and known.topic_id == event.topic_id

    # rows

    def _add_hw(self, event: SimulationEvent, leader_partition: LeaderPartition, kind: str, hw: int | None) -> None:
        self._add(
            "truth_hw",
            event,
            ts=event.ts,
            leader_id=event.broker,
            leader_epoch=event.leader_epoch,
            term=leader_partition.term,
            kind=kind,
            hw=hw,
            leader_leo=leader_partition.log.leo,
            isr=leader_partition.isr,
        )

    def _add_fall(self, fall: Fall) -> None:
        event, loss = fall.by, fall.loss
        self._add(
            "truth_regressions",
            event,
            **{"class": fall.cls},
            ts=event.ts,
            leader_id=event.leader,
            leader_epoch=event.leader_epoch,
            replica_id=fall.replica,
            hw_before=fall.before,
            hw_after=fall.after,
            start_offset=event.leo if event.kind == "leader" else None,
            lost_from=loss.start if loss else None,
            lost_to=loss.end if loss else None,
        )

    def _stretches(self, event: SimulationEvent, term: _Term, stretches: list[Stretch]) -> None:
        for replica, start, end in stretches:
            self._add(
                "truth_out_of_sync", event, leader_id=term.first.broker, leader_epoch=term.first.leader_epoch,
                term=term.leader_partition.term, replica_id=replica, from_ts=start * MS,
                to_ts=None if end is None else end * MS,
            )  # fmt: skip

    def _add(self, table: str, event: SimulationEvent, **more: Any) -> None:
        self._rows[table].append(self._place(event.topic, event.topic_id, event.partition, event.at) | more)

    def _place(self, topic: str | None, topic_id: str | None, partition: int, at: int) -> Row:
        cluster = self._settings.cluster
        return {"cluster": cluster, "topic": topic, "topic_id": topic_id, "partition": partition, "at": at}


def write(folder: str | Path, tables: Mapping[str, pa.Table]) -> None:
    """Write each table as a Delta table of its name below `folder`, replacing what was there."""
    from deltalake import write_deltalake

    for name, table in tables.items():
        whole = table.combine_chunks()  # chunks would be written in arbitrary order
        write_deltalake(str(Path(folder) / name), whole, mode="overwrite", schema_mode="overwrite")


def _alias(log: ReplicaLog) -> ReplicaLog:
    """The log until it is truncated: it shares the list of runs."""
    shared = ReplicaLog(log.start)
    shared.runs = log.runs
    return shared


def _table(rows: list[Row], schema: pa.Schema) -> pa.Table:
    return pa.table([pa.array([row.get(f.name) for row in rows], f.type) for f in schema], schema=schema)
